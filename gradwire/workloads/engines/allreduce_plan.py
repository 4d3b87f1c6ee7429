"""Allreduces of buckets as a plan: the computation of every worker, an allreduce for every bucket, and the options of
all such strategies.

Sources: GradientFlow, sections 2.3 to 2.6; NetOps, sections 3.3.2, 8.2 and 9.2. An iteration of a worker:
Source: GradientFlow, sections 2.3, 2.4, 2.6. An iteration of a worker:

1. Forward and backward pass. A bucket is ready at a worker when the backward pass has yielded the last of its
   gradients.
2. The allreduces of a communicator run one after the other, in the order of the buckets: a worker starts the next when
   it has sent and received everything of the one before, as NCCL's kernels on one stream do. With `concurrent` each
   starts as soon as it is ready, and messages leave a worker in the order in which they become ready, on a connection
   per receiver: one that is held up by its receiver's port does not hold up the others (NetOps, section 8.2.2).
3. Every worker updates its replica. With forward_waits 'all', its next iteration starts when all its buckets are
   there: optimizers step once, and NetOps (section 3.1) says that end-host mechanisms do not pipeline the forward pass
   with the last phase. 'barrier': when all workers have all buckets (NetOps, section 8.2.1). 'layer': a layer's
   forward pass waits for its own bucket only.

Where the papers are silent: adding what arrived takes its time (Costs.aggregation_bytes_per_s) on a separate stream,
before the sum is passed on; a message between GPUs of one machine takes the machine's own link, one at a time from a
GPU. A worker that is behind takes its neighbour's message into the network's buffers: there is no rendezvous.

A plan has up to millions of ops: everything that grows with them is done in whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from pydantic import Field

from gradwire.datatypes.plan import Int64, Plan, Role
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.allreduce_buckets import Bucket, Hold, after_backward, backward_order, fused
from gradwire.workloads.engines.allreduce_transfers import (
    BucketOps,
    BucketTransfers,
    Connections,
    WorkerQueues,
    add_gates,
    add_switches,
)
from gradwire.workloads.engines.collective_routes import CollectiveRoutes, Rule
from gradwire.workloads.engines.collectives import Schedule, butterfly, halving_doubling, hierarchical_ring, ring
from gradwire.workloads.engines.collectives.choice import IN_NETWORK, layout_of
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.schedule import Collective, sent_bytes
from gradwire.workloads.engines.nccl.options import Setup
from gradwire.workloads.engines.transfer_counts import ops_of_transfers
from gradwire.workloads.engines.worker import Passes, add_passes, ops_of_passes
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.plan_size import MostOps
from gradwire.workloads.strategy import Options

ForwardWaits = Literal["all", "barrier", "layer"]

COPY_LANE, HOLD_LANE, READING_LANE = 2, 4, 6
"""Streams next to the one that computes: copying, waiting for a cycle, and reading reports of what is ready."""


@dataclass(frozen=True)
class ReductionSettings:
    """Settings by which buckets are reduced."""

    #: Size of a gradient on the wire.
    bytes_per_value: int = 4
    #: Step 2.
    concurrent: bool = False
    #: Step 3.
    forward_waits: ForwardWaits = "all"


def compile_allreduce(
    job: Job,
    name: str,
    buckets: Sequence[Bucket],
    schedules: Sequence[Schedule],
    communicator: ReductionSettings,
    switches: Switches | None = None,
) -> Plan:
    """Compiles an iteration in which bucket i goes by schedule i, in this order. A selection bucket, if any, comes
    last.

    switches: those of the network, where they add. Raises InputFault if these are too many ops.
    """
    MostOps.here().refuse(name, ops_of_allreduce(job, buckets, schedules, communicator))
    return AllreducePlan(job, name, buckets, communicator, switches).compile(schedules)


def ops_of_allreduce(
    job: Job, buckets: Sequence[Bucket], schedules: Sequence[Schedule], communicator: ReductionSettings
) -> int:
    """Returns the most ops that `compile_allreduce` makes."""
    workers = job.cluster.workers
    held = sum(1 + bool(hold.reading_s) for hold in {bucket.hold for bucket in buckets if bucket.hold is not None})
    ops = workers * (ops_of_passes(job) + 2 * len(buckets) + held + 1)
    if communicator.forward_waits == "barrier":
        ops += 1 + 5 * (workers - 1)
    moved = [
        (schedule, _part_bytes(schedule, [bucket.values], communicator)[0])
        for bucket, schedule in zip(buckets, schedules, strict=True)
    ]
    return ops + ops_of_transfers(moved, job.costs, workers)


def _part_bytes(schedule: Schedule, values_of_buckets: Sequence[int], communicator: ReductionSettings) -> Int64:
    """Bytes of each part of each bucket: whole gradients, as even as they come; 0 where there are fewer than parts."""
    values = np.array(values_of_buckets, np.int64)[:, None]
    larger = np.arange(schedule.parts)[None, :] < values % schedule.parts
    sizes: Int64 = (values // schedule.parts + larger) * communicator.bytes_per_value
    return sent_bytes(schedule, sizes)


class AllreducePlan:
    """The plan under construction. Arrays of ops have an axis for buckets and one for ranks."""

    def __init__(
        self, job: Job, name: str, buckets: Sequence[Bucket], communicator: ReductionSettings, switches: Switches | None
    ) -> None:
        self.job, self.buckets, self.communicator = job, buckets, communicator
        self.builder = PlanBuilder(name)
        cluster = job.cluster
        self.ranks = [self.builder.rank(Role.WORKER, cluster.worker_host(worker)) for worker in range(cluster.workers)]
        hosts = np.array([cluster.worker_host(rank) for rank in self.ranks], np.int64)
        self.hosts = add_switches(self.builder, hosts, switches)
        self.passes = self._passes()
        self.started = self._gates([bucket.copy_in_s + bucket.call_s for bucket in buckets], COPY_LANE)
        self.done = self._gates([bucket.copy_out_s for bucket in buckets], COPY_LANE)

    def _passes(self) -> list[Passes]:
        """Adds the computation of each rank, and returns its passes."""
        return [add_passes(self.builder, self.job, rank) for rank in self.ranks]

    def _workers(self, schedules: Sequence[Schedule]) -> WorkerQueues | Connections:
        """One queue per rank to other hosts, and more if allreduces are concurrent and they differ in receivers, or as
        schedules say."""
        cluster, builder, ranks = self.job.cluster, self.builder, self.ranks
        hosts = self.hosts
        if any(schedule.channel is not None for schedule in schedules):
            return Connections(builder, hosts)
        network = np.repeat(np.array([builder.queue(rank) for rank in ranks], np.int64)[:, None], len(ranks), axis=1)
        shared = cluster.workers_per_host > 1
        inside = np.array([builder.queue(rank) for rank in ranks], np.int64) if shared else network[:, 0].copy()
        if self.communicator.concurrent:
            distinct = {id(schedule): schedule for schedule in schedules}.values()
            used = np.unique(np.concatenate([schedule.src * len(ranks) + schedule.dst for schedule in distinct]))
            senders, receivers = np.divmod(used, len(ranks))
            apart = hosts[senders] != hosts[receivers]
            first = np.unique(senders[apart], return_index=True)[1]
            for src, dst in np.delete(np.stack((senders[apart], receivers[apart]), axis=1), first, axis=0).tolist():
                network[src, dst] = builder.queue(src)
        return WorkerQueues(hosts, network, inside)

    def _gates(self, durations_s: Sequence[float], lane: int) -> Int64:
        return add_gates(self.builder, durations_s, len(self.ranks), lane)

    def compile(self, schedules: Sequence[Schedule]) -> Plan:
        """Builds the plan."""
        self._readiness()
        workers = self._workers(schedules)
        by_schedule: dict[int, list[int]] = {}
        for number, schedule in enumerate(schedules):
            by_schedule.setdefault(id(schedule), []).append(number)
        for numbers in by_schedule.values():
            schedule = schedules[numbers[0]]
            sizes = _part_bytes(schedule, [self.buckets[number].values for number in numbers], self.communicator)
            buckets = BucketOps(
                number=np.array(numbers, np.int64),
                layer=np.array([self.buckets[number].first_layer for number in numbers], np.int64),
                started=self.started[numbers],
                done=self.done[numbers],
                size_bytes=sizes,
                chunk=self._chunks(numbers, sizes),
            )
            BucketTransfers(self.builder, self.job.costs, workers, schedule, buckets).build()
        self._boundaries()
        return self.builder.build(self.job.compute_s, self.job.samples)

    def _readiness(self) -> None:
        """Makes each bucket wait at each rank for all that must come before it."""
        holds: dict[Hold, Int64] = {}
        for number, bucket in enumerate(self.buckets):
            started = self.started[number]
            if bucket.hold is not None and bucket.hold not in holds:
                holds[bucket.hold] = self._hold_end(bucket.hold)
            if bucket.hold is not None:
                self.builder.depend_columns(started, holds[bucket.hold])
            self.builder.depend_columns(started, self._backward(bucket.ready_layer))
            self.builder.depend_columns(self.done[number], started)
            if bucket.selection:
                for other in range(number):
                    self.builder.depend_columns(started, self.done[other])
            elif not self.communicator.concurrent and number:
                self.builder.depend_columns(started, self.done[number - 1])
        if not self.communicator.concurrent:
            self.builder.depend_columns(self.started[0], self.done[-1], lag=1)

    def _hold_end(self, hold: Hold) -> Int64:
        """The end of a hold at each rank; where reports are read, after those of the hold before."""
        waited: Int64 = self._gates([hold.delay_s], HOLD_LANE)[0]
        self.builder.depend_columns(waited, self._backward(hold.layer))
        if not hold.reading_s:
            return waited
        read: Int64 = self._gates([hold.reading_s], READING_LANE)[0]
        self.builder.depend_columns(read, waited)
        return read

    def _backward(self, layer: int) -> list[int]:
        return [worker.backward[layer] for worker in self.passes]

    def _chunks(self, numbers: Sequence[int], sizes: Int64) -> Int64:
        """A chunk for each part that is not empty, which every rank contributes to and needs; -1 for the others."""
        builder = self.builder
        chunks = np.full(sizes.shape, -1, np.int64)
        for row, number in enumerate(numbers):
            bucket = self.buckets[number]
            tensor = builder.tensor(bucket.name)
            parts = [builder.chunk(tensor, size) for size in sizes[row].tolist() if size]
            chunks[row, : len(parts)] = parts
            for rank, passes in enumerate(self.passes):
                ready = int(self.started[number, rank]) if bucket.selection else passes.backward[bucket.ready_layer]
                consumer = self._consumer(bucket, passes)
                for chunk in parts:
                    builder.produces(ready, chunk)
                    builder.consumes(consumer, chunk)
        return chunks

    def _consumer(self, bucket: Bucket, passes: Passes) -> int:
        """The op of the next iteration that needs a bucket first; later ones follow it."""
        return passes.backward[-1] if bucket.selection else passes.forward[bucket.first_layer]

    def _boundaries(self) -> None:
        """Adds the end of the iteration at every worker, and the buckets that the next iteration waits for."""
        builder, waits = self.builder, self.communicator.forward_waits
        arrived = [builder.compute(rank) for rank in self.ranks]
        for rank, passes in enumerate(self.passes):
            builder.depend(arrived[rank], passes.backward[0])
            for number, bucket in enumerate(self.buckets):
                done = int(self.done[number, rank])
                if waits == "layer":
                    builder.depend(self._consumer(bucket, passes), done, lag=1)
                else:
                    builder.depend(arrived[rank], done)
        ends = self._barrier(arrived) if waits == "barrier" else arrived
        for rank, (passes, end) in enumerate(zip(self.passes, ends, strict=True)):
            builder.depend(passes.begin, end, lag=1)
            builder.iteration(rank, passes.begin, end)

    def _barrier(self, arrived: Sequence[int]) -> list[int]:
        """Every worker tells the first one, which tells them all: two tokens per worker.

        Returns the op after which each continues.
        """
        builder = self.builder
        queues = [builder.queue(rank) for rank in self.ranks]
        complete = builder.compute(0)
        builder.depend(complete, arrived[0])
        ends = [complete]
        for rank in self.ranks[1:]:
            report, reported = builder.message(queues[rank], 0, CONTROL_BYTES)
            builder.depend(report, arrived[rank])
            builder.depend(complete, reported)
            release, released = builder.message(queues[0], rank, CONTROL_BYTES)
            builder.depend(release, complete)
            end = builder.compute(rank)
            builder.depend(end, released)
            ends.append(end)
        return ends


Algorithm = Literal["ring", "hierarchical-ring", "butterfly", "halving-doubling"]
AnyAlgorithm = Literal[
    "ring",
    "hierarchical-ring",
    "butterfly",
    "halving-doubling",
    "double-tree",
    "two-level",
    "direct",
    "in-network",
    "nccl",
    "auto",
]
"""The algorithms of `Algorithm`, and those that depend on a bucket's size or on who shares a machine
(docs/collectives.md)."""
BYTES_ON_WIRE = {"fp32": 4, "fp16": 2, "bf16": 2}
FLAT: Mapping[Algorithm, Callable[[int], Schedule]] = {
    "ring": ring,
    "butterfly": butterfly,
    "halving-doubling": halving_doubling,
}
"""Algorithms that treat all workers alike."""
ALIKE: Mapping[str, Algorithm] = {name: name for name in get_args(Algorithm)}
"""Algorithms whose schedule is the same for every bucket."""
MOST_SEGMENTS = 4_096
"""The most segments of a worker's part of a bucket: 256 KiB each, of a gigabyte."""


class AllreduceOptions(Options):
    """Options that all allreduces have in common."""

    wire: Literal["fp32", "fp16", "bf16"] = "fp32"
    """Format of gradients on the wire."""
    conversion_rate_bytes_per_s: float | None = Field(None, gt=0)
    """Bytes of fp32 that a GPU converts to fp16 per second, before an allreduce and back after it. None: the model's
    compute time includes it, or gradients are fp16 from the start."""
    overlap: bool = True
    """Whether an allreduce starts during the backward pass; otherwise all wait for its end."""
    concurrent: bool = False
    """Whether allreduces of several buckets are under way at once; otherwise one after the other, as on one NCCL
    stream."""
    forward_waits: ForwardWaits = "all"
    """The next iteration starts when a worker has "all" buckets, or after a global "barrier" of workers that have
    them; or each "layer" waits for its own."""
    segments: int = Field(1, ge=1, le=MOST_SEGMENTS)
    """Messages that each part of a bucket is cut into, which move on one by one."""


def algorithm_schedule(
    cluster: Cluster, algorithm: Algorithm, *, segments: int = 1, group: int | None = None, scatter: bool = False
) -> Schedule:
    """The schedule of an algorithm for all workers. Raises InputFault where it does not fit their number.

    group, scatter: of a hierarchical ring; without a group, the workers of a machine form one.
    """
    if algorithm == "hierarchical-ring":
        schedule = hierarchical_ring(cluster.workers, group or cluster.workers_per_host, scatter=scatter)
    else:
        schedule = FLAT[algorithm](cluster.workers)
    return schedule.segmented(segments)


def compile_by_algorithm(
    job: Job,
    name: str,
    buckets: Sequence[Bucket],
    algorithm: AnyAlgorithm,
    options: AllreduceOptions,
    channels: int = 1,
    nccl: Setup | None = None,
) -> Mapping[str, Plan]:
    """The plan for buckets in this order, each by the schedule that an algorithm has for its size.

    channels: rings at once. nccl: what NCCL sees. Raises InputFault where the algorithm does not suit the number of workers.
    """
    sizes = [bucket.values * BYTES_ON_WIRE[options.wire] for bucket in buckets]
    schedules, switches, notes = chosen_schedules(
        job, sizes, algorithm, segments=options.segments, channels=channels, nccl=nccl
    )
    plans = compile_buckets(job, name, buckets, schedules, options, switches)
    return {key: replace(plan, notes=(*plan.notes, *notes)) for key, plan in plans.items()}


def chosen_schedules(
    job: Job,
    sizes: Sequence[int],
    algorithm: AnyAlgorithm,
    *,
    segments: int = 1,
    channels: int = 1,
    nccl: Setup | None = None,
) -> tuple[list[Schedule], Switches | None, list[str]]:
    """The schedule of an allreduce of each of these sizes in bytes; the network's switches, where they add; and what
    was taken in words. Sizes that go alike have the same object.

    channels: rings at once. nccl: what NCCL sees. Raises InputFault where the algorithm does not suit the number of
    workers.
    """
    if algorithm in ALIKE and channels == 1:
        return [algorithm_schedule(job.cluster, ALIKE[algorithm], segments=segments)] * len(sizes), None, []
    cluster = job.cluster
    hosts = [cluster.worker_host(worker) for worker in range(cluster.workers)]
    switches = Switches.of(job) if algorithm == IN_NETWORK else None
    layout = layout_of(range(cluster.workers), hosts, switches)
    rules = {Collective.ALL_REDUCE: Rule((), algorithm)}
    routes = CollectiveRoutes(rules, channels=channels, nccl=nccl, key="strategy.options.algorithm")
    chosen = [routes.schedule(Collective.ALL_REDUCE, layout, 0, size, 1) for size in sizes]
    # One object for all buckets that go alike, whose messages are made together.
    cut = {id(schedule): schedule if schedule.hops else schedule.segmented(segments) for schedule in chosen}
    return [cut[id(schedule)] for schedule in chosen], switches, routes.notes()


def compile_buckets(
    job: Job,
    name: str,
    buckets: Sequence[Bucket],
    schedules: Schedule | Sequence[Schedule],
    options: AllreduceOptions,
    switches: Switches | None = None,
) -> Mapping[str, Plan]:
    """The plan for buckets in this order, each by its own schedule or all by one. switches: those of the network,
    where they add."""
    ready = ready_buckets(buckets, options)
    of_buckets = [schedules] * len(buckets) if isinstance(schedules, Schedule) else schedules
    return {name: compile_allreduce(job, name, ready, of_buckets, communicator_of(options), switches)}


def ready_buckets(buckets: Sequence[Bucket], options: AllreduceOptions) -> list[Bucket]:
    """The buckets as options have them converted and started."""
    converted = [_add_conversion(bucket, options) for bucket in buckets]
    return converted if options.overlap else list(after_backward(converted))


def communicator_of(options: AllreduceOptions) -> ReductionSettings:
    """Returns the settings by which these options have buckets reduced."""
    return ReductionSettings(BYTES_ON_WIRE[options.wire], options.concurrent, options.forward_waits)


def _add_conversion(bucket: Bucket, options: AllreduceOptions) -> Bucket:
    if options.wire == "fp32" or options.conversion_rate_bytes_per_s is None:
        return bucket
    conversion_s = bucket.values * BYTES_PER_PARAMETER / options.conversion_rate_bytes_per_s
    return replace(bucket, copy_in_s=bucket.copy_in_s + conversion_s, copy_out_s=bucket.copy_out_s + conversion_s)


def tensor_buckets(job: Job) -> list[Bucket]:
    """One bucket per tensor, in backward order."""
    return [fused([gradient]) for gradient in backward_order(job)]

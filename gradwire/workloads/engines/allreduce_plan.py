"""Puts buckets and schedules together into a plan: the computation of every worker, and an allreduce for every bucket.

Source: GradientFlow, sections 2.3, 2.4, 2.6. An iteration of a worker:

1. Forward and backward pass. A bucket is ready at a worker when the backward pass has yielded the last of its gradients.
2. The allreduces of a communicator run one after the other, in the order of the buckets: a worker starts the next when it
   has sent and received everything of the one before, as NCCL's kernels on one stream do. With `concurrent` each starts as
   soon as it is ready, and messages leave a worker in the order in which they become ready, on a connection per
   receiver: one that is held up by its receiver's port does not hold up the others (NetOps, section 8.2.2).
3. Every worker updates its replica. With forward_waits 'all', its next iteration starts when all its buckets are there:
   optimizers step once, and NetOps (section 3.1) says that end-host mechanisms do not pipeline the forward pass with the
   last phase. 'barrier': when all workers have all buckets (NetOps, section 8.2.1). 'layer': a layer's forward pass waits
   for its own bucket only.

Where the papers are silent: adding what arrived takes its time (Costs.aggregation_bytes_per_s) on a stream of its own, before
the sum is passed on; a message between GPUs of one machine takes the machine's own link, one at a time from a GPU. A worker
that is behind takes its neighbour's message into the network's buffers: there is no rendezvous.

A plan has up to millions of ops: everything that grows with them is done in whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gradwire.datatypes.plan import Int64, Plan, Role
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.allreduce_buckets import Bucket, Hold
from gradwire.workloads.engines.allreduce_transfers import (
    BucketOps,
    Connections,
    Transfers,
    Workers,
    add_gates,
    add_switches,
)
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.worker import Passes, add_passes
from gradwire.workloads.job import Job

ForwardWaits = Literal["all", "barrier", "layer"]

COPY_LANE, HOLD_LANE, READING_LANE = 2, 4, 6
"""Streams beside the one that computes: copying, waiting for a cycle, and reading reports of what is ready."""


@dataclass(frozen=True)
class Communicator:
    """How buckets are reduced."""

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
    communicator: Communicator,
    switches: Switches | None = None,
) -> Plan:
    """Compiles an iteration in which bucket i goes by schedule i, in this order. A selection bucket, if any, comes last.

    switches: those of the network, where they add.
    """
    return _Compiler(job, name, buckets, communicator, switches).compile(schedules)


class _Compiler:
    """The plan under construction. Arrays of ops have an axis for buckets and one for ranks."""

    def __init__(
        self, job: Job, name: str, buckets: Sequence[Bucket], communicator: Communicator, switches: Switches | None
    ) -> None:
        self.job, self.buckets, self.communicator = job, buckets, communicator
        self.builder = PlanBuilder(name)
        cluster = job.cluster
        self.ranks = [self.builder.rank(Role.WORKER, cluster.worker_host(worker)) for worker in range(cluster.workers)]
        hosts = np.array([cluster.worker_host(rank) for rank in self.ranks], np.int64)
        self.hosts = add_switches(self.builder, hosts, switches)
        self.passes = [add_passes(self.builder, job, rank) for rank in self.ranks]
        self.started = self._gates([bucket.copy_in_s for bucket in buckets], COPY_LANE)
        self.done = self._gates([bucket.copy_out_s for bucket in buckets], COPY_LANE)

    def _workers(self, schedules: Sequence[Schedule]) -> Workers | Connections:
        """One queue per rank to other hosts, and more if allreduces are concurrent and they differ in receivers, or as schedules say."""
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
        return Workers(hosts, network, inside)

    def _gates(self, durations_s: Sequence[float], lane: int) -> Int64:
        return add_gates(self.builder, durations_s, len(self.ranks), lane)

    def compile(self, schedules: Sequence[Schedule]) -> Plan:
        """Builds everything."""
        self._readiness()
        workers = self._workers(schedules)
        by_schedule: dict[int, list[int]] = {}
        for number, schedule in enumerate(schedules):
            by_schedule.setdefault(id(schedule), []).append(number)
        for numbers in by_schedule.values():
            schedule = schedules[numbers[0]]
            sizes = self._part_bytes(schedule, numbers)
            buckets = BucketOps(
                number=np.array(numbers, np.int64),
                layer=np.array([self.buckets[number].first_layer for number in numbers], np.int64),
                started=self.started[numbers],
                done=self.done[numbers],
                size_bytes=sizes,
                chunk=self._chunks(numbers, sizes),
            )
            Transfers(self.builder, self.job.costs, workers, schedule, buckets).build()
        self._boundaries()
        return self.builder.build(self.job.compute_s, self.job.samples)

    def _readiness(self) -> None:
        """When each bucket may start at each rank."""
        holds: dict[Hold, Int64] = {}
        for number, bucket in enumerate(self.buckets):
            started = self.started[number]
            if bucket.hold is not None and bucket.hold not in holds:
                holds[bucket.hold] = self._held(bucket.hold)
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

    def _held(self, hold: Hold) -> Int64:
        """The end of a hold at each rank; where reports are read, after those of the hold before."""
        waited: Int64 = self._gates([hold.delay_s], HOLD_LANE)[0]
        self.builder.depend_columns(waited, self._backward(hold.layer))
        if not hold.reading_s:
            return waited
        read: Int64 = self._gates([hold.reading_s], READING_LANE)[0]
        self.builder.depend_columns(read, waited)
        return read

    def _backward(self, layer: int) -> list[int]:
        return [own.backward[layer] for own in self.passes]

    def _part_bytes(self, schedule: Schedule, numbers: Sequence[int]) -> Int64:
        """Bytes of each part of each bucket: whole gradients, as even as they come; 0 where there are fewer than parts."""
        values = np.array([self.buckets[number].values for number in numbers], np.int64)[:, None]
        larger = np.arange(schedule.parts)[None, :] < values % schedule.parts
        sizes: Int64 = (values // schedule.parts + larger) * self.communicator.bytes_per_value
        return sizes

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
        """What the next iteration waits for, at every worker."""
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
        """Every worker tells the first one, which tells them all: two tokens per worker. Returns the op after which each goes on."""
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

"""Data parallelism whose optimizer states and gradients are divided among workers (ZeRO's stages 1 and 2).

Everyone has all parameters, and each worker updates a part of them.

Source: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020: stage 1
(optimizer states) and stage 2 (gradients as well, in buckets). An iteration of N workers:

1. The backward pass yields gradients, which fill buckets. A bucket's gradients are summed so that each worker has the
   sum of its part: by a reduce-scatter, or by an allreduce, of which a worker uses its part and drops the rest. That
   happens as buckets fill up, during the backward pass, or after it.
2. When all buckets are summed, each worker updates its part of every bucket's parameters.
3. An allgather of each bucket brings the updated parameters to all, in the order in which the next forward pass uses
   them. That begins when all of them are there, or else each bucket's layers wait for their own.

Collectives go around a ring, one after the other, as on the one stream of a process group. Assumed: each bucket is cut
evenly, padded to a multiple of the workers, as Megatron-LM's distributed optimizer has it (in ZeRO's own, a worker's
part is a stretch of all parameters, so that a bucket may belong to few of the workers); filling a bucket costs no
copy, and an update no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_buckets import Bucket
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE, add_gates
from gradwire.workloads.engines.call_costs import CallCosts
from gradwire.workloads.engines.collectives import Schedule, ring_among
from gradwire.workloads.engines.nccl.options import NCCL, Setup
from gradwire.workloads.engines.parallel.group_collectives import (
    HALVES,
    NO_CHUNK,
    RING,
    Collectives,
    PlannedCollective,
    owner,
    shards_in_pieces,
    ways_of_all,
)
from gradwire.workloads.engines.transfer_counts import ops_of_transfers
from gradwire.workloads.engines.worker import add_passes, ops_of_passes
from gradwire.workloads.job import Job


@dataclass(frozen=True)
class Partition:
    """What travels, and when."""

    #: Size of a parameter on the wire.
    parameter_bytes: int
    #: Size of a gradient on the wire.
    gradient_bytes: int
    #: Step 1: whether by a reduce-scatter; otherwise by an allreduce.
    scatter: bool
    #: Step 1: whether during the backward pass.
    overlap: bool
    #: Step 3: whether layers wait for their own parameters alone.
    overlap_gather: bool
    #: What NCCL sees, where it chooses; None: rings.
    nccl: Setup | None = None
    #: Rings at once.
    rings: int = 1


def compile_partitioned(job: Job, name: str, buckets: Sequence[Bucket], partition: Partition) -> Plan:
    """Compiles an iteration with these buckets, in the order in which the backward pass fills them."""
    return PartitionedPlan(job, name, buckets, partition).compile()


class PartitionedPlan:
    """The plan under construction. Arrays of ops have an axis for ranks."""

    def __init__(self, job: Job, name: str, buckets: Sequence[Bucket], partition: Partition) -> None:
        self.job, self.buckets, self.partition = job, buckets, partition
        self.builder = PlanBuilder(name)
        cluster = job.cluster
        self.ranks = [self.builder.rank(Role.WORKER, cluster.worker_host(worker)) for worker in range(cluster.workers)]
        #: Workers that divide a bucket.
        self.workers = cluster.workers
        self.collectives = Collectives(self.builder, job)
        self.ways = ways_of_all(self.collectives.hosts.tolist(), partition.nccl, partition.rings)
        self.calls = CallCosts(job, RING if partition.nccl is None else NCCL)
        self._rings: dict[Combine | None, Schedule] = {}
        self._expect()
        self.passes = [add_passes(self.builder, job, rank) for rank in self.ranks]
        self.tensors = [self.builder.tensor(bucket.name) for bucket in buckets]
        #: Step 2, of each worker.
        self.updates = add_gates(self.builder, [0.0], len(self.ranks), GATE_LANE)[0]

    def compile(self) -> Plan:
        """Builds everything."""
        sums = [self._call(each, self.summing, self._schedule(each, self.summing)) for each in self.buckets]
        gathers = [self._call(each, Combine.COPY, self._schedule(each, Combine.COPY)) for each in self.buckets[::-1]]
        self._wait(sums, gathers)
        self._gradients(sums)
        self._parameters(gathers)
        queues = self.collectives.queues(sums)
        self.collectives.transfer(queues, [*sums, *gathers])
        self._boundaries(gathers)
        self.builder.notes.extend(self.ways.notes() if self.ways else ())
        return self.builder.build(self.job.compute_s, self.job.samples)

    def _call(self, bucket: Bucket, half: Combine | None, schedule: Schedule) -> PlannedCollective:
        """Adds the sum of a bucket, or its allgather (COPY), without its messages."""
        size_bytes = self._part_bytes(bucket, half) * self.workers
        return self.collectives.add(bucket.ready_layer, schedule, self.calls.seconds(HALVES[half], size_bytes))

    def _expect(self) -> None:
        """Says how many ops this will be."""
        workers, job = len(self.ranks), self.job
        halves = [(bucket, half) for bucket in self.buckets for half in (self.summing, Combine.COPY)]
        moved = []
        for bucket, half in halves:
            schedule = self._schedule(bucket, half)
            moved.append((schedule, np.array(self._sizes(schedule, bucket, half), np.int64)))
        gates = 2 * len(halves) + 2  # of each half, its updates and its end
        self.builder.expect(workers * (ops_of_passes(job) + gates) + ops_of_transfers(moved, job.costs, workers))

    def _schedule(self, bucket: Bucket, half: Combine | None) -> Schedule:
        """Of the sums of a bucket, or of the allgather behind them (COPY)."""
        if self.ways is not None:
            return self.ways.schedule(half, self._part_bytes(bucket, half))
        if half not in self._rings:
            whole = ring_among(self.ranks, len(self.ranks))
            self._rings[half] = whole if half is None else whole.only(half)
        return self._rings[half]

    def _sizes(self, schedule: Schedule, bucket: Bucket, half: Combine | None) -> list[int]:
        """Bytes of each part of a schedule."""
        return shards_in_pieces(schedule, half, len(self.ranks), self._part_bytes(bucket, half))

    @property
    def summing(self) -> Combine | None:
        """How gradients are summed: by the half of an allreduce, or by a whole one."""
        return Combine.ADD if self.partition.scatter else None

    def _wait(self, sums: Sequence[PlannedCollective], gathers: Sequence[PlannedCollective]) -> None:
        """Sums, then updates, then gathers, each in their order."""
        builder = self.builder
        for collective, bucket in zip(sums, self.buckets, strict=True):
            ready = bucket.ready_layer if self.partition.overlap else 0
            builder.depend_columns(collective.started, [worker.backward[ready] for worker in self.passes])
        for before, collective in pairwise(sums):
            builder.depend_columns(collective.started, before.done)
        builder.depend_columns(self.updates, sums[-1].done)
        builder.depend_columns(self.updates, [worker.backward[0] for worker in self.passes])
        builder.depend_columns(gathers[0].started, self.updates)
        for before, collective in pairwise(gathers):
            builder.depend_columns(collective.started, before.done)

    def _gradients(self, sums: Sequence[PlannedCollective]) -> None:
        """Chunks of gradients, to which all contribute, and which whoever updates the part needs; all do after an
        allreduce."""
        builder = self.builder
        for collective, bucket, tensor in zip(sums, self.buckets, self.tensors, strict=True):
            for part, size_bytes in enumerate(self._sizes(collective.schedule, bucket, self.summing)):
                if not size_bytes:
                    collective.chunks.append(NO_CHUNK)
                    continue
                receivers = [owner(self.ranks, part)] if self.partition.scatter else self.ranks
                chunk = builder.chunk(tensor, size_bytes, receivers=receivers)
                for worker in self.passes:
                    builder.produces(worker.backward[bucket.ready_layer], chunk)
                for rank in receivers:
                    builder.needs(int(self.updates[rank]), chunk)
                collective.chunks.append(chunk)

    def _parameters(self, gathers: Sequence[PlannedCollective]) -> None:
        """Chunks of updated parameters, which their owners have, and which all need in the next iteration."""
        builder = self.builder
        for collective, bucket, tensor in zip(gathers, reversed(self.buckets), reversed(self.tensors), strict=True):
            for part, size_bytes in enumerate(self._sizes(collective.schedule, bucket, Combine.COPY)):
                if not size_bytes:
                    collective.chunks.append(NO_CHUNK)
                    continue
                has = owner(self.ranks, part)
                chunk = builder.chunk(tensor, size_bytes, contributors=[has])
                builder.produces(int(self.updates[has]), chunk)
                for worker in self.passes:
                    builder.consumes(worker.forward[bucket.ready_layer], chunk)
                collective.chunks.append(chunk)

    def _part_bytes(self, bucket: Bucket, half: Combine | None) -> int:
        """What each worker updates of a bucket: bytes of gradients or, behind the sums, of parameters."""
        gathered = half is Combine.COPY
        value_bytes = self.partition.parameter_bytes if gathered else self.partition.gradient_bytes
        return -(-bucket.values // self.workers) * value_bytes

    def _boundaries(self, gathers: Sequence[PlannedCollective]) -> None:
        """What the next iteration waits for."""
        builder, late = self.builder, self.partition.overlap_gather
        for rank, worker in enumerate(self.passes):
            end = builder.compute(rank)
            builder.depend(end, worker.backward[0], int(self.updates[rank]))
            builder.depend(worker.begin, end, lag=1)
            for gather, bucket in zip(gathers, reversed(self.buckets), strict=True):
                waiting, lag = (worker.forward[bucket.ready_layer], 1) if late else (end, 0)
                builder.depend(waiting, int(gather.done[rank]), lag=lag)
            builder.iteration(rank, worker.begin, end)

"""Data parallelism whose optimizer is divided among workers: everyone has all parameters, and each worker updates a part of them.

Source: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020: stage 1 (optimizer
states) and stage 2 (gradients as well, in buckets). An iteration of N workers:

1. The backward pass yields gradients, which fill buckets. A bucket's gradients are summed so that each worker has the sum of its part: by a
   reduce-scatter, or by an allreduce, of which a worker uses its part and drops the rest. That happens as buckets fill up, beside the
   backward pass, or after it.
2. When all buckets are summed, each worker updates its part of every bucket's parameters.
3. An allgather of each bucket brings the updated parameters to all, in the order in which the next forward pass uses them. That begins when
   all of them are there, or else each bucket's layers wait for their own.

Collectives go around a ring, one after the other, as on the one stream of a process group. Assumed: each bucket is cut evenly, padded to a
multiple of the workers, as Megatron-LM's distributed optimizer has it (in ZeRO's own, a worker's part is a stretch of all parameters, so
that a bucket may belong to few of the workers); filling a bucket costs no copy, and an update no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_buckets import Bucket
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE, add_gates
from gradwire.workloads.engines.collectives import ring_among
from gradwire.workloads.engines.parallel.collective import Collective, Collectives
from gradwire.workloads.engines.parallel.group_rings import owner
from gradwire.workloads.engines.worker import add_passes
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
    #: Step 1: whether beside the backward pass.
    overlap: bool
    #: Step 3: whether layers wait for their own parameters alone.
    overlap_gather: bool


def compile_partitioned(job: Job, name: str, buckets: Sequence[Bucket], partition: Partition) -> Plan:
    """Compiles an iteration with these buckets, in the order in which the backward pass fills them."""
    return _Compiler(job, name, buckets, partition).compile()


class _Compiler:
    """The plan under construction. Arrays of ops have an axis for ranks."""

    def __init__(self, job: Job, name: str, buckets: Sequence[Bucket], partition: Partition) -> None:
        self.job, self.buckets, self.partition = job, buckets, partition
        self.builder = PlanBuilder(name)
        cluster = job.cluster
        self.ranks = [self.builder.rank(Role.WORKER, cluster.worker_host(worker)) for worker in range(cluster.workers)]
        self.passes = [add_passes(self.builder, job, rank) for rank in self.ranks]
        self.collectives = Collectives(self.builder, job)
        self.tensors = [self.builder.tensor(bucket.name) for bucket in buckets]
        #: Step 2, of each worker.
        self.updates = add_gates(self.builder, [0.0], len(self.ranks), GATE_LANE)[0]

    def compile(self) -> Plan:
        """Builds everything."""
        whole = ring_among(self.ranks, len(self.ranks))
        summing = whole.only(Combine.ADD) if self.partition.scatter else whole
        sums = [self.collectives.add(bucket.ready_layer, summing) for bucket in self.buckets]
        gathers = [
            self.collectives.add(bucket.ready_layer, whole.only(Combine.COPY)) for bucket in reversed(self.buckets)
        ]
        self._wait(sums, gathers)
        self._gradients(sums)
        self._parameters(gathers)
        queues = self.collectives.queues()
        self.collectives.transfer(queues, [*sums, *gathers])
        self._boundaries(gathers)
        return self.builder.build(self.job.compute_s, self.job.samples)

    def _wait(self, sums: Sequence[Collective], gathers: Sequence[Collective]) -> None:
        """Sums, then updates, then gathers, each in their order."""
        builder = self.builder
        for each, bucket in zip(sums, self.buckets, strict=True):
            ready = bucket.ready_layer if self.partition.overlap else 0
            builder.depend_columns(each.started, [own.backward[ready] for own in self.passes])
        for before, each in pairwise(sums):
            builder.depend_columns(each.started, before.done)
        builder.depend_columns(self.updates, sums[-1].done)
        builder.depend_columns(self.updates, [own.backward[0] for own in self.passes])
        builder.depend_columns(gathers[0].started, self.updates)
        for before, each in pairwise(gathers):
            builder.depend_columns(each.started, before.done)

    def _gradients(self, sums: Sequence[Collective]) -> None:
        """Chunks of gradients, to which all contribute, and which whoever updates the part needs; all do after an allreduce."""
        builder = self.builder
        for each, bucket, tensor in zip(sums, self.buckets, self.tensors, strict=True):
            size_bytes = self._part_values(bucket) * self.partition.gradient_bytes
            for part in range(len(self.ranks)):
                receivers = [owner(self.ranks, part)] if self.partition.scatter else self.ranks
                chunk = builder.chunk(tensor, size_bytes, receivers=receivers)
                for own in self.passes:
                    builder.produces(own.backward[bucket.ready_layer], chunk)
                for rank in receivers:
                    builder.needs(int(self.updates[rank]), chunk)
                each.chunks.append(chunk)

    def _parameters(self, gathers: Sequence[Collective]) -> None:
        """Chunks of updated parameters, which their owners have, and which all need in the next iteration."""
        builder = self.builder
        for each, bucket, tensor in zip(gathers, reversed(self.buckets), reversed(self.tensors), strict=True):
            size_bytes = self._part_values(bucket) * self.partition.parameter_bytes
            for part in range(len(self.ranks)):
                has = owner(self.ranks, part)
                chunk = builder.chunk(tensor, size_bytes, contributors=[has])
                builder.produces(int(self.updates[has]), chunk)
                for own in self.passes:
                    builder.consumes(own.forward[bucket.ready_layer], chunk)
                each.chunks.append(chunk)

    def _part_values(self, bucket: Bucket) -> int:
        return -(-bucket.values // len(self.ranks))

    def _boundaries(self, gathers: Sequence[Collective]) -> None:
        """What the next iteration waits for."""
        builder, late = self.builder, self.partition.overlap_gather
        for rank, own in enumerate(self.passes):
            end = builder.compute(rank)
            builder.depend(end, own.backward[0], int(self.updates[rank]))
            builder.depend(own.begin, end, lag=1)
            for each, bucket in zip(gathers, reversed(self.buckets), strict=True):
                waiting, lag = (own.forward[bucket.ready_layer], 1) if late else (end, 0)
                builder.depend(waiting, int(each.done[rank]), lag=lag)
            builder.iteration(rank, own.begin, end)

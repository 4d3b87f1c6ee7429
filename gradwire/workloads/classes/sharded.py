"""FSDP and ZeRO by classes of ranks: what `ShardedPlan` and `PartitionedPlan` make, of one rank of each class.

Both cut what they move into parts of one size, so that all ranks are alike. What waits for what is theirs; messages
are those of a folded ring, and chunks, which only the checker reads, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradwire.datatypes.class_plans import ClassPlan, Folding, NotByClass
from gradwire.datatypes.plan import Combine
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.classes.folding import (
    FoldedRingCall,
    FoldedRings,
    folded_job,
    neighbours_folded,
)
from gradwire.workloads.classes.pairs import add_pairs, steps_of_half
from gradwire.workloads.classes.rings_by_nic import RingsByNic
from gradwire.workloads.engines.allreduce_buckets import Bucket
from gradwire.workloads.engines.call_costs import CallCosts
from gradwire.workloads.engines.collectives.schedule import Schedule, schedule_of
from gradwire.workloads.engines.parallel.group_collectives import RING
from gradwire.workloads.engines.parallel.partitioned import Partition, PartitionedPlan
from gradwire.workloads.engines.parallel.sharded import ShardedPlan, Sharding
from gradwire.workloads.job import Job

PAIRS = "halving-doubling"


def _without_rows(folding: Folding) -> Schedule:
    """The schedule of a collective whose messages a folded ring adds."""
    return schedule_of(folding.neighbours, 1, [])


def _rings(builder: PlanBuilder, job: Job, folding: Folding) -> FoldedRings:
    """Returns the folded ring of all ranks."""
    return FoldedRings(builder, job, neighbours_folded(job.cluster.workers, folding.neighbours), folding.undelayed)


def sharded_classes(job: Job, name: str, sharding: Sharding, folding: Folding) -> ClassPlan:
    """FSDP's iteration. Raises NotByClass for what is not among all ranks, around one ring or by halving and doubling."""
    if sharding.algorithm not in (RING, PAIRS):
        raise NotByClass(f"strategy.options.algorithm is '{sharding.algorithm}', not '{RING}' or '{PAIRS}'")
    if sharding.group not in (None, job.cluster.workers):
        raise NotByClass(f"strategy.options.shard = {sharding.group} makes groups (hybrid sharding)")
    return _ShardedClasses(job, name, replace(sharding, group=None), folding).compile_classes()


class _ShardedClasses(ShardedPlan):
    def __init__(self, job: Job, name: str, sharding: Sharding, folding: Folding) -> None:
        super().__init__(folded_job(job, folding.neighbours), name, replace(sharding, rings=1))
        self._rings_at_once = sharding.rings
        self._whole, self._folding = job, folding

    def _expect(self) -> None:
        """Nothing: so few ranks are never too many."""

    def compile_classes(self) -> ClassPlan:
        """Builds the plan and its classes."""
        empty, rings = _without_rows(self._folding), _rings(self.builder, self._whole, self._folding)
        classes = range(self._folding.neighbours)
        self.shards, self.calls = self._whole.cluster.workers, CallCosts(self._whole, self.sharding.algorithm)
        gathers = [self._call(unit, Combine.COPY, empty) for unit, _ in self.uses]
        scatters = [self._call(unit, Combine.ADD, empty) for unit in self.yields]
        self._wait_for_gathers(gathers)
        self._wait_for_backward(scatters)
        kinds = (
            (gathers, [unit for unit, _ in self.uses], Combine.COPY, self.sharding.parameter_bytes),
            (scatters, self.yields, Combine.ADD, self.sharding.gradient_bytes),
        )
        for collectives, units, combine, value_bytes in kinds:
            by_ring = self.sharding.algorithm == RING
            way = RingsByNic(rings, classes, self._rings_at_once)
            for number, (collective, unit) in enumerate(zip(collectives, units, strict=True)):
                size = -(-unit.values // self._whole.cluster.workers) * value_bytes
                call = FoldedRingCall(number, collective.layer, collective.started, collective.done, (combine,), size)
                if by_ring:
                    way.add(call)
                else:
                    steps = steps_of_half(self._whole.cluster.workers, combine)
                    add_pairs(rings, classes, np.repeat(way.between[:, None], len(steps), axis=1), call, steps)
        self._boundaries([*gathers[-1:], *scatters])
        return rings.folded(self.builder.build(self._whole.compute_s, self._whole.samples))


def partitioned_classes(
    job: Job, name: str, buckets: Sequence[Bucket], partition: Partition, folding: Folding
) -> ClassPlan:
    """The iteration of ZeRO's stages 1 and 2. Raises NotByClass where workers differ."""
    if partition.nccl is not None:
        raise NotByClass("strategy.options.algorithm is 'nccl', not 'ring'")
    return _PartitionedClasses(job, name, buckets, partition, folding).compile_classes()


class _PartitionedClasses(PartitionedPlan):
    def __init__(self, job: Job, name: str, buckets: Sequence[Bucket], partition: Partition, folding: Folding) -> None:
        super().__init__(folded_job(job, folding.neighbours), name, buckets, replace(partition, rings=1))
        self._rings_at_once = partition.rings
        self._whole, self._folding = job, folding

    def _expect(self) -> None:
        """Nothing: so few ranks are never too many."""

    def compile_classes(self) -> ClassPlan:
        """Builds the plan and its classes."""
        empty, rings = _without_rows(self._folding), _rings(self.builder, self._whole, self._folding)
        classes = range(self._folding.neighbours)
        self.workers, self.calls = self._whole.cluster.workers, CallCosts(self._whole, RING)
        sums = [self._call(bucket, self.summing, empty) for bucket in self.buckets]
        gathers = [self._call(bucket, Combine.COPY, empty) for bucket in reversed(self.buckets)]
        self._wait(sums, gathers)
        way = RingsByNic(rings, classes, self._rings_at_once)
        summing = (Combine.ADD,) if self.partition.scatter else (Combine.ADD, Combine.COPY)
        moves = [
            *(
                (collective, bucket, summing, self.partition.gradient_bytes)
                for collective, bucket in zip(sums, self.buckets, strict=True)
            ),
            *(
                (collective, bucket, (Combine.COPY,), self.partition.parameter_bytes)
                for collective, bucket in zip(gathers, reversed(self.buckets), strict=True)
            ),
        ]
        for number, (collective, bucket, combines, value_bytes) in enumerate(moves):
            size = -(-bucket.values // self._whole.cluster.workers) * value_bytes
            call = FoldedRingCall(number, collective.layer, collective.started, collective.done, combines, size)
            way.add(call)
        self._boundaries(gathers)
        return rings.folded(self.builder.build(self._whole.compute_s, self._whole.samples))

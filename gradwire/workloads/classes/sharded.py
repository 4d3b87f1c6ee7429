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
from gradwire.workloads.engines.collectives.schedule import Collective, Schedule, schedule_of
from gradwire.workloads.engines.parallel.group_collectives import RING, PlannedCollective
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
    """FSDP's iteration. Raises NotByClass for what is not around rings, or among all ranks by halving and doubling."""
    if sharding.algorithm not in (RING, PAIRS):
        raise NotByClass(f"strategy.options.algorithm is '{sharding.algorithm}', not '{RING}' or '{PAIRS}'")
    if sharding.group in (None, job.cluster.workers):
        return _ShardedClasses(job, name, replace(sharding, group=None), folding).compile_classes()
    if sharding.algorithm != RING:
        raise NotByClass(
            f"strategy.options.shard = {sharding.group} makes groups (hybrid sharding) that are not around a ring"
        )
    return _HybridClasses(job, name, sharding, folding).compile_classes()


class _ShardedClasses(ShardedPlan):
    """Allgathers and reduce-scatters of all workers."""

    def __init__(self, job: Job, name: str, sharding: Sharding, folding: Folding) -> None:
        super().__init__(folded_job(job, folding.neighbours), name, replace(sharding, rings=1, group=None))
        self._rings_at_once = sharding.rings
        self._whole, self._folding = job, folding
        self.shards, self.calls = job.cluster.workers, CallCosts(job, sharding.algorithm)

    def _expect(self) -> None:
        """Nothing: so few ranks are never too many."""

    def compile_classes(self) -> ClassPlan:
        """Builds the plan and its classes."""
        empty, rings = _without_rows(self._folding), _rings(self.builder, self._whole, self._folding)
        gathers = [self._call(use.unit, Combine.COPY, empty) for use in self.uses]
        scatters = [self._call(use.unit, Combine.ADD, empty) for use in self.yields]
        self._wait_for_gathers(gathers)
        self._wait_for_backward(scatters)
        for collectives, combine in ((gathers, Combine.COPY), (scatters, Combine.ADD)):
            self._transfer(rings, self._calls(collectives, combine))
        self._boundaries([*gathers[-1:], *scatters, *self._among_groups(rings, scatters)])
        return rings.folded(self.builder.build(self._whole.compute_s, self._whole.samples))

    def _calls(self, collectives: Sequence[PlannedCollective], combine: Combine) -> list[FoldedRingCall]:
        """The allgathers (COPY) or reduce-scatters."""
        uses = self.uses if combine is Combine.COPY else self.yields
        return [
            FoldedRingCall(
                number, call.layer, call.started, call.done, (combine,), self._shard_bytes(use.unit, combine)
            )
            for number, (call, use) in enumerate(zip(collectives, uses, strict=True))
        ]

    def _transfer(self, rings: FoldedRings, calls: Sequence[FoldedRingCall]) -> None:
        """Adds the messages of calls that follow one another."""
        classes = range(self._folding.neighbours)
        way = RingsByNic(rings, classes, self._rings_at_once)
        for call in calls:
            if self.sharding.algorithm == RING:
                way.add(call)
            else:
                steps = steps_of_half(self._whole.cluster.workers, call.combines[0])
                add_pairs(rings, classes, np.repeat(way.between[:, None], len(steps), axis=1), call, steps)

    def _among_groups(self, rings: FoldedRings, scatters: Sequence[PlannedCollective]) -> list[PlannedCollective]:
        """The sums of shards among groups, of which there is one."""
        del rings, scatters
        return []


class _HybridClasses(_ShardedClasses):
    """Allgathers and reduce-scatters of groups of neighbours, and allreduces of shards among the groups.

    Classes are neighbours too: several groups of them, or a part of one.
    """

    def __init__(self, job: Job, name: str, sharding: Sharding, folding: Folding) -> None:
        assert sharding.group is not None
        self._group = group = sharding.group
        self._replicas = job.cluster.workers // group
        super().__init__(job, name, replace(sharding, rings=1), folding)
        if job.cluster.workers % group:
            raise NotByClass(f"strategy.options.shard = {group} does not divide the workers")
        if group % folding.neighbours and folding.neighbours % group:
            raise NotByClass(
                f"strategy.options.shard = {group} and {folding.neighbours} neighbours are not multiples of one another"
            )
        self.shards, self.callers = group, list(range(group))

    def _transfer(self, rings: FoldedRings, calls: Sequence[FoldedRingCall]) -> None:
        copies = int(rings.members.shape[1])
        within = replace(rings, rings=min(copies, self._replicas))
        for first in range(0, self._folding.neighbours, self._group):
            ring = range(first, min(first + self._group, self._folding.neighbours))
            self._around(within, ring, calls)

    def _among_groups(self, rings: FoldedRings, scatters: Sequence[PlannedCollective]) -> list[PlannedCollective]:
        empty, owners = _without_rows(self._folding), list(range(0, self._whole.cluster.workers, self._group))
        sums: list[PlannedCollective] = []
        for scatter, use in zip(scatters, self.yields, strict=True):
            latency_s = self.calls.seconds(Collective.ALL_REDUCE, self._shard_bytes(use.unit, Combine.ADD), owners)
            allreduce = self.collectives.add(scatter.layer, empty, latency_s, 2)
            for before in (scatter, *sums[-1:]):
                self.builder.depend_columns(allreduce.started, before.done)
            sums.append(allreduce)
        calls = [
            replace(
                call,
                combines=(Combine.ADD, Combine.COPY),
                # Each part is as large as the largest, which has a value more than others.
                size_bytes=-(-call.size_bytes // (self.sharding.gradient_bytes * self._replicas))
                * self.sharding.gradient_bytes,
                stride=max(1, self._group // self._folding.neighbours),
            )
            for call in self._calls(sums, Combine.ADD)
        ]
        for first in range(min(self._group, self._folding.neighbours)):
            self._around(rings, range(first, self._folding.neighbours, self._group), calls)
        return sums

    def _around(self, rings: FoldedRings, ring: range, calls: Sequence[FoldedRingCall]) -> None:
        """Adds the messages of calls around a ring of some of the classes."""
        queues, members = rings.queues(ring), list(ring)
        for call in calls:
            rings.add(ring, queues, replace(call, started=call.started[members], done=call.done[members]))


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

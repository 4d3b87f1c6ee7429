"""How many ops a plan with tensor, pipeline, expert and data parallelism has, said before any is made.

All that a microbatch does in a stage counts as often as there are microbatches, and what a group does as often as the
stage has groups of its kind, whose collectives are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from gradwire.datatypes.plan import Combine
from gradwire.workloads.engines.collectives.choice import IN_NETWORK
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.parallel.division import Division, WorkerGrid
from gradwire.workloads.engines.parallel.gradients import buckets_of, part_values
from gradwire.workloads.engines.parallel.group_collectives import RING, Halves
from gradwire.workloads.engines.parallel.ring_attention import CORE
from gradwire.workloads.engines.parallel.segments import Cut, LayerSegment, shares_of_workers
from gradwire.workloads.engines.transfer_counts import transfer_ops
from gradwire.workloads.job import Job


def ops_of_model_parallel(job: Job, division: Division, grid: WorkerGrid, cut: Cut, batch: int) -> int:
    """The ops behind those that begin the workers' iterations. batch: samples of a replica."""
    counted = _Counted(job, division, grid, cut, batch)
    boundaries = len(cut.stages) - 1
    passed_on = boundaries * 2 * division.microbatches * grid.data * grid.tensor * 2
    return job.cluster.workers + passed_on + sum(counted.of_stage(stage) for stage in range(grid.stages))


class _Counted:
    def __init__(self, job: Job, division: Division, grid: WorkerGrid, cut: Cut, batch: int) -> None:
        self.job, self.division, self.grid, self.cut = job, division, grid, cut
        self.microbatch = batch // division.microbatches
        #: Workers of a stage.
        self.members = grid.data * grid.tensor
        machines = [job.cluster.worker_host(worker) for worker in range(job.cluster.workers)]
        switches = Switches.of(job) if division.algorithm == IN_NETWORK else None
        self._rings = Halves(RING, machines)
        self._chosen = Halves(division.algorithm, machines, switches=switches, nccl=division.nccl)
        self._ops_of = cache(self._collective)

    def of_stage(self, stage: int) -> int:
        """All of a stage but what it hands on."""
        pieces, division = self.cut.stages[stage :: self.grid.stages], self.division
        segments = [segment for piece in pieces for segment in piece]
        passes = 2 * len(pieces) * self.members * division.sequence  # which begin with a collective
        for segment in segments:
            again = division.recompute == "full" and segment.block >= 0
            passes += (1 + again) * self._visit(stage, segment, True) + self._visit(stage, segment, False)
        everywhere = [segment for segment in segments if not segment.routed_values]
        divided = [segment for segment in segments if segment.routed_values]
        sums = self._sums(self.grid.data_groups(stage), everywhere, division.tensor)
        experts = self.grid.same_experts(stage, division.experts)
        return passes * division.microbatches + sums + self._sums(experts, divided, division.tensor * division.experts)

    def _visit(self, stage: int, segment: LayerSegment, forward: bool) -> int:
        """One pass of a segment in a microbatch: its collectives, and what workers compute."""
        division, before, behind = self.division, segment.sums_gradients, segment.sums_outputs
        before, behind = (before, behind) if forward else (behind, before)
        collects: list[Combine | None] = [Combine.COPY] * (division.sequence and before)
        collects += [Combine.ADD if division.sequence else None] * (division.tensor > 1 and behind)
        group = tuple(self.grid.tensor_groups(stage)[0])
        activations = -(-self.cut.activation_values * self.microbatch // division.context)
        share_bytes = -(-activations // division.tensor) * division.activation_bytes
        collected = self.grid.data * sum(self._ops_of(group, half, share_bytes, False) for half in collects)
        return collected + self._exchanged(segment) + self._computed(segment, forward)

    def _exchanged(self, segment: LayerSegment) -> int:
        """Tokens to experts and back."""
        if not segment.routed_values:
            return 0
        experts, values = self.division.experts, segment.routed_values * self.microbatch
        shares = shares_of_workers(segment, experts, self.division.token_skew)
        asked = experts if shares is None else sum(round(values * share / self.division.tensor) > 0 for share in shares)
        return self.members // experts * 2 * asked * (experts - 1) * 2

    def _computed(self, segment: LayerSegment, forward: bool) -> int:
        context = self.division.context
        if context == 1 or not any(self.job.profile.layers[layer].name.endswith(CORE) for layer in segment.layers):
            return self.members
        turns = 1 if forward else 2  # keys and values and, behind them, their gradients
        return self.members * (2 + context) + turns * self.members * (context - 1) * 2

    def _sums(self, groups: Sequence[Sequence[int]], segments: Sequence[LayerSegment], shares: int) -> int:
        """What sums gradients in groups of so many."""
        replicas = len(groups[0])
        if replicas == 1 or not segments:
            return 0
        return len(groups) * sum(self._sum(tuple(groups[0]), segments, shares))

    def _sum(self, members: tuple[int, ...], segments: Sequence[LayerSegment], shares: int) -> Iterator[int]:
        division, count = self.division, len(members)
        half = Combine.ADD if division.sharded_optimizer else None
        if division.sharded_optimizer:
            yield count  # updates
        for bucket in buckets_of(division, segments, shares, count):
            values = part_values(bucket, shares, count)
            yield count * division.overlap_gradients + self._ops_of(
                members, half, values * division.gradient_bytes, True
            )
            if division.sharded_optimizer:
                yield self._ops_of(members, Combine.COPY, values * division.parameter_bytes, True)

    def _collective(self, members: tuple[int, ...], half: Combine | None, share_bytes: int, chosen: bool) -> int:
        """One in a group, with what ends it at each member."""
        among = (self._chosen if chosen else self._rings).among(members, half, share_bytes)
        sizes = np.array([among.size_bytes], np.int64)
        return len(members) + transfer_ops(among.schedule, sizes, self.job.costs, self.job.cluster.workers)

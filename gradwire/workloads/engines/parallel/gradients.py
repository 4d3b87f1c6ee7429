"""How replicas sum the gradients of what they have in common, and update it.

Sources: Narayanan et al., SC 2021 (an allreduce when a batch's passes are over); megatron/core/distributed in
Megatron-LM (`overlap_grad_reduce`, `bucket_size`, `use_distributed_optimizer`).

Gradients are there when the last microbatch's backward pass has gone through a segment. Without overlap, they are
summed when all passes of the worker are over, as one; with it, in buckets of segments, each as soon as its last
segment is there, one after the other. With a divided optimizer, sums go to one member each by reduce-scatters, every
member updates its part when all its sums are there, and an allgather of each bucket, in the opposite order, brings
updated parameters to all before the iteration ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.datatypes.plan import Combine
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE
from gradwire.workloads.engines.parallel.division import Division
from gradwire.workloads.engines.parallel.segments import LayerSegment
from gradwire.workloads.engines.parallel.worker_programs import GroupCollectives, Note, Series, WorkerProgram

Ready = Mapping[tuple[int, LayerSegment], int]
"""The last op of the last backward pass, by rank and segment."""


@dataclass
class Replicas:
    """Sums the gradients of groups of workers that hold the same parameters. Arguments of methods are of one group."""

    builder: PlanBuilder
    collectives: GroupCollectives
    division: Division
    programs: Sequence[WorkerProgram]
    begins: Sequence[int]
    #: Ops that the iteration's end waits for as well, by rank.
    late: list[list[int]]
    #: Workers that each member stands for, where one of a class is compiled (workloads/classes/model_parallel.py).
    copies: int = 1

    def sum(self, members: list[int], segments: Sequence[LayerSegment], shares: int, ready: Ready) -> None:
        """Adds the sums of the gradients of segments, in forward order, whose parameters are divided into `shares`."""
        replicas = len(members) * self.copies
        if replicas == 1 or not segments:
            return
        overlap, buckets = self.division.overlap_gradients, buckets_of(self.division, segments, shares, replicas)
        sums = Series(members, Combine.ADD if self.division.sharded_optimizer else None, chosen=True)
        held: list[tuple[int, int]] = []
        for bucket in buckets:
            part_bytes = part_values(bucket, shares, replicas) * self.division.gradient_bytes
            started = self._start_ops(sums, bucket, ready)
            self.collectives.add(
                sums,
                bucket[0].layers[0],
                f"parameters of {_name(bucket)}",
                part_bytes,
                started,
                self._note_of_sum(held),
            )
            if not overlap:
                self._go_on(members, sums.done[-1])
        self.collectives.transfer(sums)
        if self.division.sharded_optimizer:
            self._update(sums, held, buckets, shares)
        elif overlap:
            for rank, done in zip(members, sums.done[-1], strict=True):
                self.late[rank].append(done)

    def _start_ops(self, sums: Series, bucket: Sequence[LayerSegment], ready: Ready) -> list[int]:
        if not self.division.overlap_gradients:
            return [self.programs[rank].last for rank in sums.members]
        gates = [self.builder.compute(rank, lane=GATE_LANE) for rank in sums.members]
        for index, rank in enumerate(sums.members):
            self.builder.depend(gates[index], ready[rank, bucket[0]])
            if sums.done:
                self.builder.depend(gates[index], sums.done[-1][index])
        return gates

    def _note_of_sum(self, held: list[tuple[int, int]]) -> Note:
        """Returns the function that notes the sums that a rank needs: at once if it updates its part of the parameters
        itself, and otherwise in the next iteration."""
        return (lambda *what: held.append(what)) if self.division.sharded_optimizer else self._next_needs

    def _next_needs(self, rank: int, chunk: int) -> None:
        self.builder.consumes(self.begins[rank], chunk)

    def _go_on(self, members: Sequence[int], done: Sequence[int]) -> None:
        # The end needs what is pending of the last pass as well.
        for rank, op in zip(members, done, strict=True):
            self.programs[rank].last = op

    def _update(
        self, sums: Series, held: Sequence[tuple[int, int]], buckets: Sequence[list[LayerSegment]], shares: int
    ) -> None:
        """Each member updates its part of all buckets, and then gathers those of the others."""
        members, builder = sums.members, self.builder
        updates = {rank: builder.compute(rank, lane=GATE_LANE) for rank in members}
        for index, rank in enumerate(members):
            builder.depend(updates[rank], self.programs[rank].last, sums.done[-1][index])
        for rank, chunk in held:
            builder.needs(updates[rank], chunk)
        gathers = Series(members, Combine.COPY, chosen=True)
        started = list(updates.values())
        for bucket in reversed(buckets):
            part_bytes = part_values(bucket, shares, len(members) * self.copies) * self.division.parameter_bytes
            self.collectives.add(
                gathers,
                bucket[0].layers[0],
                f"updated parameters of {_name(bucket)}",
                part_bytes,
                started,
                self._next_needs,
            )
            started = gathers.done[-1]
        self.collectives.transfer(gathers)
        if self.division.overlap_gradients:
            for rank, done in zip(members, started, strict=True):
                self.late[rank].append(done)
        else:
            self._go_on(members, started)


def buckets_of(
    division: Division, segments: Sequence[LayerSegment], shares: int, replicas: int
) -> list[list[LayerSegment]]:
    """What is summed as one: with overlap, segments as the backward pass yields their gradients, as many as fill a
    bucket; otherwise all. Each bucket is in forward order."""
    if not division.overlap_gradients:
        return [list(segments)]
    limit = division.bucket_values(replicas)
    buckets: list[list[LayerSegment]] = [[]]
    for segment in reversed(segments):
        if buckets[-1] and sum(other.values for other in buckets[-1]) >= limit * shares:
            buckets.append([])
        buckets[-1].insert(0, segment)
    return [bucket for bucket in buckets if any(segment.values for segment in bucket)]


def part_values(bucket: Sequence[LayerSegment], shares: int, replicas: int) -> int:
    """Values of a part: those of a worker's share, padded to a multiple of the replicas."""
    share = -(-sum(segment.values for segment in bucket) // shares)
    return -(-share // replicas)


def _name(bucket: Sequence[LayerSegment]) -> str:
    return f"{bucket[0].name} to {bucket[-1].name}"

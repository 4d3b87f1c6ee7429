"""Collectives in which ranks exchange with the rank at a distance of a power of two, as one copy of each class has them.

In a step of distance d, rank i exchanges with rank i XOR d, as in Rabenseifner's halving and doubling and in the
butterfly. With k neighbours as classes, a power of two, that is another class of the same copy where d is less than k, and
else the same class of the copy at a distance of d / k: all copies do the same. The parts that a message carries follow
one another without a gap, and are one op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradwire.datatypes.class_plans import ClassPlan, Folding, NotByClass, Peers
from gradwire.datatypes.plan import Combine, Int64, OpKind
from gradwire.workloads.classes.folding import FoldedRingCall, FoldedRings, folded_job, neighbours_folded
from gradwire.workloads.engines.allreduce_buckets import Bucket
from gradwire.workloads.engines.allreduce_plan import (
    BYTES_ON_WIRE,
    AllreduceOptions,
    AllreducePlan,
    communicator_of,
    ready_buckets,
)
from gradwire.workloads.fields import MOST_WORKERS
from gradwire.workloads.job import Job


@dataclass(frozen=True)
class Step:
    """A step of all ranks."""

    distance: int
    #: Parts that each rank sends.
    parts: int
    combine: Combine


def halving(ranks: int) -> list[Step]:
    """A reduce-scatter in as many parts as ranks."""
    return [Step(ranks >> (step + 1), ranks >> (step + 1), Combine.ADD) for step in range(_levels(ranks))]


def doubling(ranks: int) -> list[Step]:
    """An allgather in as many parts as ranks."""
    return [Step(1 << step, 1 << step, Combine.COPY) for step in range(_levels(ranks))]


def butterfly(ranks: int) -> list[Step]:
    """Returns the steps of an all-reduce in which every message has the whole buffer."""
    return [Step(1 << step, 1, Combine.ADD) for step in range(_levels(ranks))]


def steps_of_half(ranks: int, half: Combine | None) -> list[Step]:
    """Halving (ADD), doubling (COPY), or one and then the other (None)."""
    return (halving(ranks) if half != Combine.COPY else []) + (doubling(ranks) if half != Combine.ADD else [])


def _levels(ranks: int) -> int:
    if ranks & (ranks - 1):
        raise NotByClass(f"{ranks} ranks exchange in pairs and are not a power of two")
    return ranks.bit_length() - 1


def add_pairs(
    folded: FoldedRings, ranks: Sequence[int], queues: Int64, call: FoldedRingCall, steps: Sequence[Step]
) -> None:
    """Adds a collective of all copies of these classes, which are neighbours. queues: of each class, one for each step.

    Raises NotByClass where some copies send to their own machine and others do not, and where adding takes time.
    """
    builder, costs, count = folded.builder, folded.job.costs, len(ranks)
    if not np.isinf(costs.aggregation_bytes_per_s):
        raise NotByClass("parts of a message are added one by one (costs.aggregation_rate)")
    if call.size_bytes <= 0:
        return
    _levels(count)
    classes, machine = np.array(ranks, np.int64), folded.members[list(ranks)] // folded.job.cluster.workers_per_host
    before: tuple[Int64, Int64] | None = None
    for number, step in enumerate(steps):
        place = np.arange(count) ^ (step.distance if step.distance < count else 0)
        peers = Peers() if step.distance < count else Peers(0, folded.around, flip=step.distance // count)
        inside = _same_machine(machine, machine[place], peers)
        part_s, first_s = (
            [link_s if is_inside else 0.0 for is_inside in inside.tolist()]
            for link_s in (call.size_bytes / costs.local_bytes_per_s, costs.message_s(call.size_bytes, inside=True))
        )
        first_s = [
            link_s if is_inside else costs.message_s(call.size_bytes, inside=False)
            for link_s, is_inside in zip(first_s, inside.tolist(), strict=True)
        ]
        wait_ns = np.rint(np.array(first_s) * 1e9) + (step.parts - 1) * np.rint(np.array(part_s) * 1e9)
        size_bytes = step.parts * call.size_bytes
        first = builder.add_columns(OpKind.SEND, 0).start
        shared = {"size_bytes": size_bytes, "traffic_class": call.traffic_class, "layer": call.layer}
        sends = np.array(
            builder.add_columns(
                OpKind.SEND,
                count,
                rank=classes,
                peer=classes[place],
                lane=queues[:, number],
                duration_ns=wait_ns.astype(np.int64),
                order=call.number * len(steps) + number,
                message=first + np.arange(count),
                **shared,
            ),
            np.int64,
        )
        folded.table.note(first, np.full(count, folded.table.number(peers)))
        recvs = np.array(
            builder.add_columns(
                OpKind.RECV,
                count,
                rank=classes,
                peer=classes[place],
                combine=int(step.combine),
                message=first + place,
                **shared,
            ),
            np.int64,
        )
        for ops in before or (call.started,):
            builder.depend_columns(sends, ops)
        before = sends, recvs
    for ops in before or ():
        builder.depend_columns(call.done, ops)


def _same_machine(machine: Int64, peers_machine: Int64, peers: Peers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns, for each class, whether its message stays on its machine. Raises NotByClass if that differs between
    ranks of a class."""
    receiving = peers_machine[:, np.arange(machine.shape[1]) ^ peers.flip]
    same = machine == receiving
    if (same != same[:, :1]).any():
        raise NotByClass("some ranks of a class exchange with one on their machine, and others do not")
    first: np.ndarray[tuple[int], np.dtype[np.bool_]] = same[:, 0]
    return first


def paired_classes(
    job: Job,
    name: str,
    buckets: Sequence[Bucket],
    options: AllreduceOptions,
    folding: Folding,
    *,
    in_parts: bool,
) -> ClassPlan:
    """All-reduces of buckets by halving and doubling (`in_parts`), or by a butterfly.

    Raises NotByClass where ranks differ. Where a bucket does not divide evenly, ranks differ by a value: jobs that can be
    compiled with all ranks are refused then, and of others each part is as large as the largest.
    """
    if options.segments > 1:
        raise NotByClass(f"strategy.options.segments is {options.segments}, not 1")
    if options.forward_waits == "barrier":
        raise NotByClass("strategy.options.forward_waits is 'barrier': one rank hears from all others")
    workers = job.cluster.workers
    parts = workers if in_parts else 1
    uneven = [bucket for bucket in buckets if bucket.values % parts]
    if uneven and workers <= MOST_WORKERS:
        raise NotByClass(f"{len(uneven)} of {len(buckets)} buckets do not divide evenly among {workers} ranks")
    return _PairedClasses(job, name, ready_buckets(buckets, options), options, folding).compile_classes(in_parts)


class _PairedClasses(AllreducePlan):
    """One rank for each of some neighbours."""

    def __init__(
        self, job: Job, name: str, buckets: Sequence[Bucket], options: AllreduceOptions, folding: Folding
    ) -> None:
        super().__init__(folded_job(job, folding.neighbours), name, buckets, communicator_of(options), None)
        self._whole, self._options = job, options
        members = neighbours_folded(job.cluster.workers, folding.neighbours)
        self._folded = FoldedRings(self.builder, job, members, folding.undelayed)

    def compile_classes(self, in_parts: bool) -> ClassPlan:
        """Builds the plan and its classes."""
        workers = self._whole.cluster.workers
        steps = steps_of_half(workers, None) if in_parts else butterfly(workers)
        parts, width = workers if in_parts else 1, BYTES_ON_WIRE[self._options.wire]
        self._readiness()
        queues = self._queues(steps)
        for number, bucket in enumerate(self.buckets):
            call = FoldedRingCall(
                number=number,
                layer=bucket.first_layer,
                started=self.started[number],
                done=self.done[number],
                combines=(),
                size_bytes=-(-bucket.values // parts) * width,
            )
            add_pairs(self._folded, self.ranks, queues, call, steps)
        self._boundaries()
        plan = self._folded.folded(self.builder.build(self._whole.compute_s, self._whole.samples))
        padded = sum(bucket.values % parts > 0 for bucket in self.buckets)
        if not padded:
            return plan
        return replace(
            plan,
            left_out=f"{padded} of {len(self.buckets)} buckets do not divide evenly among {workers} ranks: each part is taken "
            f"to be as large as the largest, which has {width} bytes more than others",
        )

    def _queues(self, steps: Sequence[Step]) -> Int64:
        """Returns the queue of each rank for each step: one for all steps, or one for each rank that it exchanges with
        if calls are concurrent."""
        if not self.communicator.concurrent:
            return np.repeat(self._folded.queues(self.ranks)[:, None], len(steps), axis=1)
        of_distance = {step.distance: self._folded.queues(self.ranks) for step in steps}
        return np.stack([of_distance[step.distance] for step in steps], axis=1)

"""Collectives around several rings of all ranks, each of which leaves machines at another NIC, as one copy of each class
has them.

Each ring's messages between machines are on a rail of their own, and a rank that a ring leaves by has all of its steps to
send there: the ring is as deep as it has ranks, so that a step's part has come before the port is free for it, as long
as what is inside a machine is no slower. If it is slower, it decides alone. So the steps of a rank are two ops, one with all
that it sends to the next machine and one with all that it sends inside, and a collective is over with the later one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.datatypes.class_plans import ClassPlan, Folding, NotByClass, Peers
from gradwire.datatypes.plan import Combine, Int64, OpKind
from gradwire.workloads.builder import Columns
from gradwire.workloads.classes.folding import FoldedRingCall, FoldedRings, folded_job, neighbours_folded
from gradwire.workloads.engines.allreduce_buckets import Bucket
from gradwire.workloads.engines.allreduce_plan import (
    BYTES_ON_WIRE,
    AllreduceOptions,
    AllreducePlan,
    communicator_of,
    ready_buckets,
)
from gradwire.workloads.engines.collectives.allreduces import ends_on_machine
from gradwire.workloads.job import Job


@dataclass
class RingsByNic:
    """The messages of the classes' ranks around one ring, or around several that leave machines at different NICs."""

    folded: FoldedRings
    #: Classes, which are the ranks of whole machines.
    classes: Sequence[int]
    #: Rings at once.
    rings: int

    def __post_init__(self) -> None:
        """Adds the queues. Raises NotByClass where steps have gaps between them."""
        self.between = self.folded.queues(self.classes)
        if self.rings == 1:
            return
        if not self.folded.undelayed:
            raise NotByClass("several rings at once (strategy.options.channels) meet links with delays step by step")
        if not np.isinf(self.folded.job.costs.aggregation_bytes_per_s):
            raise NotByClass("parts of a message are added one by one (costs.aggregation_rate)")
        self._inside = self.folded.queues(self.classes)
        self._members = self.folded.job.cluster.workers_per_host
        #: How many rings go from one place of a machine to another place of the next one.
        self._exits = Counter(ends_on_machine(channel, self.rings, self._members) for channel in range(self.rings))

    def add(self, call: FoldedRingCall) -> None:
        """Adds a collective, whose `size_bytes` are a rank's part of it in all rings together."""
        if self.rings == 1:
            self.folded.add(self.classes, self.between, call)
            return
        turns = (self.folded.job.cluster.workers - 1) * len(call.combines)
        if call.size_bytes <= 0 or not turns:
            return
        leaving = Counter[int]()
        for (last, first), rings in self._exits.items():
            leaving[last] += rings
            self._to_next_machines(call, last, first, turns, rings)
        for place in range(self._members):
            if rings := self.rings - leaving[place]:
                self._to_neighbours(call, place, turns, rings)

    def _to_next_machines(self, call: FoldedRingCall, last: int, first: int, turns: int, rings: int) -> None:
        """All that leaves machines at one place and enters the next ones at another."""
        count = len(self.classes)
        senders = np.arange(last, count, self._members)
        beyond = senders - last + self._members + first
        around = self.folded.table.number(Peers(1, self.folded.around))
        peers = np.where(beyond < count, self.folded.table.number(Peers()), around)
        wait_s = turns * self.folded.job.costs.message_s(0, inside=False)
        self._message(call, self.between, senders, beyond % count, peers, turns * rings, wait_s)

    def _to_neighbours(self, call: FoldedRingCall, place: int, turns: int, rings: int) -> None:
        """All that a place of a machine sends to the next one. Rings share the link."""
        senders = np.arange(place, len(self.classes), self._members)
        receivers = senders - place + (place + 1) % self._members
        wait_s = turns * self.folded.job.costs.message_s(call.size_bytes, inside=True)
        own = np.full(len(senders), self.folded.table.number(Peers()))
        self._message(call, self._inside, senders, receivers, own, turns * rings, wait_s)

    def _message(
        self,
        call: FoldedRingCall,
        queues: Int64,
        senders: Int64,
        receivers: Int64,
        peers: Int64,
        parts: int,
        wait_s: float,
    ) -> None:
        """One message from each of some classes. parts: a rank's part in one ring, as often."""
        builder, classes = self.folded.builder, np.array(self.classes, np.int64)
        first = builder.add_columns(OpKind.SEND, 0).start
        shared: dict[str, Columns] = {
            "size_bytes": max(1, round(parts * call.size_bytes / self.rings)),
            "traffic_class": call.traffic_class,
            "layer": call.layer,
            "message": first + np.arange(len(senders)),
        }
        sends = builder.add_columns(
            OpKind.SEND,
            len(senders),
            rank=classes[senders],
            peer=classes[receivers],
            lane=queues[senders],
            duration_ns=round(wait_s * 1e9),
            order=call.number,
            **shared,
        )
        self.folded.table.note(first, peers)
        combine = Combine.ADD if Combine.ADD in call.combines else Combine.COPY
        recvs = builder.add_columns(
            OpKind.RECV, len(senders), rank=classes[receivers], peer=classes[senders], combine=int(combine), **shared
        )
        builder.depend_columns(np.array(sends), call.started[senders])
        builder.depend_columns(np.array(recvs), call.started[receivers])
        builder.depend_columns(call.done[senders], np.array(sends))
        builder.depend_columns(call.done[receivers], np.array(recvs))


def ring_classes(
    job: Job, name: str, buckets: Sequence[Bucket], options: AllreduceOptions, folding: Folding, rings: int
) -> ClassPlan:
    """All-reduces of buckets around several rings. Each part is as large as the largest, which has a value more than
    others. Raises NotByClass where ranks differ."""
    if options.segments > 1:
        raise NotByClass(f"strategy.options.segments is {options.segments}, not 1")
    if options.forward_waits == "barrier":
        raise NotByClass("strategy.options.forward_waits is 'barrier': one rank hears from all others")
    return _ReducedByRings(job, name, ready_buckets(buckets, options), options, folding, rings).compile_classes()


class _ReducedByRings(AllreducePlan):
    """One rank for each of a machine's places."""

    def __init__(
        self,
        job: Job,
        name: str,
        buckets: Sequence[Bucket],
        options: AllreduceOptions,
        folding: Folding,
        rings: int,
    ) -> None:
        super().__init__(folded_job(job, folding.neighbours), name, buckets, communicator_of(options), None)
        self._whole, self._width = job, BYTES_ON_WIRE[options.wire]
        members = neighbours_folded(job.cluster.workers, folding.neighbours)
        self._folded = FoldedRings(self.builder, job, members, folding.undelayed)
        self._rings = RingsByNic(self._folded, self.ranks, rings)

    def compile_classes(self) -> ClassPlan:
        """Builds the plan and its classes."""
        self._readiness()
        for number, bucket in enumerate(self.buckets):
            call = FoldedRingCall(
                number=number,
                layer=bucket.first_layer,
                started=self.started[number],
                done=self.done[number],
                combines=(Combine.ADD, Combine.COPY),
                size_bytes=-(-bucket.values // self._whole.cluster.workers) * self._width,
            )
            self._rings.add(call)
        self._boundaries()
        return self._folded.folded(self.builder.build(self._whole.compute_s, self._whole.samples))

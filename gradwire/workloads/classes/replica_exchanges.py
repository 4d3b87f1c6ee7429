"""Exchanges between neighbouring replicas, for one copy of each class: tokens for experts, and keys and values.

Groups are of so many replicas that follow one another, and replicas fill machines: with k neighbouring tensor groups as
classes, those of one machine or of several, replica r is copy r // k of the class of group r % k. So the neighbour that is
some replicas further in a group is a copy of a class that follows from the sender's class alone, some copies further in a
ring of as many copies as k goes into a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gradwire.datatypes.class_plans import Peers
from gradwire.datatypes.plan import Combine
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.classes.folding import FoldedRings
from gradwire.workloads.engines.parallel.ring_attention import Turn
from gradwire.workloads.job import Costs


@dataclass(frozen=True)
class _Neighbour:
    """The receiver of a message to a neighbour: the place of its class among those that are alike, and which copy of
    that class."""

    place: int
    peers: Peers
    #: Whether the neighbour is on the same machine.
    is_inside: bool


@dataclass
class ReplicaExchanges:
    """Adds messages between replicas. Methods take the ranks of the classes that are alike: that of each of the
    neighbouring tensor groups."""

    builder: PlanBuilder
    costs: Costs
    rings: FoldedRings
    #: Neighbouring tensor groups of which each is a class, and how many of them are on one machine.
    groups: int
    on_machine: int
    _queues: dict[tuple[int, object], int] = field(default_factory=dict)

    def all_to_all(self, ranks: Sequence[int], ready: Sequence[int], count: int, size_bytes: int) -> list[list[int]]:
        """A message from each replica to each other one of its group of `count`; returns the RECVs of each class.

        ready: the op of each class after which it sends. Messages that go to copies of one class on other machines are
        one op, since they are of one size and under way at the same time.
        """
        received: list[list[int]] = [[] for _ in ranks]
        if size_bytes <= 0:
            return received
        for place, rank in enumerate(ranks):
            for neighbour in self._others(place, count):
                peer = ranks[neighbour.place]
                recv = self._send(rank, peer, neighbour, neighbour, size_bytes, Combine.COPY, [ready[place]])
                received[neighbour.place].append(recv)
        return received

    def hand_on(self, turn: Turn, size_bytes: int) -> None:
        """Adds the messages that hand keys and values from each replica to the next one of its group, as soon as it has
        them. A slice waits for the block that it needs."""
        after = list(turn.ready)
        for step in range(1, len(turn.slices[0])):
            arrived = self._around(turn, [[op] for op in after], size_bytes, Combine.COPY)
            for place, recv in enumerate(arrived):
                self.builder.depend(turn.slices[place][step], recv)
            after = arrived

    def add_up(self, turn: Turn, size_bytes: int) -> list[int]:
        """Adds the messages that sum gradients of keys and values around a group; returns the last message that each
        class awaits."""
        count = len(turn.slices[0])
        arrived: list[int] = []
        for step in range(1, count):
            after = [[slices[step], *arrived[place : place + 1]] for place, slices in enumerate(turn.slices)]
            arrived = self._around(turn, after, size_bytes, Combine.ADD)
            for place, recv in enumerate(arrived):
                self.builder.depend(recv, turn.slices[place][(step + 1) % count])
        return arrived

    def _around(self, turn: Turn, after: Sequence[Sequence[int]], size_bytes: int, how: Combine) -> list[int]:
        """A message of each class to its next replica; returns that which each class receives."""
        arrived = [-1] * len(turn.members)
        for place, rank in enumerate(turn.members):
            neighbour = self._neighbour(place, 1, len(turn.slices[0]))
            peer = turn.members[neighbour.place]
            arrived[neighbour.place] = self._send(rank, peer, how, neighbour, size_bytes, how, after[place])
        return arrived

    def _neighbour(self, place: int, further: int, count: int) -> _Neighbour:
        """Returns the neighbour that is `further` replicas behind the one at `place`, in a group of `count`."""
        if count <= self.groups:
            first = place - place % count
            return self._of_class(place, first + (place % count + further) % count, Peers())
        copies, other = divmod(place + further, self.groups)
        around = count // self.groups
        return self._of_class(place, other, Peers(copies % around, around))

    def _others(self, place: int, count: int) -> list[_Neighbour]:
        """Returns all others of a group. Other copies of one class are a single entry, whose messages go out
        together."""
        if count <= self.groups:
            return [self._neighbour(place, further, count) for further in range(1, count)]
        around = count // self.groups
        near = [self._of_class(place, other, Peers()) for other in range(self.groups) if other != place]
        return near + [self._of_class(place, other, Peers(1, around, around - 1)) for other in range(self.groups)]

    def _of_class(self, place: int, other: int, peers: Peers) -> _Neighbour:
        """Returns the neighbour that is a copy, given by `peers`, of the class at place `other`."""
        on_one_machine = peers.further == 0 and place // self.on_machine == other // self.on_machine
        return _Neighbour(other, peers, on_one_machine)

    def _send(
        self,
        rank: int,
        peer: int,
        queue: object,
        neighbour: _Neighbour,
        size_bytes: int,
        how: Combine,
        after: Sequence[int],
    ) -> int:
        """A message on a queue of the sender's; returns its RECV."""
        if (rank, queue) not in self._queues:
            self._queues[rank, queue] = self.builder.queue(rank)
        send, recv = self.builder.message(
            self._queues[rank, queue],
            peer,
            size_bytes,
            combine=how,
            traffic_class=0,
            latency_s=self.costs.message_s(size_bytes, inside=neighbour.is_inside),
        )
        self.builder.depend(send, *after)
        self.rings.table.note(send, np.array([self.rings.table.number(neighbour.peers)]))
        return recv

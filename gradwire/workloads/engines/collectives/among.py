"""A collective among ranks of a plan: its schedule, and the size, contributors and receivers of each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gradwire.datatypes.plan import Combine
from gradwire.workloads.engines.collectives import in_network
from gradwire.workloads.engines.collectives.allreduces import ring_among
from gradwire.workloads.engines.collectives.choice import Layout, layout_of
from gradwire.workloads.engines.collectives.contract import PER_MEMBER, Collective, part_bytes, promise
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.routes import Routes
from gradwire.workloads.engines.collectives.rules import Rule
from gradwire.workloads.engines.collectives.schedule import Schedule

RING = "ring"
HALVES = {
    None: Collective.ALL_REDUCE,
    Combine.ADD: Collective.REDUCE_SCATTER,
    Combine.COPY: Collective.ALL_GATHER,
}
"""Collectives by the half of a ring allreduce that they are; None: both."""
OF_HALVES = {
    (Combine.ADD, "halving-doubling"): "recursive-halving",
    (Combine.COPY, "halving-doubling"): "recursive-doubling",
}
"""What the halves of an allreduce are called where they have a name of their own."""


@dataclass(frozen=True)
class Among:
    """A collective, whose schedule names ranks. What follows has a value for each part."""

    schedule: Schedule
    size_bytes: tuple[int, ...]
    contributors: tuple[tuple[int, ...], ...]
    receivers: tuple[tuple[int, ...], ...]


@dataclass
class Halves:
    """All-reduces and their halves by one algorithm, in parts as many as members by ring."""

    algorithm: str
    #: Machine of each rank.
    machines: Sequence[int]
    key: str = "strategy.options.algorithm"
    #: Those of the network, where they add.
    switches: Switches | None = None
    _routes: dict[Combine | None, Routes] = field(default_factory=dict)
    _schedules: dict[tuple[int, tuple[int, ...]], Schedule] = field(default_factory=dict)

    def among(self, members: Sequence[int], half: Combine | None, share_bytes: int) -> Among:
        """One of so many bytes for each member. Raises InputFault where the algorithm does not suit the members.

        Schedules that are the same are one object, so that their messages can be made together.
        """
        if self.algorithm == RING:
            return self._ring(tuple(members), half, share_bytes)
        kind, count = HALVES[half], len(members)
        size = share_bytes * (1 if kind in PER_MEMBER else count)
        routes = self._routes.setdefault(half, self._routes_of(half))
        layout: Layout = layout_of(members, self.machines, self.switches)
        own = routes.schedule(kind, layout, 0, size, 1)
        named = self._schedules.setdefault(
            (id(own), tuple(members)), in_network.named(own, members, len(self.machines))
        )
        promised = promise(kind, count)
        blocks = [part % promised.blocks for part in range(own.parts)]
        sets = [
            tuple(tuple(members[place] for place in of_blocks[block]) for block in blocks)
            for of_blocks in (promised.contributors, promised.receivers)
        ]
        return Among(named, tuple(part_bytes(kind, count, own.parts, size).tolist()), *sets)

    def notes(self) -> list[str]:
        """What was taken."""
        return [note for half in HALVES if half in self._routes for note in self._routes[half].notes()]

    def _routes_of(self, half: Combine | None) -> Routes:
        name = OF_HALVES.get((half, self.algorithm), self.algorithm) if half is not None else self.algorithm
        return Routes({HALVES[half]: Rule((), name)}, key=self.key)

    def _ring(self, members: tuple[int, ...], half: Combine | None, share_bytes: int) -> Among:
        """A ring's reduce-scatter leaves member i with part i + 1, from which its allgather starts."""
        if (-1, members) not in self._schedules:
            self._schedules[-1, members] = ring_among(members, len(self.machines))
        whole = self._schedules[-1, members]
        key = (-2 if half is Combine.ADD else -3, members)
        if half is not None:
            whole = self._schedules.setdefault(key, whole.only(half))
        owners = tuple((members[part - 1],) for part in range(len(members)))
        everybody = (members,) * len(members)
        return Among(
            whole,
            (share_bytes,) * len(members),
            owners if half is Combine.COPY else everybody,
            owners if half is Combine.ADD else everybody,
        )

"""Networks of well-known shapes, a class each: which keys of a scenario describe it, how many switches and links it has,
and which switches are joined. A further shape is a further class here with its name in GRAPH_SHAPES, and a member of
`Topology`.

Switches are numbered row by row, or group by group.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import ClassVar, Protocol

from gradwire.network.network_graph import Pairs


class GraphShape(Protocol):
    """A shape whose keys have values."""

    #: The keys of `fabric` that describe it, which are the arguments of the class.
    keys: ClassVar[tuple[str, ...]]

    @property
    def title(self) -> str:
        """Description for people: "a torus of 4 x 4 switches"."""

    @property
    def switch_count(self) -> int:
        """Number of switches."""

    @property
    def link_count(self) -> int:
        """Number of links between switches, known without making them."""

    def defect(self) -> str:
        """Returns why there is no such network, with the key; "" if there is."""

    def pairs(self) -> Pairs:
        """Returns the switches at the ends of each link."""


class OfSwitches(ABC):
    """A shape that the number of its switches describes. Subclasses say which are joined."""

    keys: ClassVar[tuple[str, ...]] = ("switches",)
    word: ClassVar[str]

    def __init__(self, switches: int) -> None:
        self.switch_count = switches

    @property
    def title(self) -> str:
        """Description for people: "a ring of 4 switches"."""
        return f"{self.word} of {self.switch_count} switches"

    @property
    @abstractmethod
    def link_count(self) -> int:
        """Number of links between switches."""

    @abstractmethod
    def pairs(self) -> Pairs:
        """Returns the switches at the ends of each link."""

    def defect(self) -> str:
        """Returns "": any number will do."""
        return ""


class Linear(OfSwitches):
    """Each switch is joined to the next."""

    word = "a line"

    @property
    def link_count(self) -> int:
        """Number of links between switches."""
        return self.switch_count - 1

    def pairs(self) -> Pairs:
        """Returns the switches at the ends of each link."""
        return [(switch, switch + 1) for switch in range(self.switch_count - 1)]


class Ring(OfSwitches):
    """Each switch is joined to the next, and the last to the first."""

    word = "a ring"

    @property
    def link_count(self) -> int:
        """Number of links between switches."""
        return self.switch_count

    def pairs(self) -> Pairs:
        """Returns the switches at the ends of each link."""
        return [*Linear(self.switch_count).pairs(), (self.switch_count - 1, 0)]


class FullMesh(OfSwitches):
    """Each switch is joined to every other."""

    word = "a full mesh"

    @property
    def link_count(self) -> int:
        """Number of links between switches."""
        return math.comb(self.switch_count, 2)

    def pairs(self) -> Pairs:
        """Returns the switches at the ends of each link."""
        return list(combinations(range(self.switch_count), 2))


class Hypercube(OfSwitches):
    """Switches whose numbers differ in one binary digit are joined (Saad and Schultz, Topological Properties of
    Hypercubes, IEEE Transactions on Computers 37, 1988)."""

    word = "a hypercube"

    @property
    def _dimensions(self) -> int:
        return self.switch_count.bit_length() - 1

    @property
    def link_count(self) -> int:
        """Number of links between switches."""
        return self.switch_count * self._dimensions // 2

    def defect(self) -> str:
        """Returns why the number of switches does not do; "" if it does."""
        if self.switch_count.bit_count() == 1:
            return ""
        below = 1 << self._dimensions
        return f"fabric.switches = {self.switch_count}: a hypercube has a power of 2, such as {below} or {2 * below}"

    def pairs(self) -> Pairs:
        """Returns the switches at the ends of each link."""
        digits = [1 << digit for digit in range(self._dimensions)]
        return [(each, each | digit) for each in range(self.switch_count) for digit in digits if not each & digit]


class Torus:
    """A grid of any number of dimensions whose edges are joined. Along a dimension of 2 there is one link, for its ends
    are neighbours."""

    keys: ClassVar[tuple[str, ...]] = ("dimensions",)

    def __init__(self, dimensions: Sequence[int]) -> None:
        self._dimensions = tuple(dimensions)
        self.switch_count = math.prod(self._dimensions)

    @property
    def title(self) -> str:
        """Description for people: "a torus of 4 x 4 switches"."""
        return f"a torus of {' x '.join(map(str, self._dimensions))} switches"

    @property
    def link_count(self) -> int:
        """Number of links between switches."""
        of_switch = sum(1.0 if length > 2 else 0.5 * (length == 2) for length in self._dimensions)
        return round(self.switch_count * of_switch)

    def defect(self) -> str:
        """Returns "": any dimensions will do."""
        return ""

    def pairs(self) -> Pairs:
        """Returns the switches at the ends of each link."""
        return list(self._pairs())

    def _pairs(self) -> Iterator[tuple[int, int]]:
        lengths = self._dimensions
        strides = [math.prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
        for switch in range(self.switch_count):
            for length, stride in zip(lengths, strides, strict=True):
                place = switch // stride % length
                if length > 1 and not (length == 2 and place == 1):
                    yield switch, switch + ((place + 1) % length - place) * stride


class Dragonfly:
    """Groups of routers that are all joined to one another, and so many links between any two groups.

    As in Kim, Dally, Scott and Abts (Technology-driven, highly-scalable dragonfly topology, ISCA 2008), where every
    router has as many links to other groups: those of a group go to its routers in turn.
    """

    keys: ClassVar[tuple[str, ...]] = ("groups", "routers", "global_links")

    def __init__(self, groups: int, routers: int, global_links: int) -> None:
        self._groups, self._routers, self._global_links = groups, routers, global_links
        self.switch_count = groups * routers

    @property
    def title(self) -> str:
        """Description for people: "a dragonfly of 4 groups of 3 switches"."""
        return f"a dragonfly of {self._groups} groups of {self._routers} switches"

    @property
    def link_count(self) -> int:
        """Number of links between switches."""
        return self._groups * math.comb(self._routers, 2) + math.comb(self._groups, 2) * self._global_links

    def defect(self) -> str:
        """Returns "": any numbers will do."""
        return ""

    def pairs(self) -> Pairs:
        """Returns the switches at the ends of each link."""
        groups, routers = self._groups, self._routers
        mesh = FullMesh(routers).pairs()
        inside = [(group * routers + a, group * routers + b) for group in range(groups) for a, b in mesh]
        used, between = [0] * groups, []
        for near, far in combinations(range(groups), 2):
            for _ in range(self._global_links):
                ends = []
                for group in (near, far):
                    ends.append(group * routers + used[group] % routers)
                    used[group] += 1
                between.append((ends[0], ends[1]))
        return inside + between


GraphShapeClass = type[OfSwitches] | type[Torus] | type[Dragonfly]
GRAPH_SHAPES: Mapping[str, GraphShapeClass] = {
    "ring": Ring,
    "linear": Linear,
    "full-mesh": FullMesh,
    "hypercube": Hypercube,
    "torus": Torus,
    "dragonfly": Dragonfly,
}
"""The shapes that a few numbers describe, by their names in a scenario."""

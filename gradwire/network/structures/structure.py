"""What a structure says of itself: how many switches there are, who is joined to whom, and where hosts are. Whoever has
to know it asks the shape, or its structure (`fabric.topology.structure`) one of these questions; each structure answers
in a file of its own.

A further structure is a further class, and a member of `Topology` (network/topology.py). A network of switches that are
in no tiers needs less: network/graph_shapes.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from gradwire.network.links import Link, Port
from gradwire.network.shape_numbers import ShapeNumbers
from gradwire.network.tiers import Tiers


class Structure(ABC):
    """How the switches of a network are joined. Subclasses here have them in tiers, unless they say otherwise."""

    #: Its name in scenarios, as the value of `fabric.topology`.
    name: str
    #: Keys of `fabric` that describe it and are not for every structure.
    keys: Sequence[str]
    #: Those of them that have to be given.
    wanted_keys: Sequence[str] = ()

    #: Whether switches are in tiers, so that what leaves a part goes up, over any of its uplinks, and down again.
    is_tiered: ClassVar[bool] = True
    #: Whether there may be several switches.
    has_several_switches: ClassVar[bool] = True
    #: Whether strategies that add up on switches know its switches.
    can_aggregate: ClassVar[bool] = False
    #: Whether a part of a job can have a smaller network of the same structure.
    has_parts: ClassVar[bool] = False

    @abstractmethod
    def defects(self, numbers: ShapeNumbers) -> Iterator[str]:
        """Yields the reasons why there is no such network, a line each."""

    @abstractmethod
    def tree(self, numbers: ShapeNumbers) -> Tiers:
        """The switches in tiers and the links between them, without settings of links; a single switch has none, and
        neither has a graph."""

    @abstractmethod
    def summits(self, numbers: ShapeNumbers) -> int:
        """Ways between two leaves that are as far apart as leaves can be; 1 for a graph, and 0 for a single switch."""

    @abstractmethod
    def words(self, numbers: ShapeNumbers) -> str:
        """Describes what hosts are on: "on one switch"."""

    @abstractmethod
    def short_words(self, oversubscription: float, core_oversubscription: float) -> str:
        """Describes it in titles, behind a comma; "" for a single switch."""

    def hosts_per_leaf(self, numbers: ShapeNumbers) -> int:
        """Hosts on each leaf (all of them on a single switch)."""
        return numbers.hosts

    def uplink_rate_bps(self, _numbers: ShapeNumbers) -> float:
        """Line rate of each link between a leaf and a spine; 0 without spines."""
        return 0.0

    def core_rate_bps(self, _numbers: ShapeNumbers) -> float:
        """Line rate of each link between a spine and a core; 0 without cores."""
        return 0.0

    def several_summits(self, _numbers: ShapeNumbers) -> list[str]:
        """The keys that would have to be 1 so that there is only one way between any two hosts."""
        return []

    def switch_count(self, numbers: ShapeNumbers) -> int:
        """Number of switches."""
        return self.tree(numbers).switches

    def leaf_count(self, numbers: ShapeNumbers) -> int:
        """Number of switches that hosts can be on, which are the first."""
        return self.tree(numbers).leaf_count

    def place_of(self, numbers: ShapeNumbers, host: int) -> tuple[int, int]:
        """Index of the leaf, or of the graph's switch, that a host is on, and the number of the port there."""
        leaf, place = divmod(host, self.hosts_per_leaf(numbers))
        return leaf, place + 1

    def hosts_of_leaves(self, numbers: ShapeNumbers) -> tuple[tuple[int, ...], ...]:
        """Host indices on each leaf, or on each switch of a graph, in the order of its ports."""
        leaves: list[list[int]] = [[] for _ in range(self.leaf_count(numbers))]
        for host in range(numbers.hosts):
            leaves[self.place_of(numbers, host)[0]].append(host)
        return tuple(tuple(hosts) for hosts in leaves)

    def links(self, numbers: ShapeNumbers, hosts: Sequence[str], switches: Sequence[str]) -> tuple[Link, ...]:
        """The links of hosts, then those between switches, without settings that name them."""
        down = []
        for host, name in enumerate(hosts):
            leaf, port = self.place_of(numbers, host)
            down.append(Link(Port(name, 0), Port(switches[leaf], port), numbers.rate_bps, numbers.delay_s))
        trunks = [
            Link(
                Port(switches[t.lower], t.lower_port),
                Port(switches[t.upper], t.upper_port),
                t.rate_bps,
                numbers.delay_s,
            )
            for t in self.tree(numbers).trunks
        ]
        return (*down, *trunks)

    def aliases(
        self, numbers: ShapeNumbers, _hosts: Sequence[str], switches: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """The names by which users know devices, such as "leaf1", by those in the fabric."""
        tree = self.tree(numbers)
        tiers = (("leaf", tree.leaf_count), ("spine", tree.spine_count), ("core", tree.cores))
        words = [f"{word}{number + 1}" for word, count in tiers for number in range(count)]
        return {name: (name, word) for name, word in zip(switches, words, strict=True)}

    def most_trunks(self, numbers: ShapeNumbers) -> int:
        """Links between switches on the longest of the shortest ways between hosts."""
        return 2 * len(self.tree(numbers).tiers)


def nic_defects(numbers: ShapeNumbers) -> Iterator[str]:
    """Yields the defect of hosts that are not whole machines."""
    if numbers.hosts % numbers.nics_per_host:
        yield f"cluster.nics_per_host = {numbers.nics_per_host}: must divide the {numbers.hosts} NICs of the network"

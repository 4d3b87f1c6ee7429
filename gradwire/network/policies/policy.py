"""What a way of routing says of itself. Whoever has to know how packets find their ways asks the fabric's policy
(`fabric.routing.policy`) one of these questions; each policy answers in a file of its own.

A further policy is a further class, and a member of `Routing` (network/routing.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from gradwire.faults import InternalFault
from gradwire.network.balanced_routes import BalancedRoutes
from gradwire.network.hashed_routes import HashedRoutes
from gradwire.network.line_routes import GraphRoutes, Routes, SummitOf, TieredRoutes
from gradwire.network.routed_network import RoutedNetwork
from gradwire.network.sprayed_ways import SprayedRoutes
from gradwire.network.tiers import Tiers

NextHops = Tiers | BalancedRoutes | HashedRoutes | SprayedRoutes
"""What says where switches send packets, and so which kind of rules they need: tiers, in which each pair of hosts has
a summit; ways through a graph, of which each pair has one; ports over which a switch hashes connections; or ways whose
numbers bursts carry."""


class RoutingPolicy(ABC):
    """How switches, and hosts, choose among the ways through a network. A subclass overrides what is different."""

    #: Its name in scenarios, as the value of `fabric.routing`.
    name: ClassVar[str]
    #: Keys of `fabric` that are for some policies alone, each with what it needs; "" for one that may be left out.
    keys: ClassVar[Mapping[str, str]] = {}

    #: Whether switches hash connections, so that two between the same hosts may take different ways.
    hashes_connections: ClassVar[bool] = False
    #: Whether bursts of one connection may take different ways; its host writes the way into each.
    writes_ways: ClassVar[bool] = False
    #: Whether the bursts of one message take all ways in turn, so that hosts must take packets in any order.
    splits_messages: ClassVar[bool] = False
    #: Whether agents choose a way for each flowlet, mark its packets with it, and report what they chose.
    chooses_for_flowlets: ClassVar[bool] = False
    #: Whether all ways are shortest ones, so that in tiers packets go up and down again.
    takes_shortest_ways: ClassVar[bool] = True
    #: Whether `routes` and `shares` say before a run what loads each line in it.
    foresees_loads: ClassVar[bool] = True
    #: Whether hosts of a part of a job, in a smaller network, have ways like those in the whole one.
    works_in_part: ClassVar[bool] = False

    #: Why ranks of a class are not served alike; "" if they may be.
    unlike_ways: ClassVar[str] = ""
    #: What estimates take for granted, as a sentence for whoever reads them; "" if nothing.
    estimate_note: ClassVar[str] = ""
    #: How ways on the ideal network differ from those of a run; "" if they do not.
    unlike_ideal: ClassVar[str] = ""

    def defects(self, _network: RoutedNetwork, *, drops: bool) -> Iterator[str]:  # noqa: ARG002 (for subclasses)
        """Yields the reasons why a network cannot be routed so, a line each. drops: whether any queue drops or marks
        packets, or links lose them."""
        yield from ()

    @abstractmethod
    def next_hops(self, network: RoutedNetwork) -> NextHops:
        """Returns what the rules of switches are made from."""

    def routes(self, network: RoutedNetwork, summit_of: SummitOf | None) -> Routes:
        """The ways through a network. summit_of: chooses where switches are in tiers and pairs of hosts have a summit
        each."""
        return trees_of(network, summit_of)

    def shares(
        self, _network: RoutedNetwork, _source: int, _target: int, _connection: Callable[[], int]
    ) -> list[tuple[int, float]] | None:
        """The lines that a message from one host to another is expected to pass, in order, each with the share of the
        message that passes it; None if the message takes the way that `routes` says. connection: returns the number of
        its connection."""
        return None

    def flowlet_ways(self, _network: RoutedNetwork, _connection: int, _flowlet: int) -> Sequence[int]:
        """The numbers of the ways that a flowlet may take, the preferred ones first. connection, flowlet: the number of
        its connection, and its own there, from 0. Raises InternalFault where nobody chooses for flowlets."""
        raise InternalFault(f"fabric.routing = '{self.name}': nobody chooses for flowlets")

    def plan_says_lines(self, network: RoutedNetwork) -> bool:
        """Returns whether a plan alone tells which lines between switches each message passes, whole."""
        return not network.is_tiered

    def most_trunks(self, network: RoutedNetwork) -> int:
        """Links between switches that a packet passes at most."""
        return network.topology.structure.most_trunks(network)


def trees_of(network: RoutedNetwork, summit_of: SummitOf | None) -> Routes:
    """The balanced ways through a network, of which multicasts take a tree whatever the policy is."""
    return TieredRoutes(network, summit_of) if network.is_tiered else GraphRoutes(network)

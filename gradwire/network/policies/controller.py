"""`fabric.routing = "controller"`: as the flows say that a user's controller installs, which are read back before the
first byte (network/read_ways.py)."""

from __future__ import annotations

from typing import ClassVar

from gradwire.network.line_routes import ReadRoutes, Routes, SummitOf
from gradwire.network.policies.balanced import Balanced
from gradwire.network.policies.policy import trees_of
from gradwire.network.routed_network import RoutedNetwork


class OwnController(Balanced):
    """A user's controller says all ways. Before a run nobody knows them, and they are taken to be balanced."""

    name = "controller"
    keys: ClassVar = {"controller": "a file such as my_app.py"}
    takes_shortest_ways = False
    works_in_part = False
    unlike_ways = "a user's controller chooses ways (fabric.controller)"

    def routes(self, network: RoutedNetwork, summit_of: SummitOf | None) -> Routes:
        """The ways that were read back, or balanced ones before."""
        trees = trees_of(network, summit_of)
        return ReadRoutes(network, trees) if network.ways else trees

    def plan_says_lines(self, _network: RoutedNetwork) -> bool:
        """Returns True: each pair of hosts has one way."""
        return True

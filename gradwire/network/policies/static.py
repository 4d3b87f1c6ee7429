"""`fabric.routing = "static"`: by a table, and by a hash of connections where a row has several next hops
(network/static_routes.py)."""

from __future__ import annotations

from typing import ClassVar

from gradwire.network.hashed_routes import HashedRoutes
from gradwire.network.policies.ecmp import EqualCostMultipath
from gradwire.network.routed_network import RoutedNetwork
from gradwire.network.static_routes import StaticRoutes, longest_way


class Static(EqualCostMultipath):
    """Every switch hashes connections over the ports that the user's table names."""

    name = "static"
    keys: ClassVar = {"routes": "a table of routes"}
    takes_shortest_ways = False
    works_in_part = False
    unlike_ways = ""

    def next_hops(self, network: RoutedNetwork) -> HashedRoutes:
        """Returns the ports that the table names. Raises InputFault for one that matches too much."""
        return StaticRoutes(network)

    def most_trunks(self, network: RoutedNetwork) -> int:
        """Links between switches that a packet passes at most, by the table."""
        return longest_way(network)

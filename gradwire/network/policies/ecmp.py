"""`fabric.routing = "ecmp"`: by a hash of each connection's five-tuple (network/hashed_routes.py)."""

from __future__ import annotations

from gradwire.network.hashed_routes import HashedRoutes
from gradwire.network.line_routes import EqualCostRoutes, Routes, SummitOf
from gradwire.network.policies.policy import RoutingPolicy, trees_of
from gradwire.network.routed_network import RoutedNetwork


class EqualCostMultipath(RoutingPolicy):
    """Every switch hashes connections over the ports that begin a shortest way."""

    name = "ecmp"
    hashes_connections = True
    works_in_part = True
    unlike_ways = "switches choose ways by hashes of connections (fabric.routing = 'ecmp')"

    def next_hops(self, network: RoutedNetwork) -> HashedRoutes:
        """Returns the ports over which each switch hashes."""
        return HashedRoutes(network)

    def routes(self, network: RoutedNetwork, summit_of: SummitOf | None) -> Routes:
        """The ways of connections, and trees for multicasts."""
        return EqualCostRoutes(network, self.next_hops(network), trees_of(network, summit_of))

    def plan_says_lines(self, _network: RoutedNetwork) -> bool:
        """Returns True: a plan tells the five-tuples of its connections."""
        return True

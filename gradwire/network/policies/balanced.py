"""`fabric.routing = "balanced"`: evenly, pair by pair of hosts, up to a summit where switches are in tiers
(controller/switch_flows.py: SummitChoice), and else as network/balanced_routes.py says."""

from __future__ import annotations

from gradwire.network.balanced_routes import BalancedRoutes
from gradwire.network.policies.policy import NextHops, RoutingPolicy
from gradwire.network.routed_network import RoutedNetwork


class Balanced(RoutingPolicy):
    """Each pair of hosts has one way, chosen so that pairs are spread evenly."""

    name = "balanced"
    works_in_part = True

    def next_hops(self, network: RoutedNetwork) -> NextHops:
        """Returns the tiers, or the ways through the graph."""
        return network.tree if network.graph is None else BalancedRoutes.of(network.graph, network.seed)

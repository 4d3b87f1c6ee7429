"""`fabric.routing = "spray"`: burst by burst over all shortest ways in turn (network/sprayed_ways.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradwire.network.policies.policy import RoutingPolicy
from gradwire.network.routed_network import RoutedNetwork
from gradwire.network.sprayed_ways import MOST_SPRAYED_WAYS, SprayedRoutes


class Spray(RoutingPolicy):
    """The sender's host writes the way into each burst, and switches go by it."""

    name = "spray"
    writes_ways = True
    splits_messages = True
    unlike_ways = "bursts take all ways in turn (fabric.routing = 'spray')"

    def defects(self, network: RoutedNetwork, *, drops: bool) -> Iterator[str]:
        """Yields the reasons why bursts cannot take several ways of a network."""
        key, summits = f"fabric.routing = '{self.name}'", network.summits
        if not summits:
            yield f"{key}: needs several switches: any other fabric.topology than 'single'"
        elif summits > MOST_SPRAYED_WAYS:
            yield f"{key}: there are {summits} ways between two leaves (spines, or cores); must be at most {MOST_SPRAYED_WAYS}"
        if network.aggregators:
            yield (
                f"{key}: strategies that add up on switches need one way to each of them; use 'balanced' or 'ecmp', or another strategy"
            )
        if drops:
            yield (
                f"{key}: leave out fabric.loss, buffer and ecn, and those of links: hosts take what comes in any order, and would wait "
                "for what is lost until a timer expires; use 'balanced' or 'ecmp' with them"
            )

    def next_hops(self, network: RoutedNetwork) -> SprayedRoutes:
        """Returns the ways by the numbers that bursts carry."""
        return SprayedRoutes.of(network)

    def shares(
        self, network: RoutedNetwork, source: int, target: int, _connection: Callable[[], int]
    ) -> list[tuple[int, float]]:
        """The lines of all ways between two hosts, each with the share of the ways that pass it."""
        return SprayedRoutes.of(network).shares(source, target)

    def plan_says_lines(self, _network: RoutedNetwork) -> bool:
        """Returns False: no line has a whole message."""
        return False

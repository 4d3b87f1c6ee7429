"""`fabric.routing = "flowlet"`: flowlet by flowlet, by a seeded choice of the sender's host (network/flowlets.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from gradwire.network.flowlets import flowlet_way
from gradwire.network.policies.spray import Spray
from gradwire.network.routed_network import RoutedNetwork
from gradwire.network.sprayed_ways import SprayedRoutes, ways_of


class Flowlet(Spray):
    """A connection that had nothing to send for a while takes another way by chance. Ways are those of spraying."""

    name = "flowlet"
    keys: ClassVar = {"flowlet_gap": ""}
    splits_messages = False
    chooses_for_flowlets = True
    foresees_loads = False
    unlike_ways = "flowlets choose their ways one by one (fabric.routing = 'flowlet')"
    estimate_note = (
        "gaps are known once a point has run: in estimates with fabric.routing = 'flowlet', each connection stays "
        "with the way of its first flowlet"
    )
    unlike_ideal = "the ideal network keeps each connection on its first flowlet's way (fabric.routing = 'flowlet')"

    def shares(
        self, network: RoutedNetwork, source: int, target: int, connection: Callable[[], int]
    ) -> list[tuple[int, float]]:
        """The lines of the way of the connection's first flowlet: nobody knows the gaps before a run."""
        (way,) = self.flowlet_ways(network, connection(), 0)
        return [(line, 1.0) for line in SprayedRoutes.of(network).path(source, target, way)]

    def flowlet_ways(self, network: RoutedNetwork, connection: int, flowlet: int) -> Sequence[int]:
        """Returns the one way that chance chooses."""
        return (flowlet_way(network.seed, connection, flowlet, ways_of(network)),)

"""`fabric.routing = "adaptive"`: flowlet by flowlet, by the queues of the sender's leaf (agents/uplink_queues.py).

So do switches with dynamic load balancing: the leaf looks at the queues of its uplinks when a flowlet begins. Nobody
tells it of queues further on, unlike in CONGA (Alizadeh et al., SIGCOMM 2014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradwire.network.balanced_routes import stable_hash
from gradwire.network.policies.flowlet import Flowlet
from gradwire.network.policies.spray import Spray
from gradwire.network.routed_network import RoutedNetwork
from gradwire.network.sprayed_ways import ways_of


class Adaptive(Flowlet):
    """A connection that had nothing to send for a while takes the way on whose first line the fewest bytes wait. Ways
    are those of spraying."""

    name = "adaptive"
    unlike_ways = "flowlets go by the queues of a run (fabric.routing = 'adaptive')"
    estimate_note = (
        "queues are known once a point has run: in estimates with fabric.routing = 'adaptive', each message is spread "
        "evenly over all ways"
    )
    unlike_ideal = "the ideal network spreads each message evenly over all ways (fabric.routing = 'adaptive')"

    def shares(
        self, network: RoutedNetwork, source: int, target: int, connection: Callable[[], int]
    ) -> list[tuple[int, float]]:
        """The lines of all ways, each with the share of the ways that pass it: whoever avoids queues loads them
        evenly."""
        return Spray.shares(self, network, source, target, connection)

    def flowlet_ways(self, network: RoutedNetwork, connection: int, flowlet: int) -> Sequence[int]:
        """Returns all ways, in an order that the seed decides."""
        keys = {way: stable_hash(network.seed, "adaptive", connection, flowlet, way) for way in range(ways_of(network))}
        return sorted(keys, key=lambda way: keys[way])

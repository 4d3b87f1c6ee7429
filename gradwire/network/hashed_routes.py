"""Ways that switches choose by a hash of the five-tuple of each connection (ECMP). Pure; imports only frozen data.

At every switch, the ports that begin a way with the fewest links towards the destination's switch are equal. A packet
leaves by the one that the switch's hash chooses (network/switch_hash.py), whose parameter follows from the seed and
the switch, as real switches differ in theirs. So nothing is balanced: which connections meet is luck, and the two
directions of a connection may take different ways. All packets of a connection take the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradwire.faults import InputFault, InternalFault
from gradwire.network.balanced_routes import stable_hash
from gradwire.network.routed_network import RoutedNetwork
from gradwire.network.switch_hash import FlowPorts, chosen_bucket


@dataclass(frozen=True)
class Exit:
    """A way out of a switch over a link between switches."""

    #: Number of the switch's port.
    port: int
    #: The switch at the other end.
    far: int
    #: Number of the link in `Fabric.trunk_links`.
    trunk: int
    #: Whether packets pass the link from its end `a` to its end `b`.
    is_up: bool


class HashedRoutes:
    """The equal ways through a fabric, and the choice among them."""

    def __init__(self, fabric: RoutedNetwork) -> None:
        self.fabric = fabric
        self._ips = [fabric.host_ip(endpoint) for endpoint in range(fabric.endpoints)]
        self._exits: list[list[Exit]] = [[] for _ in fabric.switch_names()]
        for trunk, (a, port_a, b, port_b) in enumerate(_trunk_ends(fabric)):
            self._exits[a].append(Exit(port_a, b, trunk, True))
            self._exits[b].append(Exit(port_b, a, trunk, False))
        self._parameters = [parameter_of(fabric.seed, switch) for switch in range(len(self._exits))]
        self._distances: dict[int, list[int]] = {}
        self._towards: dict[tuple[int, int], tuple[Exit, ...]] = {}

    def exits(self, switch: int, target: int) -> tuple[Exit, ...]:
        """The equal ways out of a switch towards another one, by number of the port; none at the switch itself."""
        if (switch, target) not in self._towards:
            distances = self._distances_to(target)
            nearer = [each for each in self._exits[switch] if distances[each.far] == distances[switch] - 1]
            self._towards[switch, target] = tuple(sorted(nearer, key=lambda each: each.port))
        return self._towards[switch, target]

    def exits_to(self, switch: int, endpoint: int) -> tuple[Exit, ...]:
        """Returns the equal ways out of a switch towards an endpoint, by number of the port; none at the endpoint's own
        switch."""
        return self.exits(switch, self.fabric.switch_of(endpoint))

    def steps(self, source: int, target: int, ports: FlowPorts | None) -> Iterator[tuple[int, bool]]:
        """The links between switches that the packets of a connection pass, and whether from `a` to `b`.

        Raises InternalFault where a switch chooses and the connection's ports are not known, and InputFault for a
        table of routes by which packets do not arrive.
        """
        here, far, passed = self.fabric.switch_of(source), self.fabric.switch_of(target), 0
        while here != far:
            exits = self.exits_to(here, target)
            passed += 1
            if not exits or passed > len(self._exits):
                raise InputFault(f"fabric.routes: packets from endpoint {source} to {target} do not arrive")
            chosen = exits[0]
            if len(exits) > 1:
                if ports is None:
                    raise InternalFault(
                        f"switches hash connections from {source} to {target}, and the ports of one are not known; report this with the "
                        "scenario"
                    )
                ips = self._ips[source], self._ips[target]
                chosen = exits[chosen_bucket(self._parameters[here], *ips, ports, len(exits))]
            yield chosen.trunk, chosen.is_up
            here = chosen.far

    def all_steps(self, source: int, target: int) -> set[tuple[int, bool]]:
        """Returns the links between switches that any connection from one endpoint to another may pass, and whether
        from `a` to `b`."""
        waiting, seen, steps = [self.fabric.switch_of(source)], set[int](), set[tuple[int, bool]]()
        while waiting:
            here = waiting.pop()
            if here not in seen:
                seen.add(here)
                steps |= {(each.trunk, each.is_up) for each in self.exits_to(here, target)}
                waiting += [each.far for each in self.exits_to(here, target)]
        return steps

    def _distances_to(self, target: int) -> list[int]:
        """Links between each switch and this one on the shortest way; -1 where none leads there."""
        if target not in self._distances:
            distances = [-1] * len(self._exits)
            distances[target], reached = 0, [target]
            for here in reached:
                for each in self._exits[here]:
                    if distances[each.far] < 0:
                        distances[each.far] = distances[here] + 1
                        reached.append(each.far)
            self._distances[target] = distances
        return self._distances[target]


def parameter_of(seed: int, switch: int) -> int:
    """Parameter of the hash of a switch, by its index: 64 bits."""
    return stable_hash(seed, "hash", switch)


def _trunk_ends(fabric: RoutedNetwork) -> Iterator[tuple[int, int, int, int]]:
    """Yields the two ends of each link between switches: the switch and the port's number at `a`, then those at `b`."""
    index = {name: number for number, name in enumerate(fabric.switch_names())}
    for link in fabric.trunk_links():
        yield index[link.a.device], link.a.number, index[link.b.device], link.b.number

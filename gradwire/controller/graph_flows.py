"""The OpenFlow rules of switches that are in no tiers: those of the ways of network/balanced_routes.py. Pure.

Where all ways that pass a switch towards another one leave it by the same port, rules by destination are enough.
Otherwise the port depends on both ends of a pair of hosts, and the decision has three steps, for a rule for each pair
would be too many. The first table has a rule for each source, which sets the band and writes the source's switch, and
its place there, as metadata. The second has one for each place and destination, and writes the destination's switch
and which of the ways between both switches the pair takes. The third has one for each way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gradwire.controller.rules import (
    PAIR_PRIORITY,
    PAIR_TABLE,
    SOURCE_PRIORITY,
    WAY_TABLE,
    FlowRule,
    Match,
    band_of_dscp,
    priority_for,
    rules_to,
)
from gradwire.network.balanced_routes import BalancedRoutes, Step
from gradwire.network.fabric import Fabric, MulticastGroup

PLACE_MASK, SOURCE_MASK, WAY_MASK, TARGET_MASK = 0xFF, 0xFFFF00, 0xFF000000, 0xFFFF00000000
"""Bits of the metadata that hold the place of the source, its switch, the number of the way, and the switch of the
destination."""
SOURCE_SHIFT, WAY_SHIFT, TARGET_SHIFT = 8, 24, 32

Ports = dict[tuple[int, int], list[int]]
"""By the switches at both ends of a pair: the port by which each of the ways between them leaves a switch, in their
order; 0 for a way that does not pass it."""


@dataclass
class _Passing:
    """The pairs of hosts' switches whose ways pass a switch, with the ports that these ways take there."""

    ports: Ports = field(default_factory=dict)

    def by_target(self) -> dict[int, set[int]]:
        """The ports towards each destination's switch."""
        found: dict[int, set[int]] = {}
        for (_, target), ports in self.ports.items():
            found.setdefault(target, set()).update(port for port in ports if port)
        return found


def graph_flows(fabric: Fabric, routes: BalancedRoutes) -> list[list[FlowRule]]:
    """Unicast rules of every switch."""
    passing = _passing(routes)
    return [_flows_of(fabric, routes, switch, passing[switch]) for switch in range(routes.graph.switches)]


def graph_tree(fabric: Fabric, group: MulticastGroup) -> dict[int, list[int]]:
    """Output ports of one packet to a group, by index of the switch."""
    assert fabric.graph is not None
    routes = BalancedRoutes.of(fabric.graph, fabric.seed)
    ports: dict[int, list[int]] = {}
    for member in group.members:
        ports.setdefault(fabric.leaf_of(member), []).append(fabric.leaf_port(member))
    for switch, port in _exits(routes, routes.tree(group.source, group.members)):
        ports.setdefault(switch, []).append(port)
    return ports


def _exits(routes: BalancedRoutes, steps: Iterable[Step]) -> Iterator[tuple[int, int]]:
    """The switch that each step leaves, and the number of the port."""
    for number, is_up in steps:
        trunk, (port_a, port_b) = routes.graph.trunks[number], routes.graph.trunk_ports[number]
        yield (trunk.a, port_a) if is_up else (trunk.b, port_b)


def _passing(routes: BalancedRoutes) -> list[_Passing]:
    passing = [_Passing() for _ in range(routes.graph.switches)]
    for ends in routes.ways:
        for near, far in (ends, ends[::-1]):
            ways = routes.ways_between(near, far)
            for number, way in enumerate(ways):
                for switch, port in _exits(routes, way):
                    passing[switch].ports.setdefault((near, far), [0] * len(ways))[number] = port
    return passing


def _flows_of(fabric: Fabric, routes: BalancedRoutes, switch: int, passing: _Passing) -> list[FlowRule]:
    hosts_of, by_target = routes.graph.hosts_of_switches, passing.by_target()
    plain = {target: min(ports) for target, ports in by_target.items() if len(ports) == 1}
    outputs = {host: fabric.leaf_port(host) for host in hosts_of[switch]}
    outputs |= {host: port for target, port in plain.items() for host in hosts_of[target]}
    by_destination = [rule for host, port in sorted(outputs.items()) for rule in rules_to(fabric, host, port)]
    divided = {ends: ports for ends, ports in passing.ports.items() if ends[1] not in plain}
    if not divided:
        return by_destination
    targets, sources = (sorted({ends[side] for ends in divided}) for side in (1, 0))
    # Later tables come first: a packet that one sends on finds its rule there.
    return [
        *_by_way(divided),
        *(rule for target in targets for rule in _by_pair(fabric, routes, sources, target)),
        *(rule for source in sources for rule in _by_source(fabric, routes, source)),
        *by_destination,
    ]


def _by_way(divided: Ports) -> Iterator[FlowRule]:
    """The third table: a rule for each way, or one for all ways of a pair of switches where they leave by the same
    port."""
    for (near, far), ports in sorted(divided.items()):
        ends = near << SOURCE_SHIFT | far << TARGET_SHIFT
        if len({port for port in ports if port}) == 1:
            match = Match(None, None, None, ends, SOURCE_MASK | TARGET_MASK)
            yield FlowRule(PAIR_PRIORITY, match, None, max(ports), table=WAY_TABLE)
            continue
        for number, port in enumerate(ports):
            if port:
                match = Match(None, None, None, ends | number << WAY_SHIFT, SOURCE_MASK | TARGET_MASK | WAY_MASK)
                yield FlowRule(PAIR_PRIORITY, match, None, port, table=WAY_TABLE)


def _by_pair(fabric: Fabric, routes: BalancedRoutes, sources: list[int], target: int) -> Iterator[FlowRule]:
    """The second table: which way a source at each place takes to a host of this switch."""
    hosts_of = routes.graph.hosts_of_switches
    places = sorted({routes.places[host] % routes.most_ways for source in sources for host in hosts_of[source]})
    for host in hosts_of[target]:
        for place in places:
            number = (place + routes.places[host]) % routes.most_ways
            yield FlowRule(
                PAIR_PRIORITY,
                Match(None, fabric.host_ip(host), None, place, PLACE_MASK),
                table=PAIR_TABLE,
                turn=target << TARGET_SHIFT | number << WAY_SHIFT,
                turn_mask=TARGET_MASK | WAY_MASK,
                next_table=WAY_TABLE,
            )


def _by_source(fabric: Fabric, routes: BalancedRoutes, source: int) -> Iterator[FlowRule]:
    """The first table: the band of each packet from a host of this switch, and where it comes from."""
    for host in routes.graph.hosts_of_switches[source]:
        for dscp, band in band_of_dscp(fabric).items():
            yield FlowRule(
                priority_for(SOURCE_PRIORITY, dscp),
                Match(fabric.host_ip(host), None, dscp),
                band,
                turn=source << SOURCE_SHIFT | routes.places[host] % routes.most_ways,
                turn_mask=SOURCE_MASK | PLACE_MASK,
            )

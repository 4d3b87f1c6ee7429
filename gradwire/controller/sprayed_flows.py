"""The OpenFlow rules of switches in a network whose bursts say which way they take (network/sprayed_ways.py). Pure.

A switch with one port towards a destination has a rule by destination. Where it has several, the first table has a rule
for each way that a burst's source MAC address may name, which sets the band and writes the way as metadata, and the
second one has the port by way and destination.
"""

from __future__ import annotations

from gradwire.controller.rules import (
    PAIR_PRIORITY,
    PAIR_TABLE,
    SOURCE_PRIORITY,
    FlowRule,
    Match,
    band_of_dscp,
    priority_for,
    rules_to,
)
from gradwire.network.fabric import Fabric
from gradwire.network.sprayed_ways import SprayedRoutes, way_mac


def sprayed_flows(fabric: Fabric, routes: SprayedRoutes) -> list[list[FlowRule]]:
    """Unicast rules of every switch."""
    return [_rules_of(fabric, routes, switch) for switch in range(len(fabric.switch_names()))]


def _rules_of(fabric: Fabric, routes: SprayedRoutes, switch: int) -> list[FlowRule]:
    plain: list[FlowRule] = []
    by_turn: list[FlowRule] = []
    for host in range(fabric.hosts):
        if fabric.switch_of(host) == switch:
            plain += rules_to(fabric, host, fabric.leaf_port(host))
            continue
        exits = routes.exits(switch, host)
        if len(exits) == 1:
            plain += rules_to(fabric, host, exits[0].port)
            continue
        by_turn += [
            FlowRule(
                PAIR_PRIORITY,
                Match(None, fabric.host_ip(host), None, way),
                None,
                routes.exit(switch, host, way).port,
                table=PAIR_TABLE,
            )
            for way in range(routes.ways)
        ]
    if not by_turn:
        return plain
    by_way = [
        FlowRule(priority_for(SOURCE_PRIORITY, dscp), Match(None, None, dscp, source_mac=way_mac(way)), band, turn=way)
        for way in range(routes.ways)
        for dscp, band in band_of_dscp(fabric).items()
    ]
    # The second table comes first: a packet that the first one sends on finds its rule there.
    return [*by_turn, *by_way, *plain]

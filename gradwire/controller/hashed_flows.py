"""The OpenFlow rules of switches that hash connections (ECMP), whose ways are those of network/hashed_routes.py.
Pure.

Each switch has a rule for each destination and band. Where one port leads nearer to the destination, the rule names
it. Where several do, it sends packets to a group of type `select`, whose buckets are these ports and which hashes the
five-tuple of each packet: TCP's and UDP's ports where a packet has them, so that a ping has one way as well.
Destinations with the same ports share a group.
"""

from __future__ import annotations

from gradwire.controller.rules import (
    DESTINATION_PRIORITY,
    FlowRule,
    GroupBucket,
    GroupRule,
    Match,
    band_of_dscp,
    priority_for,
    rules_to,
)
from gradwire.network.fabric import Fabric
from gradwire.network.hashed_routes import HashedRoutes, parameter_of

FIRST_SELECT_GROUP = 2**24
"""Identifiers of these groups begin behind those of multicast groups, of which there are 2**16 with up to 16 bands."""


def hashed_flows(fabric: Fabric, routes: HashedRoutes) -> list[tuple[list[FlowRule], list[GroupRule]]]:
    """Unicast rules of every switch, and its groups that hash."""
    return [_rules_of(fabric, routes, switch) for switch in range(len(fabric.switch_names()))]


def _rules_of(fabric: Fabric, routes: HashedRoutes, switch: int) -> tuple[list[FlowRule], list[GroupRule]]:
    flows: list[FlowRule] = []
    groups: dict[tuple[int, ...], GroupRule] = {}
    for endpoint in range(fabric.endpoints):
        target = fabric.switch_of(endpoint)
        if target == switch:
            is_host = endpoint < fabric.hosts
            flows += rules_to(
                fabric, endpoint, fabric.leaf_port(endpoint) if is_host else fabric.aggregator_port(switch)
            )
            continue
        ports = tuple(each.port for each in routes.exits_to(switch, endpoint))
        if len(ports) == 1:
            flows += rules_to(fabric, endpoint, ports[0])
            continue
        if ports not in groups:
            buckets = tuple(GroupBucket(None, port) for port in ports)
            groups[ports] = GroupRule(
                FIRST_SELECT_GROUP + len(groups), buckets, hash_parameter=parameter_of(fabric.seed, switch)
            )
        flows += [
            FlowRule(
                priority_for(DESTINATION_PRIORITY, dscp),
                Match(None, fabric.host_ip(endpoint), dscp),
                band,
                group_id=groups[ports].group_id,
            )
            for dscp, band in band_of_dscp(fabric).items()
        ]
    return flows, list(groups.values())

"""The OpenFlow rules for what programs send and no rule by a host's IP address is meant for. Pure.

These frames stay on one spanning tree of the switches, so that copies never go in a circle: the ways with the fewest
links from the first switch, over the first link where several are as short. A frame to all or to a group goes out of
every port of the tree that leads to a host, but for the one it came by, which Open vSwitch leaves out of a group's
buckets itself. Anything else is sent to the host that has its MAC address: answers of ARP, addresses that programs give
to hosts, packets that a host is to route, VLANs. What has no host's MAC address is a table miss.

Frames of IP travel in the band that their DSCP stands for, others with control, as at a host's own port. What
bridges keep for themselves ends at the first switch.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradwire.controller.rules import (
    ANY_DSCP,
    FIRST_TABLE,
    FLOOD_PRIORITY,
    MULTICAST_PRIORITY,
    PAIR_TABLE,
    TREE_PRIORITY,
    TREE_TABLE,
    WAY_TABLE,
    FlowRule,
    GroupBucket,
    GroupRule,
    Match,
    band_of_dscp,
    priority_for,
)
from gradwire.network.fabric import CONTROL_BAND, Fabric
from gradwire.network.group_addresses import GROUP_BIT, KEPT_BY_BRIDGES, KEPT_MASK

FIRST_FLOOD_GROUP = 2**25
"""Identifiers of these groups, one for each band, begin behind those of groups that hash."""

Rules = tuple[list[FlowRule], list[GroupRule]]


def tree_rules(fabric: Fabric) -> list[Rules]:
    """The rules and groups of every switch, in the order of Fabric.switch_names()."""
    return [_rules_of(fabric, towards) for towards in tree_ports(fabric)]


def tree_ports(fabric: Fabric) -> list[dict[int, int]]:
    """The number of the port that leads to each host on the tree, by host, for every switch."""
    ports: list[dict[int, int]] = [{} for _ in fabric.switch_names()]
    for host in range(fabric.hosts):
        ports[fabric.switch_of(host)][host] = fabric.leaf_port(host)
    joined = list(_joined(fabric))
    for upper, upper_port, lower, _ in reversed(joined):
        ports[upper] |= dict.fromkeys(ports[lower], upper_port)
    for upper, _, lower, lower_port in joined:
        ports[lower] = dict.fromkeys(ports[upper], lower_port) | ports[lower]
    return ports


def _joined(fabric: Fabric) -> Iterator[tuple[int, int, int, int]]:
    """The tree's links from the first switch outwards: the switch that was reached before, its port, the switch that
    is reached, and its port."""
    number = {name: switch for switch, name in enumerate(fabric.switch_names())}
    links: dict[int, list[tuple[int, int, int]]] = {}
    for link in fabric.shape_links[fabric.hosts :]:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            links.setdefault(number[near.device], []).append((near.number, number[far.device], far.number))
    waiting, reached = [0], {0}
    while waiting:
        here = waiting.pop(0)
        for port, there, far_port in links.get(here, ()):
            if there not in reached:
                reached.add(there)
                waiting.append(there)
                yield here, port, there, far_port


def _rules_of(fabric: Fabric, towards: dict[int, int]) -> Rules:
    ports = sorted({*towards.values()})
    groups = [
        GroupRule(FIRST_FLOOD_GROUP + band, tuple(GroupBucket(band, port) for port in ports))
        for band in range(fabric.bands)
    ]
    kept = Match(None, None, ANY_DSCP, version=None, destination_mac=KEPT_BY_BRIDGES, destination_mac_mask=KEPT_MASK)
    flows = [FlowRule(MULTICAST_PRIORITY, kept)]
    for version, dscp, band in _kinds(fabric):
        to_groups = Match(None, None, dscp, version=version, destination_mac=GROUP_BIT, destination_mac_mask=GROUP_BIT)
        flows.append(FlowRule(priority_for(FLOOD_PRIORITY, dscp), to_groups, group_id=FIRST_FLOOD_GROUP + band))
    # A later table comes first: a frame that an earlier one sends on finds its rule there.
    flows += [
        FlowRule(
            TREE_PRIORITY,
            Match(None, None, ANY_DSCP, version=None, destination_mac=fabric.host_mac(host)),
            output_port=port,
            table=TREE_TABLE,
        )
        for host, port in sorted(towards.items())
    ]
    anything = Match(None, None, ANY_DSCP, version=None)
    flows += [_onward(TREE_PRIORITY, anything, table=table) for table in (WAY_TABLE, PAIR_TABLE)]
    flows += [
        _onward(priority_for(TREE_PRIORITY, dscp), Match(None, None, dscp, version=version), band=band)
        for version, dscp, band in _kinds(fabric)
    ]
    return flows, groups


def _onward(priority: int, match: Match, *, band: int | None = None, table: int = FIRST_TABLE) -> FlowRule:
    """Leaves a frame to the table by MAC address."""
    return FlowRule(priority, match, band, table=table, turn=0, next_table=TREE_TABLE)


def _kinds(fabric: Fabric) -> Iterator[tuple[int | None, int | None, int]]:
    """The version of IP, DSCP and band of all frames: those of IP with a DSCP that stands for a band, then any."""
    for dscp, band in band_of_dscp(fabric).items():
        if dscp is not ANY_DSCP:
            yield 4, dscp, band
            yield 6, dscp, band
    yield None, ANY_DSCP, CONTROL_BAND

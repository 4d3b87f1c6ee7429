"""Frames of programs to all, to groups and to MAC addresses take one tree of the switches, without disturbing what has rules of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from gradwire.controller.rules import FlowRule, Match, SwitchRules
from gradwire.controller.switch_flows import switch_rules, trace_group
from gradwire.controller.tree_flows import tree_ports
from gradwire.network.fabric import CONTROL_BAND, Fabric, MulticastGroup, Routing, Topology, dscp_of_band
from gradwire.network.graph_shapes import Dragonfly, FullMesh, GraphShape, Hypercube, Linear, Ring, Torus
from gradwire.network.network_graph import spread

TO_ALL, TO_GROUP, TO_BRIDGES = "ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03", "01:80:c2:00:00:0e"
OTHER_IP = "10.9.9.9"


def graph(hosts: int, switches: int, shape: GraphShape) -> Fabric:
    return Fabric(
        hosts, 10e9, Topology.CUSTOM, graph=spread(hosts, switches, shape.pairs(), 10e9, "of a test"), ipv6=True
    )


LEAF_SPINE = Fabric(8, 10e9, Topology.LEAF_SPINE, leaves=4, spines=3, ipv6=True)
FABRICS = {
    "single": Fabric(4, 10e9, ipv6=True),
    "leaf-spine": LEAF_SPINE,
    "hashing": replace(LEAF_SPINE, routing=Routing.ECMP),
    "aggregating": replace(LEAF_SPINE, aggregators=True),
    "fat-tree": Fabric(16, 10e9, Topology.FAT_TREE, leaves=2, spines=2, pods=4, cores=4, ipv6=True),
    "rails": Fabric(8, 10e9, Topology.LEAF_SPINE, leaves=4, spines=2, nics_per_host=2, rails=True, ipv6=True),
    "ring": graph(6, 6, Ring(6)),
    "linear": graph(3, 5, Linear(5)),
    "full-mesh": graph(10, 5, FullMesh(5)),
    "hypercube": graph(8, 8, Hypercube(8)),
    "torus": graph(9, 9, Torus((3, 3))),
    "dragonfly": graph(12, 12, Dragonfly(4, 3, 1)),
}


def takes(match: Match, mac: str, version: int | None, dscp: int, turn: int | None) -> bool:
    """Whether a rule takes a frame: of IP with addresses that no host has, or of another kind."""
    if match.source_mac or match.destination_ip or match.source_ip:
        return False
    address, mask, wanted = (
        int(each.replace(":", ""), 16) for each in (mac, match.destination_mac_mask, match.destination_mac or mac)
    )
    fits = match.turn is None or (turn is not None and turn & match.turn_mask == match.turn)
    is_kind = match.version in (None, version) and (match.dscp is None or (version is not None and match.dscp == dscp))
    return fits and is_kind and address & mask == wanted & mask


def outputs(switch: SwitchRules, mac: str, version: int | None, dscp: int) -> list[tuple[int | None, int]]:
    """The band and port of each copy of a frame that a switch makes."""
    table, turn, band = 0, None, None
    while True:
        rules = [
            rule
            for rule in switch.flows
            if rule.table == table and (rule.match is None or takes(rule.match, mac, version, dscp, turn))
        ]
        best = max(rule.priority for rule in rules)
        (rule,) = [rule for rule in rules if rule.priority == best]
        band = band if rule.band is None else rule.band
        if rule.group_id is not None:
            (found,) = [group for group in switch.groups if group.group_id == rule.group_id]
            return [(bucket.band, bucket.output_port) for bucket in found.buckets]
        if rule.turn is None:
            return [] if rule.output_port is None else [(band, rule.output_port)]
        table, turn = rule.next_table, rule.turn


def arrivals(
    fabric: Fabric, source: int, mac: str, version: int | None = None, dscp: int = 0
) -> Counter[tuple[int, int | None]]:
    """How often a frame comes to each host, by the band of its last port, as switches that leave out the port it came by send it.

    Fails if a frame goes in a circle.
    """
    switches = switch_rules(fabric)
    number = {name: index for index, name in enumerate(fabric.switch_names())}
    hosts = {name: host for host, name in enumerate(fabric.host_names())}
    far = {
        (near.device, near.number): end for link in fabric.links() for near, end in ((link.a, link.b), (link.b, link.a))
    }
    waiting = [(fabric.switch_of(source), fabric.leaf_port(source))]
    found: Counter[tuple[int, int | None]] = Counter()
    passed = 0
    while waiting:
        here, came_by = waiting.pop()
        passed += 1
        assert passed <= len(switches), "a copy goes in a circle"
        for band, port in outputs(switches[here], mac, version, dscp):
            if port == came_by:
                continue
            end = far[switches[here].name, port]
            if end.device in number:
                waiting.append((number[end.device], end.number))
            else:
                found[hosts[end.device], band] += 1
    return found


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_a_frame_to_all_comes_to_every_other_host_exactly_once(fabric: Fabric) -> None:
    for source in range(fabric.hosts):
        others = {(host, CONTROL_BAND): 1 for host in range(fabric.hosts) if host != source}
        assert arrivals(fabric, source, TO_ALL) == others
        assert arrivals(fabric, source, TO_GROUP, 4, 7) == others


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_a_frame_to_a_hosts_mac_address_comes_to_it_alone(fabric: Fabric) -> None:
    for source in range(fabric.hosts):
        for destination in range(fabric.hosts):
            if source != destination:
                mac = fabric.host_mac(destination)
                assert arrivals(fabric, source, mac) == {(destination, CONTROL_BAND): 1}


@pytest.mark.parametrize("version", [4, 6])
def test_copies_travel_in_the_band_that_their_dscp_stands_for(version: int) -> None:
    for band in range(LEAF_SPINE.bands):
        dscp = dscp_of_band(band)
        assert {found for _, found in arrivals(LEAF_SPINE, 0, TO_GROUP, version, dscp)} == {band}
        assert arrivals(LEAF_SPINE, 0, LEAF_SPINE.host_mac(7), version, dscp) == {(7, band): 1}


def test_what_bridges_keep_and_what_no_host_has_comes_to_nobody() -> None:
    assert arrivals(LEAF_SPINE, 0, TO_BRIDGES) == {}
    assert arrivals(LEAF_SPINE, 0, "02:00:00:00:77:77", 4) == {}
    assert arrivals(LEAF_SPINE, 0, LEAF_SPINE.host_mac(LEAF_SPINE.hosts)) == {}


def test_no_port_of_the_tree_leads_to_switches_without_hosts() -> None:
    """Of three spines, copies cross one."""
    used = [{*towards.values()} for towards in tree_ports(LEAF_SPINE)]
    assert used == [{1, 2, 3}] * 4 + [{1, 2, 3, 4}] + [{1}] * 2


def test_networks_without_programs_have_the_rules_that_they_had() -> None:
    plain = switch_rules(replace(LEAF_SPINE, ipv6=False))
    assert not any(rule.match and rule.match.destination_mac for switch in plain for rule in switch.flows)
    assert not any(switch.groups for switch in plain)


def test_a_strategys_groups_go_before_and_keep_their_trees() -> None:
    plain = replace(LEAF_SPINE, ipv6=False, groups=(MulticastGroup(0, (3, 5)),))
    beside = replace(plain, ipv6=True)
    for band in range(plain.bands):
        hops = trace_group(plain, switch_rules(plain), 0, dscp_of_band(band))
        assert trace_group(beside, switch_rules(beside), 0, dscp_of_band(band)) == hops
    for switch in switch_rules(beside):
        identifiers = [group.group_id for group in switch.groups]
        assert len({*identifiers}) == len(identifiers)
        own, copied = (
            [rule.priority for rule in switch.flows if is_of(rule)]
            for is_of in (
                is_of_a_strategy,
                lambda rule: bool(rule.match and rule.match.destination_mac and rule.group_id),
            )
        )
        assert not own or min(own) > max(copied)


def is_of_a_strategy(rule: FlowRule) -> bool:
    return bool(rule.match and (rule.match.destination_ip or "").startswith("239.77."))


def test_the_tree_is_the_same_each_time() -> None:
    for fabric in FABRICS.values():
        assert tree_ports(fabric) == tree_ports(replace(fabric, seed=7))

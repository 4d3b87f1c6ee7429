"""IPv6 packets take the ways and the bands of IPv4 packets between the same hosts, and rules without IPv6 are as before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.controller.rules import IGMP_DSCP, lookup
from gradwire.controller.switch_flows import switch_rules, trace
from gradwire.network.fabric import Fabric, Routing, Topology, dscp_of_band
from gradwire.network.graph_shapes import Torus
from gradwire.network.group_addresses import IGMP_REPORTS_IP, LISTENER_REPORTS
from gradwire.network.ipv6 import host_ip6
from gradwire.network.network_graph import spread

FABRICS = {
    "single": Fabric(4, 10e9, classes=2),
    "leaf-spine": Fabric(8, 10e9, Topology.LEAF_SPINE, leaves=2, spines=3, classes=2),
    "fat-tree": Fabric(8, 10e9, Topology.FAT_TREE, leaves=2, spines=2, pods=2, cores=4),
    "torus": Fabric(9, 10e9, Topology.CUSTOM, graph=spread(9, 9, Torus((3, 3)).pairs(), 10e9, "a torus")),
}


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_both_versions_take_the_same_way_through_the_same_bands(fabric: Fabric) -> None:
    both = replace(fabric, ipv6=True)
    rules = switch_rules(both)
    for source in range(fabric.hosts):
        for destination in range(fabric.hosts):
            for dscp in (*map(dscp_of_band, range(fabric.bands)), 7):
                if source != destination:
                    way = trace(both, rules, source, destination, dscp)
                    assert way
                    assert trace(both, rules, source, destination, dscp, address=host_ip6) == way


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_without_ipv6_rules_are_those_of_ipv4_alone(fabric: Fabric) -> None:
    with_both = switch_rules(replace(fabric, ipv6=True))
    for plain, both in zip(switch_rules(fabric), with_both, strict=True):
        assert all(rule.match is None or rule.match.version == 4 for rule in plain.flows)
        assert [rule for rule in both.flows if rule in plain.flows] == list(plain.flows)
    assert trace(fabric, switch_rules(fabric), 0, 1, 0, address=host_ip6) == []


def test_where_switches_hash_ipv6_packets_come_to_the_same_groups() -> None:
    fabric = replace(FABRICS["leaf-spine"], routing=Routing.ECMP, ipv6=True)
    for switch in switch_rules(fabric):
        for host in range(fabric.hosts):
            (of_4,) = lookup(switch, fabric.host_ip(0), fabric.host_ip(host), 0)
            (of_6,) = lookup(switch, host_ip6(0), host_ip6(host), 0)
            assert (of_4.band, of_4.output_port, of_4.group_id) == (of_6.band, of_6.output_port, of_6.group_id)


@pytest.mark.parametrize("routing", list(Routing))
def test_a_rule_for_any_dscp_comes_after_those_for_one(routing: Routing) -> None:
    """Which of two rules of the same priority takes a packet is the switch's choice: IPv6 packets once took the control band so."""
    for switch in switch_rules(replace(FABRICS["leaf-spine"], routing=routing, ipv6=True)):
        matches = [(rule.table, rule.priority, rule.match) for rule in switch.flows if rule.match]
        for_any = {
            (table, priority, replace(match, dscp=None)) for table, priority, match in matches if match.dscp is None
        }
        same = [
            each for each in matches if each[2].dscp is not None and (*each[:2], replace(each[2], dscp=None)) in for_any
        ]
        assert same == []


@pytest.mark.parametrize(
    ("source", "reports", "dscp"), [("::", LISTENER_REPORTS, 0), ("10.0.0.1", IGMP_REPORTS_IP, IGMP_DSCP)]
)
def test_reports_of_listeners_are_dropped(source: str, reports: str, dscp: int) -> None:
    (switch,) = switch_rules(replace(FABRICS["single"], ipv6=True))
    (dropped,) = lookup(switch, source, reports, dscp)
    assert (dropped.output_port, dropped.group_id, dropped.turn) == (None, None, None)
    assert dropped.match is not None


def test_addresses_count_from_the_first_host() -> None:
    assert [host_ip6(host) for host in (0, 9, 255)] == ["fd00::1", "fd00::a", "fd00::100"]

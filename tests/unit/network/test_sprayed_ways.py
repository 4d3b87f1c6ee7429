"""Bursts that take all shortest ways in turn: marks at hosts' ports, rules that go by them, even bytes, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.bounds import bounds
from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.verdict.uplink_check import uplink_checks
from gradwire.controller.rules import FIRST_TABLE, PAIR_TABLE
from gradwire.controller.switch_flows import switch_rules
from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.records import PointRecord
from gradwire.faults import InputFault
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, Fabric, Routing, Topology
from gradwire.network.graph_shapes import Dragonfly, FullMesh, Ring, Torus
from gradwire.network.network_graph import NetworkGraph, spread
from gradwire.network.routes import line_ends, line_interfaces
from gradwire.network.sprayed_ways import SprayedRoutes, chunk_bits, turns_of, way_mac, way_of_turn
from gradwire.runs.stored.spines import Spines
from gradwire.topo.tc import spraying_commands
from gradwire.topo.wiring import ANY_ORDER_SYSCTLS, REORDERING_SYSCTLS, host_sysctls
from gradwire.workloads.patterns import Transfer, compile_transfers

FABRIC = Fabric(8, 10e9, Topology.LEAF_SPINE, leaves=2, spines=4, classes=1, routing=Routing.SPRAY)
SIZE_BYTES = 20_000_000


@pytest.mark.parametrize(("spines", "turns"), [(1, 1), (2, 2), (4, 4), (3, 256), (5, 512), (64, 64)])
def test_a_filter_for_each_turn_names_the_ways_evenly(spines: int, turns: int) -> None:
    fabric = replace(FABRIC, spines=spines)
    assert turns_of(fabric) == turns
    first, *filters = spraying_commands("h1-eth0", fabric)
    assert first == ["qdisc", "add", "dev", "h1-eth0", "clsact"]
    assert len({words[words.index("u16") + 1] for words in filters}) == turns
    counted = Counter(words[-1] for words in filters)
    assert set(counted) == {way_mac(way) for way in range(spines)}
    assert max(counted.values()) / min(counted.values()) < 1.02


def test_chunks_hold_a_burst() -> None:
    assert chunk_bits(FABRIC) == 6  # 45 segments of 1448 bytes
    assert chunk_bits(replace(FABRIC, gso_bytes=1500 + ETHERNET_HEADER_BYTES)) == 0
    assert spraying_commands("h1-eth0", replace(FABRIC, routing=Routing.BALANCED)) == []


def test_leaves_go_by_the_mark_and_only_on_the_way_up() -> None:
    leaf, *_, spine = switch_rules(FABRIC)
    ports = {
        (rule.match.turn, rule.match.destination_ip): rule.output_port
        for rule in leaf.flows
        if rule.table == PAIR_TABLE and rule.match
    }
    far = [FABRIC.host_ip(host) for host in range(FABRIC.hosts) if FABRIC.leaf_of(host) == 1]
    assert {key[1] for key in ports} == set(far)
    for ip in far:
        assert len({ports[way, ip] for way in range(4)}) == 4
    marked = [rule for rule in leaf.flows if rule.match and rule.match.source_mac]
    assert {(rule.match.source_mac, rule.turn) for rule in marked if rule.match} == {(way_mac(k), k) for k in range(4)}
    assert all(rule.table == FIRST_TABLE for rule in marked)
    assert not any(rule.match and rule.match.source_mac for rule in spine.flows)


def test_an_estimate_has_messages_on_all_ways_at_once() -> None:
    """Four flows from leaf to leaf over four ways: nothing slower than on one switch, whatever the seed."""
    plan = compile_transfers("four", 8, [Transfer(host, host + 4, SIZE_BYTES) for host in range(4)])
    alone_s = estimate(
        plan, replace(FABRIC, topology=Topology.SINGLE_SWITCH, leaves=1, spines=0, routing=Routing.BALANCED)
    )
    for seed in (1, 2, 3):
        fabric = replace(FABRIC, seed=seed)
        found = estimate(plan, fabric, Spines(fabric).spine_of)
        assert found.iteration_s == pytest.approx(alone_s.iteration_s, rel=0.01)


def test_an_estimate_has_short_messages_on_all_ways_as_well() -> None:
    """Messages of a burst and a bit, one after the other, over two ways of half a host's rate each: as fast as one long
    message, although each of them has its longer part on one way."""
    fabric = replace(FABRIC, spines=2, oversubscription=4.0)
    many = compile_transfers("many", 8, [Transfer(0, 4, 80_000)] * 250)
    one = compile_transfers("one", 8, [Transfer(0, 4, SIZE_BYTES)])
    times_s = [estimate(plan, fabric, Spines(fabric).spine_of).iteration_s for plan in (many, one)]
    assert times_s[0] == pytest.approx(times_s[1], rel=0.001)
    assert times_s[1] == pytest.approx(SIZE_BYTES * 8 / fabric.goodput_share() / 10e9, rel=0.001)


def record_of(shares: dict[str, float]) -> PointRecord:
    """A run of one message of SIZE_BYTES in frames, of which each port carried such a share."""
    frames = SIZE_BYTES * (1500 + ETHERNET_HEADER_BYTES) / 1448
    bands = tuple(BandCount(port, 1, round(frames * share), 0, 0) for port, share in shares.items())
    counts = NetworkCounts(bands, 0, 0, 0, 0)
    return PointRecord("virtual", 1, 0, (), counts, 1.0, 0.0, "prio, fq")


@pytest.mark.parametrize(("uneven", "ok"), [(0.0, True), (0.15, False)])
def test_the_verdict_wants_even_bytes_on_all_uplinks(uneven: float, ok: bool) -> None:
    plan = compile_transfers("one", 8, [Transfer(0, 4, SIZE_BYTES)])
    routes, interfaces = SprayedRoutes.of(FABRIC), line_interfaces(FABRIC)
    shares: dict[str, float] = {}
    for way in range(4):
        for line in routes.path(0, 4, way)[1:-1]:
            shares[interfaces[line]] = 0.25 + (uneven if way == 0 else -uneven / 3)
    (check,) = uplink_checks(plan, FABRIC, record_of(shares), Spines(FABRIC).spine_of)
    assert check.ok is ok, check.value
    (none,) = uplink_checks(
        plan, FABRIC, record_of(dict.fromkeys(np.unique(interfaces).tolist(), 0.0)), Spines(FABRIC).spine_of
    )
    assert not none.ok


def test_hosts_wait_for_what_comes_late() -> None:
    assert ANY_ORDER_SYSCTLS.items() <= host_sysctls(FABRIC, userspace=False).items()
    assert list(ANY_ORDER_SYSCTLS)[1:] == [
        "net/ipv4/tcp_max_reordering",
        "net/ipv4/tcp_reordering",
    ]  # the bound comes first
    faulty = replace(FABRIC, faulty=True)
    assert REORDERING_SYSCTLS.items() <= host_sysctls(faulty, userspace=False).items()
    assert (
        not REORDERING_SYSCTLS.items() <= host_sysctls(replace(FABRIC, routing=Routing.ECMP), userspace=False).items()
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"topology": Topology.SINGLE_SWITCH, "leaves": 1, "spines": 0}, "needs several switches"),
        ({"spines": 65}, "there are 65 ways between two leaves .*; must be at most 64"),
        ({"loss": 0.01}, "leave out fabric.loss"),
        ({"aggregators": True}, "one way to each of them"),
    ],
)
def test_what_cannot_be_sprayed_is_refused(changed: dict[str, object], words: str) -> None:
    with pytest.raises(InputFault, match=words):
        replace(FABRIC, **changed)  # type: ignore[arg-type]


def graph_of(switches: int, pairs: list[tuple[int, int]], hosts: int) -> Fabric:
    graph: NetworkGraph = spread(hosts, switches, pairs, 10e9, "")
    return Fabric(hosts, 10e9, Topology.CUSTOM, classes=1, graph=graph, routing=Routing.SPRAY)


FAT_TREE = Fabric(16, 10e9, Topology.FAT_TREE, pods=4, leaves=2, spines=2, cores=4, classes=1, routing=Routing.SPRAY)
NETWORKS = {
    "leaf-spine": FABRIC,
    "fat tree": FAT_TREE,
    "triangle": graph_of(3, FullMesh(3).pairs(), 6),
    "ring of 6": graph_of(6, Ring(6).pairs(), 12),
    "torus": graph_of(16, Torus((4, 4)).pairs(), 16),
    "dragonfly": graph_of(12, Dragonfly(4, 3, 1).pairs(), 12),
    "parallel links": graph_of(3, [(0, 1), (0, 1), (0, 1), (1, 2), (1, 2)], 6),
}


def test_an_estimate_shares_a_line_by_what_passes_it() -> None:
    """From s1, s4 is reached both ways around a ring of 6, and s2 by one: with a half and a whole flow on the line from s1
    to s2, each flow has two thirds of its rate."""
    fabric = NETWORKS["ring of 6"]
    first, second = (host for host in range(12) if fabric.switch_of(host) == 0)
    near, far = (next(host for host in range(12) if fabric.switch_of(host) == switch) for switch in (1, 3))
    alone, both = (
        compile_transfers("flows", 12, transfers)
        for transfers in (
            [Transfer(second, near, SIZE_BYTES)],
            [Transfer(first, far, SIZE_BYTES), Transfer(second, near, SIZE_BYTES)],
        )
    )
    times_s = [estimate(plan, fabric).iteration_s for plan in (alone, both)]
    assert times_s[1] == pytest.approx(1.5 * times_s[0], rel=0.001)
    assert bounds(both, fabric).bandwidth_s == pytest.approx(times_s[1], rel=0.001)


@pytest.mark.parametrize(("name", "ways"), [("fat tree", 4), ("triangle", 1), ("ring of 6", 2), ("parallel links", 6)])
def test_there_are_as_many_ways_as_combinations_of_ports(name: str, ways: int) -> None:
    assert SprayedRoutes.of(NETWORKS[name]).ways == ways


@pytest.mark.parametrize("name", NETWORKS)
def test_switches_spread_what_comes_evenly_over_shortest_ways(name: str) -> None:
    """As a fluid that every switch divides by its ports, which is computed here without any numbers of ways."""
    fabric = NETWORKS[name]
    routes, ends = SprayedRoutes.of(fabric), line_ends(fabric)
    for source, target in ((0, fabric.hosts - 1), (1, fabric.hosts // 2), (fabric.hosts - 1, 2)):
        counted = Counter(ends[line] for way in range(routes.ways) for line in routes.path(source, target, way))
        share = {f"s{fabric.switch_of(source) + 1}": 1.0}
        expected: dict[tuple[str, str], float] = {}
        names = fabric.switch_names()
        waiting = [fabric.switch_of(source)]
        for switch in waiting:
            if switch == fabric.switch_of(target):
                continue
            exits = routes.exits(switch, target)
            for each in exits:
                far = names[each.far]
                part = share[names[switch]] / len(exits)
                expected[names[switch], far] = expected.get((names[switch], far), 0.0) + part
                share[far] = share.get(far, 0.0) + part
                if each.far not in waiting:
                    waiting.append(each.far)
        for line, part in expected.items():
            assert counted[line] / routes.ways == pytest.approx(part, abs=0.02), line


@pytest.mark.parametrize("name", NETWORKS)
def test_rules_take_each_way_to_its_end(name: str) -> None:
    """Followed through the rules of the switches, a burst with a way's mark passes the links that the way has."""
    fabric = NETWORKS[name]
    routes, rules = SprayedRoutes.of(fabric), {switch.name: switch for switch in switch_rules(fabric)}
    far_end = {
        (near.device, near.number): far.device
        for link in fabric.links()
        for near, far in ((link.a, link.b), (link.b, link.a))
    }
    ends = line_ends(fabric)
    for source, target in ((0, fabric.hosts - 1), (fabric.hosts - 1, 1)):
        ip = fabric.host_ip(target)
        for way in range(routes.ways):
            here, passed = ends[source][1], [ends[source]]
            while here in rules and len(passed) < 10:
                plain = [
                    rule.output_port
                    for rule in rules[here].flows
                    if rule.table == FIRST_TABLE and rule.match and rule.match.destination_ip == ip
                ]
                marked = [
                    rule.output_port
                    for rule in rules[here].flows
                    if rule.table == PAIR_TABLE
                    and rule.match
                    and (rule.match.destination_ip, rule.match.turn) == (ip, way)
                ]
                (port,) = set(plain or marked)
                assert port is not None
                passed.append((here, far_end[here, port]))
                here = far_end[here, port]
            assert passed == [ends[line] for line in routes.path(source, target, way)]


def test_turns_in_a_row_take_different_ways_at_each_switch() -> None:
    fabric = NETWORKS["torus"]
    routes = SprayedRoutes.of(fabric)
    turns = [way_of_turn(fabric, turn) for turn in range(routes.ways)]
    assert sorted(turns) == list(range(routes.ways))
    first = Counter(routes.path(0, 10, way)[1] for way in turns[:8])
    assert len(first) == 4
    assert max(first.values()) <= 3


def test_too_many_ways_are_some_of_them_and_all_ports_are_used() -> None:
    """A torus of three dimensions has more combinations than there are numbers."""
    fabric = graph_of(64, Torus((4, 4, 4)).pairs(), 64)
    routes = SprayedRoutes.of(fabric)
    assert routes.ways == 64
    used = {line for target in range(1, 64) for way in range(64) for line in routes.path(0, target, way)}
    assert len([line for line in used if line_ends(fabric)[line][0] == "s1"]) == 6

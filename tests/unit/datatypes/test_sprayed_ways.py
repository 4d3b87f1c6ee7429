"""Bursts that take all shortest ways in turn: marks at hosts' ports, rules that go by them, even bytes, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.verdict.uplink_check import uplink_checks
from gradwire.controller.flows import switch_rules
from gradwire.controller.rules import FIRST_TABLE, PAIR_TABLE
from gradwire.datatypes.fabric import ETHERNET_HEADER_BYTES, Fabric, Routing, Topology
from gradwire.datatypes.records import BandCount, NetworkCounts, PointRecord
from gradwire.datatypes.routes import TieredRoutes, line_interfaces
from gradwire.datatypes.sprayed_ways import chunk_bits, turns_of, way_mac
from gradwire.faults import InputFault
from gradwire.runs.compiling.ideal_times import by_way
from gradwire.runs.stored.spines import Spines
from gradwire.topo.tc import spraying_commands
from gradwire.topo.wiring import REORDERING_SYSCTLS, host_sysctls
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


def test_an_estimate_divides_messages_over_all_ways() -> None:
    """Four flows from leaf to leaf over four ways: nothing slower than on one switch, whatever the seed."""
    plan = compile_transfers("four", 8, [Transfer(host, host + 4, SIZE_BYTES) for host in range(4)])
    alone_s = estimate(
        plan, replace(FABRIC, topology=Topology.SINGLE_SWITCH, leaves=1, spines=0, routing=Routing.BALANCED)
    )
    for seed in (1, 2, 3):
        fabric = replace(FABRIC, seed=seed)
        found = estimate(by_way(plan, fabric), fabric, Spines(fabric).spine_of)
        assert found.iteration_s == pytest.approx(alone_s.iteration_s, rel=0.01)
    assert by_way(plan, replace(FABRIC, routing=Routing.ECMP)) is plan


def record_of(shares: dict[str, float]) -> PointRecord:
    """A run of one message of SIZE_BYTES in frames, of which each port carried such a share."""
    frames = SIZE_BYTES * (1500 + ETHERNET_HEADER_BYTES) / 1448
    bands = tuple(BandCount(port, 1, round(frames * share), 0, 0) for port, share in shares.items())
    counts = NetworkCounts(bands, 0, 0, 0, 0)
    return PointRecord("virtual", 1, 0, (), counts, 1.0, 0.0, "prio, fq")


@pytest.mark.parametrize(("uneven", "ok"), [(0.0, True), (0.15, False)])
def test_the_verdict_wants_even_bytes_on_all_uplinks(uneven: float, ok: bool) -> None:
    plan = compile_transfers("one", 8, [Transfer(0, 4, SIZE_BYTES)])
    routes, interfaces = TieredRoutes(FABRIC, None), line_interfaces(FABRIC)
    shares: dict[str, float] = {}
    for way in range(4):
        for line in routes.path_by_way(0, 4, way)[1:-1]:
            shares[interfaces[line]] = 0.25 + (uneven if way == 0 else -uneven / 3)
    (check,) = uplink_checks(plan, FABRIC, record_of(shares), Spines(FABRIC).spine_of)
    assert check.ok is ok, check.value
    (none,) = uplink_checks(
        plan, FABRIC, record_of(dict.fromkeys(np.unique(interfaces).tolist(), 0.0)), Spines(FABRIC).spine_of
    )
    assert not none.ok


def test_hosts_wait_for_what_comes_late() -> None:
    assert REORDERING_SYSCTLS.items() <= host_sysctls(FABRIC, userspace=False).items()
    assert (
        not REORDERING_SYSCTLS.items() <= host_sysctls(replace(FABRIC, routing=Routing.ECMP), userspace=False).items()
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"topology": Topology.SINGLE_SWITCH, "leaves": 1, "spines": 0}, "needs fabric.topology = 'leaf-spine'"),
        ({"spines": 65}, "fabric.spines = 65: must be at most 64"),
        ({"loss": 0.01}, "leave out fabric.loss"),
        ({"aggregators": True}, "one way to each of them"),
    ],
)
def test_what_cannot_be_sprayed_is_refused(changed: dict[str, object], words: str) -> None:
    with pytest.raises(InputFault, match=words):
        replace(FABRIC, **changed)  # type: ignore[arg-type]

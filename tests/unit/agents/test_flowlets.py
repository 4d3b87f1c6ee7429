"""Flowlets: after a gap a connection's packets have the mark of another way, and what each way had is counted."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field, replace

import pytest

from gradwire.agents.flowlets import Flowlets
from gradwire.analysis.verdict.uplink_check import uplink_checks
from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.records import AgentSummary, FlowletCount, PointRecord
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, Fabric, Routing, Topology
from gradwire.network.flowlets import FLOWLET_GAP_S, flowlet_way, mark_of_way
from gradwire.network.routes import line_interfaces
from gradwire.network.sprayed_ways import SprayedRoutes, way_mac
from gradwire.network.wire.flows import connections_of
from gradwire.runs.stored.spines import Spines
from gradwire.topo.tc import spraying_commands
from gradwire.workloads.patterns import Transfer, compile_transfers

FABRIC = Fabric(
    8,
    10e9,
    Topology.LEAF_SPINE,
    leaves=2,
    spines=4,
    classes=1,
    routing=Routing.FLOWLET,
    flowlet_gap_s=FLOWLET_GAP_S,
)
PLAN = compile_transfers("one", 8, [Transfer(0, 4, 20_000_000)])
CONNECTION = connections_of(PLAN)[0]
GAP_NS = round(FLOWLET_GAP_S * 1e9)


@dataclass
class Marked:
    """A socket that keeps its marks, for SO_MARK needs root."""

    near: socket.socket
    marks: list[int] = field(default_factory=list)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_MARK)
        self.marks.append(value)

    def fileno(self) -> int:
        return self.near.fileno()


def connected() -> tuple[Marked, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return Marked(near), far


def flowlets_of(sock: Marked) -> Flowlets:
    return Flowlets(FABRIC, connections_of(PLAN), {CONNECTION.number: sock})  # type: ignore[dict-item]


def test_a_flowlet_begins_after_a_gap_and_not_before() -> None:
    sock, far = connected()
    flowlets = flowlets_of(sock)
    number = CONNECTION.number
    flowlets.begin(number, 1000, 0)
    flowlets.end(number, 10_000)
    flowlets.begin(number, 1000, 10_000 + GAP_NS - 1)
    flowlets.end(number, 2 * GAP_NS)
    assert len(sock.marks) == 1
    flowlets.begin(number, 500, 3 * GAP_NS)
    assert sock.marks == [mark_of_way(flowlet_way(FABRIC.seed, number, each, 4)) for each in (0, 1)]
    counts = flowlets.counts()
    assert sum(count.size_bytes for count in counts) == 2500
    assert sum(count.flowlets for count in counts) == 2
    sock.near.close()
    far.close()


def test_what_still_waits_in_the_socket_leaves_no_gap() -> None:
    sock, far = connected()
    flowlets = flowlets_of(sock)
    sock.near.setblocking(False)
    try:
        while True:
            sock.near.send(bytes(1 << 20))
    except BlockingIOError:
        pass
    flowlets.begin(CONNECTION.number, 1, 0)
    flowlets.end(CONNECTION.number, 0)
    flowlets.begin(CONNECTION.number, 1, 10 * GAP_NS)
    assert len(sock.marks) == 1
    sock.near.close()
    far.close()


def test_all_ways_are_as_likely_and_the_seed_decides() -> None:
    found = [flowlet_way(1, 3, number, 4) for number in range(4000)]
    assert all(found.count(way) == pytest.approx(1000, rel=0.1) for way in range(4))
    assert found[:20] != [flowlet_way(2, 3, number, 4) for number in range(20)]


def test_a_port_writes_marks_into_the_source_address_and_others_take_turns() -> None:
    filters = spraying_commands("h1-eth0", FABRIC)[1:]
    by_mark = {words[words.index("handle") + 1]: words[-1] for words in filters if "fw" in words}
    assert by_mark == {str(mark_of_way(way)): way_mac(way) for way in range(4)}
    assert {words[-1] for words in filters if "u32" in words} == set(by_mark.values())
    assert all(words[words.index("prio") + 1] == ("1" if "fw" in words else "2") for words in filters)
    assert not any("fw" in words for words in spraying_commands("h1-eth0", replace(FABRIC, routing=Routing.SPRAY)))


@pytest.mark.parametrize(("moved", "ok"), [(0.0, True), (0.1, False)])
def test_switches_have_to_carry_what_hosts_sent_each_way(moved: float, ok: bool) -> None:
    """moved: share of the bytes that took another way than the one of their mark."""
    sizes = {0: 12_000_000, 2: 8_000_000}
    routes, interfaces = SprayedRoutes.of(FABRIC), line_interfaces(FABRIC)
    frames: dict[str, float] = {}
    for way, size_bytes in (*sizes.items(), (1, 0)):
        carried = {0: 12_000_000 * (1 - moved), 1: 12_000_000 * moved}.get(way, size_bytes)
        for line in routes.path(0, 4, way)[1:-1]:
            frames[interfaces[line]] = carried * (1500 + ETHERNET_HEADER_BYTES) / 1448
    bands = tuple(BandCount(port, 1, round(size), 0, 0) for port, size in frames.items())
    counts = tuple(FlowletCount(CONNECTION.number, 0, 4, way, 1, size_bytes) for way, size_bytes in sizes.items())
    agent = AgentSummary((0,), 2, 0, 20_000_000, 0, 0, 0, flowlets=counts)
    record = PointRecord("virtual", 1, 0, (agent,), NetworkCounts(bands, 0, 0, 0, 0), 1.0, 0.0, "prio, fq")
    (check,) = uplink_checks(PLAN, FABRIC, record, Spines(FABRIC).spine_of)
    assert check.ok is ok, check.value
    assert "2 flowlets" in check.value

"""The way on whose first line the fewest bytes wait is taken, and the kernel's answers are read."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from gradwire.agents.flowlets import Flowlets
from gradwire.agents.uplink_queues import TC_MESSAGE, TCA_STATS2, TCA_STATS_QUEUE, UplinkQueues, backlog_bytes
from gradwire.faults import MachineFault
from gradwire.netlink_messages import HEADER, NLMSG_ERROR, attribute
from gradwire.network.fabric import Fabric, Port, Routing, Topology
from gradwire.network.flowlets import FLOWLET_GAP_S, mark_of_way
from gradwire.network.sprayed_ways import SprayedRoutes
from gradwire.network.wire.flows import connections_of
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.unit.agents.test_flowlets import connected

FABRIC = Fabric(
    8,
    10e9,
    Topology.LEAF_SPINE,
    leaves=2,
    spines=4,
    classes=1,
    routing=Routing.ADAPTIVE,
    flowlet_gap_s=FLOWLET_GAP_S,
)
CONNECTION = connections_of(compile_transfers("one", 8, [Transfer(0, 4, 1000)]))[0]
GAP_NS = round(FLOWLET_GAP_S * 1e9)


def queues_of(monkeypatch: pytest.MonkeyPatch, waiting: Mapping[int, int], fabric: Fabric = FABRIC) -> UplinkQueues:
    """waiting: bytes at each port of the first leaf, by its number."""
    monkeypatch.setattr(UplinkQueues, "waiting_bytes", lambda _queues, port: waiting[port.number])
    return UplinkQueues(fabric)


def port(way: int) -> int:
    return SprayedRoutes.of(FABRIC).exit(0, 4, way).port


def test_the_shortest_queue_is_taken_and_of_equal_ones_the_preferred_way(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = queues_of(monkeypatch, {port(0): 9000, port(1): 0, port(2): 1500, port(3): 0})
    assert queues.shortest(0, 4, (0, 1, 2, 3)) == 1
    assert queues.shortest(0, 4, (2, 3, 1, 0)) == 3
    assert queues.shortest(0, 4, (0, 2)) == 2


def test_on_one_leaf_no_queue_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert queues_of(monkeypatch, {}).shortest(0, 1, (3, 0)) == 3


def test_ways_that_begin_on_one_line_are_chosen_by_preference(monkeypatch: pytest.MonkeyPatch) -> None:
    fat = Fabric(
        16, 10e9, Topology.FAT_TREE, leaves=2, spines=2, pods=2, cores=4, routing=Routing.ADAPTIVE, flowlet_gap_s=1e-3
    )
    routes = SprayedRoutes.of(fat)
    by_port: dict[int, list[int]] = {}
    for way in range(routes.ways):
        by_port.setdefault(routes.exit(0, 15, way).port, []).append(way)
    full, free = by_port
    queues = queues_of(monkeypatch, {full: 1, free: 0}, fat)
    for preferred in (by_port[free], by_port[free][::-1]):
        assert queues.shortest(0, 15, (*by_port[full], *preferred)) == preferred[0]


def test_the_seed_orders_ways_and_all_come_first_as_often() -> None:
    found = [FABRIC.routing.policy.flowlet_ways(FABRIC, 3, number) for number in range(2000)]
    assert {tuple(sorted(each)) for each in found} == {(0, 1, 2, 3)}
    firsts = [each[0] for each in found]
    assert all(firsts.count(way) == pytest.approx(500, rel=0.2) for way in range(4))


def test_each_flowlet_looks_again_and_what_follows_without_a_gap_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = {port(way): way * 1000 for way in range(4)}
    queues_of(monkeypatch, waiting)
    sock, far = connected()
    flowlets = Flowlets(FABRIC, [CONNECTION], {CONNECTION.number: sock})  # type: ignore[dict-item]
    flowlets.begin(CONNECTION.number, 1000, 0)
    assert sock.marks[-1] == mark_of_way(0)
    waiting[port(0)] = 5000
    flowlets.end(CONNECTION.number, 10_000)
    flowlets.begin(CONNECTION.number, 1000, 10_000 + GAP_NS - 1)
    assert sock.marks[-1] == mark_of_way(0)
    flowlets.end(CONNECTION.number, 2 * GAP_NS)
    flowlets.begin(CONNECTION.number, 500, 3 * GAP_NS)
    assert sock.marks[-1] == mark_of_way(1)
    assert {(each.way, each.flowlets, each.size_bytes) for each in flowlets.counts()} == {(0, 1, 2000), (1, 1, 500)}
    sock.near.close()
    far.close()


def test_the_kernel_tells_what_waits() -> None:
    queue = struct.pack("=IIIII", 3, 4500, 0, 0, 0)
    stats = attribute(1, bytes(2)) + attribute(TCA_STATS_QUEUE, queue)
    body = TC_MESSAGE.pack(0, 7, 0, 0, 0) + attribute(TCA_STATS2, stats)
    assert backlog_bytes("s1-eth1", HEADER.pack(HEADER.size + len(body), 36, 0, 0, 0) + body) == 4500


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (HEADER.pack(20, NLMSG_ERROR, 0, 0, 0) + struct.pack("=i", -2), "No such file"),
        (HEADER.pack(36, 36, 0, 0, 0) + bytes(TC_MESSAGE.size), "without its length"),
    ],
)
def test_an_answer_without_a_length_is_a_fault(answer: bytes, why: str) -> None:
    with pytest.raises(MachineFault, match=why):
        backlog_bytes("s1-eth1", answer)


def test_a_port_that_is_not_there_is_a_fault() -> None:
    with pytest.raises(MachineFault, match="0 interfaces"):
        UplinkQueues(FABRIC).waiting_bytes(Port("s77", 8))

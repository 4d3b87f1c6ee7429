"""Which line a critical path waits for, by logs small enough to follow by hand: two workers below leaf 1 send to two below leaf 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.timeline.critical_path import CriticalPath, critical_path
from gradwire.analysis.timeline.limits import WaitedLine, line_in_words, sharers_table
from gradwire.analysis.timeline.line_traffic import LineTraffic, joined
from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.datatypes.records import FaultRecord, OpLog, PlannedFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.links import LinkSetting
from gradwire.workloads.builder import PlanBuilder
from tests.shared.parts import tells

MS = 1_000_000
RATE_BPS = 1538 / 1448 * 8e9
"""1 ns per byte of payload."""
FABRIC = Fabric(4, RATE_BPS, topology=Topology.LEAF_SPINE, leaves=2, spines=2, classes=1)
SIZES = (5 * MS, 5 * MS)


def crossing(sizes: Sequence[int] = SIZES, takes_ms: int = 10) -> tuple[Plan, OpLog]:
    """Ranks 0 and 1 send that much to ranks 2 and 3 in the same time, after a millisecond of computation."""
    builder = PlanBuilder("across")
    ranks = [builder.rank(Role.WORKER, host) for host in range(4)]
    begin = [builder.compute(rank, 0.001) for rank in ranks]
    end = [builder.compute(rank) for rank in ranks]
    rows = [(0, op, 0, 0, MS) for op in begin] + [(0, end[source], MS, MS, MS) for source in (0, 1)]
    for source, size in enumerate(sizes):
        chunk = builder.chunk(builder.tensor(f"fc{source}/weights"), size)
        queue, target = builder.queue(ranks[source]), ranks[source + 2]
        send, recv = builder.message(queue, target, size, chunk=chunk, combine=Combine.ADD, traffic_class=0)
        builder.depend(send, begin[source])
        builder.depend(end[source], begin[source])
        builder.depend(end[source + 2], recv, begin[source + 2])
        arrived = (1 + takes_ms) * MS + source
        rows += [(0, send, MS, MS, arrived), (0, recv, MS, MS, arrived)]
        rows.append((0, end[source + 2], arrived, arrived, arrived))
    for rank in ranks:
        builder.iteration(rank, begin[rank], end[rank])
    return builder.build(0.001, 2), OpLog(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def path_over(
    fabric: Fabric,
    spines: Sequence[int],
    faults: Sequence[FaultRecord] = (),
    sizes: Sequence[int] = SIZES,
    takes_ms: int = 10,
) -> CriticalPath:
    """The path where messages from hosts 0 and 1 take these spines."""
    return critical_path(*crossing(sizes, takes_ms), 0, fabric, faults, (), lambda source, *_: spines[source % 2])


def waited(path: CriticalPath) -> WaitedLine:
    assert path.waited is not None
    return path.waited


def test_two_flows_over_one_spine_fill_its_link_and_leave_the_other_idle() -> None:
    found = waited(path_over(FABRIC, (0, 0)))
    assert (found.use.name, found.use.flows, found.is_trunk, found.is_full) == ("leaf1-spine1 to spine1", 2, True, True)
    shares = {each.name: each.share for each in found.use.sharers}
    assert shares == pytest.approx({"rank 0 -> rank 2": 0.5, "rank 1 -> rank 3": 0.5}, abs=1e-3)
    assert found.use.beside == (("leaf1-spine2 to spine2", 0.0),)
    assert found.use.is_free
    assert found.waited_ns == pytest.approx(10 * MS, abs=10)
    assert tells(
        line_in_words(found), "leaf1-spine1 to spine1 (8.497 Gbit/s)", "100% busy", "leaf1-spine2 to spine2 is 0% busy"
    )
    assert [row[1:] for row in sharers_table(found).rows] == [("fc0/weights", "50.0%"), ("fc1/weights", "50.0%")]


def test_where_each_has_a_spine_a_flow_alone_fills_its_hosts_link() -> None:
    found = waited(path_over(FABRIC, (0, 1), takes_ms=5))
    assert (found.use.name, found.use.flows, found.is_trunk, found.is_full) == ("h2 out", 1, False, True)
    assert not found.use.beside
    assert not found.use.is_free
    assert tells(line_in_words(found), "h2 out", "rank 1 -> rank 3 alone")


def test_a_line_that_is_half_used_is_not_called_full() -> None:
    found = waited(path_over(FABRIC, (0, 1), takes_ms=10))
    assert not found.is_full
    assert found.use.busy == pytest.approx(0.5, abs=0.01)
    assert line_in_words(found).startswith("no line on the way is full")


def test_a_slow_link_is_the_limit_and_has_its_own_rate() -> None:
    slow = replace(FABRIC, link_settings=(LinkSetting("h2", rate_bps=RATE_BPS / 2),))
    found = waited(path_over(slow, (0, 1), takes_ms=10))
    assert (found.use.name, found.use.rate_bps, found.is_full) == ("h2 out", RATE_BPS / 2, True)


@pytest.mark.parametrize(
    ("kind", "value", "busy"), [("rate", RATE_BPS / 2, 1.0), ("flapping", 0.1, 1.0), ("loss", 0.01, 0.5)]
)
def test_a_fault_leaves_a_line_less_to_carry(kind: str, value: float, busy: float) -> None:
    fault = PlannedFault("half", kind, 0, place="s1-eth4", value=value)
    path = path_over(FABRIC, (0, 1), [FaultRecord(fault, 0, 0, -1)], takes_ms=10)
    found = waited(path)
    if busy == 1.0:
        assert [each.fault.name for each in found.use.faults] == ["half"]
        assert found.use.name == "leaf1-spine2 to spine2"
        assert found.use.rate_bps == pytest.approx(RATE_BPS / 2)
    assert found.use.busy == pytest.approx(busy, abs=0.01)


def test_a_tenant_shares_the_lines_between_its_hosts() -> None:
    tenant = FaultRecord(PlannedFault("other", "tenant", 0, source=1, destination=3), 0, MS, 11 * MS, 1, 5 * MS)
    found = waited(path_over(FABRIC, (0, 0), [tenant], sizes=(5 * MS, 64)))
    shares = {each.name: each.share for each in found.use.sharers}
    assert shares == pytest.approx(
        {"rank 0 -> rank 2": 0.5, "tenant (fault.other)": 0.5, "rank 1 -> rank 3": 0}, abs=1e-3
    )


def test_without_a_network_nothing_is_said_of_lines() -> None:
    assert critical_path(*crossing(), 0).waited is None


def test_where_nothing_crosses_the_network_no_line_is_waited_for() -> None:
    """One worker alone: its messages, if it has any, stay on its host."""
    builder = PlanBuilder("alone")
    rank = builder.rank(Role.WORKER, 0)
    op = builder.compute(rank, 0.001)
    builder.iteration(rank, op, op)
    log = OpLog(*(np.array([value], np.int64) for value in (0, op, 0, 0, MS)))
    fabric = Fabric(2, RATE_BPS)
    plan = builder.build(0.001, 1)
    assert critical_path(plan, log, 0, fabric).waited is None
    traffic = LineTraffic(LoggedOps.of(plan, log), fabric, None)
    assert traffic.busiest(0, MS, 4) == []
    assert [load.share.tolist() for load in traffic.loads(np.array([0, MS]))] == [[0.0]] * 4


def test_times_that_meet_are_joined() -> None:
    assert joined([(5, 7), (1, 2), (2, 3), (6, 9)]) == [(1, 3), (5, 9)]

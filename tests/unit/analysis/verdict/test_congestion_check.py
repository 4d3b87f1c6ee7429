"""Networks that drop and mark: what their counters must show, and what they must not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.verdict.congestion_checks import congestion_checks
from gradwire.analysis.verdict.verdict import Circumstances, Verdict, judge
from gradwire.datatypes.network_counts import BandCount
from gradwire.datatypes.plan import Role
from gradwire.datatypes.records import PointRecord
from gradwire.network.fabric import Fabric
from gradwire.workloads.builder import PlanBuilder
from tests.unit.analysis.verdict.sound_run import FABRIC, MESSAGES, pushes, sound_log, sound_record
from tests.unit.analysis.verdict.test_every_check import controlled

FRAME_BYTES = 1514
FINITE = replace(FABRIC, gso_bytes=FRAME_BYTES, buffer_bytes=100_000)
MARKING = replace(FINITE, ecn_bytes=30_000)
INCAST = "s1-eth4"


def counted(
    fabric: Fabric, *, port: str = INCAST, band: int = 1, arrivals: int = 0, again: int = 0, **changes: int
) -> PointRecord:
    """The sound record, with something counted at one port."""
    record = sound_record(fabric)

    def change(each: BandCount) -> BandCount:
        return replace(each, **changes) if (each.port, each.band) == (port, band) else each  # type: ignore[arg-type]

    bands = tuple(map(change, record.counts.bands))
    return replace(record, counts=replace(record.counts, bands=bands, marked_arrivals=arrivals, tcp_retransmits=again))


def judged(fabric: Fabric, record: PointRecord, congestion: str = "") -> Verdict:
    return judge(pushes(), fabric, sound_log(), record, circumstances=Circumstances(congestion=congestion))


def failed(found: Verdict) -> list[str]:
    return [check.name for check in found.checks if not check.ok]


def test_a_finite_buffer_may_drop_any_number_that_tcp_sends_again() -> None:
    assert failed(judged(FINITE, counted(FINITE))) == []
    assert failed(judged(FINITE, counted(FINITE, drops=500, again=500))) == []
    assert failed(judged(FINITE, counted(FINITE, drops=500, again=520))) == []
    assert failed(judged(FINITE, counted(FINITE, drops=500, again=499))) == ["TCP retransmits"]
    assert failed(judged(FINITE, counted(FINITE, drops=500, again=1000 + MESSAGES))) == []
    assert failed(judged(FINITE, counted(FINITE, drops=500, again=1001 + MESSAGES))) == ["TCP retransmits"]


def test_hosts_drop_nothing_even_so() -> None:
    assert failed(judged(FINITE, counted(FINITE, port="h1-eth0", drops=3, again=3))) == ["drops"]


def test_a_deep_buffer_drops_nothing_even_if_it_marks() -> None:
    deep = replace(MARKING, buffer_bytes=0)
    assert failed(judged(deep, counted(deep, drops=1, again=1))) == ["drops", "TCP retransmits"]


def test_what_was_sent_again_is_allowed_for_where_it_was_counted_and_no_more() -> None:
    again = 2000
    sound = counted(FINITE, drops=again, again=again)

    def with_more(size_bytes: int) -> PointRecord:
        bands = tuple(
            replace(each, bytes_sent=each.bytes_sent + size_bytes) if (each.port, each.band) == ("h1-eth0", 1) else each
            for each in sound.counts.bands
        )
        return replace(sound, counts=replace(sound.counts, bands=bands))

    assert failed(judged(FINITE, with_more(again * FRAME_BYTES))) == []
    assert "bytes by class" in failed(judged(FINITE, with_more(3 * again * FRAME_BYTES)))


@pytest.mark.parametrize(
    ("port", "changes"),
    [
        (INCAST, {"limit_bytes": 200_000}),
        (INCAST, {"threshold_bytes": 300_000}),
        (INCAST, {"all_marked_bytes": 90_000}),
        (INCAST, {"limit_bytes": 0, "threshold_bytes": 0, "all_marked_bytes": 0}),
        ("h1-eth0", {"limit_bytes": 100_000}),
    ],
    ids=["another buffer", "another threshold", "marks by chance", "none", "at a host"],
)
def test_queues_are_those_asked_for_at_switches_and_nowhere_else(port: str, changes: dict[str, int]) -> None:
    assert failed(judged(MARKING, counted(MARKING, port=port, **changes))) == ["switch queues"]


@pytest.mark.parametrize(
    ("marks", "drops", "arrivals", "ok"),
    [(0, 0, 0, False), (900, 0, 900, True), (900, 30, 870, True), (900, 0, 0, False), (900, 0, 901, False)],
    ids=["none made", "all arrived", "some dropped after it", "none arrived", "more than were made"],
)
def test_marks_have_to_be_made_and_to_arrive(marks: int, drops: int, arrivals: int, ok: bool) -> None:
    record = counted(MARKING, above_threshold=1000, marks=marks, drops=drops, again=drops, arrivals=arrivals)
    assert failed(judged(MARKING, record)) == ([] if ok else ["ECN marks"])


RED = replace(MARKING, ecn_bytes=5_000, ecn_most_bytes=90_000, ecn_share=0.01)


def test_red_marks_all_from_another_length_on() -> None:
    assert failed(judged(RED, counted(RED))) == []
    assert failed(judged(RED, counted(RED, all_marked_bytes=5_000))) == ["switch queues"]


@pytest.mark.parametrize(("above", "marks", "ok"), [(10_000, 0, True), (10_001, 0, False), (10_001, 1, True)])
def test_red_has_to_have_marked_some_of_many_packets(above: int, marks: int, ok: bool) -> None:
    record = counted(RED, above_threshold=above, marks=marks, arrivals=marks)
    assert failed(judged(RED, record)) == ([] if ok else ["ECN marks"])


@pytest.mark.parametrize(("arrivals", "ok"), [(45 * 900, True), (45 * 900 + 1, False)])
def test_each_frame_of_a_marked_burst_arrives_with_its_mark(arrivals: int, ok: bool) -> None:
    """A burst of 64 KiB is marked as one packet, and has 45 segments of 1,448 bytes."""
    bursts = replace(MARKING, gso_bytes=65536, buffer_bytes=10**6, ecn_bytes=600_000)
    record = counted(bursts, above_threshold=1000, marks=900, arrivals=arrivals)
    assert failed(judged(bursts, record)) == ([] if ok else ["ECN marks"])


def test_marks_may_be_lost_on_a_faulty_network_and_none_is_due_of_datagrams() -> None:
    """A fault may lose every packet that was marked. Of multicast messages no packet can be."""
    lost = counted(MARKING, above_threshold=1000, marks=900)
    assert failed(judged(MARKING, lost)) == ["ECN marks"]
    (faulty,) = (
        each
        for each in congestion_checks(pushes(), replace(MARKING, faulty=True), lost, "")
        if each.name == "ECN marks"
    )
    assert faulty.ok
    builder = PlanBuilder("to a group")
    source, *others = (builder.rank(Role.WORKER, host) for host in range(3))
    for rank in (source, *others):
        compute = builder.compute(rank)
        builder.iteration(rank, compute, compute)
    builder.group_message(builder.queue(source), builder.group(others), 1000, traffic_class=0)
    plan = builder.build(compute_s=0.0, samples=1)
    (due,) = (
        each
        for each in congestion_checks(plan, MARKING, counted(MARKING, above_threshold=1000), "")
        if each.name == "ECN marks"
    )
    assert due.ok


def test_no_marks_are_due_where_no_queue_passed_the_threshold() -> None:
    assert failed(judged(MARKING, counted(MARKING))) == []


def test_both_ends_of_every_connection_have_the_control_that_was_asked_for() -> None:
    record = controlled("dctcp")
    (agent,) = record.agents
    assert failed(judged(FABRIC, record, "dctcp")) == []
    assert failed(judged(FABRIC, record, "bbr")) == ["congestion control"]
    one_less = replace(record, agents=(replace(agent, sockets=agent.sockets[1:]),))
    assert failed(judged(FABRIC, one_less, "dctcp")) == ["congestion control"]
    other_end = replace(record, agents=(replace(agent, accepted_congestion=("cubic", "dctcp")),))
    assert failed(judged(FABRIC, other_end, "dctcp")) == ["congestion control"]
    assert failed(judged(FABRIC, sound_record(), "dctcp")) == ["congestion control"]


@pytest.mark.parametrize("fabric", [FINITE, replace(MARKING, buffer_bytes=0)], ids=["finite", "marking"])
def test_the_probe_may_be_slow_where_something_slows_tcp_down_and_never_fast(fabric: Fabric) -> None:
    assert failed(judged(fabric, replace(counted(fabric), rate_probe=1.2))) == []
    assert failed(judged(fabric, replace(counted(fabric), rate_probe=0.98))) == ["rate probe"]


def test_a_control_that_paces_may_probe_slowly_and_one_that_fills_the_line_may_not() -> None:
    slow = replace(controlled("bbr"), rate_probe=1.2)
    assert failed(judged(FABRIC, slow, "bbr")) == []
    assert failed(judged(FABRIC, replace(controlled("cubic"), rate_probe=1.2), "cubic")) == ["rate probe"]

"""Windows that hold less than round trips do: when they decide, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.agreement.short_windows import WindowUse, all_along, kept_bytes, short_windows, window_use
from gradwire.analysis.fluid.estimate import Departure
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.verdict.congestion_checks import window_check
from gradwire.analysis.verdict.verdict import Circumstances, judge
from gradwire.datatypes.records import FaultRecord, PlannedFault, PointRecord, WindowState
from gradwire.network.fabric import Fabric
from tests.shared.parts import tells
from tests.unit.analysis.verdict.sound_run import ITERATIONS, WARMUP, pushes, sound_log, sound_record

FABRIC = Fabric(hosts=4, rate_bps=2e9, faulty=True)
FAR = tuple(PlannedFault(f"far{host}", "delay", 0, place=f"h{host}-eth0", value=5e-3) for host in range(1, 5))
"""20 ms for a round trip, in which 5 MB pass."""
PATH_BYTES = 2e9 / 8 * FABRIC.goodput_share() * 20e-3
SMALL, ENOUGH = 1 << 20, 16 << 20


def state(number: int, source: int, buffer_bytes: int, **changes: int) -> WindowState:
    told = WindowState(
        connection=number,
        src_host=source,
        dst_host=3,
        buffer_bytes=buffer_bytes,
        receive_bytes=buffer_bytes,
        congestion_bytes=buffer_bytes,
        round_trip_us=20_000,
        busy_us=400_000,
        receive_limited_us=0,
        buffer_limited_us=300_000 if buffer_bytes == SMALL else 0,
        acknowledged_bytes=30_000_000,
    )
    return replace(told, **changes)


def record_of(states: list[WindowState], faults: tuple[PlannedFault, ...] = FAR) -> PointRecord:
    record = sound_record(FABRIC)
    told = tuple(FaultRecord(fault, 0, 1000, 10**9) for fault in faults)
    first, *others = record.agents
    return replace(record, agents=(replace(first, windows=tuple(states)), *others), faults=told)


def used(record: PointRecord) -> WindowUse | None:
    window = MeasuredIterations(WARMUP, ITERATIONS - WARMUP)
    return window_use(IdealRun(pushes(), FABRIC, None, window, Departure()), record)


def of(buffer_bytes: int, faults: tuple[PlannedFault, ...] = FAR) -> WindowUse:
    found = used(record_of([state(number, number, buffer_bytes) for number in range(3)], faults))
    assert found is not None
    return found


def test_two_thirds_of_a_buffer_are_kept_under_way_and_no_more_than_the_receiver_offers() -> None:
    assert kept_bytes(state(0, 0, 3_000_000)) == pytest.approx(2_000_000)
    assert kept_bytes(state(0, 0, 3_000_000, receive_bytes=1_500_000)) == 1_500_000
    assert kept_bytes(state(0, 0, 3_000_000, receive_bytes=0)) == pytest.approx(2_000_000)


def test_a_window_is_short_where_its_path_holds_more() -> None:
    (short,) = short_windows(FABRIC, record_of([state(0, 0, SMALL), state(1, 1, ENOUGH)]), None)
    assert (short.ends, short.rate_bps) == ("h1 to h4", 2e9)
    assert short.round_trip_s == pytest.approx(20e-3)
    assert short.path_bytes == pytest.approx(PATH_BYTES)
    assert short.reached_bps == pytest.approx(2e9 * SMALL * 2 / 3 / PATH_BYTES)


def test_a_connection_that_sent_less_than_its_window_was_not_limited() -> None:
    assert short_windows(FABRIC, record_of([state(0, 0, SMALL, acknowledged_bytes=1000)]), None) == ()


def test_without_delays_no_window_is_short() -> None:
    assert short_windows(FABRIC, record_of([state(0, 0, SMALL)], faults=()), None) == ()


def test_windows_that_make_iterations_longer_are_invalid_unless_the_scenario_chose_them() -> None:
    use = of(SMALL)
    assert use.slower is not None
    assert use.slower > 1.5
    assert use.held_back == pytest.approx(0.75)
    assert not window_check(use, asked=False).ok
    asked = window_check(use, asked=True)
    assert asked.ok
    assert tells(asked.value, "3 of 3", "699.1 kB of", "4.707 MB (h1", "transport.buffer or fabric.hosts")


def test_windows_that_hold_round_trips_pass() -> None:
    check = window_check(of(ENOUGH), asked=False)
    assert (check.ok, check.value.partition(" ")[0]) == (True, "3")


def test_short_windows_that_fill_a_port_together_pass() -> None:
    """Three of them share the server's port: each holds less than the path, and all together hold more."""
    use = of(3 << 20)
    assert len(use.short) == 3
    assert use.slower == pytest.approx(1.0, abs=0.02)
    assert window_check(use, asked=False).ok


def test_where_delays_come_and_go_the_kernels_own_count_decides() -> None:
    passing = tuple(replace(fault, duration_ns=10**8) for fault in FAR)
    use = of(SMALL, passing)
    assert use.slower is None
    assert not window_check(use, asked=False).ok
    idle = used(record_of([state(0, 0, SMALL, buffer_limited_us=0)], passing))
    assert idle is not None
    assert window_check(idle, asked=False).ok


def test_only_delays_from_the_beginning_to_the_end_are_there_all_along() -> None:
    assert all_along(FAR)
    assert not all_along(())
    for change in ({"kind": "loss"}, {"at_ns": 1}, {"iteration": 2}, {"duration_ns": 10**9}):
        assert not all_along((*FAR, replace(FAR[0], **change)))


def test_a_run_made_before_windows_were_read_has_no_such_check() -> None:
    assert used(sound_record(FABRIC)) is None
    names = [check.name for check in judge(pushes(), FABRIC, sound_log(), record_of([])).checks]
    assert "windows" not in names


def test_the_verdict_has_the_check() -> None:
    record = record_of([state(number, number, SMALL) for number in range(3)])
    verdict = judge(
        pushes(), FABRIC, sound_log(), record, circumstances=Circumstances(faults=FAR, windows=used(record))
    )
    assert [check.ok for check in verdict.checks if check.name == "windows"] == [False]
    assert "windows 3 of 3" in verdict.summary

"""Deadlocks in the state of pauses, and the file of when they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradwire.datatypes.pauses import HeldBandBytes, PauseCount, PausedBand, PauseEvents, PauseState, deadlock_in

FAR_ENDS = {
    **{"s1-eth3": "s2-eth2", "s2-eth3": "s3-eth2", "s3-eth3": "s1-eth2"},
    **{"s2-eth2": "s1-eth3", "s3-eth2": "s2-eth3", "s1-eth2": "s3-eth3"},
    **{"s1-eth1": "h1-eth0", "h1-eth0": "s1-eth1"},
}
"""A triangle of switches, and a host."""


def count(port: str, band: int = 1, *, stopped: bool = False, **counted: int) -> PauseCount:
    values = dict.fromkeys(
        ("pauses", "resumes", "paused_ns", "paused_since_ns", "most_bytes", "most_headroom_bytes", "headroom_bytes"), 0
    ) | dict.fromkeys(("dropped", "stops", "stopped_ns", "waiting_bytes", "charged_bytes"), 0)
    return PauseCount(port=port, band=band, is_stopped=stopped, **{**values, **counted})


def state(stopped: tuple[str, ...], held: tuple[HeldBandBytes, ...]) -> PauseState:
    return PauseState(0, 0, tuple(count(port, stopped=port in stopped) for port in FAR_ENDS), held)


AROUND = (
    HeldBandBytes("s2-eth3", 1, "s2-eth2", 9),
    HeldBandBytes("s3-eth3", 1, "s3-eth2", 9),
    HeldBandBytes("s1-eth3", 1, "s1-eth2", 9),
)
STOPPED = ("s1-eth3", "s2-eth3", "s3-eth3")


def test_a_circle_is_named_port_by_port() -> None:
    assert deadlock_in(state(STOPPED, AROUND), FAR_ENDS) == (
        PausedBand("s1-eth3", "s2-eth2", 1),
        PausedBand("s2-eth3", "s3-eth2", 1),
        PausedBand("s3-eth3", "s1-eth2", 1),
    )


def test_a_host_that_waits_for_the_circle_is_not_part_of_it() -> None:
    found = deadlock_in(state((*STOPPED, "h1-eth0"), (*AROUND, HeldBandBytes("s1-eth3", 1, "s1-eth1", 9))), FAR_ENDS)
    assert [each.port for each in found] == ["s1-eth3", "s2-eth3", "s3-eth3"]


def test_one_that_may_send_ends_the_circle() -> None:
    assert deadlock_in(state(STOPPED[:2], AROUND), FAR_ENDS) == ()


def test_one_that_waits_for_another_class_ends_it() -> None:
    assert deadlock_in(state(STOPPED, (*AROUND[:2], HeldBandBytes("s1-eth3", 2, "s1-eth2", 9))), FAR_ENDS) == ()


def test_pauses_that_spread_to_a_host_are_not_a_deadlock() -> None:
    assert deadlock_in(state(("h1-eth0", "s1-eth3"), (HeldBandBytes("s1-eth3", 1, "s1-eth1", 9),)), FAR_ENDS) == ()


def test_events_come_back_from_their_file(tmp_path: Path) -> None:
    columns = [np.array(values, dtype=np.int64) for values in ([5, 7], [0, 1], [1, 1], [1, 0])]
    events = PauseEvents(("s1-eth1", "s1-eth2"), *columns)
    events.save(tmp_path / "pauses.npz")
    read = PauseEvents.load(tmp_path / "pauses.npz")
    assert read.ports == events.ports
    assert [getattr(read, name).tolist() for name in ("time_ns", "port", "band", "pauses")] == [
        column.tolist() for column in columns
    ]


def test_events_of_ports_that_are_not_there_are_refused(tmp_path: Path) -> None:
    one = np.array([1], dtype=np.int64)
    PauseEvents(("s1-eth1",), one, one, one, one).save(tmp_path / "pauses.npz")
    with pytest.raises(ValueError, match="do not fit"):
        PauseEvents.load(tmp_path / "pauses.npz")

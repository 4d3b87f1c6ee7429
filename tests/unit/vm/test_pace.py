"""How a kernel's pace is counted: wall time that it was held for is nobody's, and shares are of who was seen."""

from __future__ import annotations

import os
import struct

import pytest

from gradwire.vm.pace import MachinePace, PaceMeter
from gradwire.vm.watching import Watched
from tests.unit.vm.test_watching import TASK, kernel_like


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_pace_is_told_once_a_period_with_shares_of_who_was_seen() -> None:
    memory, places = kernel_like(24)
    told: list[MachinePace] = []
    clock = _Clock()
    meter = PaceMeter(Watched(os.getpid(), places), 1.0, told.append, clock)
    struct.pack_into("<Q", memory, 0, 0)
    meter.begin()
    for number in range(20):
        struct.pack_into("<16s", memory, TASK + 8, b"spin" if number % 10 < 7 else b"iperf3")
        struct.pack_into("<Q", memory, 0, 2_000_000 * (number + 1))
        clock.now_s += 0.25
        meter.look()
    assert [pace.wall_s for pace in told] == pytest.approx([1, 2, 3, 4, 5])
    assert [pace.virtual_s for pace in told] == pytest.approx([8e-3] * 5)
    assert dict(told[1].shares) == {"spin on h2": 0.75, "iperf3 on h2": 0.25}


def test_time_for_which_a_kernel_is_held_is_not_counted() -> None:
    _, places = kernel_like(24)
    told: list[MachinePace] = []
    clock = _Clock()
    meter = PaceMeter(Watched(os.getpid(), places), 10.0, told.append, clock)
    for step_s in (*[0.5] * 10, 3600.0, *[0.5] * 10):
        clock.now_s += step_s
        meter.look()
    assert [(pace.wall_s, pace.lately_s, pace.virtual_s) for pace in told] == [(10.0, 10.0, None)]


def test_a_kernel_that_has_ended_is_not_told_of() -> None:
    _, places = kernel_like(24)
    clock = _Clock()
    told: list[MachinePace] = []
    meter = PaceMeter(Watched(os.getpid(), places._replace(task=8)), 1.0, told.append, clock)
    for _ in range(10):
        clock.now_s += 0.5
        meter.look()
    assert told == []

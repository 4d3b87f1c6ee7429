"""Faults done in the loop that follows programs: when it is told to come back, and what is done then."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from gradwire.datatypes.records import PlannedFault
from gradwire.inside.fault_times import EARLY_S, FaultTimes, Nothing
from gradwire.inside.injection import Act, NetworkPatient

BEGIN_NS = 5_000_000_000
CUT = PlannedFault("cut", "link-down", 1_000_000_000, duration_ns=500_000_000, place="h1-eth0")
SLOW = PlannedFault("slow", "rate", 1_200_000_000, place="h1-eth0", value=5e8)
COMMAND_NS = 70_000
"""What a change takes here."""


class Clock:
    """A clock that passes when somebody sleeps, and a network that takes its time."""

    def __init__(self) -> None:
        self.now_ns = BEGIN_NS
        self.done: list[tuple[int, str, Act, list[str]]] = []
        self.settled = 0

    def sleep(self, duration_s: float) -> None:
        self.now_ns += round(duration_s * 1e9)

    def apply(self, fault: PlannedFault, act: Act, active: Collection[PlannedFault]) -> None:
        self.done.append((self.now_ns - BEGIN_NS, fault.name, act, [each.name for each in active]))
        self.now_ns += COMMAND_NS

    def settle(self) -> None:
        self.settled += 1


def faults_on(clock: Clock, *faults: PlannedFault) -> FaultTimes:
    return FaultTimes(faults, cast(NetworkPatient, clock), BEGIN_NS / 1e9, lambda: clock.now_ns, clock.sleep)


def test_the_loop_comes_back_early_and_each_change_is_exact() -> None:
    clock = Clock()
    times = faults_on(clock, CUT, SLOW)
    times.do_due()
    assert clock.done == []
    for due_s in (1.0, 1.2, 1.5):
        assert abs(times.next_s() - (BEGIN_NS / 1e9 + due_s - EARLY_S)) < 1e-6
        clock.now_ns = round(times.next_s() * 1e9) + 900_000  # as late as epoll's milliseconds are
        times.do_due()
    assert times.next_s() == float("inf")
    clock.now_ns = BEGIN_NS + 3_000_000_000
    times.end()
    assert clock.done == [
        (1_000_000_000, "cut", Act.BEGIN, ["cut"]),
        (1_200_000_000, "slow", Act.BEGIN, ["cut", "slow"]),
        (1_500_000_000, "cut", Act.END, ["slow"]),
        (3_000_000_000, "slow", Act.END, []),
    ]
    assert clock.settled == 1
    cut, slow = times.records
    assert (cut.due_ns, cut.begun_ns, cut.ended_ns) == (1_000_000_000, 1_000_070_000, 1_500_070_000)
    assert (slow.begun_ns, slow.ended_ns) == (1_200_070_000, 3_000_070_000)


def test_faults_of_one_moment_are_done_one_after_the_other() -> None:
    clock = Clock()
    times = faults_on(clock, CUT, PlannedFault("far", "delay", 1_000_000_000, place="h2-eth0", value=1e-3))
    clock.now_ns = round(times.next_s() * 1e9)
    times.do_due()
    assert [(name, at_ns) for at_ns, name, *_ in clock.done] == [("cut", 1_000_000_000), ("far", 1_000_070_000)]


def test_one_whose_time_never_came_is_not_done() -> None:
    clock = Clock()
    times = faults_on(clock, CUT)
    times.end()
    assert clock.done == []
    assert times.records[0].begun_ns == -1


def test_without_faults_nothing_is_waited_for() -> None:
    Nothing().do_due()
    assert Nothing().next_s() == float("inf")

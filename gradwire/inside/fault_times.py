"""Carries out the faults of a scenario of programs, in the loop that starts programs and follows them.

This process has one thread, because it forks (`Processes.start`). So nothing sleeps here for long: the loop asks
when to come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from gradwire.datatypes.records import FaultRecord, PlannedFault
from gradwire.inside.injection import Act, FaultSchedule, NetworkPatient

EARLY_S = 2e-3
"""How much earlier than a fault the loop comes back: epoll counts whole milliseconds, and rounds up. The rest is slept
to the nanosecond, while what programs write waits in their pipes."""

NEVER_NS = 2**62


class Timed(Protocol):
    """Something that has to be done at certain times while programs run."""

    def next_s(self) -> float:
        """Returns when to call `do_due` next, in seconds of the virtual clock (time.monotonic); infinite if never."""

    def do_due(self) -> None:
        """Does what is due."""


class Nothing:
    """A `Timed` that is never due."""

    def next_s(self) -> float:
        """Never."""
        return float("inf")

    def do_due(self) -> None:
        """Does nothing."""


class FaultTimes:
    """The faults of a network, each of which is done and undone at its time.

    begin_s: of the virtual clock, from which times count. now_ns, sleep: that clock.
    """

    def __init__(
        self,
        faults: Sequence[PlannedFault],
        patient: NetworkPatient,
        begin_s: float,
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._agenda, self._patient = FaultSchedule(faults), patient
        self._begin_ns = round(begin_s * 1e9)
        self._clock_ns, self._sleep = now_ns, sleep

    @property
    def records(self) -> tuple[FaultRecord, ...]:
        """The record of each fault so far."""
        return self._agenda.records

    def add(self, fault: PlannedFault) -> None:
        """Plans another fault."""
        self._agenda.add(fault)

    def next_s(self) -> float:
        """A little before the next is due."""
        next_ns = self._agenda.next_ns()
        return float("inf") if next_ns is None else (self._begin_ns + next_ns) / 1e9 - EARLY_S

    def due_ns(self) -> int:
        """Returns when the next fault is due, in nanoseconds of the virtual clock; NEVER_NS if none is."""
        next_ns = self._agenda.next_ns()
        return NEVER_NS if next_ns is None else self._begin_ns + next_ns

    def do_due(self) -> None:
        """Does what is due, and waits for what is due within EARLY_S. Raises MachineFault if a command fails."""
        while (next_ns := self._agenda.next_ns()) is not None:
            left_s = (next_ns - self._now_ns()) / 1e9
            if left_s > EARLY_S:
                return
            if left_s > 0:
                self._sleep(left_s)
            if (taken := self._agenda.take_due(self._now_ns())) is not None:
                self._do(*taken)

    def end(self) -> None:
        """Takes out what is still in the network, and waits for switches to have their rules. Raises MachineFault."""
        for fault in self._agenda.end_all():
            self._do(fault, Act.END)
        self._patient.settle()

    def _do(self, fault: PlannedFault, act: Act) -> None:
        self._patient.apply(fault, act, self._agenda.active)
        self._agenda.noted(fault, act, self._now_ns())

    def _now_ns(self) -> int:
        return self._clock_ns() - self._begin_ns

"""Looks for deadlocks of priority flow control in the loop that follows programs, which would wait for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gradwire.faults import MachineFault
from gradwire.inside.fault_times import Timed
from gradwire.topo.deadlocks import STANDS_NS, Deadlocks

FIRST_S = STANDS_NS / 1e9
LONGEST_S = 16 * FIRST_S
"""Between two looks at a network in which nothing waits in a circle: programs may do nothing for hours."""


class DeadlockTimes:
    """Looks twice as late each time, until it finds a circle of ports that wait for each other, and then again soon.

    begin_s: of the virtual clock, from which times count. now_s: that clock.
    """

    def __init__(self, deadlocks: Deadlocks, begin_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._deadlocks, self._now_s = deadlocks, now_s
        self._after_s = FIRST_S
        self._next_s = begin_s + FIRST_S

    def next_s(self) -> float:
        """Returns the time of the next look, in seconds of the virtual clock."""
        return self._next_s

    def do_due(self) -> None:
        """Looks if it is time. Raises MachineFault for a deadlock, with who waits for whom."""
        now_s = self._now_s()
        if now_s < self._next_s:
            return
        if found := self._deadlocks.look():
            raise MachineFault(found)
        self._after_s = FIRST_S if self._deadlocks.has_circle else min(2 * self._after_s, LONGEST_S)
        self._next_s = now_s + self._after_s


class Together:
    """Several things that happen at their times."""

    def __init__(self, each: Sequence[Timed]) -> None:
        self._each = each

    def next_s(self) -> float:
        """Returns the earliest time at which one of them is due, in seconds; infinite if none is."""
        return min((timed.next_s() for timed in self._each), default=float("inf"))

    def do_due(self) -> None:
        """Does what is due of each."""
        for timed in self._each:
            timed.do_due()

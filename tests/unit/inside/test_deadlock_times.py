"""When it is looked for deadlocks while programs run."""

from __future__ import annotations

from typing import cast

import pytest

from gradwire.faults import MachineFault
from gradwire.inside.deadlock_times import FIRST_S, LONGEST_S, DeadlockTimes, Together
from gradwire.inside.fault_times import Nothing
from gradwire.topo.deadlocks import Deadlocks

BEGIN_S = 5.0


class Looks:
    """A clock, and what is found at each look."""

    def __init__(self, *found: tuple[bool, str]) -> None:
        self._found = list(found)
        self.has_circle = False
        self.now_s = BEGIN_S
        self.looked_s: list[float] = []

    def look(self) -> str:
        self.looked_s.append(self.now_s)
        self.has_circle, said = self._found.pop(0) if self._found else (False, "")
        return said

    def until(self, end_s: float) -> Looks:
        """Lets time pass as the loop does that asks when to come back."""
        timed = Together([Nothing(), DeadlockTimes(cast(Deadlocks, self), BEGIN_S, lambda: self.now_s)])
        while timed.next_s() <= end_s:
            self.now_s = timed.next_s()
            timed.do_due()
            timed.do_due()  # nothing is due twice
        return self


def test_a_network_that_does_nothing_is_looked_at_more_and_more_rarely() -> None:
    looked_s = Looks().until(BEGIN_S + 20).looked_s
    after_s = [b - a for a, b in zip([BEGIN_S, *looked_s], looked_s, strict=False)]
    assert after_s[:4] == pytest.approx([FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S])
    assert after_s[-1] == pytest.approx(LONGEST_S)


def test_a_circle_is_looked_at_again_soon_and_a_deadlock_ends_the_run() -> None:
    looks = Looks((False, ""), (False, ""), (True, ""), (True, "deadlocked"))
    with pytest.raises(MachineFault, match=r"^deadlocked$"):
        looks.until(BEGIN_S + 20)
    assert looks.looked_s[-1] - looks.looked_s[-2] == pytest.approx(FIRST_S)


def test_where_nothing_happens_nobody_has_to_come_back() -> None:
    assert Together([]).next_s() == float("inf")

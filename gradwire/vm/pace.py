"""How a virtual-time kernel is getting on: how much virtual time passes in wall time, and which processes have its CPU.

Both are seen from outside (vm/watching.py), so that runs repeat whether anybody looks or not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from gradwire.vm.watching import Watched

SAMPLE_PERIOD_S = 0.1
LONGEST_LOOK_S = 2.0
"""A longer time between two looks was not spent with the kernel: it was held while a person thought."""
NO_HOST = "(none)"
"""Hostname of what runs for the machine itself and not on a host."""
MOST_NAMED = 3
"""Processes that are named with their shares; the others are left out."""


@dataclass(frozen=True)
class MachinePace:
    """How a kernel got on between two moments of wall time."""

    #: Wall time for which the kernel has run, and the part of it that this is about.
    wall_s: float
    lately_s: float
    #: Virtual time that passed in `lately_s`; None while the machine boots, which sleeps.
    virtual_s: float | None
    #: The processes that had the CPU most often, such as "iperf3 on h2", with their shares from 0 to 1.
    shares: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        """Returns the pace in words."""
        named = ", ".join(f"{name} {share:.0%}" for name, share in self.shares)
        if self.virtual_s is None:
            passed = "the machine is still booting"
        else:
            time_text = f"{self.virtual_s:.3g} s of virtual time" if self.virtual_s else "no virtual time"
            passed = f"{time_text} passed in the last {self.lately_s:.0f} s"
        return f"after {self.wall_s:.0f} s: {passed}; the CPU had {named}"


class PaceMeter:
    """Looks at a kernel whenever it is asked to, and tells its pace every `period_s` of wall time."""

    def __init__(
        self,
        watched: Watched,
        period_s: float,
        tell: Callable[[MachinePace], None],
        wall_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watched, self._period_s, self._tell, self._wall_s = watched, period_s, tell, wall_s
        self._looked_s = wall_s()
        self._ran_s = self._told_s = 0.0
        self._told_ns: int | None = None
        self._seen: Counter[str] = Counter()

    def begin(self) -> None:
        """Notes that the machine has booted: virtual time counts from here on."""
        if self._told_ns is None:
            with suppress(OSError):
                self._told_ns = self._watched.virtual_ns()

    def look(self) -> None:
        """Notes who has the CPU, at most once in SAMPLE_PERIOD_S. A kernel that has not begun, or has ended, has nobody."""
        now_s = self._wall_s()
        step_s = now_s - self._looked_s
        if step_s < SAMPLE_PERIOD_S:
            return
        self._looked_s = now_s
        self._ran_s += step_s if step_s < LONGEST_LOOK_S else 0.0
        with suppress(OSError):
            activity = self._watched.activity()
            self._seen[activity.name if activity.host == NO_HOST else f"{activity.name} on {activity.host}"] += 1
            if self._ran_s - self._told_s >= self._period_s:
                self._tell_pace(self._watched.virtual_ns())

    def _tell_pace(self, now_ns: int) -> None:
        total = self._seen.total()
        shares = tuple((name, count / total) for name, count in self._seen.most_common(MOST_NAMED))
        virtual_s = None if self._told_ns is None else (now_ns - self._told_ns) / 1e9
        pace = MachinePace(self._ran_s, self._ran_s - self._told_s, virtual_s, shares)
        self._told_s = self._ran_s
        self._told_ns = None if self._told_ns is None else now_ns
        self._seen.clear()
        self._tell(pace)

"""Detects that priority flow control has deadlocked, and names which port waits for which.

The pauses of all ports are read now and then. If a circle of paused ports is found twice, and in between nothing in it
was paused anew or has moved, it will stay, because each port waits for the next.
"""

from __future__ import annotations

from gradwire.datatypes.pauses import PausedBand, PauseState, circle_in_words, deadlock_in
from gradwire.topo.flow_control import FlowControl

STANDS_NS = 200_000_000
"""Time for which a circle has to stand still, in nanoseconds. SONiC's watchdog for pause storms acts after as long by
default (detection time of 200 ms)."""


class Deadlocks:
    """Looks for deadlocks in a network. begun_ns: from when on times in messages count, by the monotonic clock."""

    def __init__(self, control: FlowControl, begun_ns: int) -> None:
        self._control, self._begun_ns = control, begun_ns
        self._far_ends = control.far_ends()
        self._before: tuple[object, ...] = ()
        #: Whether there was a circle when it was last looked.
        self.has_circle = False

    def look(self) -> str:
        """Looks, at least STANDS_NS after the last time; a sentence if there is a circle that was there then, or ""."""
        state = self._control.state()
        circle = deadlock_in(state, self._far_ends)
        now = (circle, _stands(state, circle))
        self.has_circle, stood, self._before = bool(circle), now == self._before, now
        if not (circle and stood):
            return ""
        return _in_words(circle, (_closed_ns(state, circle) - self._begun_ns) / 1e9)


def _stands(state: PauseState, circle: tuple[PausedBand, ...]) -> tuple[object, ...]:
    """Figures that stay the same while a circle stands still: how often its ports were paused, and the bytes that wait
    in them."""
    inside = {(each.port, each.band) for each in circle}
    return tuple((count.stops, count.waiting_bytes) for count in state.counts if (count.port, count.band) in inside)


def _closed_ns(state: PauseState, circle: tuple[PausedBand, ...]) -> int:
    """Time at which the last pause of the circle began, in nanoseconds of the monotonic clock."""
    by = {(each.by, each.band) for each in circle}
    return max(count.paused_since_ns for count in state.counts if (count.port, count.band) in by)


def _in_words(circle: tuple[PausedBand, ...], after_s: float) -> str:
    """The circle of a deadlock. after_s: from when it was complete on."""
    return (
        f"priority flow control has deadlocked in class {circle[0].band - 1}, after {after_s:.6f} s: {circle_in_words(circle)}. "
        f"None of them moved for {STANDS_NS / 1e9:g} s. Routes without a circle (trees, up and then down) cannot do this"
    )

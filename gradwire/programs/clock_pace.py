"""Keeps the clock of a script near the wall clock while a person types to it, and hands the script what they type.

While all programs wait, hours of virtual time would pass in a second: a `ping` without an end would write thousands of
lines before anybody can stop it. So the kernel is stopped now and then, which neither its clock nor its programs
notice.
"""

from __future__ import annotations

import os
import readline
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradwire.inside.typed_protocol import LineAsked
from gradwire.vm.session import JobSession

AHEAD_S = 5.0
TIMES_WALL = 10.0
"""A command's clock may be AHEAD_S ahead, as long as people wait at a prompt, plus TIMES_WALL times the wall time, a
pace at which they can read."""
PASTED_S = 1.0
"""For so long, in wall time, what is typed after a line is taken for the next line, as when several are pasted."""
LOOK_S = 0.05
"""Seconds between two looks at a kernel that is stopped."""
TYPED_BYTES = 4096


@dataclass(frozen=True)
class ClockPace:
    """The limit of a clock that was at `begin_s` when the wall clock was at `wall_begin_s`."""

    begin_s: float
    wall_begin_s: float

    def ahead_s(self, virtual_s: float, wall_s: float) -> float:
        """Wall-clock seconds for which the clock has to wait for the wall clock; 0 or less if it need not wait."""
        return (virtual_s - self.begin_s - AHEAD_S) / TIMES_WALL - (wall_s - self.wall_begin_s)


class Person:
    """The person who types, from one line that a script has asked for to the next."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._pace: ClockPace | None = None

    def wait(
        self,
        virtual_s: float,
        running: JobSession,
        interrupted: Callable[[], bool],
        *,
        reads_lines: bool = True,
        others: Sequence[int] = (),
    ) -> bytes | None:
        """Waits until time may pass. Returns the input so far: a line, b"" for Ctrl-D, None if there is none.

        reads_lines: whether input is read here. others: further descriptors that end the waiting, and are read by the
        caller.
        """
        self._pace = self._pace or ClockPace(virtual_s, time.monotonic())
        running.hold()
        try:
            while not interrupted():
                wall_s = time.monotonic()
                left_s = min(LOOK_S, self._pace.ahead_s(virtual_s, wall_s))
                is_heard = reads_lines and wall_s - self._begin_s > PASTED_S
                heard = select.select([0, *others] if is_heard else others, [], [], max(0.0, left_s))[0]
                if heard:
                    self._pace = None
                    return os.read(0, TYPED_BYTES) if 0 in heard else None
                if left_s <= 0:
                    return None
            self._pace = None
            return None
        finally:
            running.go_on()


def complete_with(asked: LineAsked) -> None:
    """Has readline complete the words, and know the earlier lines, of the script that asks for a line."""
    readline.set_auto_history(True)
    readline.parse_and_bind("tab: complete")
    readline.set_completer_delims(" \t\n")
    for line in asked.history:
        readline.add_history(line)

    def complete(text: str, number: int) -> str | None:
        words = asked.first_words if readline.get_begidx() == 0 else asked.later_words
        found = [word for word in words if word.startswith(text)]
        return f"{found[number]} " if number < len(found) else None

    readline.set_completer(complete)

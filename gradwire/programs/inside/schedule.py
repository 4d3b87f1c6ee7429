"""Which program starts when."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from gradwire.programs.inside.processes import Processes, Running
from gradwire.programs.protocol import Program


class Schedule:
    """Programs that wait for their time, and those that have started. begin_s: of the virtual clock, from which times count."""

    def __init__(self, programs: Sequence[Program], folder: str, begin_s: float) -> None:
        self.waiting = deque(sorted(programs, key=lambda program: program.start_s))
        self.started: list[tuple[Program, Running]] = []
        self._folder, self._begin_s = folder, begin_s

    def follow(self, processes: Processes, is_over: Callable[[], bool], end_s: float = float("inf")) -> bool:
        """Starts each program at its time, and follows all until they are over; False if the virtual clock reaches `end_s` before.

        Raises InputFault for a program that cannot be started.
        """
        while True:
            self._start_due(processes)
            next_s = self._begin_s + self.waiting[0].start_s if self.waiting else end_s
            if processes.follow(is_over, deadline_s=min(next_s, end_s)):
                return True
            if time.monotonic() >= end_s:
                return False

    def _start_due(self, processes: Processes) -> None:
        while self.waiting and self._begin_s + self.waiting[0].start_s <= time.monotonic():
            program = self.waiting.popleft()
            running = processes.start(
                program.host,
                program.argv,
                program.env,
                self._folder,
                name=program.name,
                traffic_class=program.traffic_class,
            )
            self.started.append((program, running))

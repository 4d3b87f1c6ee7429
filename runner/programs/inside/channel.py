"""The job's end of the conversation with the command outside: lines of JSON over the kernel's terminal."""

from __future__ import annotations

import os
import tty

from gradwire.runner.programs.protocol import Command, Event, command_of, line_of

TERMINAL = "/dev/tty1"
"""Which vm/session.py connects to the command outside."""
READ_BYTES = 4096


class Channel:
    """Sends events and receives commands. Waiting for the other side takes no virtual time.

    The clock moves on only when every process waits. So this one does not: as long as the other side does not read or write, it keeps
    asking, and yields the CPU to others in between.
    """

    def __init__(self) -> None:
        """Opens the terminal and makes it raw, so that it sends nothing back and changes no line end."""
        self._fd = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        tty.setraw(self._fd)
        self._rest = b""

    def fileno(self) -> int:
        """For a selector: readable if a command may have come."""
        return self._fd

    def say(self, event: Event) -> None:
        """Sends an event; returns when the kernel has taken all of it."""
        left = memoryview(line_of(event).encode() + b"\n")
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                os.sched_yield()

    def heard(self) -> Command | None:
        """A command, if one has come whole."""
        if b"\n" not in self._rest:
            try:
                self._rest += os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                return None
        line, end, rest = self._rest.partition(b"\n")
        if not end:
            return None
        self._rest = rest
        return command_of(line)

    def next(self) -> Command:
        """The next command, for which it waits as long as it takes, while virtual time stands still."""
        while (command := self.heard()) is None:
            os.sched_yield()
        return command

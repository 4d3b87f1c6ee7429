"""The job's end of the conversation with the command outside: signed lines of JSON over the kernel's terminal."""

from __future__ import annotations

import os
import time
import tty
from pathlib import Path

from gradwire.inside.program_protocol import Command, Event, Full, command_of, line_of
from gradwire.inside.signatures import Signatures
from gradwire.inside.typed_protocol import Passed, Rested
from gradwire.vm.answers import Answers

TERMINAL = "/dev/tty1"
"""Which vm/session.py connects to the command outside."""
READ_BYTES = 4096
WINDOW_BYTES = 1 << 16
"""A third of what a socket holds by default (net.core.wmem_default), with the largest Output on top."""
LINE_OVERHEAD_BYTES = 1024
"""What a short line takes in a socket besides its bytes."""


class Channel:
    """Sends events and receives commands.

    The kernel may never have to keep what the other side has not read, for while a process runs it does not notice
    that there is room again. So after WINDOW_BYTES this one asks whether all was taken, before it says more: what it
    says last may be what the other side waits for, which then gives a command and not that answer. It waits for that,
    and for what `answer` waits for, while virtual time stands still (vm/answers.py): how long the other side takes is
    seen by nobody.

    What comes over the terminal is for a person's keys, and costs the microseconds that it takes to look for it.
    """

    def __init__(self, key_file: Path) -> None:
        """Opens the terminal and makes it raw, so that it sends nothing back and changes no line end.

        Removes the file with the key that its lines are signed with, before any program can read it.
        """
        self._signatures = Signatures(key_file.read_bytes())
        self._answers = Answers(key_file.parent)
        key_file.unlink()
        self._fd = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        tty.setraw(self._fd)
        self._rest = b""
        self._unread_bytes = 0
        self._heard_count = 0

    def fileno(self) -> int:
        """For a selector: readable if a command may have come."""
        return self._fd

    def say(self, event: Event) -> None:
        """Sends an event; returns when it is certain that there is room for it."""
        if self._unread_bytes >= WINDOW_BYTES:
            self._write(Full())
            self._answers.next()
            self._unread_bytes = 0
        self._unread_bytes += LINE_OVERHEAD_BYTES + self._write(event)

    def answer(self) -> Command:
        """The next command that the other side gives as an answer; nothing happens in the kernel until it comes."""
        return command_of(self._answers.next())

    def heard(self) -> Command | None:
        """A command, if one has come whole."""
        return self._read()

    def next(self) -> Command:
        """The next command, for which it waits as long as it takes. The other side stops the kernel meanwhile."""
        while (command := self.heard()) is None:
            os.sched_yield()
        return command

    def rest(self) -> Command:
        """Says that nothing runs that a person waits for, and waits for what they do next."""
        self.say(Rested(self._heard_count))
        return self.next()

    def let_pass(self) -> Command:
        """Waits, while time stands still, until the person wants more of it to pass; gives what they have typed."""
        self.say(Passed(time.monotonic()))
        return self.answer()

    def _write(self, event: Event) -> int:
        """Writes an event as a line; returns its length."""
        line = self._signatures.signed(line_of(event)).encode() + b"\n"
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                os.sched_yield()
        return len(line)

    def _read(self) -> Command | None:
        if b"\n" not in self._rest:
            try:
                self._rest += os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                return None
        line, end, rest = self._rest.partition(b"\n")
        if not end:
            return None
        self._rest = rest
        self._heard_count += 1
        return command_of(line)

"""The common part of commands with a prompt and their jobs in the kernel: they stop the kernel, limit its clock, and
read a line while commands run in windows."""

from __future__ import annotations

from collections.abc import Callable

from gradwire.inside.program_protocol import Command, Taken, line_of
from gradwire.inside.typed_protocol import Over, Passed, Rested, Typed, TypedEvent, WindowOutput
from gradwire.programs.clock_pace import Person
from gradwire.programs.keyboard import LineReader
from gradwire.programs.windows import CommandWindows
from gradwire.vm.session import JobSession

Following = Callable[[Callable[[], bool]], bool]
"""Hears the job until something is so; whether it is over for good."""


class Talk:
    """Commands to a job, and whether it rests. running: its session, which may be stopped."""

    def __init__(self, running: JobSession) -> None:
        self._running = running
        self._sent_count, self._heard_count = 0, -1
        #: The person who types; None before anybody could.
        self.person: Person | None = None
        #: Whether a copy of this process reads a line, and hears Ctrl-C.
        self.is_read_by_copy = False

    def send(self, command: Command) -> None:
        """Sends a command, and resumes the kernel."""
        self._sent_count += 1
        self._running.go_on()
        self._running.send(line_of(command))

    @property
    def rests(self) -> bool:
        """Whether the job has received all commands, and waits for the next."""
        return self._heard_count == self._sent_count

    def take(
        self, event: TypedEvent, windows: CommandWindows, interrupted: Callable[[], bool], *, reads_lines: bool
    ) -> None:
        """Handles events about windows and the clock. interrupted: whether Ctrl-C was pressed meanwhile. reads_lines:
        whether typed lines go to a script."""
        match event:
            case Rested(heard=heard):
                self._heard_count = heard
            case WindowOutput(window=window, data=data):
                windows.show(window, data)
            case Over(window=window):
                windows.end(window)
            case Passed(virtual_s=virtual_s):
                typed = None
                if self.person is not None:
                    typed = self.person.wait(
                        virtual_s, self._running, interrupted, reads_lines=reads_lines, others=[windows.watch.fd]
                    )
                self._running.answer(line_of(Taken() if typed is None else Typed(typed)))

    def line(self, read: Callable[[], bytes], windows: CommandWindows, follow: Following) -> bytes:
        """A line that a person is asked for, while the kernel is stopped, or while commands run in windows. Raises
        KeyboardInterrupt for Ctrl-C; gives nothing if the job is over before."""
        if not windows:
            self._running.hold()
            return read()
        self.is_read_by_copy = True
        try:
            return self._line_of_copy(read, windows, follow)
        finally:
            self.is_read_by_copy = False

    def _line_of_copy(self, read: Callable[[], bytes], windows: CommandWindows, follow: Following) -> bytes:
        reader = LineReader(read, windows)
        try:
            while not reader.has_ended:
                if self.rests:
                    self._running.hold()
                    windows.serve(None)
                    self.person = Person()
                elif follow(lambda: self.rests or reader.has_ended):
                    break
        except BaseException:
            reader.end()
            raise
        return reader.line()

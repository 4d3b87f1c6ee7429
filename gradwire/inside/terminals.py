"""Terminals that a person types to: the one of the program in the foreground, and windows in which shells of hosts run.

Their lines are edited, their keys made into signals, and sizes kept by the kernel, as by any other. What differs is who
sees to it that time stands still: a window's shell says when it begins a command and when it prompts, by marks in what it
writes (`MarkReader`), and between the two time may pass.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import secrets
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gradwire.faults import Fault
from gradwire.inside.channel import Channel
from gradwire.inside.processes import STDERR, Processes, Running, Streams
from gradwire.inside.program_protocol import FOLDER, NO_HOST, Output
from gradwire.inside.typed_protocol import Keys, Open, Over, Resized, Shut, TerminalSize, WindowCommand, WindowOutput

READ_BYTES = 32768
SETTLE_S = 1e-3
"""Virtual time for which a shell at its prompt is silent after a key, so that it has done what the key asks for."""
COMPUTING = 20
"""So much longer it may be silent where its computation takes time."""
TICK_S = 0.5
"""Of virtual time, after which a person is asked whether more may pass."""
WINDOW = "window"
"""What a window's shell is called among programs."""
RC = r"""# The shell of a window: how gradwire sees whether a command runs.
unset HISTFILE
PS1='\[\e[1m\]@NAME@\[\e[0m\]:\w\$ '
PS0=$'\e]133;C;@TOKEN@\a'
PROMPT_COMMAND=$'printf "\e]133;A;@TOKEN@\a"'
"""


def open_terminal(size: TerminalSize) -> tuple[int, int]:
    """A terminal's two ends: the one to type at, which does not block, and the program's."""
    master, slave = pty.openpty()
    resize(master, size)
    os.set_blocking(master, False)
    return master, slave


def resize(terminal: int, size: TerminalSize) -> None:
    """Sets a terminal's size, and tells the programs in it."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def write_keys(terminal: int, data: bytes) -> None:
    """Types. What nobody has read for long is dropped when there is no more room."""
    with suppress(OSError):  # no room, or nobody is there
        os.write(terminal, data)


def rc_text(name: str, token: str) -> str:
    """Returns the start-up file of a window's shell. name: goes into its prompt, as far as bash takes nothing of it
    for more than a name."""
    return RC.replace("@NAME@", re.sub(r"[^\w.-]", "?", name)).replace("@TOKEN@", token)


class MarkReader:
    """Takes a shell's marks out of what it writes. token: what its marks end with, which no other program knows."""

    def __init__(self, token: str) -> None:
        self._marks = {f"\x1b]133;{letter};{token}\a".encode(): letter == "A" for letter in "AC"}
        self._rest = b""
        #: Whether the last mark was that of a prompt.
        self.at_prompt = False

    def shown(self, data: bytes) -> bytes:
        """Returns what is left to show to the person, without the marks."""
        data, shown = self._rest + data, b""
        while found := min(((at, mark) for mark in self._marks if (at := data.find(mark)) >= 0), default=None):
            at, mark = found
            shown, data = shown + data[:at], data[at + len(mark) :]
            self.at_prompt = self._marks[mark]
        kept = next((n for n in range(len(data), 0, -1) if any(m.startswith(data[-n:]) for m in self._marks)), 0)
        shown, self._rest = shown + data[: len(data) - kept], data[len(data) - kept :]
        return shown


class ShellWindow:
    """A shell in a window."""

    def __init__(self, master: int, program: Running, token: str) -> None:
        self.master, self.program, self.marks = master, program, MarkReader(token)
        self.settled_s = 0.0
        #: Whether anybody can still write to it.
        self.is_open = True

    @property
    def rests(self) -> bool:
        """Whether the shell prompts and has settled."""
        return self.marks.at_prompt and time.monotonic() >= self.settled_s


Begin = Callable[[Open, list[str], Streams], Running]
"""Starts the shell of a window where it belongs."""


class ShellWindows:
    """All of them. name_of: what a window's shell calls itself. begin: raises a Fault if a shell cannot be started."""

    def __init__(
        self, processes: Processes, channel: Channel, name_of: Callable[[Open], str], begin: Begin, settle_s: float
    ) -> None:
        self._processes, self._channel, self._name_of, self._begin = processes, channel, name_of, begin
        self._settle_s = settle_s
        self._windows: dict[int, ShellWindow] = {}

    def obey(self, command: WindowCommand) -> None:
        """Does what was done at a window."""
        window = self._windows.get(command.window)
        match command:
            case Open():
                self._open(command)
            case Keys(data=data) if window is not None and window.is_open:
                write_keys(window.master, data)
                window.settled_s = time.monotonic() + self._settle_s
            case Resized(size=size) if window is not None and window.is_open:
                resize(window.master, size)
                window.settled_s = time.monotonic() + self._settle_s
            case Shut() if window is not None:
                window.program.signal(signal.SIGHUP)
                self._forget(command.window)

    def at_rest(self) -> bool:
        """Returns whether every shell prompts, and reports those that have ended."""
        for number in [number for number, window in self._windows.items() if window.program.status is not None]:
            self._read_rest(number)
            self._channel.say(Over(number))
            self._forget(number)
        return all(window.rests for window in self._windows.values())

    def follow(self, until: Callable[[], bool], deadline_s: float, hear: Callable[[object], None]) -> None:
        """Follows all programs until something is so, until a shell may have settled, or until the virtual clock has come
        so far. hear: takes what comes meanwhile."""
        deadline_s = min(deadline_s, self._settled_s())
        self._processes.follow(
            lambda: until() or self._settled_s() < deadline_s, deadline_s=deadline_s, on_command=hear
        )

    def _settled_s(self) -> float:
        """Returns when the next shell may have settled, in seconds of the virtual clock."""
        now_s = time.monotonic()
        waits = (window.settled_s for window in self._windows.values() if window.marks.at_prompt)
        return min((moment_s for moment_s in waits if moment_s > now_s), default=float("inf"))

    def _open(self, command: Open) -> None:
        master, slave = open_terminal(command.size)
        token, rc = secrets.token_hex(8), FOLDER / f"window-{command.window}"
        rc.write_text(rc_text(self._name_of(command), token), encoding="utf-8")
        argv = ["bash", "--rcfile", str(rc), "-i"]
        try:
            program = self._begin(command, argv, Streams({}, (slave, slave), slave, controls=True))
        except Fault as fault:
            os.close(master)
            rc.unlink()
            self._channel.say(Output(NO_HOST, STDERR, f"{fault}\r\n".encode()))
            self._channel.say(Over(command.window))
            return
        self._windows[command.window] = ShellWindow(master, program, token)
        self._processes.watch(master, lambda: self._read(command.window))

    def _read_rest(self, number: int) -> None:
        """Reads the last output of a shell that has ended."""
        window = self._windows[number]
        while window.is_open and select.select([window.master], [], [], 0)[0]:
            self._read(number)

    def _read(self, number: int) -> None:
        window = self._windows.get(number)
        if window is None:
            return
        try:
            data = os.read(window.master, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # nobody has the other end open any more
            data = b""
        if not data:
            self._close(window)
            return
        shown = window.marks.shown(data)
        window.settled_s = time.monotonic() + self._settle_s
        if shown:
            self._channel.say(WindowOutput(number, shown))

    def _forget(self, number: int) -> None:
        self._close(self._windows.pop(number))
        Path(FOLDER / f"window-{number}").unlink(missing_ok=True)

    def _close(self, window: ShellWindow) -> None:
        """Closes our end, which ends the shell if it has not ended."""
        if window.is_open:
            window.is_open = False
            self._processes.unwatch(window.master)
            os.close(window.master)

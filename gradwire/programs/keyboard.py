"""The terminal that a command was started in: lent to the program that a person waits for, or read from while commands run
in windows."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import termios
import time
import traceback
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradwire.faults import MachineFault
from gradwire.programs.pace import PASTED_S
from gradwire.programs.typed_protocol import FOREGROUND, Keys, Resized, Size
from gradwire.programs.windows import Windows

READ_BYTES = 4096
OUTPUT_FLAGS, LOCAL_FLAGS = 1, 3
"""Places in what tcgetattr returns."""
NOT_DECODED = "this is not in the terminal's encoding, and was not read"
DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG (linux/prctl.h)."""


def size_here() -> Size:
    """The terminal's size."""
    columns, rows = os.get_terminal_size(1)
    return Size(rows, columns)


class Keyboard:
    """The terminal, while a program has it. What is typed in the first second is left for the next line, as when several
    are pasted: until then Ctrl-C is a signal, and then a key like any other.

    send: passes on what is typed. windows: where what can be read is waited for.
    """

    def __init__(self, windows: Windows, send: Callable[[Keys | Resized], None]) -> None:
        self._windows, self._send = windows, send
        self._begin_s = time.monotonic()
        self._size = size_here()
        self._is_read = False

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lends it in the block."""
        before = termios.tcgetattr(0)
        waiting = termios.tcgetattr(0)
        waiting[OUTPUT_FLAGS] &= ~termios.OPOST
        waiting[LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(0, termios.TCSADRAIN, waiting)
        try:
            yield
        finally:
            self._windows.no_more(0)
            termios.tcsetattr(0, termios.TCSADRAIN, before)

    def look(self) -> None:
        """To be called now and then in the block: begins to read, and notices another size."""
        if not self._is_read and time.monotonic() - self._begin_s > PASTED_S:
            self._is_read = True
            tty.setraw(0, termios.TCSADRAIN)
            self._windows.also(0, self._read)
        if self._size != (size := size_here()):
            self._size = size
            self._send(Resized(FOREGROUND, size))

    def _read(self) -> None:
        if data := os.read(0, READ_BYTES):
            self._send(Keys(FOREGROUND, data))
        else:
            self._windows.no_more(0)


class LineReader:
    """A copy of this process that reads a line, while this one has something else to do.

    read: reads it in the copy. windows: where its end is waited for.
    """

    def __init__(self, read: Callable[[], bytes], windows: Windows) -> None:
        self._windows, self._said = windows, bytearray()
        self.has_ended = False
        self._from, to = os.pipe()
        self._before = termios.tcgetattr(0)
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid == 0:
            _read_and_tell(read, to)
        os.close(to)
        windows.also(self._from, self._take)

    def _take(self) -> None:
        if data := os.read(self._from, READ_BYTES):
            self._said += data
        else:
            self._windows.no_more(self._from)
            self.has_ended = True

    def line(self) -> bytes:
        """What it has read; nothing if it still reads, which ends. Raises KeyboardInterrupt for Ctrl-C, and
        MachineFault if the copy has failed, which has said why."""
        has_ended = self.has_ended
        status = self.end()
        if not has_ended:
            return b""
        if status:
            raise MachineFault(
                f"no line could be read from the terminal: the process that reads it ended with {status}"
            )
        line = json.loads(self._said)
        if line is None:
            raise KeyboardInterrupt
        return str(line).encode()

    def end(self) -> int:
        """Ends it, and makes the terminal what it was. Gives the copy's exit status, -n after signal n."""
        self._windows.no_more(self._from)
        os.close(self._from)
        if not self.has_ended:
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        termios.tcsetattr(0, termios.TCSADRAIN, self._before)
        return os.waitstatus_to_exitcode(status)


def _read_and_tell(read: Callable[[], bytes], to: int) -> None:
    """What the copy does, which is gone afterwards."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            line = read().decode(errors="replace")
        except KeyboardInterrupt:
            line = None
        with os.fdopen(to, "wb") as told:
            told.write(json.dumps(line).encode())
        status = 0
    except Exception:  # noqa: BLE001 (nobody above can tell it)
        traceback.print_exc()
    finally:
        os._exit(status)

"""The terminal that a command was started in, read from while commands run in windows."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import termios
import traceback
from collections.abc import Callable

from gradwire.faults import MachineFault
from gradwire.programs.windows import CommandWindows

READ_BYTES = 4096
NOT_DECODED = "this is not in the terminal's encoding, and was not read"
DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG (linux/prctl.h)."""


class LineReader:
    """A copy of this process that reads a line, while this one has something else to do.

    read: reads it in the copy. windows: where its end is waited for.
    """

    def __init__(self, read: Callable[[], bytes], windows: CommandWindows) -> None:
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
        """The line that was read; b"" if none has come yet, in which case reading ends. Raises KeyboardInterrupt for
        Ctrl-C, and MachineFault if the forked copy has failed, which has printed the reason."""
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
        """Ends the copy, and restores the terminal. Returns the copy's exit status, -n after signal n."""
        self._windows.no_more(self._from)
        os.close(self._from)
        if not self.has_ended:
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        termios.tcsetattr(0, termios.TCSADRAIN, self._before)
        return os.waitstatus_to_exitcode(status)


def _read_and_tell(read: Callable[[], bytes], to: int) -> None:
    """Reads a line and writes it to `to`, in a forked copy of this process, and then exits."""
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

"""Starts a user's script as Python would, with an input that is asked for line by line: `start.py SOCKET SCRIPT [ARGS]`.

Runs in the Python of the script, which may have nothing of gradwire's, and imports nothing of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys
import traceback
import types
from pathlib import Path

INTERRUPTED = 130


class Asking(io.TextIOBase):
    """An input of which each line is asked for when it is wanted, while the virtual clock stands still.

    Its descriptor is a pipe that nobody writes to: whoever waits for it to be readable waits.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._answers: io.BufferedReader | None = None
        self._rest = ""

    def fileno(self) -> int:
        """Standard input."""
        return 0

    def isatty(self) -> bool:
        """Nobody types here."""
        return False

    def readable(self) -> bool:
        """Of course."""
        return True

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """The next line; "" at the end of the input. Raises KeyboardInterrupt for Ctrl-C."""
        line = self._rest or self._asked()
        kept = line if size < 0 else line[:size]
        self._rest = line[len(kept) :]
        return kept

    def read(self, size: int | None = -1, /) -> str:
        """Everything up to the end of the input, or up to the end of a line."""
        if size is not None and size >= 0:
            return self.readline(size)
        return "".join(iter(self.readline, ""))

    def _asked(self) -> str:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if self._answers is None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(self._path)
            self._answers = self._socket.makefile("rb")
        self._socket.sendall(b"?")
        answer = json.loads(self._answers.readline())
        if answer is None:
            raise KeyboardInterrupt
        return str(answer)


def main() -> int:
    """Runs the script; its status if it ends with an exception."""
    own, (path, script) = Path(__file__).resolve(), sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(script).parent)
    sys.stdin = Asking(path)
    module = types.ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    try:
        code = compile(Path(script).read_bytes(), script, "exec")
        exec(code, module.__dict__)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (as Python does with what nobody catches)
        trace = error.__traceback__
        while trace is not None and Path(trace.tb_frame.f_code.co_filename).resolve() == own:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

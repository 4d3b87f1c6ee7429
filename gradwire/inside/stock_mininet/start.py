"""Starts a user's script as Python would, with an input that is asked for line by line: `start.py SOCKET typed|piped
SCRIPT [ARGS]`.

Runs in the Python of the script, which may have nothing of gradwire's, and imports nothing of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import socket
import sys
import traceback
import types
from pathlib import Path

INTERRUPTED = 130
TYPED, NOT_TYPED = "typed", "piped"
END_OF_INPUT = b"\x04"
"""Ctrl-D, as a terminal gets it."""
HISTORY_LINES = 1000
WORDS_LIMIT = 2000


class LineInput(io.TextIOBase):
    """An input of which each line is asked for when it is wanted, while the virtual clock stands still.

    Its descriptor is a pipe, in which lies what a person typed while nobody asked: whoever waits for it to be readable
    waits for that.

    typed: whether a person types.
    """

    def __init__(self, path: str, *, typed: bool = False) -> None:
        self._path, self._typed = path, typed
        self._has_told_history = False
        self._answers: io.BufferedReader | None = None
        self._rest = ""

    def fileno(self) -> int:
        """Standard input."""
        return 0

    def isatty(self) -> bool:
        """Nobody types here."""
        return False

    def readable(self) -> bool:
        """Returns True: lines can be read from it."""
        return True

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """The next line; "" at the end of the input. Raises KeyboardInterrupt for Ctrl-C."""
        line = self._rest or self._lying_there(size) or self._asked()
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
        self._socket.sendall(json.dumps(self._question()).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        if answer is None:
            raise KeyboardInterrupt
        if self._typed and "readline" in sys.modules and answer.strip():
            sys.modules["readline"].add_history(answer.rstrip("\n"))  # so that a script keeps it in its file
        return str(answer)

    def _lying_there(self, size: int) -> str:
        """Returns what was typed before it was asked for, up to the end of a line or `size` characters."""
        found = bytearray()
        while len(found) != size and not found.endswith(b"\n") and select.select([0], [], [], 0)[0]:
            character = os.read(0, 1)
            if not character or (size < 0 and character == END_OF_INPUT):
                break
            found += character
        return found.decode(errors="replace")

    def _question(self) -> "dict[str, object]":  # noqa: UP037 (the script's Python may be older)
        """Returns the request for a line, with the words and earlier lines that help whoever edits it."""
        if not self._typed:
            return {"event": "asked"}
        question: "dict[str, object]" = {"event": "asked"}  # noqa: UP037
        question.update(first_words=candidates(""), later_words=candidates("x "))
        if not self._has_told_history and "readline" in sys.modules:
            lines = sys.modules["readline"]
            end = lines.get_current_history_length() + 1
            question["history"] = [lines.get_history_item(n) or "" for n in range(max(1, end - HISTORY_LINES), end)]
            self._has_told_history = True
        return question


def candidates(line: str) -> "list[str]":  # noqa: UP037
    """With which words the script's completer, if it has one, would continue a line."""
    if "readline" not in sys.modules or sys.modules["readline"].get_completer() is None:
        return []
    lines = sys.modules["readline"]
    own = {name: getattr(lines, name) for name in ("get_line_buffer", "get_begidx", "get_endidx")}
    stand_in = {"get_line_buffer": lambda: line, "get_begidx": lambda: len(line), "get_endidx": lambda: len(line)}
    for name, function in stand_in.items():
        setattr(lines, name, function)
    words: "list[str]" = []  # noqa: UP037
    try:
        while len(words) < WORDS_LIMIT and (word := lines.get_completer()("", len(words))) is not None:
            words.append(str(word).rstrip())
    except Exception:  # noqa: BLE001 (a completer that fails completes nothing, as at any prompt)
        words = []
    finally:
        for name, function in own.items():
            setattr(lines, name, function)
    return words


def main() -> int:
    """Runs the script; its status if it ends with an exception."""
    own, (path, how, script) = Path(__file__).resolve(), sys.argv[1:4]
    sys.argv = sys.argv[3:]
    sys.path[0] = str(Path(script).parent)
    sys.stdin = LineInput(path, typed=how == TYPED)
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

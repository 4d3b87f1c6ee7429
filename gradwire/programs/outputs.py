"""The output of programs: complete in a file per host and stream, and on the terminal line by line, each after its
host's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TextIO

from gradwire.inside.program_protocol import OUTPUT_FOLDER, Output, output_file, place_name
from gradwire.terminal_text import visible
from gradwire.vm.streaming import LineSplitter

OUTPUT_LIMIT_BYTES = 1 << 30
"""Bytes that are kept by default of the output of a run's programs, so that it fills no disk unnoticed."""
SHOWN_LINE_BYTES = 1 << 13
"""Largest size of a line on the terminal; the rest of a longer one is shown as further lines."""


class Prefixed:
    """Writes the lines of one source to a terminal, each after a name; a line is written when it is whole, or very
    long.

    Where a person looks, control characters are shown as such, so that no program writes over another line or in its
    place.
    """

    def __init__(self, terminal: TextIO, prefix: str) -> None:
        self._terminal, self._prefix = terminal, prefix
        self._lines = LineSplitter(self._show, SHOWN_LINE_BYTES)
        self._shown = visible if terminal.isatty() else str

    def write(self, data: bytes) -> None:
        """Takes the next bytes."""
        self._lines.feed(data)
        self._terminal.flush()

    def close(self) -> None:
        """Ends a last line that its program did not end."""
        self._lines.close()
        self._terminal.flush()

    def _show(self, line: str) -> None:
        self._terminal.write(f"{self._prefix}{self._shown(line)}\n")


class Outputs:
    """Context manager that keeps and shows the output of programs on hosts. Files are made when their host first
    writes.

    terminal: files that show the output, by stream; a stream without one is only kept.
    """

    def __init__(self, folder: Path, hosts: Sequence[str], terminal: Mapping[int, TextIO]) -> None:
        self._folder, self._hosts, self._terminal = folder, hosts, terminal
        self._width = max(map(len, hosts))
        self._takers: dict[tuple[str, int, int], Callable[[bytes], object]] = {}
        self._files = ExitStack()

    def __enter__(self) -> Self:
        (self._folder / OUTPUT_FOLDER).mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()

    def take(self, output: Output) -> None:
        """Keeps and shows output of a program."""
        key = output.program, output.host, output.stream
        if key not in self._takers:
            self._takers[key] = self._taker(*key)
        self._takers[key](output.data)

    def _taker(self, program: str, host: int, stream: int) -> Callable[[bytes], object]:
        name = self._hosts[host]
        path = output_file(self._folder, place_name(program, name), stream)
        path.parent.mkdir(exist_ok=True)
        file: BinaryIO = self._files.enter_context(path.open("wb", buffering=0))
        if stream not in self._terminal:
            return file.write
        shown = Prefixed(self._terminal[stream], f"{name:<{self._width}} | ")
        self._files.callback(shown.close)

        def take(data: bytes) -> None:
            file.write(data)
            shown.write(data)

        return take

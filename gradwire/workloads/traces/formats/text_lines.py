"""Lines of text files, each with its number, and none longer than any real one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_items import opened, progress
from gradwire.workloads.traces.record import Watch

LONGEST_LINE = 64 << 10
"""Bytes; a name of a layer, and a few numbers, are what a line has."""
WATCHED_LINES = 100_000
"""Lines between two reports of how far reading is."""


def lines_of(path: Path, watch: Watch) -> Iterator[tuple[int, str]]:
    """Yields the number and the text of each line. Raises InputFault for what is no text, damaged or too long."""
    with opened(path) as file:
        number = 0
        while True:
            try:
                line = file.readline(LONGEST_LINE + 1)
            except (EOFError, OSError, zlib.error) as error:
                raise InputFault(f"{path}: its compressed content is damaged or cut off: {error}") from error
            if not line:
                return
            number += 1
            if len(line) > LONGEST_LINE:
                raise InputFault(f"{path}: line {number}: is longer than {LONGEST_LINE:,} bytes")
            try:
                yield number, line.decode()
            except UnicodeDecodeError as error:
                raise InputFault(f"{path}: line {number}: its text is not UTF-8: {error.reason}") from error
            if number % WATCHED_LINES == 0:
                watch(path, *progress(file))

"""Reads which calls of programs got invented answers, from what the stand-ins in their processes left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from gradwire.reading_budget import reading_budget
from gradwire.regular_files import read_text
from gradwire.typed_json import decoded

MOST_BYTES = 1 << 20
"""Of a file: 10,000 lines, where a process leaves up to four."""
MEANINGS: Mapping[str, str] = {
    "collective": "results of collectives were not computed",
    "copy": "copies left their target as it was",
    "fill": "fills left their target as it was",
    "kernel": "kernels of programs computed nothing",
}
"""What is invented, by the word that sources/ending.c writes."""
Counted = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class InventedCalls(msgspec.Struct, frozen=True):
    """Calls of one kind whose answers were invented."""

    #: A key of MEANINGS.
    call: str
    count: Counted
    size_bytes: Counted


def invented_calls(files: Iterable[Path]) -> tuple[InventedCalls, ...]:
    """Sums up the files of all programs.

    Files and lines that are not as a stand-in writes them are left out: programs may write there too, and deceive nobody
    but their user.
    """
    counts: Counter[str] = Counter()
    sizes_bytes: Counter[str] = Counter()
    for file in files:
        for line in lines_of(file):
            with suppress(msgspec.DecodeError):
                read = decoded(line, InventedCalls)
                counts[read.call] += read.count
                sizes_bytes[read.call] += read.size_bytes
    return tuple(InventedCalls(call, counts[call], sizes_bytes[call]) for call in MEANINGS if counts[call])


def lines_of(file: Path) -> list[str]:
    """The lines that programs left in a file; none if it cannot be read."""
    with suppress(OSError), reading_budget(file):
        return read_text(file, MOST_BYTES, errors="replace").splitlines()
    return []


def invented_text(calls: Iterable[InventedCalls]) -> str:
    """What a person is told of them; "" for none."""
    parts = [f"{each.count:,} {MEANINGS[each.call]} ({each.size_bytes / 1e6:,.1f} MB)" for each in calls]
    return f"GPUs invented answers: {'; '.join(parts)}. --gpu-data computes them" if parts else ""

"""Recognizes programs that want an address outside the emulated network, by their output."""

from __future__ import annotations

import re
from pathlib import Path

TAIL_BYTES = 1 << 14
OUTSIDE = re.compile(
    rb"Network is unreachable|Temporary failure in name resolution|Could not resolve host|[Uu]nable to resolve host address"
    rb"|Name or service not known"
)
NO_WAY_OUT = (
    "it wanted a name or an address that the emulated network does not have; there is no way from it to the machine's "
    "network or the internet"
)


def wanted_outside(tail: bytes) -> bool:
    """Returns whether the end of a failed program's output says that an address could not be reached."""
    return OUTSIDE.search(tail) is not None


def tail_of(file: Path) -> bytes:
    """The end of a file that a run has written; empty if there is none."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - TAIL_BYTES))
            return opened.read(TAIL_BYTES)
    except OSError:
        return b""

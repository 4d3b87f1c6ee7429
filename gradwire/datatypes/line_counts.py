"""Counts of the frames on the lines of a network, as frozen data.

Each end of a cable counts what it is given, behind all queues and out of every program's reach
(vm/patches/6.12/lines.patch). Imports the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LineCount:
    """The frames that one port put on its line. Bytes are those of frames, as tc counts them."""

    #: The port's interface.
    port: str
    #: Whether the port still has its line.
    is_there: bool
    frames: int
    size_bytes: int
    #: Frames that the far end's machine could not take.
    lost: int
    #: Time that the line would have needed at the most for what it was given and had not sent yet, and when that was.
    ahead_ns: int
    ahead_at_ns: int
    #: How long that may be.
    limit_ns: int
    #: Bytes put on the line while it was ahead by more than the limit, and the first and last moment of that.
    beyond_bytes: int = 0
    beyond_first_ns: int = 0
    beyond_last_ns: int = 0

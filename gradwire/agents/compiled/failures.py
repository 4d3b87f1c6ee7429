"""Why the compiled agent ends a replay: each reason with its details, which C notes and words.py puts into words.

This list is the only one: structures.py lays it out in what Python reads, and border.py writes it out for C.
"""

from __future__ import annotations

import ctypes
import re
from typing import get_args

Long = ctypes.c_int64


class BrokenWhileSending(ctypes.Structure):
    """A connection broke while a message was handed over."""

    _fields_ = (("connection", Long), ("error", Long))


class Broken(ctypes.Structure):
    """A connection broke while a message was received."""

    _fields_ = (("connection", Long), ("error", Long))


class Closed(ctypes.Structure):
    """The other end closed a connection that begins there."""

    _fields_ = (("connection", Long),)


class HungUp(ctypes.Structure):
    """The other end closed a connection that begins here."""

    _fields_ = (("connection", Long),)


class TimestampsUnreadable(ctypes.Structure):
    """The timestamps of a socket cannot be read."""

    _fields_ = (("error", Long),)


class TimestampWithoutNumber(ctypes.Structure):
    """A timestamp came with another control message than its number: that one's level and type."""

    _fields_ = (("level", Long), ("type", Long))


class FramingLost(ctypes.Structure):
    """What a connection brought is not a header of this plan, or one of a message of fewer than 0 bytes.

    What the header says: set_bytes is the length of its set of workers, and size_bytes is 0 where it is not one at all.
    """

    _fields_ = (("connection", Long), ("magic", Long), ("version", Long), ("set_bytes", Long), ("size_bytes", Long))


class NobodyWaits(ctypes.Structure):
    """A message came that no RECV waits for."""

    _fields_ = (("connection", Long), ("message", Long), ("iteration", Long))


class Contradictory(ctypes.Structure):
    """The contributions that a message brought do not add up with those held: `arrived` and `total` of Told."""

    _fields_ = (("iteration", Long), ("op", Long))


class NotComplete(ctypes.Structure):
    """An op begins that needs the chunk in a slot of the ledger to be complete of an iteration, and it is of another
    one."""

    _fields_ = (("iteration", Long), ("op", Long), ("slot", Long), ("held", Long), ("needed", Long))


class CallFailed(ctypes.Structure):
    """A system call failed that may not."""

    _fields_ = (("number", Long), ("error", Long))


Details = (
    BrokenWhileSending
    | Broken
    | Closed
    | HungUp
    | TimestampsUnreadable
    | TimestampWithoutNumber
    | FramingLost
    | NobodyWaits
    | Contradictory
    | NotComplete
    | CallFailed
)
FAILURES: tuple[type[Details], ...] = get_args(Details)
"""All of them. In C, each is numbered by its place here, and 0 means that nothing is wrong."""


def c_name(kind: type) -> str:
    """What a class is called in C."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


class AnyDetails(ctypes.Union):
    """The details of whichever failure it was."""

    _fields_ = tuple((c_name(kind), kind) for kind in FAILURES)

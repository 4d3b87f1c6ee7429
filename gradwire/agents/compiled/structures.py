"""The structures in memory through which Python and the compiled agent exchange data, and the reasons for which a
replay ends, each with its details.

border.py writes both out for C. The list of failures here is the only one: C notes them, and compiled_replay.py puts
them into words.
"""

from __future__ import annotations

import ctypes
import re
from enum import IntEnum
from typing import ClassVar, get_args

Long, Int, Byte = ctypes.c_int64, ctypes.c_int32, ctypes.c_uint8
Longs, Ints, Bytes, Words = map(ctypes.POINTER, (Long, Int, Byte, ctypes.c_uint64))


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
    """An op begins that needs the chunk in a slot of the ledger whole from one iteration, and it is from another."""

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
    """Returns the name of a class in C: `FramingLost` becomes `framing_lost`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


class AnyDetails(ctypes.Union):
    """The details of whichever failure it was."""

    _fields_ = tuple((c_name(kind), kind) for kind in FAILURES)


class What(IntEnum):
    """Why the compiled agent returns from a replay."""

    ITERATED = 1
    """An iteration is done."""
    FINISHED = 2
    """All are."""
    FAILED = 3
    """Something is wrong: `Told.failure`."""


class Lists(ctypes.Structure):
    """Lists of numbers in one column: list i is of[start[i]] up to of[start[i + 1]]."""

    _fields_ = (("start", Longs), ("of", Ints))


class End(ctypes.Structure):
    """One end of a connection."""

    _fields_ = (
        ("descriptor", Int),
        ("connection", Int),
        ("destination", Int),
        ("has_line", Int),
        ("ns_per_byte", ctypes.c_double),
        ("payload_bytes", Long),
        ("header_bytes", Long),
        ("overhead_bytes", Long),
    )
    notes: ClassVar = {"connection": "its number", "destination": "a rank"}


class Given(ctypes.Structure):
    """What Python hands over. Columns without a comment are those of the plan's ops."""

    _fields_ = (
        *((name, Long) for name in ("ops", "queues", "streams", "slots", "own", "iterations", "workers")),
        *((name, Long) for name in ("senders", "receivers", "ranks", "transfers", "speed_permille")),
        ("kind", Bytes),
        *((name, Ints) for name in ("rank", "lane", "chunk")),
        *((name, Longs) for name in ("order", "duration_ns", "size_bytes")),
        *((name, Bytes) for name in ("combine", "received_as", "is_remote")),
        *((name, Ints) for name in ("tensor", "stream", "slot", "recv", "sender", "waits_first", "waits_later")),
        ("own_ops", Longs),
        ("lag", Bytes),
        *((name, Lists) for name in ("successors", "produces", "consumes", "needs")),
        ("worker", Ints),
        ("whole", Ints),
        ("wholes", Words),
        ("discipline", Bytes),
        ("orders", Lists),
        ("outgoing", ctypes.POINTER(End)),
        ("incoming", ctypes.POINTER(End)),
        *((name, Ints) for name in ("transfer_of", "transfer_rank", "transfer_messages")),
        ("slows", Bytes),
        ("first_stream", Longs),
        ("payload", Int),
        ("spare", Int),
        ("start_ns", Long),
        ("log", Longs),
        ("lateness_ns", Longs),
    )
    notes: ClassVar = {
        "slots": "places of the ledger: what one rank holds of one chunk",
        "own": "ops of the hosts' ranks",
        "speed_permille": "of computation while its rank communicates; FULL_SPEED: nothing below is read",
        "transfer_of": "of each op: the transfer of its message; -1 for none",
        "slows": "of each op",
        "first_stream": "of each rank, and one more",
        "tensor": "of each op's chunk; -1 for none",
        "stream": "of each COMPUTE and REDUCE: which of all ranks' streams",
        "slot": "of each SEND and RECV: its rank's holding of its chunk in the ledger; -1 for control messages",
        "recv": "of each SEND to one of these ranks: its RECV",
        "sender": "of each SEND of these ranks: its connection, as a place in `outgoing`",
        "lag": "of each entry of `successors`",
        "produces": "slots of each op",
        "consumes": "the same",
        "needs": "the same",
        "worker": "of each rank: its number as a worker, or -1",
        "whole": "of each slot: which of `wholes` makes it complete",
        "wholes": "sets of workers",
        "orders": "of each COUNTER queue: the ops of an iteration, by order",
        "payload": "descriptor of the file that payload is sent from",
        "log": "rows of LOG_COLUMNS",
        "lateness_ns": "of each timer",
    }
    #: What the pointers lead to is read only, but for these.
    written: ClassVar = frozenset({"log", "lateness_ns"})


class ContributionSet(ctypes.Structure):
    """The contributions to a chunk that a message carries or a rank has summed."""

    _fields_ = (("iteration", Long), ("workers", Words))
    written: ClassVar = frozenset({"workers"})


class Told(ctypes.Structure):
    """What Python reads afterwards."""

    _fields_ = (
        *((name, Long) for name in ("iterations_done", "rows", "timers")),
        *((name, Long) for name in ("messages_sent", "messages_received", "bytes_sent", "bytes_received")),
        ("failure", Long),
        ("details", AnyDetails),
        ("arrived", ContributionSet),
        ("total", ContributionSet),
    )
    notes: ClassVar = {
        "rows": "of the log",
        "failure": "an enum failure, or 0",
        "details": "of that failure",
        "arrived": "what CONTRADICTORY is about",
        "total": "the same",
    }

    @property
    def reason(self) -> Details:
        """Returns the details of why the replay could not continue; valid only after FAILED."""
        index = self.failure - 1
        name = AnyDetails._fields_[index][0]
        details: Details = getattr(self.details, name)
        assert type(details) is FAILURES[index]
        return details


SHARED: dict[str, type[ctypes.Structure]] = {
    "lists": Lists,
    "end": End,
    "given": Given,
    "contributions": ContributionSet,
    "told": Told,
}
"""Structures by their names in C, each behind those that it consists of."""

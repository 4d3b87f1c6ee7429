"""Finds where messages begin and end in captured TCP streams. Pure.

The bytes of a connection follow its SYN: a hello, then one message after another, and each header says how many bytes
follow it (framing.py). So the position of every header is known wherever packets happen to be cut, but it has to be
followed from the start: a burst of 64 KiB carries the end of one message and the beginning of the next, and only 30 %
of P3's messages (200 KB) begin within the first 160 bytes of a packet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gradwire.datatypes.wire.framing import HELLO, header_bytes_of, is_header, is_hello, message_bytes_of
from gradwire.network.wire.headers import SYN, Bytes, Segment

Notes = Mapping[int, bytes]
"""Headers that were read before the packet was cut, by the sequence number of their first byte."""
NO_NOTES: Notes = {}
APPLICATION = "gradwire"
"""How gradwire's capture files name the application that wrote them."""
NOTE = "gradwire message at sequence number {}: {}"
"""A header in a capture file: the comment of the packet that has its last byte."""
_NOTE = re.compile(NOTE.format(r"(\d+)", "([0-9a-f]+)"))
SEQUENCE_NUMBERS = 1 << 32


@dataclass(slots=True)
class Seen:
    """A message whose header was found."""

    #: Sequence number of the header's first byte.
    sequence: int
    header: bytes
    #: Time of the packet with the message's first byte.
    first_ns: int
    #: Time of the packet with its last byte; None until that packet is seen.
    last_ns: int | None = None


def is_captured(message: Seen, segment: Segment, kept_bytes: int) -> bool:
    """Returns whether a message's header lies entirely within the first `kept_bytes` of a packet."""
    end = segment.sequence + kept_bytes - segment.header_bytes
    return segment.sequence <= message.sequence and message.sequence + len(message.header) <= end


def note(message: Seen) -> str:
    """The comment that preserves a header."""
    return NOTE.format(message.sequence, message.header.hex())


def read_notes(comments: Iterable[str]) -> Notes:
    """The headers that comments preserve; comments of other programs are ignored."""
    matches = [match for comment in comments if (match := _NOTE.fullmatch(comment))]
    return {int(match[1]): bytes.fromhex(match[2]) for match in matches}


class _Packet(NamedTuple):
    at_ns: int
    sequence: int
    size_bytes: int
    data: Bytes


class Trail:
    """Follows one stream.

    has_notes: whether every header that was cut off is noted at the packet that had its last byte, so that none is
    ever lost.
    """

    def __init__(self, *, has_notes: bool = False) -> None:
        #: How often a header was not captured. What follows it is skipped until a packet begins with a header.
        self.lost = 0
        self._has_notes = has_notes
        self._step_to(None, awaits_hello=False)
        self._last: Seen | None = None
        self._early: list[_Packet] = []
        self._notes: dict[int, bytes] = {}

    def _step_to(self, sequence: int | None, *, awaits_hello: bool) -> None:
        """Expects the next hello or header at `sequence`; None if that is unknown."""
        self._next = sequence
        self._awaits_hello = awaits_hello
        self._part = b""
        self._begun_ns: int | None = None
        self._is_torn = False

    def opened(self, sequence: int) -> None:
        """Notes the sequence number of the stream's SYN."""
        self._step_to((sequence + 1) % SEQUENCE_NUMBERS, awaits_hello=True)
        self._last = None
        self._early.clear()

    def take(self, at_ns: int, sequence: int, size_bytes: int, data: Bytes, notes: Notes = NO_NOTES) -> list[Seen]:
        """Takes a packet with `size_bytes` of the stream, of which `data` was captured; returns messages whose header
        is complete now."""
        if self._next is None:
            if not (is_hello(data) or is_header(data)):
                return []
            self._step_to(sequence, awaits_hello=is_hello(data))
        found: list[Seen] = []
        self._notes.update(notes)
        if not self._read(_Packet(at_ns, sequence, size_bytes, data), found):
            self._early.append(_Packet(at_ns, sequence, size_bytes, bytes(data)))
            return found
        in_turn = True
        while in_turn and self._early:
            left = [packet for packet in self._early if not self._read(packet, found)]
            in_turn = len(left) < len(self._early)
            self._early = left
        return found

    def _read(self, packet: _Packet, found: list[Seen]) -> bool:
        """Reads all headers in a packet; False if one must be in an earlier packet that has not come yet."""
        while self._next is not None:
            noted = self._notes.get(self._next)
            offset = _distance(packet.sequence, self._next + len(self._part))
            if offset < 0 and noted is None:
                if self._has_notes or not self._is_torn:
                    return False
                self._lose()
                if is_header(packet.data):
                    self._step_to(packet.sequence, awaits_hello=False)
                continue
            if offset <= packet.size_bytes and self._last is not None and self._last.last_ns is None:
                self._last.last_ns = packet.at_ns
            if offset >= packet.size_bytes:
                return True
            if self._awaits_hello:
                self._step_to((self._next + HELLO.size) % SEQUENCE_NUMBERS, awaits_hello=False)
                continue
            header = noted or self._collect(packet, offset)
            if header is None:
                return True
            self._notes.pop(self._next, None)
            first_ns = packet.at_ns if self._begun_ns is None else self._begun_ns
            self._last = Seen(self._next, header, first_ns)
            found.append(self._last)
            self._step_to((self._next + message_bytes_of(header)) % SEQUENCE_NUMBERS, awaits_hello=False)
        return True

    def _collect(self, packet: _Packet, offset: int) -> bytes | None:
        """The header that begins or continues at `offset` of the packet; None until it is complete."""
        start = self._part + bytes(packet.data[offset : offset + 8])
        if len(start) >= 8 and not is_header(start):
            self._lose()
            return None
        size_bytes = header_bytes_of(start)
        here = self._part + bytes(packet.data[offset : offset + size_bytes - len(self._part)])
        if len(here) == size_bytes:
            return here
        if self._begun_ns is None:
            self._begun_ns = packet.at_ns
        self._is_torn = len(packet.data) < packet.size_bytes
        self._part = b"" if self._is_torn else here
        return None

    def _lose(self) -> None:
        self.lost += 1
        self._step_to(None, awaits_hello=False)


def _distance(start: int, end: int) -> int:
    """Returns how far `end` is after `start`, negative if it is before it; sequence numbers wrap around."""
    half = SEQUENCE_NUMBERS // 2
    return (end - start + half) % SEQUENCE_NUMBERS - half


class Trails:
    """Follows all streams of a port. has_notes: as for Trail."""

    def __init__(self, *, has_notes: bool = False) -> None:
        self._has_notes = has_notes
        self._trails: dict[bytes, Trail] = {}

    @property
    def lost(self) -> int:
        """Headers that were not captured, in all streams."""
        return sum(trail.lost for trail in self._trails.values())

    def take(self, at_ns: int, segment: Segment, data: Bytes, notes: Notes = NO_NOTES) -> list[Seen]:
        """Takes any packet, with the captured part of its payload; returns the messages whose header is now
        complete."""
        if not segment.carries_messages:
            return []
        trail = self._trails.get(segment.flow)
        if trail is None:
            trail = self._trails[segment.flow] = Trail(has_notes=self._has_notes)
        if segment.flags & SYN:
            trail.opened(segment.sequence)
        elif segment.payload_bytes > 0:
            return trail.take(at_ns, segment.sequence, segment.payload_bytes, data, notes)
        return []

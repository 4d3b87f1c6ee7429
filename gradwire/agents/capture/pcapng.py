"""Writes capture files in the pcapng format (draft-ietf-opsawg-pcapng), with nanoseconds, directions, comments and
counts of lost packets.

scapy's writer does not serve: it keeps times as floats and writes no statistics. Nor does tcpdump's format (pcap),
which has neither directions nor comments.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

LITTLE_ENDIAN_MAGIC = 0x1A2B3C4D
ETHERNET = 1
INBOUND, OUTBOUND = 1, 2
_SECTION, _INTERFACE, _STATISTICS, _PACKET = 0x0A0D0D0A, 1, 5, 6
_COMMENT = 1
_SECTION_APPLICATION = 4
_INTERFACE_NAME, _INTERFACE_DESCRIPTION, _INTERFACE_SPEED, _INTERFACE_RESOLUTION = 2, 3, 8, 9
_PACKET_FLAGS = 2
_STATISTICS_RECEIVED, _STATISTICS_DROPPED = 4, 5
_NANOSECONDS = b"\x09"
_PACKET_FIXED = struct.Struct("<IIIIIII")
_FLAGS = {way: struct.pack("<HHI", _PACKET_FLAGS, 4, way) for way in (INBOUND, OUTBOUND)}
_END = bytes(4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


def section(application: str) -> bytes:
    """The block that begins a file."""
    fixed = struct.pack("<IHHq", LITTLE_ENDIAN_MAGIC, 1, 0, -1)
    return _block(_SECTION, fixed + _option(_SECTION_APPLICATION, application.encode()) + _END)


def interface(name: str, description: str, snaplen: int, rate_bps: float) -> bytes:
    """The block of the file's interface, an Ethernet port. rate_bps: left out if 64 bits cannot hold it."""
    options = _option(_INTERFACE_NAME, name.encode()) + _option(_INTERFACE_DESCRIPTION, description.encode())
    if rate_bps < 2**63:
        options += _option(_INTERFACE_SPEED, struct.pack("<Q", round(rate_bps)))
    options += _option(_INTERFACE_RESOLUTION, _NANOSECONDS) + _END
    return _block(_INTERFACE, struct.pack("<HHI", ETHERNET, 0, snaplen) + options)


def packet(time_ns: int, data: bytes, size_bytes: int, way: int, comments: Sequence[str] = ()) -> bytes:
    """The block of a packet of `size_bytes`, of which `data` is kept. time_ns: since 1970. way: INBOUND or OUTBOUND."""
    padded = data + bytes(-len(data) % 4)
    options = _FLAGS[way]
    for comment in comments:
        options += _option(_COMMENT, comment.encode())
    length = 32 + len(padded) + len(options) + 4
    fixed = _PACKET_FIXED.pack(_PACKET, length, 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), size_bytes)
    return fixed + padded + options + _END + struct.pack("<I", length)


def statistics(time_ns: int, received: int, dropped: int) -> bytes:
    """The block that ends a file: packets that the kernel saw, and how many of them it dropped for lack of room."""
    counts = _option(_STATISTICS_RECEIVED, struct.pack("<Q", received))
    counts += _option(_STATISTICS_DROPPED, struct.pack("<Q", dropped))
    return _block(_STATISTICS, struct.pack("<III", 0, time_ns >> 32, time_ns & 0xFFFFFFFF) + counts + _END)

"""The framing of messages on the wire: a fixed header, the set of contributions, then the payload.

The header is big-endian and has 48 bytes. One bit per worker follows, rounded up to bytes, least significant byte
first; then the payload:

    0  magic 0x47574952 ("GWIR")      4  version 1           5  flags (0)
    6  bytes of the contribution set   8  iteration          12 iteration of the contributions (signed)
    16 message (the SEND's op number)  24 source rank        28 destination rank (or group)
    32 tensor (-1: control)            36 chunk (-1: control) 40 payload bytes
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gradwire.datatypes.plan import Contributions
from gradwire.faults import InternalFault

PORT = 7000
"""TCP port on which every host receives messages."""
MAGIC = 0x47574952
VERSION = 1
_FIXED = struct.Struct(">IBBHIiqiiiiq")
FIXED_BYTES = _FIXED.size
HEADER_DTYPE = np.dtype(
    [
        ("magic", ">u4"),
        ("version", "u1"),
        ("flags", "u1"),
        ("mask_bytes", ">u2"),
        ("iteration", ">u4"),
        ("contributed_to", ">i4"),
        ("message", ">i8"),
        ("src_rank", ">i4"),
        ("dst_rank", ">i4"),
        ("tensor", ">i4"),
        ("chunk", ">i4"),
        ("size_bytes", ">i8"),
    ]
)
"""The fixed part of a header as a numpy type, for reading many headers at once."""
HELLO = struct.Struct(">II")
"""First bytes of a connection: magic and the connection's number."""
_PLACES: Mapping[str, Any] = HEADER_DTYPE.fields or {}
_MASK_BYTES_AT, _SIZE_AT = (int(_PLACES[name][1]) for name in ("mask_bytes", "size_bytes"))


class Header(NamedTuple):
    """One message's header."""

    iteration: int
    #: Index of the SEND in the plan.
    message: int
    src_rank: int
    dst_rank: int
    tensor: int
    chunk: int
    #: Size of the payload that follows.
    size_bytes: int
    contributions: Contributions


def header_bytes_of(data: bytes | memoryview) -> int:
    """Length of the header that begins with `data`, read from its first 8 bytes; FIXED_BYTES if there are fewer."""
    if len(data) < _MASK_BYTES_AT + 2:
        return FIXED_BYTES
    return FIXED_BYTES + int.from_bytes(data[_MASK_BYTES_AT : _MASK_BYTES_AT + 2], "big")


def message_bytes_of(header: bytes) -> int:
    """Size of a message on its connection, header and payload, read from its whole header."""
    return len(header) + int.from_bytes(header[_SIZE_AT : _SIZE_AT + 8], "big")


def is_header(data: bytes | memoryview) -> bool:
    """Returns whether `data` can be the beginning of a header of this version."""
    return bytes(data[:5]) == struct.pack(">IB", MAGIC, VERSION)


def is_hello(data: bytes | memoryview) -> bool:
    """Returns whether a packet's payload is a connection's hello, which is sent alone."""
    return len(data) == HELLO.size and HELLO.unpack(data)[0] == MAGIC


class Framing:
    """Packs and unpacks the headers of a plan with a given number of workers."""

    def __init__(self, workers: int) -> None:
        self.mask_bytes = (workers + 7) // 8
        self.header_bytes = _FIXED.size + self.mask_bytes

    def pack(self, header: Header) -> bytes:
        """The header as bytes, always `header_bytes` long."""
        fixed = _FIXED.pack(
            MAGIC,
            VERSION,
            0,
            self.mask_bytes,
            header.iteration,
            header.contributions.iteration,
            header.message,
            header.src_rank,
            header.dst_rank,
            header.tensor,
            header.chunk,
            header.size_bytes,
        )
        return fixed + header.contributions.workers.to_bytes(self.mask_bytes, "little")

    def unpack(self, data: bytes | memoryview) -> Header:
        """Inverse of `pack`. Raises InternalFault if the bytes are not a header of this plan."""
        magic, version, _, mask_bytes, iteration, of, message, src, dst, tensor, chunk, size = _FIXED.unpack_from(data)
        if magic != MAGIC or version != VERSION or mask_bytes != self.mask_bytes:
            raise InternalFault(
                f"a connection lost its framing: magic {magic:#x}, version {version}, mask of {mask_bytes} bytes"
            )
        if size < 0:
            raise InternalFault(f"a connection lost its framing: a message of {size} bytes")
        workers = int.from_bytes(data[_FIXED.size : self.header_bytes], "little")
        return Header(iteration, message, src, dst, tensor, chunk, size, Contributions(of, workers))

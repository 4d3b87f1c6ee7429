"""What multicast datagrams look like: data from the sender to a group, and status reports from a member to the sender. Pure.

Data, big-endian, 16 bytes, then a piece of the message (its framing header first, see framing.py, then its payload):

    0  flow (number)    4  datagrams left in this burst, this one included    6  flags    8  sequence number in the flow

A sender hands the kernel a burst of datagrams at once (UDP_SEGMENT), and a member takes in what arrives together at once (UDP_GRO)
and looks at the first header only, for the numbers in a burst are consecutive. Where packets are cut apart, they arrive one by one.

Status, big-endian, 16 bytes, then 16 bytes for each range of sequence numbers that the member lacks:

    0  flow    4  member (endpoint index)    6  number of ranges    8  all before this number has arrived
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gradwire.faults import InternalFault
from gradwire.topo.fabric import ETHERNET_HEADER_BYTES, IP_UDP_HEADER_BYTES, MULTICAST_HEADER_BYTES, Fabric

FLOW_PORT = 20_000
"""UDP port of flow 0, at its sender and at its group; the flow's number is added."""
REPORT_PORT = 7001
"""UDP port at which a member reports from, and to which repairs go."""
DATA = struct.Struct(">IHHQ")
STATUS = struct.Struct(">IHHQ")
RANGE = struct.Struct(">QQ")
FIRST = 1
"""Flag: the datagram begins a message."""
PROBE = 2
"""Flag: the members shall answer with their status, because the sender has not heard from all of them for long."""
HELLO = 4
"""Flag: the datagram holds nothing; it goes first, so that switches have the flow in their caches before data comes."""
MAX_BURST_DATAGRAMS = 64
"""Linux's UDP_MAX_SEGMENTS before 6.9; twice as many since."""
MAX_UDP_BYTES = 65_507
MAX_RANGES = 64
"""Ranges in one report, which so fits into one frame; what else is missing comes into the next."""

Span = tuple[int, int]
"""Sequence numbers from the first on, up to but without the second."""


def datagram_bytes(mtu_bytes: int) -> int:
    """Size of a full datagram, its header included and those of IP and UDP left out."""
    return mtu_bytes - IP_UDP_HEADER_BYTES + MULTICAST_HEADER_BYTES


@dataclass(frozen=True)
class Shape:
    """Sizes of a fabric's datagrams. size_bytes: of a full one, its header included; piece_bytes: of the message's piece in it."""

    size_bytes: int
    piece_bytes: int
    burst: int

    @staticmethod
    def of(fabric: Fabric) -> Shape:
        """Full frames, and bursts no longer than `gso_bytes`, which is the grain of preemption."""
        size_bytes = datagram_bytes(fabric.mtu_bytes)
        headers = ETHERNET_HEADER_BYTES + IP_UDP_HEADER_BYTES - MULTICAST_HEADER_BYTES
        most = min(fabric.gso_bytes - headers, MAX_UDP_BYTES)
        burst = max(1, min(MAX_BURST_DATAGRAMS, most // size_bytes))
        return Shape(size_bytes, size_bytes - MULTICAST_HEADER_BYTES, burst)

    def count(self, message_bytes: int) -> int:
        """Datagrams that a message takes, its framing header included."""
        return -(-message_bytes // self.piece_bytes)


@dataclass(frozen=True)
class Status:
    """What a member says: all before `cumulative` is here, and of what came later `missing` is not."""

    flow: int
    member: int
    cumulative: int
    missing: tuple[Span, ...]

    def pack(self) -> bytes:
        """As bytes; of many ranges only the first."""
        ranges = self.missing[:MAX_RANGES]
        fixed = STATUS.pack(self.flow, self.member, len(ranges), self.cumulative)
        return fixed + b"".join(RANGE.pack(*span) for span in ranges)

    @staticmethod
    def unpack(data: bytes) -> Status:
        """Inverse of `pack`; raises InternalFault if the bytes are no report."""
        if len(data) < STATUS.size:
            raise InternalFault(f"a multicast report has {len(data)} bytes instead of at least {STATUS.size}")
        flow, member, ranges, cumulative = STATUS.unpack_from(data)
        if len(data) != STATUS.size + ranges * RANGE.size:
            raise InternalFault(f"a multicast report of {ranges} ranges has {len(data)} bytes")
        spans = tuple((int(first), int(after)) for first, after in RANGE.iter_unpack(data[STATUS.size :]))
        return Status(flow, member, cumulative, spans)

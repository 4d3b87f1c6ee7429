"""The formats of multicast datagrams: data from a sender to a group, and status reports from a member to the sender.
Pure.

Data has a big-endian header of 16 bytes, then a piece of the message (its framing header, see framing.py, then its
payload):

    0  flow (number)    4  datagrams left in this burst, this one included    6  flags    8  sequence number in the flow

A sender hands a whole burst of datagrams to the kernel at once (UDP_SEGMENT). A member receives what arrives together
at once (UDP_GRO) and looks at the first header only, because the numbers in a burst are consecutive. Where packets are
cut apart, they arrive one by one.

A status report has a big-endian header of 16 bytes, then 16 bytes for each range of sequence numbers that the member
lacks:

    0  flow    4  member (endpoint index)    6  number of ranges    8  all datagrams before this number have arrived
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gradwire.faults import InternalFault
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, IP_UDP_HEADER_BYTES, MULTICAST_HEADER_BYTES, Fabric

FLOW_PORT = 20_000
"""UDP port of flow 0, at its sender and at its group. Flow n has port FLOW_PORT + n."""
REPORT_PORT = 7001
"""UDP port from which a member sends reports, and to which repairs are sent."""
DATA = struct.Struct(">IHHQ")
STATUS = struct.Struct(">IHHQ")
RANGE = struct.Struct(">QQ")
FIRST = 1
"""Flag: the datagram begins a message."""
PROBE = 2
"""Flag: members must answer with their status, because the sender has not heard from all of them for a long time."""
HELLO = 4
"""Flag: the datagram is empty. It is sent first, so that switches have the flow in their caches before data comes."""
MAX_BURST_DATAGRAMS = 64
"""UDP_MAX_SEGMENTS of Linux before 6.9; later kernels allow twice as many."""
MAX_UDP_BYTES = 65_507
MAX_RANGES = 64
"""Ranges in one report, so that it fits into one frame. Further ranges go into the next report."""

Span = tuple[int, int]
"""Sequence numbers from the first up to, but not including, the second."""


def datagram_bytes(mtu_bytes: int) -> int:
    """Size of a full datagram, its header included and those of IP and UDP left out."""
    return mtu_bytes - IP_UDP_HEADER_BYTES + MULTICAST_HEADER_BYTES


@dataclass(frozen=True)
class DatagramSizes:
    """Sizes of a fabric's datagrams."""

    #: A full datagram, with its header.
    size_bytes: int
    #: The piece of a message in a full datagram.
    piece_bytes: int
    #: Datagrams per burst.
    burst: int

    @staticmethod
    def of(fabric: Fabric) -> DatagramSizes:
        """Datagrams that fill frames, in bursts of at most `gso_bytes`, which is the granularity of preemption."""
        size_bytes = datagram_bytes(fabric.mtu_bytes)
        headers = ETHERNET_HEADER_BYTES + IP_UDP_HEADER_BYTES - MULTICAST_HEADER_BYTES
        max_burst_bytes = min(fabric.gso_bytes - headers, MAX_UDP_BYTES)
        burst = max(1, min(MAX_BURST_DATAGRAMS, max_burst_bytes // size_bytes))
        return DatagramSizes(size_bytes, size_bytes - MULTICAST_HEADER_BYTES, burst)

    def count(self, message_bytes: int) -> int:
        """Number of datagrams for a message of `message_bytes`, which include its framing header."""
        return -(-message_bytes // self.piece_bytes)


@dataclass(frozen=True)
class Status:
    """A member's report on a flow."""

    flow: int
    #: Endpoint index.
    member: int
    #: All datagrams before this number have arrived.
    cumulative: int
    #: Datagrams after `cumulative` that have not arrived although later ones have.
    missing: tuple[Span, ...]

    def pack(self) -> bytes:
        """The report as bytes, with the first MAX_RANGES ranges."""
        ranges = self.missing[:MAX_RANGES]
        fixed = STATUS.pack(self.flow, self.member, len(ranges), self.cumulative)
        return fixed + b"".join(RANGE.pack(*span) for span in ranges)

    @staticmethod
    def unpack(data: bytes) -> Status:
        """Inverse of `pack`. Raises InternalFault if the bytes are not a report."""
        if len(data) < STATUS.size:
            raise InternalFault(f"a multicast report has {len(data)} bytes instead of at least {STATUS.size}")
        flow, member, ranges, cumulative = STATUS.unpack_from(data)
        if len(data) != STATUS.size + ranges * RANGE.size:
            raise InternalFault(f"a multicast report of {ranges} ranges has {len(data)} bytes")
        spans = tuple((int(first), int(after)) for first, after in RANGE.iter_unpack(data[STATUS.size :]))
        return Status(flow, member, cumulative, spans)

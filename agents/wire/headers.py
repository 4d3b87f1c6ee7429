"""What a captured packet says of itself: Ethernet, IPv4, TCP and UDP headers, as far as gradwire's traffic has them. Pure.

For captures of millions of packets: reads a header with one call, where a full dissection (scapy's) takes 0.2 ms a packet.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gradwire.agents.wire.framing import PORT
from gradwire.topo.fabric import ETHERNET_HEADER_BYTES

Bytes = bytes | memoryview
IPV4 = 0x0800
TCP, UDP = 6, 17
SYN = 0x02
UDP_HEADER_BYTES = 8
_MIN_TCP_BYTES = 20
_ETHERTYPE = struct.Struct(">H")
_IPV4 = struct.Struct(">BBHHHBBH")
_PORTS_SEQUENCE = struct.Struct(">HHI")
_TCP_REST = struct.Struct(">BB")


class Segment(NamedTuple):
    """One captured packet of TCP or UDP, which may be a burst (GSO) of many frames.

    flow: addresses and ports as they stand in the headers, 12 bytes: one direction of a connection. sequence, flags: TCP's, else 0.
    header_bytes: of all headers, Ethernet's included. payload_bytes: by IP's length, however little of it was captured.
    """

    protocol: int
    flow: bytes
    dscp: int
    source_port: int
    target_port: int
    sequence: int
    flags: int
    header_bytes: int
    payload_bytes: int

    @property
    def carries_messages(self) -> bool:
        """Whether it is of a connection's direction that has messages."""
        return self.protocol == TCP and self.target_port == PORT


def read_segment(data: Bytes) -> Segment | None:
    """The headers of a packet; None for what is neither TCP nor UDP over IPv4, or was cut before its headers end."""
    if len(data) < ETHERNET_HEADER_BYTES + _IPV4.size + 8 or _ETHERTYPE.unpack_from(data, 12)[0] != IPV4:
        return None
    version, service, total_bytes, _, _, _, protocol, _ = _IPV4.unpack_from(data, ETHERNET_HEADER_BYTES)
    at = ETHERNET_HEADER_BYTES + 4 * (version & 15)
    flags = sequence = 0
    if protocol == TCP:
        if len(data) < at + _MIN_TCP_BYTES:
            return None
        source_port, target_port, sequence = _PORTS_SEQUENCE.unpack_from(data, at)
        size, flags = _TCP_REST.unpack_from(data, at + 12)
        end = at + 4 * (size >> 4)
    elif protocol == UDP:
        if len(data) < at + UDP_HEADER_BYTES:
            return None
        source_port, target_port, _ = _PORTS_SEQUENCE.unpack_from(data, at)
        end = at + UDP_HEADER_BYTES
    else:
        return None
    flow = bytes(data[at - 8 : at + 4])
    payload_bytes = ETHERNET_HEADER_BYTES + total_bytes - end
    return Segment(protocol, flow, service >> 2, source_port, target_port, sequence, flags, end, payload_bytes)

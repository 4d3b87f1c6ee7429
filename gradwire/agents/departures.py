"""The time at which a message's last byte leaves its host: transmit timestamps of Linux
(https://docs.kernel.org/networking/timestamping.html).

A sender asks for one with the message's last piece. When the host's port has let the packet go that holds this piece,
its driver (veth) puts a copy of it on the socket's error queue, and epoll reports an error. A port's shaper (HTB) lets
a packet go when the one before it has left, at the beginning of its time on the line. So the copy is read up to its
length, which says how long the packet takes from then on.

Linux keeps a packet's socket when the packet passes into another network namespace, so on a kernel other than gradwire's
(vm/patches/6.12/one-timestamp.patch) the switches' ports add timestamps of the same number. The first one is the host's.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import socket
import struct
from dataclasses import dataclass
from typing import NamedTuple

from gradwire.faults import InternalFault, MachineFault
from gradwire.network.fabric import (
    ETHERNET_HEADER_BYTES,
    IP_TCP_HEADER_BYTES,
    IP_UDP_HEADER_BYTES,
    MULTICAST_HEADER_BYTES,
    PREAMBLE_FCS_GAP_BYTES,
    Fabric,
)

SO_TIMESTAMPING = 37
IP_RECVERR = 11
TX_SOFTWARE, SOFTWARE, OPT_ID = 1 << 1, 1 << 4, 1 << 7
"""SOF_TIMESTAMPING_* of linux/net_tstamp.h: make one when the driver sends a packet; report it; number it."""
ASK = [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("=I", TX_SOFTWARE))]
"""The control message of `sendmsg` that asks for a timestamp of the bytes that it sends."""
NUMBERS = 1 << 32
"""Timestamps are numbered in 32 bits: on TCP by the last byte that the call sent, on UDP by the datagrams that asked
for one."""
LENGTH_AT = ETHERNET_HEADER_BYTES + 2
"""Offset of a packet's total length (RFC 791) from its start, in bytes; it is in the IPv4 header, behind the Ethernet
header."""
ANCILLARY = struct.Struct("=64x QII IBBBBII 16x")
"""The timestamp's own control message, whose time is not needed, since epoll reports it at once; then one with a
sock_extended_err of linux/errqueue.h, whose last field is the timestamp's number."""
ANCILLARY_FIELDS = ("length", "level", "type", "error", "origin", "of_type", "code", "padding", "information", "number")
AT_ONCE = 8
"""Timestamps that one call reads: on a kernel other than gradwire's, a message has as many as it passes ports."""


class PacketDeparture(NamedTuple):
    """A packet that a port has let go."""

    #: Which timestamp this is.
    number: int
    #: Length of the packet with its IP header; TCP and UDP hand over several frames as one packet.
    ip_bytes: int


def report_departures(sock: socket.socket) -> None:
    """Makes a socket report the timestamps that its messages ask for.

    A TCP socket must be connected and have sent nothing.
    """
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, SOFTWARE | OPT_ID)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """struct msghdr of recvmsg(2)."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_bytes", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """struct mmsghdr of recvmmsg(2)."""

    _fields_ = (("header", _Header), ("size_bytes", ctypes.c_uint))


class ErrorQueue:
    """Reads all timestamps of a socket with one call, which Python's `recvmsg` cannot."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._packets = [ctypes.create_string_buffer(LENGTH_AT + 2) for _ in range(AT_ONCE)]
        self._controls = [ctypes.create_string_buffer(ANCILLARY.size) for _ in range(AT_ONCE)]
        self._messages = (_Message * AT_ONCE)()
        for message, packet, control in zip(self._messages, self._packets, self._controls, strict=True):
            message.header.vectors = ctypes.pointer(_Vector(ctypes.addressof(packet), len(packet)))
            message.header.vector_count = 1
            message.header.control = ctypes.addressof(control)

    def read(self, sock: socket.socket) -> list[PacketDeparture]:
        """The timestamps that wait at a non-blocking socket, oldest first; none if it has an error of another kind."""
        for message in self._messages:
            message.header.control_bytes = ANCILLARY.size
        count = self._libc.recvmmsg(sock.fileno(), self._messages, AT_ONCE, socket.MSG_ERRQUEUE, None)
        if count < 0:
            error = ctypes.get_errno()
            if error == errno.EAGAIN:
                return []
            raise MachineFault(f"a socket's timestamps cannot be read: {os.strerror(error)}")
        return [self._departure(number) for number in range(count)]

    def _departure(self, number: int) -> PacketDeparture:
        _, level, kind, *_, stamp = ANCILLARY.unpack_from(self._controls[number])
        if (level, kind) != (socket.IPPROTO_IP, IP_RECVERR):
            raise InternalFault(f"a timestamp came with control message {kind} of level {level} instead of its number")
        return PacketDeparture(stamp, int.from_bytes(self._packets[number].raw[LENGTH_AT:], "big"))


@dataclass(frozen=True)
class PortLine:
    """The line of a host's port, with the sizes that decide how long a packet occupies it."""

    ns_per_byte: float
    #: Payload of a full frame, and what each frame adds to it at the IP layer and on the line.
    payload_bytes: int
    header_bytes: int
    overhead_bytes: int

    @staticmethod
    def of_tcp(fabric: Fabric, endpoint: int) -> PortLine:
        """The line that TCP segments from an endpoint take."""
        return _line(fabric, endpoint, IP_TCP_HEADER_BYTES)

    @staticmethod
    def of_multicast(fabric: Fabric, endpoint: int) -> PortLine:
        """The line that multicast datagrams from an endpoint take."""
        return _line(fabric, endpoint, IP_UDP_HEADER_BYTES - MULTICAST_HEADER_BYTES)

    def packet_ns(self, ip_bytes: int) -> int:
        """Returns the nanoseconds that a packet of `ip_bytes`, IP header included, occupies the line. A packet longer
        than a frame is cut into frames."""
        payload_bytes = ip_bytes - self.header_bytes
        frames = max(1, math.ceil(payload_bytes / self.payload_bytes))
        return round((payload_bytes + frames * (self.header_bytes + self.overhead_bytes)) * self.ns_per_byte)


def _line(fabric: Fabric, endpoint: int, header_bytes: int) -> PortLine:
    # A switch's aggregator has a link without a rate.
    rate_bps = fabric.host_bps[endpoint] if endpoint < fabric.hosts else math.inf
    return PortLine(
        ns_per_byte=8e9 / rate_bps,
        payload_bytes=fabric.mtu_bytes - header_bytes,
        header_bytes=header_bytes,
        overhead_bytes=ETHERNET_HEADER_BYTES + PREAMBLE_FCS_GAP_BYTES,
    )

"""Moves one message at a time over one connection, without copying its payload in either direction.

A sender hands over the header with `send` and the payload with `sendfile` from a file in memory (2 GB/s, where copies
reach 0.2 GB/s). Where it must know when a message has left the host, it sends the last piece with `sendmsg`, which
asks for a timestamp. A receiver reads headers and small messages into a small buffer, and discards the rest with
`recv(MSG_TRUNC)`, which takes bytes off a TCP socket without copying them.
"""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Sequence
from typing import NamedTuple

from gradwire.agents.departures import ASK, NUMBERS, ErrorQueue, PortLine
from gradwire.datatypes.wire.framing import HELLO, Framing, Header
from gradwire.faults import MachineFault

PAYLOAD_FILE_BYTES = 1 << 24
INLINE_BYTES = 4096
"""Messages up to this size are sent in one call together with their header."""
TAIL = bytes(1)
"""The last byte of a longer message, which is sent by a separate call that asks for a timestamp. It joins the packet
before it unless that has gone already."""
READ_BYTES = 16384
SKIP_BYTES = 1 << 28
"""The most that one call takes off a socket. Nothing is written to the buffer, so it costs address space only."""
LOW_WATER_BYTES = 1 << 20
"""The receiver of a long message is woken once per MiB instead of once per packet, because a wake-up costs several
system calls."""


def payload_file() -> int:
    """Opens a file in memory, of PAYLOAD_FILE_BYTES zeros, to send payload from; returns its descriptor."""
    descriptor = os.memfd_create("gradwire-payload")
    os.ftruncate(descriptor, PAYLOAD_FILE_BYTES)
    return descriptor


class Sender:
    """The sending end of a connection, on which at most one message is under way.

    line: what packets take on the host's line, if a message is done when its last byte has left the host, which
    `departed_ns` says. Without it, a message is done when `pump` has handed it over. So is one that fits into a frame,
    in any case: that takes less than the shaper forgives, and a timestamp costs as much as the rest of such a message.
    """

    def __init__(self, sock: socket.socket, payload: int, line: PortLine | None = None) -> None:
        self.sock = sock
        self.line = line
        self.iteration = self.op = -1
        self.start_ns = 0
        self.peer = str(sock.getpeername()[0])
        self._payload = payload
        self._head = self._tail = b""
        self._left = 0
        #: Bytes written to the connection, whose last one numbers a timestamp.
        self._written_bytes = HELLO.size
        #: Whether the message is not done before it has left.
        self.is_leaving = False

    def begin(self, iteration: int, op: int, header: bytes, size_bytes: int, now_ns: int) -> None:
        """Accepts a message, which `pump` then moves."""
        self.iteration, self.op, self.start_ns = iteration, op, now_ns
        self._written_bytes += len(header) + size_bytes
        self._head, self._left, self._tail = header, size_bytes, b""
        if size_bytes <= INLINE_BYTES:
            self._head, self._left = header + bytes(size_bytes), 0
        self.is_leaving = self.line is not None and len(header) + size_bytes > self.line.payload_bytes
        if not self.is_leaving:
            return
        if self._left:
            self._left, self._tail = size_bytes - len(TAIL), TAIL
        else:
            self._head, self._tail = b"", self._head

    def pump(self) -> bool:
        """Hands over as much as the kernel accepts; returns True once the whole message has been handed over.

        A piece that it takes in part is not tried again: the socket is full, and epoll says when it has room.
        """
        try:
            if self._head:
                more = socket.MSG_MORE if self._left else 0
                self._head = self._head[self.sock.send(self._head, more) :]
            while self._left and not self._head:
                piece_bytes = min(self._left, PAYLOAD_FILE_BYTES)
                taken_bytes = os.sendfile(self.sock.fileno(), self._payload, 0, piece_bytes)
                self._left -= taken_bytes
                if taken_bytes < piece_bytes:
                    break
            if self._tail and not self._head and not self._left:
                self._tail = self._tail[self.sock.sendmsg([self._tail], ASK) :]
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError) as error:
            raise MachineFault(f"the connection to {self.peer} broke while sending: {error}") from error
        return not (self._head or self._left or self._tail)

    def departed_ns(self, errors: ErrorQueue) -> int | None:
        """Reads the timestamps of a message that is leaving: for how long its last packet is still on the line; None
        if it has none yet."""
        assert self.line is not None
        for departure in errors.read(self.sock):
            # The first one counts: further ports, and a packet that is sent again, have timestamps of the same number.
            if departure.number == (self._written_bytes - 1) % NUMBERS:
                self.is_leaving = False
                return self.line.packet_ns(departure.ip_bytes)
        return None


class Arrival(NamedTuple):
    """A message that has arrived completely."""

    header: Header
    #: When the header was read.
    start_ns: int


_skipped = mmap.mmap(-1, SKIP_BYTES)


def discard(sock: socket.socket, most_bytes: int) -> int:
    """Takes bytes off a TCP socket without copying them; returns how many, 0 if the other end has closed it."""
    return sock.recv_into(_skipped, min(most_bytes, SKIP_BYTES), socket.MSG_TRUNC)


class Receiver:
    """The receiving end of a connection.

    low_water_bytes: what waits of a long message before epoll reports it. The kernel makes a window of that size, and a buffer for it
    (tcp_set_rcvlowat of net/ipv4/tcp.c): where windows are to be the kernel's own, 1.
    """

    def __init__(self, sock: socket.socket, framing: Framing, low_water_bytes: int = LOW_WATER_BYTES) -> None:
        self.sock = sock
        self.bytes_received = 0
        self._most_low_water = low_water_bytes
        self.peer = str(sock.getpeername()[0])
        self._framing = framing
        self._buffer = b""
        self._header: Header | None = None
        self._left = 0
        self._start_ns = 0
        self._low_water = 1
        #: What `receive` took: bytes to look at, or how many were discarded.
        self._taken: bytes | int | None = None

    def receive(self) -> None:
        """Takes what is there, with a single call. Then call `arrivals`."""
        try:
            if self._header is not None and not self._buffer:
                self._taken = discard(self.sock, self._left)
            else:
                self._taken = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            self._taken = None
            return
        except ConnectionResetError as error:
            raise MachineFault(f"the connection from {self.peer} broke in the middle of the run: {error}") from error
        if not self._taken:
            raise MachineFault(f"the connection from {self.peer} closed in the middle of the run")

    def arrivals(self, now_ns: int) -> Sequence[Arrival]:
        """The messages that are complete with what `receive` took, which was there at `now_ns`.

        Then call `set_low_water`.
        """
        taken, self._taken = self._taken, None
        if taken is None:
            return ()
        if isinstance(taken, bytes):
            return self._read(taken, now_ns)
        self.bytes_received += taken
        self._left -= taken
        return () if self._left else (self._complete(),)

    def _read(self, data: bytes, now_ns: int) -> Sequence[Arrival]:
        self.bytes_received += len(data)
        data = self._buffer + data
        arrivals = []
        at, header_bytes = 0, self._framing.header_bytes
        while len(data) - at >= header_bytes:
            self._header = self._framing.unpack(data[at : at + header_bytes])
            self._start_ns = now_ns
            at += header_bytes
            buffered_bytes = min(self._header.size_bytes, len(data) - at)
            at += buffered_bytes
            self._left = self._header.size_bytes - buffered_bytes
            if self._left:
                break
            arrivals.append(self._complete())
        self._buffer = data[at:]
        return arrivals

    def _complete(self) -> Arrival:
        assert self._header is not None
        arrival = Arrival(self._header, self._start_ns)
        self._header = None
        return arrival

    def set_low_water(self) -> None:
        """Sets how many bytes must wait before epoll reports the socket again; must be called after `arrivals`."""
        low_water = min(self._left, self._most_low_water) if self._left > LOW_WATER_BYTES // 8 else 1
        if low_water != self._low_water:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
            self._low_water = low_water

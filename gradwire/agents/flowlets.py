"""Marks what each connection sends with the way of its flowlet, which the filter at the host's port writes into packets
(topo/tc.py)."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections import Counter
from collections.abc import Mapping, Sequence

from gradwire.datatypes.records import FlowletCount
from gradwire.network.fabric import CONTROL_BAND, Fabric
from gradwire.network.flowlets import flowlet_way, mark_of_way
from gradwire.network.sprayed_ways import ways_of
from gradwire.network.wire.flows import Connection

SIOCOUTQNSD = 0x894B
"""Number of the ioctl in linux/sockios.h that returns how many bytes in a socket have not been sent yet."""


class Flowlets:
    """The flowlets of an agent's connections, each of which has one message under way at most."""

    def __init__(self, fabric: Fabric, connections: Sequence[Connection], sockets: Mapping[int, socket.socket]) -> None:
        self._seed, self._ways, self._gap_ns = fabric.seed, ways_of(fabric), round(fabric.flowlet_gap_s * 1e9)
        self._connections, self._sockets = connections, sockets
        self._number = dict.fromkeys(sockets, 0)
        self._ended_ns: dict[int, int] = {}
        self._bytes: Counter[tuple[int, int]] = Counter()
        self._begun: Counter[tuple[int, int]] = Counter()
        for connection in sockets:
            self._mark(connection)

    def begin(self, connection: int, size_bytes: int, now_ns: int) -> None:
        """Must be called before each message of a connection. Begins a flowlet if the connection has sent nothing for
        as long as the gap."""
        ended_ns = self._ended_ns.get(connection)
        if ended_ns is not None and now_ns - ended_ns >= self._gap_ns and not self._waits(connection):
            self._number[connection] += 1
            self._mark(connection)
        self._bytes[connection, self._way(connection)] += size_bytes

    def end(self, connection: int, at_ns: int) -> None:
        """Must be called after each message of a connection. at_ns: when its last byte left the host, or was taken by
        the socket."""
        self._ended_ns[connection] = at_ns

    def counts(self) -> tuple[FlowletCount, ...]:
        """Returns how many bytes each connection sent each way, and in how many flowlets; connections of the control
        band are left out."""
        return tuple(
            FlowletCount(connection, each.src_host, each.dst_host, way, self._begun[connection, way], size_bytes)
            for (connection, way), size_bytes in sorted(self._bytes.items())
            if (each := self._connections[connection]).band != CONTROL_BAND
        )

    def _waits(self, connection: int) -> bool:
        """Returns whether a socket still has bytes to send, so that the connection's data has no gap here."""
        (unsent,) = struct.unpack("i", fcntl.ioctl(self._sockets[connection], SIOCOUTQNSD, bytes(4)))
        return bool(unsent)

    def _way(self, connection: int) -> int:
        return flowlet_way(self._seed, connection, self._number[connection], self._ways)

    def _mark(self, connection: int) -> None:
        way = self._way(connection)
        self._begun[connection, way] += 1
        self._sockets[connection].setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark_of_way(way))

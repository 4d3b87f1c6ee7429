"""Marks what each connection sends with the way of its flowlet, which the filter at the host's port writes into packets
(topo/tc.py)."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from gradwire.agents.uplink_queues import UplinkQueues
from gradwire.datatypes.records import FlowletCount
from gradwire.network.fabric import CONTROL_BAND, Fabric
from gradwire.network.flowlets import mark_of_way
from gradwire.network.wire.flows import Connection

SIOCOUTQNSD = 0x894B
"""Number of the ioctl in linux/sockios.h that returns how many bytes in a socket have not been sent yet."""


class Flowlets:
    """The flowlets of an agent's connections, each of which has one message under way at most."""

    def __init__(self, fabric: Fabric, connections: Sequence[Connection], sockets: Mapping[int, socket.socket]) -> None:
        self._fabric, self._gap_ns = fabric, round(fabric.flowlet_gap_s * 1e9)
        self._connections, self._sockets = connections, sockets
        #: Number of each connection's flowlet, from its first message on, and the way of its packets.
        self._number: dict[int, int] = {}
        self._way: dict[int, int] = {}
        self._ended_ns: dict[int, int] = {}
        self._bytes: Counter[tuple[int, int]] = Counter()
        self._begun: Counter[tuple[int, int]] = Counter()
        for connection in sockets:
            self._take(connection, self._ways(connection, 0)[0])

    def begin(self, connection: int, size_bytes: int, now_ns: int) -> None:
        """Must be called before each message of a connection. Begins a flowlet if the connection has sent nothing for
        as long as the gap."""
        if self._begins_flowlet(connection, now_ns):
            number = self._number[connection] = self._number.get(connection, -1) + 1
            self._take(connection, self._chosen(connection, self._ways(connection, number)))
            self._begun[connection, self._way[connection]] += 1
        self._bytes[connection, self._way[connection]] += size_bytes

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

    def _begins_flowlet(self, connection: int, now_ns: int) -> bool:
        """Returns whether the next message is the first, or comes after a gap."""
        if connection not in self._number:
            return True
        ended_ns = self._ended_ns.get(connection)
        return ended_ns is not None and now_ns - ended_ns >= self._gap_ns and not self._waits(connection)

    def _ways(self, connection: int, number: int) -> Sequence[int]:
        """The ways that a flowlet may take."""
        return self._fabric.routing.policy.flowlet_ways(self._fabric, connection, number)

    def _chosen(self, connection: int, ways: Sequence[int]) -> int:
        """The one of these ways that is taken. Raises MachineFault if queues decide and the kernel does not tell."""
        if len(ways) == 1:
            return ways[0]
        ends = self._connections[connection]
        return self._queues.shortest(ends.src_host, ends.dst_host, ways)

    @cached_property
    def _queues(self) -> UplinkQueues:
        return UplinkQueues(self._fabric)

    def _take(self, connection: int, way: int) -> None:
        """Marks what the connection sends from now on."""
        if way != self._way.get(connection):
            self._way[connection] = way
            self._sockets[connection].setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark_of_way(way))

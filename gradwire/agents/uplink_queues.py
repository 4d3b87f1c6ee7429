"""Reads how much waits at the ports of switches, as the kernel tells it by netlink (linux/rtnetlink.h), and chooses
among the ports of a leaf by that."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

from gradwire.faults import MachineFault
from gradwire.netlink_messages import HEADER, NLMSG_ERROR, attributes, request
from gradwire.network.fabric import Fabric, Port
from gradwire.network.sprayed_ways import SprayedRoutes

RTM_GETQDISC = 38
NLM_F_ECHO = 0x8
"""Without it, the kernel tells a queue to those alone that listen to all changes."""
TC_H_ROOT = 0xFFFFFFFF
TCA_STATS2, TCA_STATS_QUEUE = 7, 3
TC_MESSAGE = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, interface, handle, parent, info."""
BACKLOG = struct.Struct("=II")
"""The beginning of struct gnet_stats_queue: qlen, backlog."""
READ_BYTES = 1 << 16
PATIENCE_S = 10.0
"""The kernel answers within the call, so an answer that is not there by then does not come."""


class UplinkQueues:
    """The queues of switches' ports. It must be made in the network namespace that has them."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self._routes = fabric, SprayedRoutes.of(fabric)
        self._names = fabric.switch_names()
        self._index: dict[str, int] = {}
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(PATIENCE_S)
        self._socket.bind((0, 0))

    def shortest(self, source: int, target: int, ways: Sequence[int]) -> int:
        """Returns the one of these ways between two hosts at whose first line the fewest bytes wait, in all bands
        together; of several such ways the first. Raises MachineFault if the kernel does not tell."""
        leaf = self._fabric.switch_of(source)
        if leaf == self._fabric.switch_of(target):
            return ways[0]
        port_of = {way: self._routes.exit(leaf, target, way).port for way in ways}
        waiting = {port: self.waiting_bytes(Port(self._names[leaf], port)) for port in set(port_of.values())}
        return min(ways, key=lambda way: waiting[port_of[way]])

    def waiting_bytes(self, port: Port) -> int:
        """Bytes of frames that wait at a port. Raises MachineFault if the kernel does not tell."""
        body = TC_MESSAGE.pack(0, self._index_of(port.interface), 0, TC_H_ROOT, 0)
        self._socket.send(request("", RTM_GETQDISC, NLM_F_ECHO, body).data)
        try:
            answer = self._socket.recv(READ_BYTES)
        except TimeoutError as error:
            raise MachineFault(f"the kernel does not answer what waits at {port.interface}") from error
        return backlog_bytes(port.interface, answer)

    def _index_of(self, interface: str) -> int:
        """Number of a port's interface, whose name on the machine may have a prefix (topo/wiring.py)."""
        if interface not in self._index:
            found = [index for index, name in socket.if_nameindex() if name.endswith(interface)]
            if len(found) != 1:
                raise MachineFault(f"there are {len(found)} interfaces whose name ends with {interface}, and not one")
            self._index[interface] = found[0]
        return self._index[interface]


def backlog_bytes(interface: str, answer: bytes) -> int:
    """Bytes that wait in a qdisc, by the kernel's answer to a request for it. Raises MachineFault for an error, or an
    answer without the length."""
    _, kind, _, _, _ = HEADER.unpack_from(answer)
    if kind == NLMSG_ERROR:
        (code,) = struct.unpack_from("=i", answer, HEADER.size)
        raise MachineFault(f"the kernel does not tell what waits at {interface}: {os.strerror(-code)}")
    try:
        stats = attributes(attributes(answer[HEADER.size + TC_MESSAGE.size :])[TCA_STATS2])
        _, backlog = BACKLOG.unpack_from(stats[TCA_STATS_QUEUE])
    except (KeyError, struct.error) as error:
        raise MachineFault(f"the kernel tells of the queue of {interface} without its length") from error
    return int(backlog)

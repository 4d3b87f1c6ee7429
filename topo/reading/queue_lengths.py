"""Reads how much waits in the queues of a network namespace's ports: one question to the kernel, without a process of tc.

The messages are those of rtnetlink (linux/rtnetlink.h, linux/gen_stats.h).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping, Sequence

from gradwire.faults import MachineFault
from gradwire.topo.fabric import BANDS_MAJOR, MAX_BANDS

RTM_NEWQDISC, RTM_GETQDISC = 36, 38
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 1, 0x300
TCA_STATS2, TCA_STATS_QUEUE = 7, 3
ATTRIBUTE_KIND = 0x3FFF
"""NLA_TYPE_MASK: the other bits of an attribute's type are flags."""
READ_BYTES = 1 << 16
HEADER = struct.Struct("=IHHII")
TC_MESSAGE = struct.Struct("=BxxxiIII")
ATTRIBUTE = struct.Struct("=HH")
QUEUE = struct.Struct("=II")
"""Of struct gnet_stats_queue: qlen, backlog."""


class QueueReader:
    """A socket that asks the kernel for the queues of the ports of the network namespace that it was made in.

    interfaces: whose queues are told, in this order.
    """

    def __init__(self, interfaces: Sequence[str]) -> None:
        self._place = {socket.if_nametoindex(name): place for place, name in enumerate(interfaces)}
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        flags = NLM_F_REQUEST | NLM_F_DUMP
        size_bytes = HEADER.size + TC_MESSAGE.size
        self._question = HEADER.pack(size_bytes, RTM_GETQDISC, flags, 0, 0) + TC_MESSAGE.pack(0, 0, 0, 0, 0)

    def waiting_bytes(self) -> list[int]:
        """What waits at each interface, in all bands together. Raises MachineFault if the kernel does not tell."""
        self._socket.send(self._question)
        waiting = [0] * len(self._place)
        while not self._take(self._socket.recv(READ_BYTES), waiting):
            pass
        return waiting

    def _take(self, data: bytes, waiting: list[int]) -> bool:
        """Adds what an answer says; True if it was the last one."""
        at = 0
        while at < len(data):
            size_bytes, kind, *_ = HEADER.unpack_from(data, at)
            if kind == NLMSG_DONE:
                return True
            if kind == NLMSG_ERROR:
                (code,) = struct.unpack_from("=i", data, at + HEADER.size)
                raise MachineFault(f"asking the kernel for its queues failed: {os.strerror(-code)}")
            if kind == RTM_NEWQDISC:
                add_waiting(data[at + HEADER.size : at + size_bytes], self._place, waiting)
            at += size_bytes + -size_bytes % 4
        return False

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()


def add_waiting(message: bytes, place: Mapping[int, int], waiting: list[int]) -> None:
    """Adds the backlog of a qdisc to that of its port, if the qdisc is the queue of a band at one of the ports.

    message: a struct tcmsg with its attributes. place: where a port stands in `waiting`, by its interface's index.
    """
    _, index, _, parent, _ = TC_MESSAGE.unpack_from(message)
    if index not in place or parent >> 16 != BANDS_MAJOR or not 1 <= parent & 0xFFFF <= MAX_BANDS:
        return
    stats = _attribute(message[TC_MESSAGE.size :], TCA_STATS2)
    _, backlog_bytes = QUEUE.unpack_from(_attribute(stats, TCA_STATS_QUEUE))
    waiting[place[index]] += backlog_bytes


def _attribute(data: bytes, wanted: int) -> bytes:
    """The payload of the attribute of a kind. Raises MachineFault if there is none."""
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        size_bytes, kind = ATTRIBUTE.unpack_from(data, at)
        if kind & ATTRIBUTE_KIND == wanted:
            return data[at + ATTRIBUTE.size : at + size_bytes]
        at += max(size_bytes + -size_bytes % 4, ATTRIBUTE.size)
    raise MachineFault("the kernel tells of a queue without its length")

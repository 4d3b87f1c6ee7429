"""Reads how much waits in the queues of a network namespace's ports: one question to the kernel, without a process of
tc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradwire.datatypes.fabric import BANDS_MAJOR, MAX_BANDS
from gradwire.faults import MachineFault
from gradwire.topo.netlink.messages import Kernel, attributes, known_index
from gradwire.topo.netlink.qdiscs import QUEUE, RTM_GETQDISC, TC_MESSAGE, TCA_STATS2, TCA_STATS_QUEUE


class QueueReader:
    """A socket that asks the kernel for the queues of the ports of the network namespace that it was made in.

    interfaces: whose queues are reported, in this order.
    """

    def __init__(self, interfaces: Sequence[str]) -> None:
        self._place = {known_index(name): place for place, name in enumerate(interfaces)}
        self._kernel = Kernel()

    def waiting_bytes(self) -> list[int]:
        """What waits at each interface, in all bands together. Raises MachineFault if the kernel does not tell."""
        waiting = [0] * len(self._place)
        for message in self._kernel.dump(RTM_GETQDISC, TC_MESSAGE.pack(0, 0, 0, 0, 0)):
            add_waiting(message, self._place, waiting)
        return waiting

    def close(self) -> None:
        """Closes the socket."""
        self._kernel.close()


def add_waiting(message: bytes, place: Mapping[int, int], waiting: list[int]) -> None:
    """Adds the backlog of a qdisc to that of its port, if the qdisc is the queue of a band at one of the ports.

    message: a struct tcmsg with its attributes. place: where a port stands in `waiting`, by its interface's index.
    """
    _, index, _, parent, _ = TC_MESSAGE.unpack_from(message)
    if index not in place or parent >> 16 != BANDS_MAJOR or not 1 <= parent & 0xFFFF <= MAX_BANDS:
        return
    try:
        stats = attributes(attributes(message[TC_MESSAGE.size :])[TCA_STATS2])
        _, backlog_bytes, *_ = QUEUE.unpack_from(stats[TCA_STATS_QUEUE])
    except KeyError as error:
        raise MachineFault("the kernel tells of a queue without its length") from error
    waiting[place[index]] += backlog_bytes

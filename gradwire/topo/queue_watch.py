"""Notices that the queues of hosts' ports are changed: rtnetlink tells every listener in a host's network namespace, and
the job's listeners are sockets that no program has.

What a queue counts does not tell: a program can change it and change it back, or put one of the same kind in its place.
"""

from __future__ import annotations

import errno
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gradwire.netlink_messages import known_index, messages
from gradwire.network.fabric import Port
from gradwire.network_namespace import network_namespace
from gradwire.topo.flow_control import BuiltNetwork
from gradwire.topo.netlink.qdiscs import (
    RTM_DELQDISC,
    RTM_DELTCLASS,
    RTM_NEWQDISC,
    RTM_NEWTCLASS,
    TC_H_CLSACT,
    TC_MESSAGE,
)
from gradwire.topo.switch_sockets import SO_RCVBUFFORCE

RTMGRP_TC = 0x8
"""Group of listeners to changes of traffic control (linux/rtnetlink.h)."""
HEARD_BYTES = 4 << 20
"""Of what a listener has not read yet: some thousand changes, of which one is enough. Memory is taken as they come."""
READ_BYTES = 1 << 16
CHANGES = (RTM_NEWQDISC, RTM_DELQDISC, RTM_NEWTCLASS, RTM_DELTCLASS)


class _Listener(NamedTuple):
    port: Port
    #: Its interface's index in its network namespace.
    number: int
    heard: socket.socket


class QueueWatch:
    """Listens at the ports of all hosts from its making on, which must be before any program starts. Raises
    MachineFault."""

    def __init__(self, network: BuiltNetwork) -> None:
        self._changed: set[str] = set()
        self._listeners: list[_Listener] = []
        hosts = {*network.fabric.endpoint_names()}
        for port, _ in network.fabric.ports():
            if port.device in hosts:
                with network_namespace(network.namespace_of_port(port)):
                    self._listeners.append(_Listener(port, known_index(network.interface(port)), _heard_socket()))

    def changed(self) -> tuple[str, ...]:
        """Returns the ports whose queues somebody has changed, in order."""
        for listener in self._listeners:
            self._note(listener, _changes_heard(listener))
        return tuple(each.port.interface for each in self._listeners if each.port.interface in self._changed)

    def close(self) -> None:
        """Stops listening."""
        for listener in self._listeners:
            listener.heard.close()

    @contextmanager
    def own(self, device: str, commands: int) -> Iterator[None]:
        """Does not note the changes at a host's ports that the run itself makes during the block, such as a fault, by so
        many commands of tc.

        The kernel tells of each command once, before the command ends. It tells more often if somebody else changes something
        at the same time, and less often if the commands met another interface, which a program put in the port's place. Then
        all ports of the host count as changed.
        """
        listeners = [each for each in self._listeners if each.port.device == device]
        for each in listeners:
            self._note(each, _changes_heard(each))
        yield
        if sum(map(_changes_heard, listeners)) != commands:
            self._changed.update(each.port.interface for each in listeners)

    def _note(self, listener: _Listener, changes: float) -> None:
        if changes:
            self._changed.add(listener.port.interface)


def _changes_heard(listener: _Listener) -> float:
    """Reads all that a listener has heard, and returns the number of changes; infinity if it heard more than it can hold."""
    changes = 0.0
    while True:
        try:
            data = listener.heard.recv(READ_BYTES)
        except BlockingIOError:
            return changes
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            changes = math.inf
            continue
        changes += sum(_is_change(kind, body, listener.number) for kind, _, body in messages(data))


def _heard_socket() -> socket.socket:
    heard = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
    heard.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, HEARD_BYTES)
    heard.bind((0, RTMGRP_TC))
    return heard


def _is_change(kind: int, body: bytes, number: int) -> bool:
    """Returns whether a message tells of a queue of the interface of this number that holds packets; those that hold filters do not."""
    if kind not in CHANGES or len(body) < TC_MESSAGE.size:
        return False
    _, at, _, parent, _ = TC_MESSAGE.unpack_from(body)
    return bool(at == number and parent != TC_H_CLSACT)

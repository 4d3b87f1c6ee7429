"""The connections of a plan: one a (send queue, destination rank, traffic class) that crosses the network, and their sockets.

Data flows one way on a connection; the other way only ACKs return, which go with the control band so that they never wait.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from gradwire.agents.wire.framing import HELLO, MAGIC, PORT
from gradwire.faults import InternalFault, MachineFault
from gradwire.topo.fabric import Fabric, band_of_class, dscp_of_band
from gradwire.workloads.plan import OpKind, Plan

CLONE_NEWNET = 0x40000000
TCP_NOTSENT_LOWAT = 25
CONTROL_BAND = 0


@dataclass(frozen=True)
class Connection:
    """One flow: from rank `src` to rank `dst`, for one send queue and traffic class."""

    number: int
    queue: int
    src: int
    dst: int
    src_host: int
    dst_host: int
    traffic_class: int

    @property
    def band(self) -> int:
        """Priority band of its data."""
        return band_of_class(self.traffic_class)


def connections_of(plan: Plan) -> list[Connection]:
    """All connections that the plan needs, numbered the same way by every agent."""
    ops = plan.ops
    unicast = np.flatnonzero(plan.is_remote() & (ops.group == 0))
    keys = np.unique(np.column_stack([ops.lane[unicast], ops.peer[unicast], ops.traffic_class[unicast]]), axis=0)
    return [
        Connection(
            number,
            queue,
            int(plan.queue_rank[queue]),
            dst,
            int(plan.rank_host[plan.queue_rank[queue]]),
            int(plan.rank_host[dst]),
            traffic_class,
        )
        for number, (queue, dst, traffic_class) in enumerate(keys.tolist())
    ]


def connection_of_send(plan: Plan, connections: list[Connection]) -> dict[int, int]:
    """The connection's number of each SEND that crosses the network to one rank."""
    numbers = {(c.queue, c.dst, c.traffic_class): c.number for c in connections}
    ops = plan.ops
    sends = np.flatnonzero(plan.is_remote() & (ops.group == 0) & (ops.kind == OpKind.SEND))
    keys = zip(ops.lane[sends].tolist(), ops.peer[sends].tolist(), ops.traffic_class[sends].tolist(), strict=True)
    return {send: numbers[key] for send, key in zip(sends.tolist(), keys, strict=True)}


_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def network_of(namespace: str) -> Iterator[None]:
    """Makes sockets inside belong to a host: enters its network namespace (a /proc path), and comes back."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        target = os.open(namespace, os.O_RDONLY)
        try:
            _set_namespace(target, namespace)
            yield
        finally:
            os.close(target)
            _set_namespace(home, "its own")
    finally:
        os.close(home)


def _set_namespace(descriptor: int, name: str) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET):
        error = ctypes.get_errno()
        raise MachineFault(f"cannot enter network namespace {name}: {os.strerror(error)} (agents need CAP_SYS_ADMIN)")


@dataclass(frozen=True)
class HostEntry:
    """A host as an agent reaches it: its index, its address, and the /proc path of its network namespace."""

    index: int
    ip: str
    namespace: str


@dataclass(frozen=True)
class SocketOptions:
    """buffer_bytes: send and receive buffer of each connection, which bounds what it has in flight.

    unsent_bytes: how much may wait in the socket unsent (TCP_NOTSENT_LOWAT); what is beyond waits in the send queue,
    where its discipline still decides.
    """

    buffer_bytes: int
    unsent_bytes: int


def mark(sock: socket.socket, band: int) -> None:
    """Marks a socket's packets with a band: DSCP for switches, and the priority that selects the band of the host's own port.

    The priority comes second, because setting the DSCP resets it. 1: is the handle of the priority tree.
    """
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp_of_band(band) << 2)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, (1 << 16) | (band + 1))


def _tcp(options: SocketOptions) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        # The kernel doubles what it is given, to pay for its own structures.
        sock.setsockopt(socket.SOL_SOCKET, buffer, options.buffer_bytes // 2)
    return sock


def listen(host: HostEntry, options: SocketOptions) -> socket.socket:
    """The listening socket of a host."""
    with network_of(host.namespace):
        sock = _tcp(options)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    mark(sock, CONTROL_BAND)
    sock.bind((host.ip, PORT))
    sock.listen(4096)
    return sock


def connect(connection: Connection, host: HostEntry, fabric: Fabric, options: SocketOptions) -> socket.socket:
    """Starts to connect from `host`; the socket becomes writable once the other side has answered."""
    with network_of(host.namespace):
        sock = _tcp(options)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, options.unsent_bytes)
    mark(sock, connection.band)
    sock.bind((host.ip, 0))
    sock.connect_ex((fabric.host_ip(connection.dst_host), PORT))
    return sock


def join(
    outgoing: dict[int, socket.socket], listeners: list[socket.socket], expected: int, timeout_s: float
) -> dict[int, socket.socket]:
    """Completes all connections: says hello on the outgoing ones, and returns the incoming ones by number.

    Raises MachineFault naming how many are missing when nothing happens for `timeout_s`.
    """
    incoming: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        for number, sock in outgoing.items():
            selector.register(sock, selectors.EVENT_WRITE, number)
        for listener in listeners:
            selector.register(listener, selectors.EVENT_READ, None)
        greeted = 0
        while greeted < len(outgoing) or len(incoming) < expected:
            events = selector.select(timeout_s)
            if not events:
                raise MachineFault(
                    f"connections stay open: {len(outgoing) - greeted} of {len(outgoing)} outgoing, "
                    f"{expected - len(incoming)} of {expected} incoming; are the switches' flows installed?"
                )
            for key, mask in events:
                sock = cast("socket.socket", key.fileobj)
                if mask & selectors.EVENT_WRITE:
                    _say_hello(sock, key.data)
                    selector.unregister(sock)
                    greeted += 1
                elif sock in listeners:
                    selector.register(_accept(sock), selectors.EVENT_READ, None)
                else:
                    selector.unregister(sock)
                    incoming[_read_hello(sock)] = sock
    return incoming


def _say_hello(sock: socket.socket, number: int) -> None:
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise MachineFault(f"connection {number} from {sock.getsockname()[0]} was refused: {os.strerror(error)}")
    sock.send(HELLO.pack(MAGIC, number))


def _accept(listener: socket.socket) -> socket.socket:
    sock, _ = listener.accept()
    sock.setblocking(False)
    mark(sock, CONTROL_BAND)
    return sock


def _read_hello(sock: socket.socket) -> int:
    data = sock.recv(HELLO.size)
    if len(data) != HELLO.size:
        raise InternalFault(f"a connection opened with {len(data)} bytes instead of a hello of {HELLO.size}")
    magic, number = HELLO.unpack(data)
    if magic != MAGIC:
        raise InternalFault(f"a connection opened with {magic:#x} instead of a hello")
    return int(number)


def namespace_of(pid: int) -> str:
    """The /proc path of the network namespace of a process."""
    return str(Path("/proc") / str(pid) / "ns" / "net")

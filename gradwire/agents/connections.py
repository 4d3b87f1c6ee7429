"""TCP connections between hosts: their sockets, how they are marked, how both ends agree which connection is which,
and their congestion control.

Data flows one way on a connection. Only ACKs flow the other way, in the control band, so that they never wait; on stock
hosts, in the band of the data.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from gradwire.agents.departures import report_departures
from gradwire.datatypes.records import SocketState, WindowState
from gradwire.datatypes.wire.framing import HELLO, MAGIC, PORT
from gradwire.faults import MachineFault
from gradwire.network.fabric import CONTROL_BAND, Fabric, dscp_of_band, socket_priority
from gradwire.network.path_delays import LEAST_BUFFER_BYTES
from gradwire.network.wire.flows import Connection
from gradwire.network_namespace import network_namespace


def raise_file_limit() -> None:
    """Raises the soft limit, which is usually 1,024, to the hard one."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


OWN_CONTROLS = ("dcqcn", "swift", "nscc")
"""Congestion controls that only the virtual clock's kernel has (vm/patches/6.12, dcqcn.patch and delays.patch)."""
KNOWS_LINE = ("dcqcn", "nscc")
"""Those that have to know the line's rate, which is a socket option: DCQCN begins at it, and NSCC's largest window follows from
it."""
NAME_BYTES = 16
"""TCP_CA_NAME_MAX of linux/tcp.h."""
INFO = struct.Struct("=76xII16xI88xII")
"""Layout of the fields of struct tcp_info (linux/tcp.h) that agents read: snd_ssthresh, snd_cwnd, total_retrans,
delivered, delivered_ce."""
WINDOWS = struct.Struct("=16xI48xI8xI36xQ40xQQQ36xI")
"""Layout of the fields of struct tcp_info that tell of windows: snd_mss, rtt, snd_cwnd, bytes_acked, busy_time,
rwnd_limited, sndbuf_limited, snd_wnd (since Linux 5.4)."""


def choose_congestion(sock: socket.socket, name: str) -> None:
    """Gives a socket, or those that a listening one accepts, a congestion control.

    Raises MachineFault if the kernel has none of this name.
    """
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except OSError as refused:
        if name in OWN_CONTROLS:
            raise MachineFault(
                f"transport.congestion = '{name}': only the kernel of the virtual clock has it, as gradwire builds it for "
                "Linux 6.12: leave out --clock wall"
            ) from refused
        raise MachineFault(
            f"transport.congestion = '{name}': this kernel does not have it ({refused.strerror}): load it with "
            f"`modprobe tcp_{name}`, or use the virtual clock, whose kernel has it"
        ) from refused


def congestion_of(sock: socket.socket) -> str:
    """The congestion control that a socket has."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME_BYTES).rstrip(b"\0").decode()


class CongestionWindows:
    """The congestion windows of an agent's sending sockets, by number of their connections."""

    def __init__(self, sockets: Mapping[int, socket.socket]) -> None:
        self._sockets = sockets
        self._range = dict.fromkeys(sockets, (2**32, 0))

    def look(self) -> None:
        """Reads all windows, for the smallest and the largest of each socket. Those of workers that died have none."""
        for number, sock in self._sockets.items():
            if sock.fileno() < 0:
                continue
            _, window, *_ = _info(sock)
            least, most = self._range[number]
            self._range[number] = min(least, window), max(most, window)

    def states(self, connections: Iterable[Connection]) -> tuple[SocketState, ...]:
        """Returns the final state of the socket of each of these connections; sockets that are closed are left out."""
        self.look()
        living = {number for number, sock in self._sockets.items() if sock.fileno() >= 0}
        return tuple(self._state(connection) for connection in connections if connection.number in living)

    def _state(self, connection: Connection) -> SocketState:
        sock = self._sockets[connection.number]
        threshold, window, retransmits, delivered, marked = _info(sock)
        least, most = self._range[connection.number]
        return SocketState(
            connection=connection.number,
            src_host=connection.src_host,
            dst_host=connection.dst_host,
            congestion=congestion_of(sock),
            window=window,
            least_window=least,
            most_window=most,
            slow_start_threshold=threshold,
            retransmits=retransmits,
            delivered=delivered,
            delivered_marked=marked,
        )


def window_states(sockets: Mapping[int, socket.socket], connections: Iterable[Connection]) -> tuple[WindowState, ...]:
    """The windows of an agent's sending sockets, by number of their connections; those of workers that died have none.

    A kernel that does not tell the window that a receiver offered gives 0 for it.
    """
    living = {number for number, sock in sockets.items() if sock.fileno() >= 0}
    return tuple(
        _window_state(connection, sockets[connection.number])
        for connection in connections
        if connection.number in living
    )


def _window_state(connection: Connection, sock: socket.socket) -> WindowState:
    state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, WINDOWS.size).ljust(WINDOWS.size, b"\0")
    segment, round_trip, window, acknowledged, busy, receive, buffer, offered = WINDOWS.unpack(state)
    return WindowState(
        connection=connection.number,
        src_host=connection.src_host,
        dst_host=connection.dst_host,
        buffer_bytes=sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
        receive_bytes=offered,
        congestion_bytes=window * segment,
        round_trip_us=round_trip,
        busy_us=busy,
        receive_limited_us=receive,
        buffer_limited_us=buffer,
        acknowledged_bytes=acknowledged,
    )


def _info(sock: socket.socket) -> tuple[int, int, int, int, int]:
    """Slow-start threshold, window, retransmitted, delivered and delivered with marks, all in segments."""
    threshold, window, retransmits, delivered, marked = INFO.unpack(
        sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size)
    )
    return threshold, window, retransmits, delivered, marked


TCP_NOTSENT_LOWAT = 25
"""Socket option of linux/tcp.h that Python does not name."""
SO_MAX_PACING_RATE = 47
"""Socket option of Linux's asm-generic/socket.h that Python does not name."""
SO_RCVBUFFORCE = 33
"""SO_RCVBUF beyond net.core.rmem_max, which Python does not name either."""
LISTEN_BACKLOG = 4096
TIMESTAMPS_BYTES = 1 << 20
"""Receive buffer that a sending socket needs: timestamps count there with their whole packets, and are dropped where
they do not fit."""


@dataclass(frozen=True)
class HostEntry:
    """A host as an agent reaches it."""

    #: Endpoint index in the fabric.
    index: int
    ip: str
    #: The /proc path of its network namespace.
    namespace: str


@dataclass(frozen=True)
class SocketOptions:
    """Sizes of the sockets' buffers, and when a SEND ends."""

    #: Send and receive buffer of each connection, which bounds its bytes in flight; 0 where the kernel grows them.
    buffer_bytes: int
    #: Most bytes that wait unsent in a socket (TCP_NOTSENT_LOWAT): a SEND ends when the socket has taken its last
    #: byte. None: a SEND ends when its last byte has left the host.
    unsent_bytes: int | None
    #: Congestion control of TCP by the kernel's name for it; "" for the kernel's default, whichever that is.
    congestion: str = ""
    #: Bytes that the longest round trip holds at the line's rate, if links have a delay: agents then report the windows
    #: of their connections. 0 otherwise.
    path_bytes: int = 0
    #: Payload that a host's line carries, for congestion controls that have to know it (KNOWS_LINE); 0 for others.
    line_bytes_per_s: int = 0

    @property
    def datagram_window_bytes(self) -> int:
        """Returns the most bytes that a multicast flow may have in flight: the kernel grows no window for it, so it is
        LEAST_BUFFER_BYTES if sockets have no fixed buffer."""
        return self.buffer_bytes or LEAST_BUFFER_BYTES


def needs_python(fabric: Fabric) -> bool:
    """Returns whether a fabric needs the agent in Python: the compiled one asks for SO_RCVLOWAT, which keeps the kernel
    from sizing windows itself, and it marks no flowlets."""
    return fabric.host_tcp.is_stock or fabric.routing.policy.chooses_for_flowlets


def mark(sock: socket.socket, band: int) -> None:
    """Marks a socket's packets with a band: by DSCP for the switches, and by priority for the host's own port.

    The DSCP comes first, because setting it resets the priority.
    """
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp_of_band(band) << 2)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, socket_priority(band))


def listen(host: HostEntry, options: SocketOptions) -> socket.socket:
    """Opens the listening socket of a host."""
    with network_namespace(host.namespace):
        sock = tcp_socket(options)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    mark(sock, CONTROL_BAND)
    sock.bind((host.ip, PORT))
    sock.listen(LISTEN_BACKLOG)
    return sock


def connect(connection: Connection, host: HostEntry, fabric: Fabric, options: SocketOptions) -> socket.socket:
    """Begins to connect from `host`; the socket becomes writable once the other side has answered."""
    with network_namespace(host.namespace):
        sock = tcp_socket(options)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if options.unsent_bytes is not None:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, options.unsent_bytes)
    elif options.buffer_bytes < TIMESTAMPS_BYTES:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, TIMESTAMPS_BYTES // 2)
    mark(sock, connection.band)
    if fabric.routing.policy.hashes_connections:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host.ip, connection.ports.source))
    else:
        sock.bind((host.ip, 0))
    sock.connect_ex((fabric.host_ip(connection.dst_host), PORT))
    return sock


def send_acks_with_data(incoming: Mapping[int, socket.socket], connections: Iterable[Connection]) -> None:
    """Marks receiving sockets, by number of their connections, as the data are: on stock hosts, an ACK waits in the
    host's port behind what the host itself sends."""
    for connection in connections:
        if connection.number in incoming:
            mark(incoming[connection.number], connection.band)


def end_at_once(sockets: Iterable[socket.socket]) -> None:
    """Resets connections when they are closed, so that the next ones may come from the same ports at once.

    Otherwise a port waits for a minute (TIME_WAIT). Nothing is lost where all messages have arrived.
    """
    for sock in sockets:
        if sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def tcp_socket(options: SocketOptions) -> socket.socket:
    """A socket that does not block, with buffers of these sizes."""
    sock = socket.socket()
    sock.setblocking(False)
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF) if options.buffer_bytes else ():
        # The kernel doubles the value to make room for its own structures.
        sock.setsockopt(socket.SOL_SOCKET, buffer, options.buffer_bytes // 2)
    if options.line_bytes_per_s:
        sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=Q", options.line_bytes_per_s))
    if options.congestion:
        choose_congestion(sock, options.congestion)
    return sock


def join(
    outgoing: dict[int, socket.socket], listeners: list[socket.socket], expected: Mapping[int, str], timeout_s: float
) -> dict[int, socket.socket]:
    """Completes all connections: says hello on the outgoing ones, and returns the incoming ones by number.

    expected: address that each incoming connection comes from. Whoever does not send the hello of one of these, from its
    address and for the first time, is not a peer of the plan: that connection is closed, and waiting for the others
    continues. Raises MachineFault with how many are missing if nothing happens for `timeout_s`.
    """
    incoming: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        for number, sock in outgoing.items():
            selector.register(sock, selectors.EVENT_WRITE, number)
        for listener in listeners:
            selector.register(listener, selectors.EVENT_READ, None)
        greeted = 0
        while greeted < len(outgoing) or len(incoming) < len(expected):
            events = selector.select(timeout_s)
            if not events:
                raise MachineFault(
                    f"connections were not established: {len(outgoing) - greeted} of {len(outgoing)} outgoing, "
                    f"{len(expected) - len(incoming)} of {len(expected)} incoming; are the switches' flows installed?"
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
                    greeting = _number_of_peer(sock, expected)
                    if greeting is None or greeting in incoming:
                        sock.close()
                    else:
                        incoming[greeting] = sock
    return incoming


def _say_hello(sock: socket.socket, number: int) -> None:
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise MachineFault(f"connection {number} from {sock.getsockname()[0]} was refused: {os.strerror(error)}")
    # Timestamps are numbered by the bytes that follow, so all sockets number them; only messages that ask for one get
    # one.
    report_departures(sock)
    sock.send(HELLO.pack(MAGIC, number))


def _accept(listener: socket.socket) -> socket.socket:
    sock, _ = listener.accept()
    sock.setblocking(False)
    mark(sock, CONTROL_BAND)
    return sock


def _number_of_peer(sock: socket.socket, expected: Mapping[int, str]) -> int | None:
    """The number of the connection that a peer says it is; None if it says something else, or is at another address."""
    try:
        data, address = sock.recv(HELLO.size), sock.getpeername()[0]
    except OSError:  # it has gone already
        return None
    if len(data) != HELLO.size:
        return None
    magic, number = HELLO.unpack(data)
    return int(number) if magic == MAGIC and expected.get(number) == address else None

"""The congestion control of TCP sockets: chosen, and read back together with what it did; and what windows they had."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping

from gradwire.datatypes.records import SocketState, WindowState
from gradwire.datatypes.wire.flows import Connection
from gradwire.faults import MachineFault

NAME_BYTES = 16
"""TCP_CA_NAME_MAX of linux/tcp.h."""
INFO = struct.Struct("=76xII16xI88xII")
"""Of struct tcp_info (linux/tcp.h): snd_ssthresh, snd_cwnd, total_retrans, delivered, delivered_ce."""
WINDOWS = struct.Struct("=16xI48xI8xI36xQ40xQQQ36xI")
"""Of the same: snd_mss, rtt, snd_cwnd, bytes_acked, busy_time, rwnd_limited, sndbuf_limited, snd_wnd (since Linux
5.4)."""


def choose_congestion(sock: socket.socket, name: str) -> None:
    """Gives a socket, or those that a listening one accepts, a congestion control.

    Raises MachineFault if the kernel has none of this name.
    """
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except OSError as refused:
        raise MachineFault(
            f"transport.congestion = '{name}': this kernel does not have it ({refused.strerror}): load it with `modprobe tcp_{name}`, or "
            "use the virtual clock, whose kernel has it"
        ) from refused


def congestion_of(sock: socket.socket) -> str:
    """The congestion control that a socket has."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME_BYTES).rstrip(b"\0").decode()


class Windows:
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
        """What became of each socket."""
        self.look()
        living = {number for number, sock in self._sockets.items() if sock.fileno() >= 0}
        return tuple(self._state(each) for each in connections if each.number in living)

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
    return tuple(_window_state(each, sockets[each.number]) for each in connections if each.number in living)


def _window_state(connection: Connection, sock: socket.socket) -> WindowState:
    told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, WINDOWS.size).ljust(WINDOWS.size, b"\0")
    segment, round_trip, window, acknowledged, busy, receive, buffer, offered = WINDOWS.unpack(told)
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

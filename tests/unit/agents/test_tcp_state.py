"""The congestion control of real sockets, on loopback."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from gradwire.agents.connections import CongestionWindows, choose_congestion, congestion_of, window_states
from gradwire.faults import MachineFault
from gradwire.network.wire.flows import Connection
from tests.shared.parts import in_order

SENT_BYTES = 100_000
CONNECTION = Connection(3, 0, 0, 1, 0, 1, 0)


def test_what_is_chosen_is_read_back_and_accepted_sockets_inherit_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as caller:
        choose_congestion(listener, "reno")
        choose_congestion(caller, "reno")
        caller.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            assert congestion_of(caller) == congestion_of(accepted) == "reno"


def test_a_control_that_the_kernel_lacks_is_a_fault_of_the_machine() -> None:
    with (
        socket.socket() as sock,
        pytest.raises(MachineFault, match=in_order("transport.congestion = 'nosuch'", "modprobe tcp_nosuch")),
    ):
        choose_congestion(sock, "nosuch")


def test_windows_are_those_of_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as caller:
        choose_congestion(caller, "reno")
        caller.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            windows = CongestionWindows({3: caller})
            windows.look()
            caller.sendall(bytes(SENT_BYTES))
            accepted.recv(SENT_BYTES, socket.MSG_WAITALL)
            (state,) = windows.states([CONNECTION])
    assert (state.connection, state.src_host, state.dst_host, state.congestion) == (3, 0, 1, "reno")
    # RFC 6928's initial window, and ssthresh without an end (TCP_INFINITE_SSTHRESH).
    assert state.least_window == 10
    assert 10 <= state.window == state.most_window
    assert state.slow_start_threshold == 2**31 - 1
    assert (state.retransmits, state.delivered_marked) == (0, 0)
    assert state.delivered >= 1


def test_the_sockets_of_a_worker_that_died_have_no_windows() -> None:
    windows = CongestionWindows({3: socket.socket()})
    windows._sockets[3].close()
    windows.look()
    assert windows.states([CONNECTION]) == ()


def test_what_held_a_connection_back_is_what_the_kernel_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        caller.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            caller.sendall(bytes(SENT_BYTES))
            accepted.recv(SENT_BYTES, socket.MSG_WAITALL)
            told = accepted.send(b"all of it") and caller.recv(16)
            (state,) = window_states({3: caller}, [CONNECTION, replace(CONNECTION, number=4)])
            buffer_bytes = caller.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    assert told == b"all of it"
    assert (state.connection, state.src_host, state.dst_host) == (3, 0, 1)
    assert state.buffer_bytes == buffer_bytes
    # One more for the SYN.
    assert state.acknowledged_bytes == SENT_BYTES + 1
    assert state.receive_bytes > 0
    assert state.congestion_bytes >= 10 * 536
    assert 0 < state.round_trip_us < 1_000_000
    assert state.limited_us == state.receive_limited_us + state.buffer_limited_us <= state.busy_us


def test_the_sockets_of_a_worker_that_died_were_held_back_by_nothing() -> None:
    sock = socket.socket()
    sock.close()
    assert window_states({3: sock}, [CONNECTION]) == ()

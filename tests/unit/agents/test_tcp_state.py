"""The congestion control of real sockets, on loopback."""

from __future__ import annotations

import socket

import pytest

from gradwire.agents.tcp_state import Windows, choose_congestion, congestion_of
from gradwire.agents.wire.flows import Connection
from gradwire.faults import MachineFault

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
        pytest.raises(MachineFault, match=r"transport\.congestion = 'nosuch'.*modprobe tcp_nosuch"),
    ):
        choose_congestion(sock, "nosuch")


def test_windows_are_those_of_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as caller:
        choose_congestion(caller, "reno")
        caller.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            windows = Windows({3: caller})
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
    windows = Windows({3: socket.socket()})
    windows._sockets[3].close()
    windows.look()
    assert windows.states([CONNECTION]) == ()

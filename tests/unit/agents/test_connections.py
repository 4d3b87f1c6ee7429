"""Opening connections: peers of the plan are taken, and strangers are not."""

from __future__ import annotations

import socket

import pytest

from gradwire.agents.connections import join, send_acks_with_data
from gradwire.datatypes.wire.framing import HELLO, MAGIC
from gradwire.faults import MachineFault
from gradwire.network.fabric import dscp_of_band, socket_priority
from gradwire.network.wire.flows import Connection
from tests.shared.parts import in_order

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"


def listening() -> socket.socket:
    listener = socket.create_server((HERE, 0))
    listener.setblocking(False)
    return listener


def calling(listener: socket.socket, hello: bytes, source: str = HERE) -> socket.socket:
    caller = socket.create_connection(listener.getsockname(), source_address=(source, 0))
    caller.sendall(hello)
    return caller


def hello(number: int, magic: int = MAGIC) -> bytes:
    return HELLO.pack(magic, number)


def was_closed(caller: socket.socket) -> bool:
    caller.settimeout(5)
    try:
        return caller.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.net_admin
def test_strangers_are_refused_and_the_peers_of_the_plan_go_on() -> None:
    listener = listening()
    strangers = [
        calling(listener, hello(7, magic=1)),
        calling(listener, hello(8)),
        calling(listener, hello(7), ELSEWHERE),
        calling(listener, b"GET / HTTP/1.1\r\n"),
        calling(listener, b"x"),
    ]
    gone = calling(listener, b"")
    gone.close()
    peers = [calling(listener, hello(7)), calling(listener, hello(9), ELSEWHERE)]
    incoming = join({}, [listener], {7: HERE, 9: ELSEWHERE}, 5.0)
    assert {number: sock.getpeername() for number, sock in incoming.items()} == {
        7: peers[0].getsockname(),
        9: peers[1].getsockname(),
    }
    assert all(was_closed(stranger) for stranger in strangers)
    for sock in (listener, *strangers, *peers, *incoming.values()):
        sock.close()


@pytest.mark.net_admin
def test_who_comes_twice_is_taken_once() -> None:
    listener = listening()
    first, second, other = (calling(listener, hello(number)) for number in (1, 1, 2))
    incoming = join({}, [listener], {1: HERE, 2: HERE}, 5.0)
    assert incoming[1].getpeername() == first.getsockname()
    assert was_closed(second)
    for sock in (listener, first, second, other, *incoming.values()):
        sock.close()


@pytest.mark.net_admin
def test_what_is_missing_is_counted() -> None:
    listener = listening()
    stranger = calling(listener, hello(5))
    with pytest.raises(MachineFault, match=in_order("0 of 0 outgoing", "1 of 1 incoming")):
        join({}, [listener], {1: HERE}, 0.05)
    for sock in (listener, stranger):
        sock.close()


@pytest.mark.net_admin
def test_acks_of_stock_hosts_have_the_mark_of_their_data() -> None:
    connections = [Connection(number, 0, 0, 1, 0, 1, traffic_class) for number, traffic_class in enumerate((0, 2))]
    with socket.socket() as first, socket.socket() as second:
        send_acks_with_data({0: first, 1: second}, connections)
        for sock, connection in zip((first, second), connections, strict=True):
            assert sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) >> 2 == dscp_of_band(connection.band)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY) == socket_priority(connection.band)

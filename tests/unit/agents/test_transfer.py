"""Messages over real loopback connections: whole, in order, whatever their sizes and however the bytes are cut."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from gradwire.agents.transfer import INLINE_BYTES, LOW_WATER_BYTES, READ_BYTES, Arrival, Receiver, Sender, payload_file
from gradwire.datatypes.plan import Contributions
from gradwire.datatypes.wire.framing import Framing, Header
from gradwire.faults import InternalFault, MachineFault

FRAMING = Framing(3)
TURNS = 200_000
"""Far more turns than any of these transfers needs: a transfer that stands still fails instead of hanging."""


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A loopback TCP connection, both ends non-blocking."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with closing(near), closing(far):
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        near.setblocking(False)
        far.setblocking(False)
        yield near, far


@contextmanager
def payload() -> Iterator[int]:
    descriptor = payload_file()
    yield descriptor
    os.close(descriptor)


def header(message: int, size_bytes: int) -> Header:
    return Header(0, message, 0, 1, 0, 0, size_bytes, Contributions(0, message % 8))


def taken(receiver: Receiver, now_ns: int = 0) -> list[Arrival]:
    receiver.receive()
    return list(receiver.arrivals(now_ns))


def transfer(near: socket.socket, far: socket.socket, sizes: list[int], file: int) -> tuple[list[Arrival], Receiver]:
    sender, receiver = Sender(near, file), Receiver(far, FRAMING)
    waiting = list(enumerate(sizes))
    arrivals: list[Arrival] = []
    busy = False
    for turn in range(TURNS):
        if not busy and waiting:
            message, size_bytes = waiting.pop(0)
            sender.begin(0, message, FRAMING.pack(header(message, size_bytes)), size_bytes, turn)
            busy = True
        if busy:
            busy = not sender.pump()
        arrivals += taken(receiver, turn)
        if len(arrivals) == len(sizes):
            break
    return arrivals, receiver


SIZES = [0, 1, INLINE_BYTES, INLINE_BYTES + 1, READ_BYTES, LOW_WATER_BYTES // 8 + 1, LOW_WATER_BYTES, 20_000_000, 0, 7]


def test_sizes_from_nothing_to_more_than_the_payload_file() -> None:
    with connected() as (near, far), payload() as file:
        arrivals, receiver = transfer(near, far, SIZES, file)
    assert [arrival.header for arrival in arrivals] == [header(number, size) for number, size in enumerate(SIZES)]
    assert receiver.bytes_received == sum(SIZES) + len(SIZES) * FRAMING.header_bytes


def test_many_small_messages_come_out_of_one_read() -> None:
    sizes = [number % 20 for number in range(100)]
    data = b"".join(FRAMING.pack(header(number, size)) + bytes(size) for number, size in enumerate(sizes))
    assert len(data) < READ_BYTES
    with connected() as (near, far):
        near.sendall(data)
        receiver = Receiver(far, FRAMING)
        arrivals = list(pumped(receiver, far, len(data)))
    assert [arrival.header.size_bytes for arrival in arrivals] == sizes
    assert {arrival.start_ns for arrival in arrivals} == {0}


def pumped(receiver: Receiver, sock: socket.socket, size_bytes: int) -> list[Arrival]:
    """What a loop would do once `size_bytes` have arrived: a message's end and what follows it may take two calls."""
    sock.setblocking(True)
    assert len(sock.recv(size_bytes, socket.MSG_PEEK | socket.MSG_WAITALL)) == size_bytes
    sock.setblocking(False)
    return [*taken(receiver), *taken(receiver)]


@pytest.mark.parametrize("step", [1, 7, 48, 49, 60])
def test_headers_and_payloads_that_are_cut_anywhere(step: int) -> None:
    sizes = [0, 3, 100, 0]
    data = b"".join(FRAMING.pack(header(number, size)) + bytes(size) for number, size in enumerate(sizes))
    arrivals: list[Arrival] = []
    with connected() as (near, far):
        receiver = Receiver(far, FRAMING)
        assert taken(receiver) == []
        for at in range(0, len(data), step):
            near.sendall(data[at : at + step])
            arrivals += pumped(receiver, far, len(data[at : at + step]))
    assert [arrival.header for arrival in arrivals] == [header(number, size) for number, size in enumerate(sizes)]


def test_a_sender_waits_for_room() -> None:
    with connected() as (near, far), payload() as file:
        sender = Sender(near, file)
        sender.begin(3, 9, FRAMING.pack(header(9, 1 << 30)), 1 << 30, 5)
        assert not sender.pump()
        assert (sender.iteration, sender.op, sender.start_ns) == (3, 9, 5)
        assert far.recv(4) == b"GWIR"


@pytest.mark.parametrize("sent", [0, 20, 60])
def test_a_peer_that_closes_is_a_fault(sent: int) -> None:
    data = FRAMING.pack(header(0, 1000)) + bytes(1000)
    with connected() as (near, far):
        receiver = Receiver(far, FRAMING)
        near.sendall(data[:sent])
        if sent:
            assert pumped(receiver, far, sent) == []
        near.close()
        with pytest.raises(MachineFault, match=r"127\.0\.0\.1 closed"):
            pumped(receiver, far, 0)


def reset(sock: socket.socket) -> None:
    """Closes with a reset, as the kernel does for a killed process that has unread data."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def test_a_peer_that_resets_is_a_fault_at_the_receiver() -> None:
    with connected() as (near, far):
        receiver = Receiver(far, FRAMING)
        reset(near)
        with pytest.raises(MachineFault, match=r"127\.0\.0\.1"):
            taken(receiver)


def test_a_peer_that_resets_is_a_fault_at_the_sender() -> None:
    with connected() as (near, far), payload() as file:
        sender = Sender(near, file)
        reset(far)
        sender.begin(0, 0, FRAMING.pack(header(0, 1 << 20)), 1 << 20, 0)
        with pytest.raises(MachineFault, match=r"127\.0\.0\.1 broke"):
            sender.pump()


def test_bytes_that_are_no_header_are_a_fault() -> None:
    with connected() as (near, far):
        near.sendall(bytes(100))
        with pytest.raises(InternalFault, match="lost its framing"):
            pumped(Receiver(far, FRAMING), far, 100)

"""Transmit timestamps on real loopback connections: a message is done when the kernel says that it has left, and not
before."""

from __future__ import annotations

import select
import socket
from dataclasses import replace

import pytest

from gradwire.agents.departures import ASK, ErrorQueue, PacketDeparture, PortLine, report_departures
from gradwire.agents.transfer import INLINE_BYTES, Sender
from gradwire.datatypes.wire.framing import HELLO
from gradwire.network.fabric import Fabric
from tests.unit.agents.test_transfer import FRAMING, connected, header, payload

FABRIC = Fabric(hosts=2, rate_bps=8e9, aggregators=True)
LINE = PortLine.of_tcp(FABRIC, 0)


def greeted(near: socket.socket, far: socket.socket) -> None:
    """What `join` does before the first message."""
    report_departures(near)
    near.send(bytes(HELLO.size))
    assert len(far.recv(HELLO.size)) == HELLO.size


def has_error(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, 0)
    return poll.poll(1000) == [(sock.fileno(), select.POLLERR)]


@pytest.mark.parametrize(
    ("ip_bytes", "line_bytes"),
    [(52 + 1, 52 + 1 + 38), (1500, 1538), (52 + 1449, 1538 + 52 + 1 + 38), (52 + 44 * 1448, 44 * 1538), (52, 52 + 38)],
)
def test_a_packet_takes_what_its_frames_take_on_the_line(ip_bytes: int, line_bytes: int) -> None:
    assert LINE.packet_ns(ip_bytes) == line_bytes  # a byte takes 1 ns
    assert PortLine.of_tcp(replace(FABRIC, rate_bps=4e9), 1).packet_ns(ip_bytes) == 2 * line_bytes
    assert PortLine.of_tcp(FABRIC, FABRIC.aggregator_of(0)).packet_ns(ip_bytes) == 0


def test_multicast_datagrams_have_shorter_headers() -> None:
    assert PortLine.of_multicast(FABRIC, 0).packet_ns(28 + 2 * 1472) == 2 * 1538


@pytest.mark.parametrize("size_bytes", [2000, INLINE_BYTES, INLINE_BYTES + 1, 60_000, 200_000])
def test_a_message_is_done_when_its_last_byte_has_left(size_bytes: int) -> None:
    errors = ErrorQueue()
    with connected() as (near, far), payload() as file:
        greeted(near, far)
        sender = Sender(near, file, LINE)
        for message in range(3):
            head = FRAMING.pack(header(message, size_bytes))
            sender.begin(0, message, head, size_bytes, 0)
            assert sender.pump()
            assert sender.is_leaving
            received = 0
            while received < size_bytes + len(head):
                assert select.select([far], [], [], 10)[0]
                received += len(far.recv(1 << 20))
            assert has_error(near)
            on_line_ns = sender.departed_ns(errors)
            assert on_line_ns is not None
            assert 0 < on_line_ns <= LINE.packet_ns(size_bytes + len(head) + 52)
            assert not sender.is_leaving


def test_a_message_that_fits_into_a_frame_is_done_at_once() -> None:
    with connected() as (near, far), payload() as file:
        greeted(near, far)
        sender = Sender(near, file, LINE)
        size_bytes = LINE.payload_bytes - FRAMING.header_bytes
        for size, leaves in ((size_bytes, False), (size_bytes + 1, True)):
            sender.begin(0, 0, FRAMING.pack(header(0, size)), size, 0)
            assert sender.pump()
            assert sender.is_leaving == leaves
        assert has_error(near)  # of the second alone, whose number counts the bytes of both
        assert sender.departed_ns(ErrorQueue()) is not None


def test_timestamps_of_other_messages_do_not_count() -> None:
    with connected() as (near, far), payload() as file:
        greeted(near, far)
        sender = Sender(near, file, LINE)
        near.sendmsg([b"x"], ASK)
        near.sendmsg([b"y"], ASK)
        sender.begin(0, 0, FRAMING.pack(header(0, 5000)), 5000, 0)
        assert has_error(near)
        assert sender.departed_ns(ErrorQueue()) is None
        assert sender.is_leaving


def test_all_timestamps_are_read_at_once_and_in_order() -> None:
    errors = ErrorQueue()
    with connected() as (near, far):
        greeted(near, far)
        assert errors.read(near) == []
        for size_bytes in (10, 20):
            near.sendmsg([bytes(size_bytes)], ASK)
        assert has_error(near)
        first = HELLO.size + 10 - 1
        assert errors.read(near) == [PacketDeparture(first, 52 + 10), PacketDeparture(first + 20, 52 + 20)]
        assert errors.read(near) == []

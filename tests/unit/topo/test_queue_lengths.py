"""The kernel's answers about queues, as bytes."""

from __future__ import annotations

import struct

import pytest

from gradwire.faults import MachineFault
from gradwire.topo.counters import add_marks, add_waiting

PLACE = {7: 0, 9: 1}


def attribute(kind: int, payload: bytes) -> bytes:
    padding = bytes(-len(payload) % 4)
    return struct.pack("=HH", 4 + len(payload), kind) + payload + padding


def qdisc(index: int, parent: int, backlog_bytes: int) -> bytes:
    """A message with a kind in front, the old statistics, and the new ones: basic, queue."""
    message = struct.pack("=BxxxiIII", 0, index, 0x8003 << 16, parent, 2)
    statistics = attribute(1, bytes(12)) + attribute(3, struct.pack("=IIIII", 2, backlog_bytes, 5, 0, 0))
    return message + attribute(1, b"bfifo\0") + attribute(3, bytes(36)) + attribute(0x8007, statistics)


def test_the_bands_of_a_port_add_up() -> None:
    waiting = [0, 0]
    for message in (qdisc(7, 0x10001, 1500), qdisc(7, 0x10002, 3000), qdisc(9, 0x10003, 60)):
        add_waiting(message, PLACE, waiting)
    assert waiting == [4500, 60]


@pytest.mark.parametrize(
    ("index", "parent"), [(8, 0x10001), (7, 0x50001), (7, 0xFFFFFFFF), (7, 0x1000001), (7, 0x10000)]
)
def test_other_ports_and_the_qdiscs_above_and_below_the_bands_do_not_count(index: int, parent: int) -> None:
    waiting = [0, 0]
    add_waiting(qdisc(index, parent, 1500), PLACE, waiting)
    assert waiting == [0, 0]


def red(index: int, marked: bytes) -> bytes:
    message = struct.pack("=BxxxiIII", 0, index, 0x8003 << 16, 0x50001, 2)
    return message + attribute(1, b"red\0") + attribute(0x8007, attribute(4, marked))


def test_marks_of_a_port_add_up_wherever_its_queues_are() -> None:
    marks = [0, 0]
    for index, marked in ((7, 5), (7, 2), (9, 1), (8, 9)):
        add_marks(red(index, struct.pack("=IIII", 0, 0, 0, marked)), PLACE, marks)
    add_marks(qdisc(7, 0x10001, 1500), PLACE, marks)
    assert marks == [7, 1]
    with pytest.raises(MachineFault, match="without its marks"):
        add_marks(red(7, b""), PLACE, marks)


def test_a_queue_without_its_length_is_a_fault_of_the_machine() -> None:
    message = struct.pack("=BxxxiIII", 0, 7, 0, 0x10001, 2) + attribute(1, b"bfifo\0")
    with pytest.raises(MachineFault, match="without its length"):
        add_waiting(message, PLACE, [0, 0])

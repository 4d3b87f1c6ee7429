"""Packets' headers are read as scapy reads them; messages are found wherever packets cut their streams, and told when they end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether

from gradwire.datatypes.wire.framing import HELLO
from gradwire.network.wire.headers import SYN, read_segment
from gradwire.network.wire.trail import SEQUENCE_NUMBERS, Seen, Trail, Trails, is_captured, note, read_notes
from tests.shared.captured_streams import FRAMING, HEADER_BYTES, Line, cut, header, hello, message
from tests.shared.examples import examples

FIRST = 1_000_000


def test_a_segment_is_read_as_scapy_reads_it() -> None:
    frame = Line(band=2).frame("PA", 77, b"x" * 100)
    segment = read_segment(frame)
    assert segment is not None
    dissected = Ether(frame)
    assert segment.source_port == dissected[TCP].sport
    assert segment.target_port == dissected[TCP].dport == 7000
    assert segment.sequence == dissected[TCP].seq == 77
    assert segment.flags == int(dissected[TCP].flags)
    assert not segment.flags & SYN
    assert segment.dscp == dissected[IP].tos >> 2
    assert segment.flow == bytes(dissected[IP])[12:24]
    assert (segment.header_bytes, segment.payload_bytes) == (66, 100)
    assert segment.carries_messages
    assert read_segment(frame[:66]) == segment, "cut behind its headers"


def test_a_datagram_is_read_and_other_packets_are_not() -> None:
    frame = bytes(Ether() / IP(src="10.0.0.3", dst="239.77.0.1") / UDP(sport=20001, dport=20001) / (b"y" * 50))
    segment = read_segment(frame)
    assert segment is not None
    assert (segment.source_port, segment.header_bytes, segment.payload_bytes) == (20001, 42, 50)
    assert not segment.carries_messages
    assert read_segment(bytes(Ether() / ARP())) is None
    assert read_segment(bytes(Ether() / IP() / ICMP() / (b"z" * 50))) is None
    assert read_segment(Line().frame("PA", 1)[:50]) is None
    assert read_segment(frame[:40]) is None


def test_the_other_direction_carries_no_messages() -> None:
    segment = read_segment(Line().frame("A", 1, back=True))
    assert segment is not None
    assert not segment.carries_messages
    assert Trails().take(0, segment, b"") == []


def take_all(trail: Trail, pieces: Sequence[tuple[int, bytes]], first: int, kept: int = 1 << 30) -> list[Seen]:
    """Feeds pieces of a stream whose first byte has number `first`, one a nanosecond; returns all that is found."""
    found = []
    for at_ns, (offset, piece) in enumerate(pieces):
        found += trail.take(at_ns, (first + offset) % SEQUENCE_NUMBERS, len(piece), piece[:kept])
    return found


sizes = st.lists(st.integers(1, 400), min_size=1, max_size=8)
messages = st.lists(st.integers(0, 300), min_size=1, max_size=12)


@settings(max_examples=examples(150))
@given(messages, sizes, st.sampled_from([0, 5, FIRST, SEQUENCE_NUMBERS - 1, SEQUENCE_NUMBERS - 700]), st.booleans())
def test_every_message_is_found_once_and_timed(
    sizes_bytes: list[int], cuts: list[int], first: int, fixed: bool
) -> None:
    heads = [header(op, size) for op, size in enumerate(sizes_bytes)]
    wire = [message(head) for head in heads]
    stream = hello(3) + b"".join(wire)
    pieces = cut(stream, [97] if fixed else cuts)
    trail = Trail()
    trail.opened(first)
    found = take_all(trail, pieces, (first + 1) % SEQUENCE_NUMBERS)
    assert [FRAMING.unpack(seen.header) for seen in found] == heads
    assert trail.lost == 0
    begin = len(hello(3))
    for seen, whole in zip(found, wire, strict=True):
        end = begin + len(whole)
        assert seen.sequence == (first + 1 + begin) % SEQUENCE_NUMBERS
        assert seen.first_ns == next(ns for ns, (at, piece) in enumerate(pieces) if at + len(piece) > begin)
        assert seen.last_ns == next(ns for ns, (at, piece) in enumerate(pieces) if at + len(piece) >= end)
        begin = end


@settings(max_examples=examples(100))
@given(messages, sizes, st.randoms(use_true_random=False))
def test_packets_out_of_order_and_twice_lose_nothing(sizes_bytes: list[int], cuts: list[int], random: object) -> None:
    heads = [header(op, size) for op, size in enumerate(sizes_bytes)]
    pieces = cut(hello(3) + b"".join(message(head) for head in heads), cuts)
    mixed = [*pieces, *pieces[::3]]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    trail = Trail()
    trail.opened(FIRST)
    found = take_all(trail, mixed, FIRST + 1)
    assert [FRAMING.unpack(seen.header) for seen in found] == heads
    assert trail.lost == 0


@settings(max_examples=examples(100))
@given(messages, sizes, st.integers(0, 120))
def test_notes_replace_what_was_cut_off(sizes_bytes: list[int], cuts: list[int], kept: int) -> None:
    """As a capture is made, whole, and read again, cut: with the notes every message comes back with the same times."""
    heads = [header(op, size) for op, size in enumerate(sizes_bytes)]
    pieces = [(0, hello(3)), *((8 + at, piece) for at, piece in cut(b"".join(message(h) for h in heads), cuts))]
    writer, reader = Trail(), Trail(has_notes=True)
    for trail in (writer, reader):
        trail.opened(FIRST)
    made: list[Seen] = []
    read: list[Seen] = []
    for at_ns, (offset, piece) in enumerate(pieces):
        number = FIRST + 1 + offset
        now = writer.take(at_ns, number, len(piece), piece)
        made += now
        cut_off = [s for s in now if not (number <= s.sequence and s.sequence + HEADER_BYTES <= number + kept)]
        notes = read_notes([note(seen) for seen in cut_off] + ["a comment of someone else's"])
        read += reader.take(at_ns, number, len(piece), piece[:kept], notes)
    assert read == made
    assert len(made) == len(heads)
    assert reader.lost == 0


def test_a_header_that_nobody_noted_is_lost_and_the_trail_found_again() -> None:
    heads = [header(0, 300), header(1, 300), header(2, 50), header(3, 50)]
    wire = [message(head) for head in heads]
    stream = hello(1) + b"".join(wire[:3])
    pieces = [(0, hello(1)), (8, stream[8:500]), (500, stream[500:]), (len(stream), wire[3])]
    trail = Trail()
    found = take_all(trail, pieces, FIRST, kept=HEADER_BYTES)
    assert [FRAMING.unpack(seen.header).message for seen in found] == [0, 3]
    assert trail.lost == 1


def test_without_its_begin_a_stream_is_followed_from_the_first_packet_that_begins_with_a_header() -> None:
    heads = [header(0, 100), header(1, 100)]
    stream = b"".join(message(head) for head in heads)
    assert take_all(Trail(), [(20, stream[20:])], FIRST) == []
    assert len(take_all(Trail(), [(0, stream)], FIRST)) == 2


def test_bytes_that_are_not_a_header_where_one_is_due_are_lost() -> None:
    trail = Trail()
    trail.opened(FIRST)
    assert take_all(trail, [(0, hello(1)), (HELLO.size, b"nonsense" * 40)], FIRST + 1) == []
    assert trail.lost == 1


def test_streams_of_a_port_are_kept_apart() -> None:
    trails, found = Trails(), []
    lines = [Line(), Line(source_port=44444), Line(src=3)]
    wire = message(header(1, 30))
    for line in lines:
        for frame in (line.frame("S", line.first), line.frame("PA", line.first + 1, hello(1))):
            segment = read_segment(frame)
            assert segment is not None
            assert trails.take(0, segment, frame[segment.header_bytes :]) == []
    for part in (wire[:20], wire[20:]):
        for line in lines:
            frame = line.frame("PA", line.first + 9 + (0 if part == wire[:20] else 20), part)
            segment = read_segment(frame)
            assert segment is not None
            found += trails.take(1, segment, frame[segment.header_bytes :])
    assert len(found) == 3
    assert trails.lost == 0


@pytest.mark.parametrize(("kept", "expected"), [(66 + 10 + HEADER_BYTES, True), (65 + 10 + HEADER_BYTES, False)])
def test_a_header_is_captured_when_all_of_it_is_kept(kept: int, expected: bool) -> None:
    segment = read_segment(Line().frame("PA", FIRST, bytes(300)))
    assert segment is not None
    seen = Seen(FIRST + 10, FRAMING.pack(header(1, 5)), 0)
    assert is_captured(seen, segment, kept) is expected
    assert not is_captured(Seen(FIRST - 1, seen.header, 0), segment, 1 << 20), "begun in the packet before"

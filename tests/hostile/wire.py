"""Hostile bytes on the wire: headers of messages, hellos, datagrams, reports and packets."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from gradwire.datatypes.wire.framing import Framing, Header, header_bytes_of, is_header, is_hello, message_bytes_of
from gradwire.faults import InternalFault
from gradwire.network.wire import datagrams
from gradwire.network.wire.headers import read_segment
from gradwire.network.wire.trail import Trails, read_notes
from tests.hostile.damage import damaged
from tests.hostile.limits import Outcome, outcome
from tests.shared.captured_streams import FRAMING, Line, header


def _headers(random: Random) -> Callable[[], object]:
    sound = FRAMING.pack(header(random.randrange(1000), random.randrange(2**40)))
    data = damaged(sound, random)

    def read() -> None:
        length = header_bytes_of(data)
        if is_header(data) and len(data) >= length:
            found: Header = Framing(random.choice((1, 8, 9, 1024))).unpack(data[:length])
            assert found.size_bytes >= 0
            assert message_bytes_of(data[:length]) >= length
        is_hello(data)

    return read


def _reports(random: Random) -> Callable[[], object]:
    spans = tuple((first, first + 2) for first in range(random.randrange(20)))
    return lambda: datagrams.Status.unpack(
        damaged(datagrams.Status(3, 1, random.randrange(2**31), spans).pack(), random)
    )


def _packets(random: Random) -> Callable[[], object]:
    frames = [bytes(one.data) for one in Line().packets([header(op, 3000) for op in range(4)], 10**6, [4000])]
    spoiled = [damaged(frame, random) if random.random() < 0.5 else frame for frame in frames]
    trails = Trails(has_notes=random.random() < 0.5)

    def read() -> None:
        for at_ns, frame in enumerate(spoiled):
            segment = read_segment(frame)
            if segment is not None and segment.carries_messages:
                trails.take(at_ns, segment, memoryview(frame)[segment.header_bytes :])

    return read


def _notes(random: Random) -> Callable[[], object]:
    text = damaged(b"gradwire 0:" + random.randbytes(40).hex().encode() + b" 96:" + b"00" * 60, random).decode(
        errors="replace"
    )
    return lambda: read_notes([text, ""])


KINDS = (_headers, _reports, _packets, _notes)


def tried(number: int) -> Outcome:
    """Reads the bytes of this number."""
    random = Random(f"wire/{number}")
    return outcome(random.choice(KINDS)(random), (InternalFault,))

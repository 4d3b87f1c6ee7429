"""Packets of made-up messages, as a port would see them, for the tests of what reads captures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from gradwire.agents.capture.recorder import Packet
from gradwire.datatypes.plan import Contributions
from gradwire.datatypes.wire.framing import HELLO, MAGIC, PORT, Framing, Header
from gradwire.network.fabric import dscp_of_band

WORKERS = 9
FRAMING = Framing(WORKERS)
HEADER_BYTES = FRAMING.header_bytes
US = 1000
MSS = 1448
BURST_SEGMENTS = 4


def header(op: int, size_bytes: int, iteration: int = 0, src: int = 0, dst: int = 1) -> Header:
    return Header(iteration, op, src, dst, op % 5, op, size_bytes, Contributions(iteration, 1))


def message(head: Header) -> bytes:
    return FRAMING.pack(head) + bytes(head.size_bytes)


def hello(number: int) -> bytes:
    return HELLO.pack(MAGIC, number)


def cut(stream: bytes, sizes: Sequence[int]) -> list[tuple[int, bytes]]:
    """The stream as pieces of the given sizes, over and over, each with its offset."""
    pieces: list[tuple[int, bytes]] = []
    at = 0
    while at < len(stream):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append((at, stream[at : at + size]))
        at += size
    return pieces


@dataclass(frozen=True)
class Line:
    """A connection from 10.0.0.src to 10.0.0.dst, whose packets have TCP's usual 32 bytes of header."""

    src: int = 1
    dst: int = 2
    source_port: int = 33333
    first: int = 1_000_000
    band: int = 1

    def frame(self, flags: str, sequence: int, payload: bytes = b"", *, back: bool = False) -> bytes:
        src, dst = (self.dst, self.src) if back else (self.src, self.dst)
        ports = (PORT, self.source_port) if back else (self.source_port, PORT)
        network = IP(src=f"10.0.0.{src}", dst=f"10.0.0.{dst}", tos=dscp_of_band(0 if back else self.band) << 2)
        options = [("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]
        segment = TCP(sport=ports[0], dport=ports[1], flags=flags, seq=sequence % 2**32, options=options)
        return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / network / segment / payload)

    def packets(
        self, messages: Sequence[Header], start_ns: int, sizes: Sequence[int], step_ns: int = US
    ) -> list[Packet]:
        """SYN, hello and then the messages in pieces, one every `step_ns`."""
        frames = [self.frame("S", self.first), self.frame("PA", self.first + 1, hello(7))]
        begin = self.first + 1 + HELLO.size
        pieces = cut(b"".join(message(head) for head in messages), sizes)
        frames += [self.frame("PA", begin + offset, piece) for offset, piece in pieces]
        return [packet(start_ns + index * step_ns, frame) for index, frame in enumerate(frames)]


def packet(time_ns: int, frame: bytes, *, is_outgoing: bool = True) -> Packet:
    return Packet(time_ns, memoryview(frame), len(frame), is_outgoing)

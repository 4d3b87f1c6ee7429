"""The capturing process: writes the packets of ports to pcapng files. `python -m gradwire.agents.capture.recorder
SETTINGS.json`.

It says `listening` on standard output once it captures. At the end of its input it stops, and says `captured` with the
counts.

The first bytes of each packet are kept, framing included. Messages do not begin where packets do, so the header of a
message that begins further back, or in the packet before, is written as a comment of the packet that has its last
byte. tcpdump loses no packets here either, but its files would not identify most messages: only 30 % of P3's have
their header among the first 160 bytes of a packet. Keeping all bytes would take as much disk as the hosts move data,
and 7 s of a core per GB.
"""

from __future__ import annotations

import json
import selectors
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from gradwire.agents.capture import pcapng
from gradwire.agents.capture.packet_ring import SETTLE_S, Packet, PacketRing
from gradwire.agents.connections import raise_file_limit
from gradwire.agents.messages import Captured, Listening, say
from gradwire.datatypes.fabric import ETHERNET_HEADER_BYTES
from gradwire.datatypes.records import CaptureRecord
from gradwire.datatypes.wire.datagrams import DATA
from gradwire.datatypes.wire.framing import Framing
from gradwire.datatypes.wire.headers import UDP_HEADER_BYTES, read_segment
from gradwire.datatypes.wire.trail import APPLICATION, Trails, is_captured, note
from gradwire.faults import Fault
from gradwire.network_namespace import network_namespace

BLOCKS_MAX, BLOCKS_MIN = 32, 4
BLOCK_BYTES_MAX, BLOCK_BYTES_MIN = 1 << 20, 1 << 17
"""16 bursts of 64 KiB, and one, which a block must hold."""
RING_BYTES_MAX = 256 << 20
"""For all ports together, because the virtual-time kernel has only a few GB of memory. More than 512 ports take
more."""
WRITE_BYTES_MAX = 1 << 20
HELD_BYTES_MAX = 64 << 20
"""For all ports together, of what is not yet written."""
IPV4_BYTES = 20


@dataclass(frozen=True)
class PortEntry:
    """A port to capture."""

    #: Name in the fabric.
    port: str
    #: Name on the machine.
    interface: str
    #: The /proc path of the interface's network namespace, or "" for the one that the process is in.
    namespace: str
    rate_bps: float
    #: The capture file.
    path: str


@dataclass(frozen=True)
class CaptureSettings:
    """What to capture."""

    ports: tuple[PortEntry, ...]
    #: Bytes to keep of each packet.
    snaplen: int
    #: Number of workers in the plan, which decides the size of its messages' headers.
    workers: int

    def save(self, path: Path) -> None:
        """Writes the settings as JSON, of a kind that knows infinite rates."""
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(path: Path) -> CaptureSettings:
        """Reads what `save` wrote."""
        return msgspec.convert(json.loads(path.read_text()), CaptureSettings)

    def kept_bytes(self) -> int:
        """Bytes to keep of each packet: snaplen, or what a datagram's message header needs (TCP's can be noted)."""
        least = ETHERNET_HEADER_BYTES + IPV4_BYTES + UDP_HEADER_BYTES + DATA.size + Framing(self.workers).header_bytes
        return max(self.snaplen, least)


class PortFile:
    """Writes one port's packets to a file, with the headers of messages that are cut off. packets: how many so far.

    It holds up to `held_bytes`, for a buffered file of Python's has a lock, which reads the clock whenever it is
    taken: 16 ns of virtual time a packet (vm/patches/clock-read.patch). 512 ports sent faster than that.
    """

    def __init__(
        self, file: BinaryIO, port: str, rate_bps: float, kept_bytes: int, held_bytes: int = WRITE_BYTES_MAX
    ) -> None:
        self.packets = 0
        self._file, self._kept_bytes, self._held_bytes = file, kept_bytes, held_bytes
        self._held = bytearray()
        self._trails: Trails | None = Trails()
        about = f"{port}: bursts as they leave and reach the port; their first {kept_bytes} bytes are kept"
        self._held += pcapng.section(APPLICATION)
        self._held += pcapng.interface(port, about, kept_bytes, rate_bps)

    def write(self, packet: Packet) -> None:
        """Adds a packet, whose data must be complete."""
        data = packet.data
        comments: list[str] = []
        segment = read_segment(data)
        if self._trails is not None and segment is not None and segment.carries_messages:
            seen = self._trails.take(packet.time_ns, segment, data[segment.header_bytes :])
            comments = [note(message) for message in seen if not is_captured(message, segment, self._kept_bytes)]
        way = pcapng.OUTBOUND if packet.is_outgoing else pcapng.INBOUND
        kept = bytes(data[: self._kept_bytes])
        self._held += pcapng.packet(packet.time_ns, kept, packet.size_bytes, way, comments)
        self.packets += 1
        if len(self._held) >= self._held_bytes:
            self._flush()

    def lose(self) -> None:
        """Follows no message any more, for packets are missing: what comes after them would be kept until they come."""
        self._trails = None

    def end(self, seen: int, dropped: int) -> None:
        """Closes the file. seen, dropped: the kernel's counts of packets."""
        self._held += pcapng.statistics(time.time_ns(), seen, dropped)
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        self._file.write(self._held)
        self._held.clear()


def ring_shape(ports: int) -> tuple[int, int]:
    """How many blocks each of so many ports' rings has, and how large they are."""
    share_bytes = RING_BYTES_MAX // ports
    block_bytes = BLOCK_BYTES_MAX
    while block_bytes > BLOCK_BYTES_MIN and block_bytes * BLOCKS_MIN > share_bytes:
        block_bytes //= 2
    return max(BLOCKS_MIN, min(BLOCKS_MAX, share_bytes // block_bytes)), block_bytes


class PortCapture:
    """One port, with its ring and its file."""

    def __init__(self, entry: PortEntry, settings: CaptureSettings) -> None:
        self._entry = entry
        with network_namespace(entry.namespace) if entry.namespace else nullcontext():
            self.ring = PacketRing(entry.interface, *ring_shape(len(settings.ports)))
        file = Path(entry.path).open("wb")  # noqa: SIM115 (PortFile.end closes it)
        held_bytes = min(WRITE_BYTES_MAX, HELD_BYTES_MAX // len(settings.ports))
        self._file = PortFile(file, entry.port, entry.rate_bps, settings.kept_bytes(), held_bytes)
        self._seen = self._dropped = 0

    def drain(self) -> None:
        """Writes the packets that are there."""
        seen, dropped = self.ring.counts()
        self._seen += seen
        self._dropped += dropped
        if dropped:
            self._file.lose()
        for packet in self.ring.packets():
            self._file.write(packet)

    def end(self) -> CaptureRecord:
        """Writes the remaining packets and ends the file."""
        self.drain()
        self._file.end(self._seen, self._dropped)
        self.ring.close()
        return CaptureRecord(
            self._entry.port, Path(self._entry.path).name, self._file.packets, self._seen, self._dropped
        )


def capture(settings: CaptureSettings) -> list[CaptureRecord]:
    """Captures until standard input ends."""
    ports = [PortCapture(entry, settings) for entry in settings.ports]
    with selectors.DefaultSelector() as selector:
        for port in ports:
            selector.register(port.ring, selectors.EVENT_READ, port)
        selector.register(sys.stdin, selectors.EVENT_READ)
        say(Listening())
        has_input_ended = False
        while not has_input_ended:
            for key, _ in selector.select():
                if isinstance(key.data, PortCapture):
                    key.data.drain()
                else:
                    has_input_ended = True
    for port in ports:
        port.ring.stop()
    time.sleep(SETTLE_S)
    return [port.end() for port in ports]


def main() -> int:
    """Captures the ports in the settings file."""
    raise_file_limit()
    try:
        records = capture(CaptureSettings.load(Path(sys.argv[1])))
    except Fault as fault:
        print(f"{type(fault).__name__}: {fault}", file=sys.stderr, flush=True)
        return 1
    say(Captured(tuple(records)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

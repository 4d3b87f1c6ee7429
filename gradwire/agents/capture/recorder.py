"""The capturing process: writes the packets of ports to pcapng files. `python -m gradwire.agents.capture.recorder
SETTINGS.json`.

It says `listening` on standard output once it captures. At the end of its input it stops, and says `captured` with the
counts.

The first bytes of each packet are kept, framing included. Messages do not begin where packets do, so the header of a
message that begins further back, or in the packet before, is written as a comment of the packet that has its last byte.
tcpdump loses no packets here either, but its files would not identify most messages: only 30 % of P3's have their
header among the first 160 bytes of a packet. Keeping all bytes would take as much disk as the hosts move data, and 7 s
of a core per GB.

Packets of an interface come through memory shared with the kernel (packet_mmap, TPACKET_V3). The kernel copies each
packet once, with its time, and wakes the reader once per block instead of once per packet. Memory is bounded: a packet
for which there is no room is dropped and counted. On the virtual clock, time stands still until the reader has caught
up.

Files are in the pcapng format (draft-ietf-opsawg-pcapng), with nanoseconds, directions, comments and counts of lost
packets. scapy's writer does not serve: it keeps times as floats and writes no statistics. Nor does tcpdump's format
(pcap), which has neither directions nor comments.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from gradwire.agents.connections import raise_file_limit
from gradwire.agents.messages import Captured, Listening, say
from gradwire.datatypes.records import MOST_CAPTURED_BYTES, MOST_CAPTURED_PACKETS, CaptureRecord
from gradwire.datatypes.wire.framing import Framing
from gradwire.faults import Fault, InputFault, MachineFault
from gradwire.network.fabric import ETHERNET_HEADER_BYTES
from gradwire.network.wire.datagrams import DATA
from gradwire.network.wire.headers import UDP_HEADER_BYTES, read_segment
from gradwire.network.wire.trail import APPLICATION, Trails, is_captured, note
from gradwire.network_namespace import network_namespace

LITTLE_ENDIAN_MAGIC = 0x1A2B3C4D
ETHERNET = 1
INBOUND, OUTBOUND = 1, 2
_SECTION, _INTERFACE, _STATISTICS, _ENHANCED_PACKET = 0x0A0D0D0A, 1, 5, 6
_COMMENT = 1
_SECTION_APPLICATION = 4
_INTERFACE_NAME, _INTERFACE_DESCRIPTION, _INTERFACE_SPEED, _INTERFACE_RESOLUTION = 2, 3, 8, 9
_PACKET_FLAGS = 2
_STATISTICS_RECEIVED, _STATISTICS_DROPPED = 4, 5
_NANOSECONDS = b"\x09"
_PACKET_FIXED = struct.Struct("<IIIIIII")
_FLAGS = {way: struct.pack("<HHI", _PACKET_FLAGS, 4, way) for way in (INBOUND, OUTBOUND)}
_END = bytes(4)
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
ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 5, 6, 10
SO_ATTACH_FILTER = 26
TPACKET_V3 = 2
BPF_RETURN_NOTHING = struct.pack("HBBI", 0x06, 0, 0, 0)
PACKET_OUTGOING = 4
FRAME_BYTES = 1 << 11
"""Unused in version 3, which packs packets densely, but the kernel checks it."""
RETIRE_MS = 100
"""Time after which a block goes to the reader although it is not full."""
SETTLE_S = 3 * RETIRE_MS / 1000
"""Two periods of the kernel's timer, plus one in case it is late."""
_BLOCK = struct.Struct("<III")
_BLOCK_AT = 8
_PACKET = struct.Struct("<IIIIIIHH")
_KIND_AT = 58
"""Offset of the packet's direction, in the sockaddr_ll that follows the 48 bytes of the packet's header."""
OWNED_BY_KERNEL, OWNED_BY_USER = 0, 1


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


def section_block(application: str) -> bytes:
    """The block that begins a file."""
    fixed = struct.pack("<IHHq", LITTLE_ENDIAN_MAGIC, 1, 0, -1)
    return _block(_SECTION, fixed + _option(_SECTION_APPLICATION, application.encode()) + _END)


def interface_block(name: str, description: str, snaplen: int, rate_bps: float) -> bytes:
    """The block of the file's interface, an Ethernet port. rate_bps: left out if 64 bits cannot hold it."""
    options = _option(_INTERFACE_NAME, name.encode()) + _option(_INTERFACE_DESCRIPTION, description.encode())
    if rate_bps < 2**63:
        options += _option(_INTERFACE_SPEED, struct.pack("<Q", round(rate_bps)))
    options += _option(_INTERFACE_RESOLUTION, _NANOSECONDS) + _END
    return _block(_INTERFACE, struct.pack("<HHI", ETHERNET, 0, snaplen) + options)


def packet_block(time_ns: int, data: bytes, size_bytes: int, way: int, comments: Sequence[str] = ()) -> bytes:
    """The block of a packet of `size_bytes`, of which `data` is kept. time_ns: since 1970. way: INBOUND or OUTBOUND."""
    padded = data + bytes(-len(data) % 4)
    options = _FLAGS[way]
    for comment in comments:
        options += _option(_COMMENT, comment.encode())
    length = 32 + len(padded) + len(options) + 4
    fixed = _PACKET_FIXED.pack(_ENHANCED_PACKET, length, 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), size_bytes)
    return fixed + padded + options + _END + struct.pack("<I", length)


def statistics_block(time_ns: int, received: int, dropped: int) -> bytes:
    """The block that ends a file: packets that the kernel saw, and how many of them it dropped for lack of room."""
    counts = _option(_STATISTICS_RECEIVED, struct.pack("<Q", received))
    counts += _option(_STATISTICS_DROPPED, struct.pack("<Q", dropped))
    return _block(_STATISTICS, struct.pack("<III", 0, time_ns >> 32, time_ns & 0xFFFFFFFF) + counts + _END)


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
    """Settings of the capturing process: the ports to capture at, and how much of each packet to keep."""

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
        self.packets = self._written_bytes = 0
        self._port = port
        self._file, self._kept_bytes, self._held_bytes = file, kept_bytes, held_bytes
        self._held = bytearray()
        self._trails: Trails | None = Trails()
        about = f"{port}: bursts as they leave and reach the port; their first {kept_bytes} bytes are kept"
        self._held += section_block(APPLICATION)
        self._held += interface_block(port, about, kept_bytes, rate_bps)

    def write(self, packet: Packet) -> None:
        """Adds a packet, whose data must be complete. Raises InputFault for one too many: what runs for ever would fill the
        disk, and nobody would read it."""
        if self.packets >= MOST_CAPTURED_PACKETS or self._written_bytes >= MOST_CAPTURED_BYTES:
            raise InputFault(
                f"the capture of {self._port} has {self.packets:,} packets in {self._written_bytes / 1e9:.1f} GB, and may have "
                f"{MOST_CAPTURED_PACKETS:,} in {MOST_CAPTURED_BYTES / 1e9:.1f} GB: run it for less time, or keep fewer bytes of each "
                "(run.capture_snaplen)"
            )
        data = packet.data
        comments: list[str] = []
        segment = read_segment(data)
        if self._trails is not None and segment is not None and segment.carries_messages:
            seen = self._trails.take(packet.time_ns, segment, data[segment.header_bytes :])
            comments = [note(message) for message in seen if not is_captured(message, segment, self._kept_bytes)]
        way = OUTBOUND if packet.is_outgoing else INBOUND
        kept = bytes(data[: self._kept_bytes])
        self._held += packet_block(packet.time_ns, kept, packet.size_bytes, way, comments)
        self.packets += 1
        if len(self._held) >= self._held_bytes:
            self._flush()

    def lose(self) -> None:
        """Follows no message any more, for packets are missing: what comes after them would be kept until they come."""
        self._trails = None

    def end(self, seen: int, dropped: int) -> None:
        """Closes the file. seen, dropped: the kernel's counts of packets."""
        self._held += statistics_block(time.time_ns(), seen, dropped)
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        self._file.write(self._held)
        self._written_bytes += len(self._held)
        self._held.clear()


def ring_shape(ports: int) -> tuple[int, int]:
    """Returns the number of blocks in each ring of so many ports, and the size of a block in bytes."""
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
    except (Fault, OSError) as fault:  # a full disk among them
        print(f"{type(fault).__name__}: {fault}", file=sys.stderr, flush=True)
        return 1
    say(Captured(tuple(records)))
    return 0


class Packet(NamedTuple):
    """A captured packet."""

    #: Nanoseconds since 1970.
    time_ns: int
    #: Valid only until the next packet is requested.
    data: memoryview
    #: Size of the packet, which is more than that of `data` if the packet was cut.
    size_bytes: int
    is_outgoing: bool


class PacketRing:
    """All packets of an interface from now on, in both directions. The interface is looked up in the caller's network
    namespace.

    blocks, block_bytes: of the memory; a block holds the largest packet. Raises MachineFault if there is no such
    interface or the kernel provides no memory.
    """

    def __init__(self, interface: str, blocks: int, block_bytes: int) -> None:
        self._blocks, self._block_bytes, self._next = blocks, block_bytes, 0
        request = struct.pack(
            "<7I", block_bytes, blocks, FRAME_BYTES, blocks * (block_bytes // FRAME_BYTES), RETIRE_MS, 0, 0
        )
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
            self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
            self._map = mmap.mmap(self._socket.fileno(), blocks * block_bytes)
            self._socket.bind((interface, ETH_P_ALL))
        except OSError as error:
            raise MachineFault(
                f"cannot capture packets of {interface}: {error.strerror} (it needs CAP_NET_RAW)"
            ) from error
        self._memory = memoryview(self._map)

    def fileno(self) -> int:
        """The descriptor that becomes readable when packets are there."""
        return self._socket.fileno()

    def packets(self) -> Iterator[Packet]:
        """The packets that are there now."""
        memory = self._memory
        while True:
            block = self._next * self._block_bytes
            status, count, first = _BLOCK.unpack_from(memory, block + _BLOCK_AT)
            if not status & OWNED_BY_USER:
                return
            at = block + first
            for _ in range(count):
                following, seconds, nanoseconds, captured, size_bytes, _, start, _ = _PACKET.unpack_from(memory, at)
                data = memory[at + start : at + start + captured]
                is_outgoing = memory[at + _KIND_AT] == PACKET_OUTGOING
                yield Packet(seconds * 1_000_000_000 + nanoseconds, data, size_bytes, is_outgoing)
                at += following
            struct.pack_into("<I", memory, block + _BLOCK_AT, OWNED_BY_KERNEL)
            self._next = (self._next + 1) % self._blocks

    def stop(self) -> None:
        """Stops capturing. Packets from before are there after SETTLE_S at the latest."""
        program = ctypes.create_string_buffer(BPF_RETURN_NOTHING)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))

    def counts(self) -> tuple[int, int]:
        """Returns how many packets the kernel has seen, and how many of them it has dropped, since the last call."""
        seen, dropped, _ = struct.unpack("<3I", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))
        return seen, dropped

    def close(self) -> None:
        """Releases the memory."""
        self._memory.release()
        self._map.close()
        self._socket.close()


if __name__ == "__main__":
    sys.exit(main())

"""Reads captured packets: the bytes that each one took on the line, and the time that each message was under way.

Files are streamed with scapy's raw readers, so any pcap or pcapng file can be read, however large. Headers are read by
network/wire/headers.py and messages followed by network/wire/trail.py, because scapy needs 0.2 ms per packet. A
packet may be a burst (GSO) of many frames: the bytes of the frames are computed from the sizes of headers and payload,
as tc and the line count them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from gradwire.array_files import ArrayColumn, read_arrays
from gradwire.datatypes.records import MOST_CAPTURED_PACKETS, Int64
from gradwire.datatypes.wire.framing import FIXED_BYTES, HEADER_DTYPE, header_bytes_of, is_header, message_bytes_of
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, MAX_BANDS, PREAMBLE_FCS_GAP_BYTES, dscp_of_band
from gradwire.network.wire.datagrams import DATA, FIRST, HELLO, REPORT_PORT, datagram_bytes
from gradwire.network.wire.headers import UDP, Segment, read_segment
from gradwire.network.wire.trail import APPLICATION, Seen, Trails, read_notes
from gradwire.reading_budget import not_reading, reading_budget
from gradwire.regular_files import CAPTURE_BYTES, opened

Bool = npt.NDArray[np.bool_]
NOT_YET = -1
"""Stands for the time of a last byte that was not captured."""
NO_BAND = -1
OUTBOUND = 2
"""Direction of a packet in pcapng's flags."""
MULTICAST_FIRST = 224
LONGEST_BLOCK_BYTES = 16 << 20
"""Largest size of a block of a pcapng file: a packet of up to `run.capture_snaplen`, 256 KiB at most, and its
notes."""
_BANDS = {dscp_of_band(band): band for band in range(MAX_BANDS)}


@dataclass(frozen=True)
class CapturedPackets:
    """Packets in columns, one row per packet in the order of the capture."""

    #: Time since the capture's start.
    time_ns: Int64
    #: Whether the packet left the device that the port belongs to.
    outbound: Bool
    #: Band of its DSCP; NO_BAND for other DSCPs.
    band: Int64
    #: Number of its frames on the line.
    frames: Int64
    #: Bytes of all frames without preamble, FCS and gap, as tc counts them.
    frame_bytes: Int64
    #: Bytes of a connection's messages, framing included; 0 for ACKs and datagrams.
    stream_bytes: Int64

    @property
    def line_bytes(self) -> Int64:
        """Bytes of the frames on the line, all overhead included."""
        return self.frame_bytes + PREAMBLE_FCS_GAP_BYTES * self.frames


@dataclass(frozen=True)
class Messages:
    """Messages in columns, one row per message in the order of their
    headers. Names are those of datatypes/wire/framing.py."""

    iteration: Int64
    message: Int64
    src_rank: Int64
    dst_rank: Int64
    tensor: Int64
    chunk: Int64
    size_bytes: Int64
    contributed_to: Int64
    #: Number of workers that contributed.
    workers: Int64
    #: Bytes of header and payload.
    wire_bytes: Int64
    #: Whether the message left the device that the port belongs to.
    outbound: Bool
    #: Time of the packet with the first byte, since the capture's start.
    first_ns: Int64
    #: Time of the packet with the last byte, since the capture's start; NOT_YET if the capture ended before.
    last_ns: Int64


@dataclass(frozen=True)
class Capture:
    """The contents of a port's file."""

    #: All packets.
    packets: CapturedPackets
    #: All messages whose header was read.
    messages: Messages
    #: Messages whose header is not in the file; with each, some messages after it are missing too.
    lost_headers: int

    def save(self, path: Path) -> None:
        """Writes the columns to an .npz file, which appears only when it is complete."""
        columns = {
            f"{kind}.{f.name}": getattr(part, f.name)
            for kind, part in (("packets", self.packets), ("messages", self.messages))
            for f in fields(part)
        }
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, lost_headers=self.lost_headers, **columns)

    @staticmethod
    def load(path: Path) -> Capture:
        """Reads a file that `save` wrote. Raises OSError, or ValueError and others for other files."""
        columns = {
            f"{kind}.{f.name}": ArrayColumn("?" if f.name == "outbound" else "i8")
            for kind, part in (("packets", CapturedPackets), ("messages", Messages))
            for f in fields(part)
        }
        stored = read_arrays(path, {**columns, "lost_headers": ArrayColumn("i8", None)})
        parts = {
            kind: {f.name: stored[f"{kind}.{f.name}"] for f in fields(part)}
            for kind, part in (("packets", CapturedPackets), ("messages", Messages))
        }
        if any(len({len(column) for column in part.values()}) > 1 for part in parts.values()):
            raise ValueError("its columns do not fit together")
        return Capture(CapturedPackets(**parts["packets"]), Messages(**parts["messages"]), int(stored["lost_headers"]))


class RawPacket(NamedTuple):
    """A packet as stored in the file."""

    #: Time since 1970.
    time_ns: int
    #: The bytes that were kept.
    data: bytes
    #: Size before the packet was cut.
    size_bytes: int
    #: Direction; None if the file does not tell it.
    is_outbound: bool | None
    #: Comments of the packet in the file.
    comments: tuple[str, ...]


def raw_packets(path: Path) -> Iterator[RawPacket]:
    """Yields all packets of a pcap or pcapng file. Raises InputFault if it is neither, or not of Ethernet."""
    with not_reading():
        from scapy.error import Scapy_Exception  # noqa: PLC0415 (a fifth of a second that few commands need)
        from scapy.utils import RawPcapNgReader, RawPcapReader  # noqa: PLC0415

    try:
        with opened(path, CAPTURE_BYTES) as file, RawPcapReader(cast(Any, _Blocks(file))) as reader:
            for number, (data, metadata) in enumerate(reader):
                if number == MOST_CAPTURED_PACKETS:
                    raise ValueError(f"it has more than {MOST_CAPTURED_PACKETS:,} packets")
                about: Any = metadata  # its attributes depend on the file's format
                if isinstance(reader, RawPcapNgReader):
                    ticks = (about.tshigh << 32) + about.tslow
                    time_ns = ticks * 1_000_000_000 // about.tsresol
                    comments = tuple(comment.decode(errors="replace") for comment in about.comments or ())
                    is_outbound = None if about.direction is None else about.direction == OUTBOUND
                    yield RawPacket(time_ns, data, about.wirelen, is_outbound, comments)
                else:
                    time_ns = about.sec * 1_000_000_000 + about.usec * (1 if reader.nano else 1000)
                    yield RawPacket(time_ns, data, about.wirelen, None, ())
    except (Scapy_Exception, OSError, struct.error, ValueError, IndexError, KeyError, EOFError) as error:
        # Scapy reads what a file claims, and meets a damaged one with whatever then fails.
        raise InputFault(f"{path}: cannot be read as a capture: {error}") from error


class _Blocks:
    """A capture's file, whose blocks are not read where they claim to be longer than any is."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LONGEST_BLOCK_BYTES:
            raise ValueError(f"a block in it claims to have {size:,} bytes")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def is_noted(path: Path) -> bool:
    """Returns whether gradwire wrote the file, with notes of the headers that were cut off; the first block names the
    writer. Raises InputFault for a file that cannot be read."""
    try:
        with opened(path, CAPTURE_BYTES) as file:
            return APPLICATION.encode() in file.read(64)
    except OSError as error:
        raise InputFault(f"{path}: cannot be read as a capture: {error.strerror}") from error


def read_capture(path: Path, mtu_bytes: int, *, start_ns: int | None = None, address: str | None = None) -> Capture:
    """Reads a capture of one port.

    `start_ns` is the origin of times in nanoseconds since 1970, by default the first packet's time. `address` is the
    IPv4 address of the port's host, for files that do not tell the direction of packets (tcpdump's). Raises InputFault
    if it is needed and missing.
    """
    with reading_budget(path):
        return _read_capture(path, mtu_bytes, start_ns, address)


def _read_capture(path: Path, mtu_bytes: int, start_ns: int | None, address: str | None) -> Capture:
    address_bytes = None if address is None else bytes(int(part) for part in address.split("."))
    reading = _Reading(mtu_bytes, address_bytes, path, has_notes=is_noted(path))
    for packet in raw_packets(path):
        reading.take(packet)
    return reading.result(start_ns)


class _Reading:
    """A capture that is being read."""

    def __init__(self, mtu_bytes: int, address: bytes | None, path: Path, *, has_notes: bool) -> None:
        self._mtu_bytes, self._address, self._path = mtu_bytes, address, path
        self._rows: list[tuple[int, bool, int, int, int, int]] = []
        self._trails = Trails(has_notes=has_notes)
        self._datagrams = _Datagrams(mtu_bytes)
        self._seen: list[tuple[Seen, bool]] = []

    def take(self, packet: RawPacket) -> None:
        segment = read_segment(packet.data)
        outbound = self._is_outbound(packet, segment)
        if segment is None:
            self._rows.append((packet.time_ns, outbound, NO_BAND, 1, packet.size_bytes, 0))
            return
        frames = max(1, -(-segment.payload_bytes // (self._mtu_bytes + ETHERNET_HEADER_BYTES - segment.header_bytes)))
        frame_bytes = packet.size_bytes + (frames - 1) * segment.header_bytes
        band = _BANDS.get(segment.dscp, NO_BAND)
        stream_bytes = segment.payload_bytes if segment.carries_messages else 0
        self._rows.append((packet.time_ns, outbound, band, frames, frame_bytes, stream_bytes))
        payload = memoryview(packet.data)[segment.header_bytes :]
        if segment.carries_messages:
            notes = read_notes(packet.comments) if packet.comments else {}
            seen = self._trails.take(packet.time_ns, segment, payload, notes)
        else:
            seen = self._datagrams.take(packet.time_ns, segment, payload)
        self._seen += [(message, outbound) for message in seen]

    def _is_outbound(self, packet: RawPacket, segment: Segment | None) -> bool:
        if packet.is_outbound is not None:
            return packet.is_outbound
        if self._address is None:
            raise InputFault(
                f"{self._path}: does not tell the direction of its packets; give the address of the port's host"
            )
        return segment is not None and segment.flow[:4] == self._address

    def result(self, start_ns: int | None) -> Capture:
        try:
            rows = np.array(self._rows, dtype=np.int64).reshape(-1, 6)
        except OverflowError as error:
            raise InputFault(
                f"{self._path}: cannot be read as a capture: a packet's time is beyond 64 bits of nanoseconds"
            ) from error
        start = start_ns if start_ns is not None else int(rows[0, 0]) if len(rows) else 0
        time_ns, outbound, band, frames, frame_bytes, stream_bytes = rows.T.copy()
        packets = CapturedPackets(time_ns - start, outbound.astype(np.bool_), band, frames, frame_bytes, stream_bytes)
        try:
            messages = _messages(self._seen, start)
        except OverflowError as error:
            raise InputFault(
                f"{self._path}: cannot be read as a capture: a header in it tells of a message beyond 63 bits of bytes"
            ) from error
        return Capture(packets, messages, self._trails.lost)


def _messages(seen: list[tuple[Seen, bool]], start_ns: int) -> Messages:
    fixed = np.frombuffer(b"".join(message.header[:FIXED_BYTES] for message, _ in seen), dtype=HEADER_DTYPE)
    columns: dict[str, Any] = {
        name: fixed[name].astype(np.int64)
        for name in ("iteration", "message", "src_rank", "dst_rank", "tensor", "chunk", "size_bytes", "contributed_to")
    }
    masks = [int.from_bytes(message.header[FIXED_BYTES:], "little").bit_count() for message, _ in seen]
    last = [NOT_YET if message.last_ns is None else message.last_ns - start_ns for message, _ in seen]
    return Messages(
        **columns,
        workers=np.array(masks, dtype=np.int64),
        wire_bytes=np.array([message_bytes_of(message.header) for message, _ in seen], dtype=np.int64),
        outbound=np.array([outbound for _, outbound in seen], dtype=np.bool_),
        first_ns=np.array([message.first_ns - start_ns for message, _ in seen], dtype=np.int64),
        last_ns=np.array(last, dtype=np.int64),
    )


class _Datagrams:
    """Follows multicast messages: a datagram's header has its flow and its
    number there, and marks the first of a message."""

    def __init__(self, mtu_bytes: int) -> None:
        self._datagram_bytes = datagram_bytes(mtu_bytes)
        self._begun: set[tuple[bytes, int, int]] = set()
        self._open: dict[tuple[bytes, int, int], Seen] = {}

    def take(self, at_ns: int, segment: Segment, payload: memoryview) -> list[Seen]:
        """Takes a packet of any kind; returns the messages that begin in it, each message only once."""
        is_data = segment.target_port == REPORT_PORT or segment.flow[4] >= MULTICAST_FIRST
        if segment.protocol != UDP or not is_data or len(payload) < DATA.size:
            return []
        number, _, flags, first = DATA.unpack_from(payload)
        if flags & HELLO:
            return []
        source = segment.flow[:4]
        count = -(-segment.payload_bytes // self._datagram_bytes)
        seen: list[Seen] = []
        header = bytes(payload[DATA.size : DATA.size + header_bytes_of(payload[DATA.size :])])
        if flags & FIRST and is_header(header) and (source, number, first) not in self._begun:
            self._begun.add((source, number, first))
            message = Seen(first, header, at_ns)
            seen.append(message)
            after = first - (-message_bytes_of(header) // (self._datagram_bytes - DATA.size))
            self._open[source, number, after - 1] = message
        ended = self._open.pop((source, number, first + count - 1), None)
        if ended is not None:
            ended.last_ns = at_ns
        return seen

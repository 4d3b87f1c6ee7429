"""Reads captured packets: what each took of its line, and when each message was on the way.

Files are streamed with scapy's raw readers, so any pcap or pcapng file will do, however large; headers are read by
agents/wire/headers.py and messages followed by agents/wire/trail.py, as scapy's dissection takes 0.2 ms a packet. A packet may be a burst
(GSO) of many frames: what the frames take is computed from the sizes of headers and payload, as tc and the line count them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scapy.error import Scapy_Exception
from scapy.utils import RawPcapNgReader, RawPcapReader

from gradwire.agents.records import Int64
from gradwire.agents.wire.datagrams import DATA, FIRST, HELLO, REPORT_PORT, datagram_bytes
from gradwire.agents.wire.framing import FIXED_BYTES, HEADER_DTYPE, header_bytes_of, is_header, message_bytes_of
from gradwire.agents.wire.headers import UDP, Segment, read_segment
from gradwire.agents.wire.trail import APPLICATION, Seen, Trails, read_notes
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.topo.fabric import ETHERNET_HEADER_BYTES, MAX_BANDS, PREAMBLE_FCS_GAP_BYTES, dscp_of_band

Bool = npt.NDArray[np.bool_]
NOT_YET = -1
"""Time of a last byte that was not seen."""
NO_BAND = -1
OUTBOUND = 2
"""Direction of a packet in pcapng's flags."""
MULTICAST_FIRST = 224
_BANDS = {dscp_of_band(band): band for band in range(MAX_BANDS)}


@dataclass(frozen=True)
class Packets:
    """One row a packet, in the order of the capture.

    time_ns: since the capture's start. outbound: it left the device that the port belongs to. band: by its DSCP, NO_BAND for others.
    frames: on the line. frame_bytes: of all frames without preamble, FCS and gap, as tc counts them.
    stream_bytes: of a connection's messages, their framing included; 0 for ACKs and datagrams.
    """

    time_ns: Int64
    outbound: Bool
    band: Int64
    frames: Int64
    frame_bytes: Int64
    stream_bytes: Int64

    @property
    def line_bytes(self) -> Int64:
        """What the frames take of the line's time."""
        return self.frame_bytes + PREAMBLE_FCS_GAP_BYTES * self.frames


@dataclass(frozen=True)
class Messages:
    """One row a message, in the order of their headers; columns are named as in agents/wire/framing.py.

    workers: how many contributed. wire_bytes: header and payload. first_ns, last_ns: times of the packets with the first and last byte,
    since the capture's start; last_ns is NOT_YET where the capture ended before.
    """

    iteration: Int64
    message: Int64
    src_rank: Int64
    dst_rank: Int64
    tensor: Int64
    chunk: Int64
    size_bytes: Int64
    contributed_to: Int64
    workers: Int64
    wire_bytes: Int64
    outbound: Bool
    first_ns: Int64
    last_ns: Int64


@dataclass(frozen=True)
class Capture:
    """What a port's file says. lost_headers: messages whose header the file does not hold, each with some that follow it."""

    packets: Packets
    messages: Messages
    lost_headers: int

    def save(self, path: Path) -> None:
        """Writes the columns to an .npz file, which is there once it is whole."""
        columns = {
            f"{kind}.{f.name}": getattr(part, f.name)
            for kind, part in (("packets", self.packets), ("messages", self.messages))
            for f in fields(part)
        }
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, lost_headers=self.lost_headers, **columns)

    @staticmethod
    def load(path: Path) -> Capture:
        """Reads what `save` wrote."""
        with np.load(path) as stored:
            parts = {
                kind: {f.name: stored[f"{kind}.{f.name}"] for f in fields(part)}
                for kind, part in (("packets", Packets), ("messages", Messages))
            }
            return Capture(Packets(**parts["packets"]), Messages(**parts["messages"]), int(stored["lost_headers"]))


class RawPacket(NamedTuple):
    """A packet as the file holds it. is_outbound: None where the file does not say. size_bytes: before it was cut."""

    time_ns: int
    data: bytes
    size_bytes: int
    is_outbound: bool | None
    comments: tuple[str, ...]


def raw_packets(path: Path) -> Iterator[RawPacket]:
    """All packets of a pcap or pcapng file, one at a time. Raises InputFault if it is neither, or not of Ethernet."""
    try:
        with RawPcapReader(str(path)) as reader:
            for data, described in reader:
                about: Any = described  # what it holds depends on the file's format
                if isinstance(reader, RawPcapNgReader):
                    ticks = (about.tshigh << 32) + about.tslow
                    time_ns = ticks * 1_000_000_000 // about.tsresol
                    comments = tuple(comment.decode(errors="replace") for comment in about.comments or ())
                    way = None if about.direction is None else about.direction == OUTBOUND
                    yield RawPacket(time_ns, data, about.wirelen, way, comments)
                else:
                    time_ns = about.sec * 1_000_000_000 + about.usec * (1 if reader.nano else 1000)
                    yield RawPacket(time_ns, data, about.wirelen, None, ())
    except (Scapy_Exception, OSError) as error:
        raise InputFault(f"{path}: cannot be read as a capture: {error}") from error


def is_noted(path: Path) -> bool:
    """Whether a file is one of gradwire's, where the headers that are cut off are noted: its first block names who wrote it."""
    try:
        with path.open("rb") as file:
            return APPLICATION.encode() in file.read(64)
    except OSError as error:
        raise InputFault(f"{path}: cannot be read as a capture: {error.strerror}") from error


def read_capture(path: Path, mtu_bytes: int, *, start_ns: int | None = None, address: str | None = None) -> Capture:
    """Reads a capture of one port.

    start_ns: what times count from, nanoseconds since 1970; by default the first packet's time. address: the IPv4 address of the
    port's host, for files that do not say which way packets went (tcpdump's). Raises InputFault where it is needed and missing.
    """
    own = None if address is None else bytes(int(part) for part in address.split("."))
    reading = _Reading(mtu_bytes, own, path, has_notes=is_noted(path))
    for packet in raw_packets(path):
        reading.take(packet)
    return reading.result(start_ns)


class _Reading:
    """A capture while it is read."""

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
                f"{self._path}: does not say which way its packets went; give the address of the port's host"
            )
        return segment is not None and segment.flow[:4] == self._address

    def result(self, start_ns: int | None) -> Capture:
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 6)
        start = start_ns if start_ns is not None else int(rows[0, 0]) if len(rows) else 0
        time_ns, outbound, band, frames, frame_bytes, stream_bytes = rows.T.copy()
        packets = Packets(time_ns - start, outbound.astype(np.bool_), band, frames, frame_bytes, stream_bytes)
        return Capture(packets, _messages(self._seen, start), self._trails.lost)


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
    """Follows multicast messages: a datagram's header tells its flow and its number there, and the first one of a message says so."""

    def __init__(self, mtu_bytes: int) -> None:
        self._datagram_bytes = datagram_bytes(mtu_bytes)
        self._known: set[tuple[bytes, int, int]] = set()
        self._open: dict[tuple[bytes, int, int], Seen] = {}

    def take(self, at_ns: int, segment: Segment, payload: memoryview) -> list[Seen]:
        """Takes a packet of any kind; returns the messages that begin in it, and never one twice."""
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
        if flags & FIRST and is_header(header) and (source, number, first) not in self._known:
            self._known.add((source, number, first))
            message = Seen(first, header, at_ns)
            seen.append(message)
            after = first - (-message_bytes_of(header) // (self._datagram_bytes - DATA.size))
            self._open[source, number, after - 1] = message
        ended = self._open.pop((source, number, first + count - 1), None)
        if ended is not None:
            ended.last_ns = at_ns
        return seen

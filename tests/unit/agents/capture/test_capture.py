"""Capture files: what they hold by scapy's reader, and that every message written with little of each packet is read
again."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.utils import RawPcapNgReader, RawPcapReader

from gradwire.agents.capture import recorder
from gradwire.agents.capture.capture_process import CaptureProcess
from gradwire.agents.capture.recorder import (
    BLOCKS_MAX,
    BLOCKS_MIN,
    RING_BYTES_MAX,
    CaptureSettings,
    PortEntry,
    PortFile,
    ring_shape,
)
from gradwire.analysis.packets.capture_files import read_capture
from gradwire.faults import InputFault, MachineFault
from gradwire.network.wire.trail import APPLICATION
from tests.shared.captured_streams import HEADER_BYTES, US, WORKERS, Line, header, packet

START_NS = 1_795_266_932_773_043_893
KEPT_BYTES = 160


def entries(path: Path) -> list[tuple[bytes, Any]]:
    with RawPcapReader(str(path)) as reader:
        assert isinstance(reader, RawPcapNgReader)
        return list(reader)


def test_a_packet_keeps_its_nanoseconds_size_direction_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "one.pcapng"
    blocks = [
        recorder.section_block(APPLICATION),
        recorder.interface_block("h1-eth0", "a port", 96, 1e10),
        recorder.packet_block(START_NS, b"12345", 64_000, recorder.INBOUND, ["one", "another"]),
        recorder.packet_block(START_NS + 1, b"12345678", 8, recorder.OUTBOUND),
        recorder.statistics_block(START_NS + 2, 2, 0),
    ]
    path.write_bytes(b"".join(blocks))
    assert all(len(block) % 4 == 0 for block in blocks)
    (first, about), (second, about_second) = entries(path)
    assert (first, second) == (b"12345", b"12345678")
    assert (about.tshigh << 32) + about.tslow == START_NS
    assert about.tsresol == 10**9
    assert (about.wirelen, about.direction, about.ifname) == (64_000, recorder.INBOUND, b"h1-eth0")
    assert about.comments == [b"one", b"another"]
    assert (about_second.wirelen, about_second.direction, about_second.comments) == (8, recorder.OUTBOUND, None)


def test_a_port_without_a_limit_has_no_speed() -> None:
    limited, unlimited = (recorder.interface_block("a1-eth0", "", 96, rate) for rate in (1e9, math.inf))
    assert len(limited) == len(unlimited) + 12


def test_every_message_is_in_the_file_wherever_packets_cut_it(tmp_path: Path) -> None:
    """Bursts of 5000 bytes, messages of 0 to 20,000: most headers are beyond the kept bytes, some begin in the packet
    before."""
    path = tmp_path / "h1-eth0.pcapng"
    heads = [header(op, 137 * op * op % 20_000, iteration=op // 30) for op in range(90)]
    outbound, inbound = (
        Line().packets(heads[:50], START_NS, [5000]),
        Line(src=3, dst=1).packets(heads[50:], START_NS, [5000, 77]),
    )
    taken = sorted(
        [*outbound, *(p._replace(is_outgoing=False) for p in inbound)],
        key=lambda taken: (taken.time_ns, taken.is_outgoing),
    )
    file = PortFile(path.open("wb"), "h1-eth0", 1e10, KEPT_BYTES)
    for one in taken:
        file.write(one)
    file.end(len(taken), 0)
    assert file.packets == len(taken)
    assert path.stat().st_size < 0.3 * sum(one.size_bytes for one in taken)
    capture = read_capture(path, 1500, start_ns=START_NS)
    messages = capture.messages
    assert capture.lost_headers == 0
    assert sorted(messages.message.tolist()) == list(range(90))
    assert messages.message[messages.outbound].tolist() == list(range(50))
    by_op = {int(op): index for index, op in enumerate(messages.message)}
    for head in heads:
        index = by_op[head.message]
        assert messages.size_bytes[index] == head.size_bytes
        assert messages.iteration[index] == head.iteration
        assert messages.wire_bytes[index] == HEADER_BYTES + head.size_bytes
        assert messages.workers[index] == 1
    assert (messages.last_ns >= messages.first_ns).all()
    assert int(messages.wire_bytes.sum()) + 16 == int(capture.packets.stream_bytes.sum()), "two hellos of 8 bytes"


def test_packets_without_messages_are_kept_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    file = PortFile(path.open("wb"), "h1-eth0", 1e10, 1 << 20)
    frames = [bytes(60), Line().frame("A", 5, back=True), b"\x01\x02" * 400]
    for index, frame in enumerate(frames):
        file.write(packet(START_NS + index * US, frame))
    file.end(3, 0)
    assert [data for data, _ in entries(path)] == frames


def write_many(file: PortFile) -> None:
    for number in range(1000):
        file.write(packet(START_NS + number * US, bytes(400)))


@pytest.mark.parametrize("limit", ["MOST_CAPTURED_PACKETS", "MOST_CAPTURED_BYTES"])
def test_a_capture_ends_before_it_fills_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(recorder, limit, 10 if limit == "MOST_CAPTURED_PACKETS" else 5_000)
    path = tmp_path / "x.pcapng"
    file = PortFile(path.open("wb"), "h1-eth0", 1e10, 1 << 20, held_bytes=100)
    with pytest.raises(InputFault, match="h1-eth0"):
        write_many(file)
    assert path.stat().st_size < 6_000


def test_kept_bytes_hold_at_least_a_datagrams_header() -> None:
    settings = CaptureSettings((), 128, 4)
    assert settings.kept_bytes() == 128
    assert CaptureSettings((), 128, 512).kept_bytes() == 14 + 20 + 8 + 16 + 48 + 64


def test_settings_come_back_as_they_went(tmp_path: Path) -> None:
    entry = PortEntry("s1-eth1", "gs1-eth1", "", math.inf, "/x/s1-eth1.pcapng")
    settings = CaptureSettings((entry,), 160, WORKERS)
    settings.save(tmp_path / "capture.json")
    assert CaptureSettings.load(tmp_path / "capture.json") == settings


def test_a_port_that_is_not_there_is_named_before_anything_runs(tmp_path: Path) -> None:
    entry = PortEntry("h1-eth0", "nothere0", "", 1e9, str(tmp_path / "h1-eth0.pcapng"))
    with (
        pytest.raises(MachineFault, match=r"nothere0.*capture\.log"),
        CaptureProcess(CaptureSettings((entry,), 160, 4), tmp_path),
    ):
        pass
    assert json.loads((tmp_path / "capture.json").read_text())["snaplen"] == 160


def test_a_file_is_written_as_it_comes_by_as_much_as_is_held() -> None:
    buffer = io.BytesIO()
    file = PortFile(buffer, "h1-eth0", 1e10, KEPT_BYTES, held_bytes=1000)
    sizes = []
    for number in range(20):
        file.write(packet(START_NS + number, bytes(1000)))
        sizes.append(len(buffer.getvalue()))
    steps = np.diff(sizes)
    assert ((steps == 0) | (steps >= 1000)).all()
    assert set(steps > 0) == {True, False}


def test_nothing_is_kept_for_messages_once_packets_are_lost(tmp_path: Path) -> None:
    """What comes after a packet that is missing waits for it otherwise, with all its bytes."""
    heads = [header(op, 50_000) for op in range(40)]
    sent = Line().packets(heads, START_NS, [4000])
    path = tmp_path / "h1-eth0.pcapng"
    file = PortFile(path.open("wb"), "h1-eth0", 1e10, KEPT_BYTES)
    for number, one in enumerate(sent):
        if number == 10:
            file.lose()
            continue
        file.write(one)
    assert file._trails is None
    file.end(len(sent), 1)
    assert len(entries(path)) == len(sent) - 1


@pytest.mark.parametrize("ports", [1, 8, 9, 64, 65, 128, 512])
def test_rings_share_the_memory_and_hold_a_burst(ports: int) -> None:
    blocks, block_bytes = ring_shape(ports)
    assert BLOCKS_MIN <= blocks <= BLOCKS_MAX
    assert block_bytes > 70_000
    assert ports * blocks * block_bytes <= RING_BYTES_MAX
    assert ports > 8 or (blocks, block_bytes) == (BLOCKS_MAX, 1 << 20)

"""Wireshark's dissector and gradwire's own reader find the same in the same captures, whatever the packets look like."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import PcapWriter

from gradwire.agents.capture import recorder
from gradwire.agents.capture.recorder import Packet, PortFile
from gradwire.analysis.packets.capture_files import read_capture
from gradwire.analysis.packets.captures import DISSECTOR
from gradwire.datatypes.wire.framing import Header
from gradwire.network.wire.datagrams import DATA, FIRST, FLOW_PORT, REPORT_PORT, Status
from tests.shared.captured_streams import FRAMING, HEADER_BYTES, Line, header, hello, message, packet
from tests.shared.dissected import dissected, is_outbound, messages
from tests.shared.parts import tells

START_NS = 1_795_266_932_000_000_000


def heads(count: int) -> list[Header]:
    return [header(op, 137 * op * op % 9000, iteration=op // 30) for op in range(count)]


def noted(path: Path, packets: Sequence[Packet], kept_bytes: int = 160) -> Path:
    """As gradwire captures."""
    file = PortFile(path.open("wb"), "h1-eth0", 1e10, kept_bytes)
    for one in packets:
        file.write(one)
    file.end(len(packets), 0)
    return path


def plain(path: Path, packets: Sequence[Packet], snaplen: int = 262144) -> Path:
    """As tcpdump captures."""
    with PcapWriter(str(path), nano=True) as writer:
        for one in packets:
            frame = Ether(bytes(one.data[:snaplen]))
            frame.time, frame.wirelen = one.time_ns / 1e9, one.size_bytes
            writer.write(frame)
    return path


def both_find(path: Path, expected: int) -> None:
    found = read_capture(path, 1500, address="10.0.0.1").messages
    shown = messages(dissected(path, DISSECTOR))
    columns = ("iteration", "message", "src_rank", "dst_rank", "tensor", "chunk", "contributed_to", "workers")
    ours = [
        tuple(int(getattr(found, name)[row]) for name in (*columns, "size_bytes")) for row in range(len(found.message))
    ]
    theirs = [tuple(int(fields[name]) for name in (*columns, "payload_bytes")) for fields in shown]
    assert theirs == ours
    assert len(ours) == expected


@pytest.mark.parametrize("sizes", [[5000], [1448], [61], [5000, 77, 20_000]], ids=str)
def test_streams_as_gradwire_captures_them(tmp_path: Path, sizes: list[int]) -> None:
    both_find(noted(tmp_path / "a.pcapng", Line().packets(heads(60), START_NS, sizes)), 60)


def test_streams_as_tcpdump_captures_them(tmp_path: Path) -> None:
    both_find(plain(tmp_path / "a.pcap", Line().packets(heads(60), START_NS, [5000, 77])), 60)


def test_packets_that_overtake_each_other_and_come_twice(tmp_path: Path) -> None:
    first, greeting, *rest = Line().packets(heads(40), START_NS, [700, 5000])
    mixed = [*rest, *rest[::4]]
    random.Random(7).shuffle(mixed)
    taken = [one._replace(time_ns=START_NS + 1000 * place) for place, one in enumerate([first, greeting, *mixed])]
    both_find(noted(tmp_path / "a.pcapng", taken), 40)


def test_two_directions_and_connections_are_told_apart(tmp_path: Path) -> None:
    away = Line().packets(heads(20), START_NS, [3000])
    home = [one._replace(is_outgoing=False) for one in Line(src=2, dst=1).packets(heads(15), START_NS, [900])]
    path = noted(tmp_path / "a.pcapng", sorted([*away, *home], key=lambda one: one.time_ns))
    shown = messages(dissected(path, DISSECTOR))
    assert [int(fields["message"]) for fields in shown if is_outbound(fields)] == list(range(20))
    assert [int(fields["message"]) for fields in shown if not is_outbound(fields)] == list(range(15))
    greetings = [fields for fields in dissected(path, DISSECTOR) if "connection" in fields]
    assert [fields["connection"] for fields in greetings] == ["7", "7"]


def test_a_header_that_was_not_captured_is_told(tmp_path: Path) -> None:
    line = Line()
    begin = line.first + 9
    whole = b"".join(message(header(op, 300)) for op in range(2))
    frames = [line.frame("S", line.first), line.frame("PA", line.first + 1, hello(1))]
    frames += [line.frame("PA", begin, whole), line.frame("PA", begin + len(whole), message(header(2, 10)))]
    packets = [packet(START_NS + at, frame) for at, frame in enumerate(frames)]
    found = dissected(plain(tmp_path / "a.pcap", packets, snaplen=66 + HEADER_BYTES), DISSECTOR)
    assert [fields["message"] for fields in messages(found)] == ["0", "2"]
    assert any("not captured" in shown for fields in found for shown in fields.values())


def test_multicast_bursts_repairs_and_reports(tmp_path: Path) -> None:
    head = FRAMING.pack(header(11, 4000, src=2, dst=5))
    first = DATA.pack(6, 2, FIRST, 20) + head + bytes(1456 - len(head)) + DATA.pack(6, 1, 0, 21) + bytes(1456)
    more = DATA.pack(6, 1, 0, 22) + bytes(4000 + len(head) - 2 * 1456)
    flow, host = ("10.0.0.3", "239.77.0.3"), ("10.0.0.3", "10.0.0.1")
    sent = [(flow, FLOW_PORT + 6, first), (flow, FLOW_PORT + 6, more), (host, REPORT_PORT, more)]
    frames = [
        bytes(Ether() / IP(src=src, dst=dst) / UDP(sport=FLOW_PORT + 6, dport=port) / data)
        for (src, dst), port, data in sent
    ]
    report = Status(6, 0, 20, ((21, 23), (30, 31))).pack()
    frames.append(bytes(Ether() / IP(src=host[1], dst=host[0]) / UDP(sport=REPORT_PORT, dport=FLOW_PORT + 6) / report))
    path = noted(
        tmp_path / "m.pcapng", [packet(START_NS + at, frame, is_outgoing=at == 3) for at, frame in enumerate(frames)]
    )
    both_find(path, 1)
    found = dissected(path, DISSECTOR)
    data = [fields for fields in found if "left" in fields]
    assert [(fields["flow"], fields["datagram"], fields["left"]) for fields in data] == [
        ("6", "20", "2"),
        ("6", "22", "1"),
        ("6", "22", "1"),
    ]
    (status,) = [fields for fields in found if "cumulative" in fields]
    assert status["cumulative"] == "20"
    assert tells(status["missing"], "30", "30")  # of two ranges the last


def test_names_in_front_are_shown(tmp_path: Path) -> None:
    named = 'gradwire_names = { ranks = { [0]="rank 0 (worker on h1)" }, tensors = { [3]="fc/weights" }, '
    named += "chunks = { [3]={2,4} }, messages = { [3]={3,17} } }\n"
    script = tmp_path / "gradwire.lua"
    script.write_text(named + DISSECTOR.read_text())
    path = noted(tmp_path / "a.pcapng", Line(band=2).packets(heads(5), START_NS, [5000]))
    fields = next(fields for fields in messages(dissected(path, script)) if fields["message"] == "3")
    assert fields["tensor_name"] == "fc/weights"
    assert (fields["slice"], fields["slices"], fields["combine"], fields["order"], fields["class"]) == (
        "2",
        "4",
        "3",
        "17",
        "1",
    )
    assert tells(fields["line"], "iteration 0", "fc/weights", "2 of 4", "rank 0", "h1", "rank 1", "1233 bytes")


def test_wireshark_knows_the_capture_for_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(
        recorder.section_block("gradwire")
        + recorder.interface_block("h1-eth0", "x", 160, 1e10)
        + recorder.statistics_block(START_NS, 10, 2)
    )
    assert dissected(path, DISSECTOR) == []

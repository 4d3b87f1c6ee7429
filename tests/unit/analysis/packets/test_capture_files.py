"""Captures of any origin: packets' frames and bytes as the line counts them, messages of streams and multicast, and faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.utils import PcapWriter, wrpcap

from gradwire.analysis.iterations import timed_workers, worker_periods_s
from gradwire.analysis.packets.capture_files import NO_BAND, NOT_YET, Capture, read_capture
from gradwire.datatypes.plan import Plan, Role
from gradwire.faults import InputFault
from gradwire.network.fabric import dscp_of_band
from gradwire.network.wire.datagrams import DATA, FIRST, FLOW_PORT, HELLO, PROBE, REPORT_PORT, Status
from gradwire.workloads.builder import PlanBuilder
from tests.shared.captured_streams import FRAMING, US, Line, header

DATAGRAM_BYTES = 1472
GROUP = "239.77.0.3"


def written(path: Path, frames: list[tuple[float, bytes]], snaplen: int = 65535) -> Path:
    """A pcap file as tcpdump would write it."""
    with PcapWriter(str(path), nano=True) as writer:
        for second, frame in frames:
            one = Ether(frame[:snaplen])
            one.time = second
            one.wirelen = len(frame)
            writer.write(one)
    return path


def test_a_burst_counts_as_the_frames_that_it_is_cut_into(tmp_path: Path) -> None:
    line = Line(band=2)
    frames = [line.frame("PA", 1, bytes(size)) for size in (0, 1, 1448, 1449, 65_160)]
    frames.append(bytes(Ether() / ARP()))
    path = written(tmp_path / "a.pcap", [(1 + i, frame) for i, frame in enumerate(frames)], snaplen=160)
    capture = read_capture(path, 1500, address="10.0.0.1")
    packets = capture.packets
    assert packets.frames.tolist() == [1, 1, 1, 2, 45, 1]
    assert packets.frame_bytes.tolist() == [66, 67, 1514, 66 + 1449 + 66, 65_160 + 45 * 66, len(frames[-1])]
    assert (packets.line_bytes - packets.frame_bytes).tolist() == [24, 24, 24, 48, 45 * 24, 24]
    assert packets.outbound.tolist() == [True] * 5 + [False]
    assert packets.band.tolist() == [2] * 5 + [NO_BAND]
    assert packets.time_ns.tolist() == [second * 10**9 for second in range(6)]


def test_full_bytes_of_tcpdump_name_messages_too(tmp_path: Path) -> None:
    heads = [header(op, 3000) for op in range(20)]
    taken = [(one.time_ns / 1e9, bytes(one.data)) for one in Line().packets(heads, 10**9, [4000])]
    whole = read_capture(written(tmp_path / "whole.pcap", taken), 1500, address="10.0.0.2")
    assert whole.messages.message.tolist() == list(range(20))
    assert not whole.messages.outbound.any()
    assert whole.lost_headers == 0
    cut = read_capture(written(tmp_path / "cut.pcap", taken, snaplen=160), 1500, address="10.0.0.2")
    assert cut.lost_headers > 0 or len(cut.messages.message) < 20
    assert int(cut.packets.stream_bytes.sum()) == int(whole.packets.stream_bytes.sum())


def test_a_file_that_does_not_say_which_way_needs_the_hosts_address(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", [(1.0, Line().frame("S", 1))])
    with pytest.raises(InputFault, match="give the address"):
        read_capture(path, 1500)


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "no.pcap"
    path.write_bytes(b"this is no capture at all, whatever its name says")
    with pytest.raises(InputFault, match=r"no\.pcap: cannot"):
        read_capture(path, 1500)
    with pytest.raises(InputFault, match=r"gone\.pcap"):
        read_capture(tmp_path / "gone.pcap", 1500)


def test_a_message_without_an_end_is_not_yet_there(tmp_path: Path) -> None:
    taken = [(one.time_ns / 1e9, bytes(one.data)) for one in Line().packets([header(4, 9000)], 10**9, [1448])]
    capture = read_capture(written(tmp_path / "a.pcap", taken[:-1]), 1500, address="10.0.0.1")
    assert capture.messages.message.tolist() == [4]
    assert capture.messages.last_ns.tolist() == [NOT_YET]


def burst(first: int, pieces: int, *, flags: int = 0, target: str = GROUP, left: int | None = None) -> bytes:
    """Datagrams of flow 6 as one burst, the last of 100 bytes less than full; the first holds message 11's header if flags say so."""
    data = b""
    for index in range(pieces):
        head = (
            FRAMING.pack(header(11, 5 * 1456 - FRAMING.header_bytes - 100, src=2))
            if flags & FIRST and not index
            else b""
        )
        piece = head + bytes(DATAGRAM_BYTES - DATA.size - len(head))
        if first + index == 24:
            piece = piece[:-100]
        data += DATA.pack(6, (left or pieces) - index, flags if not index else 0, first + index) + piece
    port = REPORT_PORT if target != GROUP else FLOW_PORT + 6
    network = IP(src="10.0.0.3", dst=target, tos=dscp_of_band(1) << 2) / UDP(sport=FLOW_PORT + 6, dport=port)
    return bytes(Ether() / network / data)


def datagrams(tmp_path: Path, frames: list[bytes]) -> Capture:
    path = written(tmp_path / "m.pcap", [(1 + i, frame) for i, frame in enumerate(frames)], snaplen=160)
    return read_capture(path, 1500, address="10.0.0.1")


def test_a_multicast_message_is_found_once_and_ends_with_its_last_datagram(tmp_path: Path) -> None:
    hello = bytes(
        Ether() / IP(src="10.0.0.3", dst=GROUP) / UDP(sport=1, dport=FLOW_PORT + 6) / DATA.pack(6, 1, HELLO, 0)
    )
    status = bytes(
        Ether()
        / IP(src="10.0.0.1", dst="10.0.0.3")
        / UDP(sport=REPORT_PORT, dport=FLOW_PORT + 6)
        / Status(6, 0, 22, ()).pack()
    )
    capture = datagrams(tmp_path, [hello, burst(20, 2, flags=FIRST), status, burst(22, 3)])
    found = capture.messages
    assert (found.message.tolist(), found.src_rank.tolist()) == ([11], [2])
    assert (found.first_ns.tolist(), found.last_ns.tolist()) == ([10**9], [3 * 10**9])
    assert capture.packets.frames.tolist() == [1, 2, 1, 3]
    assert capture.packets.frame_bytes[3] == 3 * (42 + DATAGRAM_BYTES) - 100
    assert capture.packets.stream_bytes.tolist() == [0] * 4
    assert capture.packets.outbound.tolist() == [False, False, True, False]


def test_a_repaired_or_repeated_datagram_tells_no_message_twice(tmp_path: Path) -> None:
    """The first datagram is lost on its way, comes as a repair, and once more as a probe."""
    repair = burst(20, 1, flags=FIRST, target="10.0.0.1")
    found = datagrams(tmp_path, [burst(21, 4, left=4), repair, burst(20, 1, flags=FIRST | PROBE)]).messages
    assert found.message.tolist() == [11]
    assert found.first_ns.tolist() == [10**9]


def test_a_capture_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    capture = datagrams(tmp_path, [burst(20, 5, flags=FIRST)])
    capture.save(tmp_path / "kept.npz")
    kept = Capture.load(tmp_path / "kept.npz")
    for part, other in ((capture.packets, kept.packets), (capture.messages, kept.messages)):
        for name, column in vars(part).items():
            np.testing.assert_array_equal(column, getattr(other, name))
    assert kept.lost_headers == 0


def test_a_capture_of_nothing_is_empty(tmp_path: Path) -> None:
    wrpcap(str(tmp_path / "empty.pcap"), [], linktype=1)
    capture = read_capture(tmp_path / "empty.pcap", 1500)
    assert len(capture.packets.time_ns) == len(capture.messages.message) == 0


def two_workers() -> Plan:
    """Workers are ranks 0 and 1 on hosts 0 and 1, the server is rank 2 on host 2."""
    builder = PlanBuilder("two")
    for host in (0, 1):
        worker = builder.rank(Role.WORKER, host)
        compute = builder.compute(worker, 0.01)
        builder.iteration(worker, compute, compute)
    builder.rank(Role.SERVER, 2)
    return builder.build(compute_s=0.01, samples=1)


def test_periods_are_those_of_each_workers_first_message(tmp_path: Path) -> None:
    plan = two_workers()
    heads, times_us = [], []
    for iteration, begin_us in enumerate((0, 1000, 2100)):
        # Rank 2, a server, sends before the workers do; what is sent later in an iteration does not count.
        for src, op, after_us in ((2, 0, 1), (0, 1, 100), (0, 2, 500 + 100 * iteration), (1, 3, 110 + iteration)):
            heads.append(header(op, 10, iteration, src=src))
            times_us.append(begin_us + after_us)
    first, *rest = Line().packets(heads, 0, [FRAMING.header_bytes + 10])
    taken = [(0.0, bytes(first.data)), (0.0, bytes(rest[0].data))]
    taken += [(us * US / 1e9, bytes(one.data)) for us, one in zip(times_us, rest[1:], strict=True)]
    found = read_capture(written(tmp_path / "a.pcap", taken), 1500, address="10.0.0.1").messages
    periods = worker_periods_s(found, plan.workers, 3)
    np.testing.assert_allclose(periods, [[1000e-6, 1001e-6], [1100e-6, 1101e-6]])
    assert np.isnan(worker_periods_s(found, np.array([0, 7]), 3)[:, 1]).all()
    assert timed_workers(plan, 1, found).tolist() == [1]
    assert timed_workers(plan, 2, found).tolist() == [0, 1], "no worker is at the server's host"


def test_a_header_with_a_size_beyond_63_bits_is_refused(tmp_path: Path) -> None:
    taken = [(one.time_ns / 1e9, bytes(one.data)) for one in Line().packets([header(0, 3000)], 10**9, [4000])]
    lying = [(second, frame.replace((3000).to_bytes(8, "big"), b"\xff" * 8)) for second, frame in taken]
    assert lying != taken
    with pytest.raises(InputFault, match="beyond 63 bits"):
        read_capture(written(tmp_path / "lying.pcap", lying), 1500, address="10.0.0.1")

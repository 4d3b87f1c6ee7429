"""The verdict's checks of captured packets: all pass on a sound capture, and each fails on the one thing that it is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.agents.capture.recorder import PortFile
from gradwire.analysis.packets.capture_files import Capture, CapturedPackets, Messages, read_capture
from gradwire.analysis.packets.captures import PortLocation, location_of
from gradwire.analysis.report.utilisation import port_use, save_use, use_table
from gradwire.analysis.verdict.packet_checks import capture_checks, expected_messages
from gradwire.analysis.verdict.program_checks import ProgramsState
from gradwire.analysis.verdict.verdict import Circumstances, judge
from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.records import CaptureRecord, OpLog, PointRecord
from gradwire.faults import InputFault, InternalFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.workloads.builder import PlanBuilder
from tests.shared.captured_streams import Line, header
from tests.shared.parts import in_order, tells

FABRIC = Fabric(hosts=2, rate_bps=1e9)
MS = 1_000_000
ITERATION_NS = 20 * MS
ITERATIONS = 4
WARMUP = 1


def plan_of_pushes() -> Plan:
    """The worker on h1 pushes 30,000 and 200 bytes to the server on h2, which answers with 5000."""
    builder = PlanBuilder("pushes")
    worker, server = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    out, back = builder.queue(worker), builder.queue(server)
    compute = builder.compute(worker, 0.02)
    for size_bytes in (30_000, 200):
        push, pushed = builder.message(out, server, size_bytes)
        builder.depend(push, compute)
    answer, answered = builder.message(back, worker, 5000)
    builder.depend(answer, pushed)
    builder.depend(compute, answered, lag=1)
    builder.iteration(worker, compute, compute)
    return builder.build(compute_s=0.02, samples=1)


PLAN = plan_of_pushes()
PUSHES, ANSWER = expected_messages(PLAN, 0, outbound=True), int(expected_messages(PLAN, 1, outbound=True)[0])


def captured(folder: Path, *, near: bool = True, host: int = 1) -> Capture:
    """What h1's port sees. The switch's port towards it sees the same the other way round, and so does h2's own port."""
    away, home = Line(), Line(src=2, dst=1)
    heads = [
        [header(int(op), int(PLAN.ops.size_bytes[op]), iteration) for op in PUSHES] for iteration in range(ITERATIONS)
    ]
    answers = [header(ANSWER, 5000, iteration, src=1, dst=0) for iteration in range(ITERATIONS)]
    pushed = away.packets([head for both in heads for head in both], 0, [30_050, 250])
    answered = home.packets(answers, 0, [5050])
    path = folder / f"h{host}-eth0.pcapng"
    file = PortFile(path.open("wb"), f"h{host}-eth0", 1e9, 160)
    timed = []
    for way, packets in ((True, pushed), (False, answered)):
        each = (len(packets) - 2) // ITERATIONS
        for number, one in enumerate(packets):
            iteration, place = divmod(max(0, number - 2), each)
            at_ns = iteration * ITERATION_NS + (place + 1 if way else 8) * MS if number > 1 else number
            timed.append(one._replace(time_ns=at_ns, is_outgoing=way == near))
    for one in sorted(timed, key=lambda one: one.time_ns):
        file.write(one)
    file.end(len(timed), 0)
    return read_capture(path, FABRIC.mtu_bytes, start_ns=0)


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    return captured(tmp_path)


def log_of(iteration_ns: int = ITERATION_NS) -> OpLog:
    count = len(PLAN.ops)
    iteration = np.repeat(np.arange(ITERATIONS), count)
    return OpLog(
        iteration,
        np.tile(np.arange(count), ITERATIONS),
        iteration * iteration_ns,
        iteration * iteration_ns,
        (iteration + 1) * iteration_ns,
    )


def record_of(capture: Capture, host: int = 1, **about: int) -> PointRecord:
    sent, taken = (
        int(capture.packets.frame_bytes[way].sum()) for way in (capture.packets.outbound, ~capture.packets.outbound)
    )
    frames = (int(capture.packets.frames[way].sum()) for way in (capture.packets.outbound, ~capture.packets.outbound))
    bands = tuple(
        BandCount(port, 1, size, count, 0)
        for port, size, count in zip((f"h{host}-eth0", f"s1-eth{host}"), (sent, taken), frames, strict=True)
    )
    packets = len(capture.packets.time_ns)
    kept = {"packets": packets, "seen": packets, "dropped": 0, **about}
    counts = NetworkCounts(bands, 0, 0, 0, 0)
    port = CaptureRecord(f"h{host}-eth0", f"h{host}-eth0.pcapng", **kept)
    return PointRecord("virtual", ITERATIONS, WARMUP, (), counts, 1.0, 0.0, "prio", captures=(port,))


def failed(record: PointRecord, capture: Capture, log: OpLog | None = None) -> list[str]:
    checks = capture_checks(PLAN, FABRIC, log or log_of(), record, [capture], True)
    return [check.name for check in checks if not check.ok]


def test_a_sound_capture_passes_every_check(capture: Capture) -> None:
    checks = capture_checks(PLAN, FABRIC, log_of(), record_of(capture), [capture], True)
    assert [(check.name, check.ok) for check in checks] == [
        ("capture", True),
        ("captured bytes", True),
        ("captured messages", True),
        ("captured payload", True),
        ("iterations from packets", True),
    ]
    assert tells(checks[2].value, "12 of 12", "0 repeated", "0 foreign")


def test_the_switchs_port_tells_the_same(tmp_path: Path) -> None:
    mirrored = captured(tmp_path, near=False)
    record = record_of(mirrored)
    port = replace(record.captures[0], port="s1-eth1")
    bands = tuple(replace(b, port="h1-eth0" if b.port == "s1-eth1" else "s1-eth1") for b in record.counts.bands)
    record = replace(record, captures=(port,), counts=replace(record.counts, bands=bands))
    assert failed(record, mirrored) == []


def test_the_other_hosts_port_tells_the_same_the_other_way_round(tmp_path: Path) -> None:
    seen = captured(tmp_path, near=False, host=2)
    assert failed(record_of(seen, host=2), seen) == []


@pytest.mark.parametrize("changes", [{"loss": 0.001}, {"buffer_bytes": 10**6}], ids=["loss", "buffer"])
def test_where_packets_are_lost_tcp_may_carry_bytes_twice_and_lacks_none(
    capture: Capture, changes: dict[str, Any]
) -> None:
    fabric = replace(FABRIC, **changes)
    for extra_bytes, is_ok in ((1, True), (-1, False)):
        columns = {name: column.copy() for name, column in vars(capture.packets).items()}
        columns["stream_bytes"][3] += extra_bytes
        seen = replace(capture, packets=CapturedPackets(**columns))
        checks = {each.name: each for each in capture_checks(PLAN, fabric, log_of(), record_of(capture), [seen], True)}
        assert checks["captured payload"].ok is is_ok
    assert "captured payload" in failed(record_of(capture), seen)


@pytest.mark.parametrize("is_beside", [False, True])
def test_beside_programs_packets_are_not_compared_with_all_bytes(capture: Capture, is_beside: bool) -> None:
    programs = ProgramsState(1) if is_beside else None
    found = judge(PLAN, FABRIC, log_of(), record_of(capture), [capture], circumstances=Circumstances(programs=programs))
    made = {check.name for check in found.checks if check.name.startswith(("capture", "iterations from"))}
    assert made >= {"capture", "captured messages", "iterations from packets"}
    assert ("captured payload" in made) is not is_beside


def without_row(part: Messages, row: int) -> Messages:
    return Messages(**{name: np.delete(column, row) for name, column in vars(part).items()})


def with_second(capture: Capture, **changes: int) -> Capture:
    """The second message's columns changed: iteration 0's short push, which no period begins with."""
    columns = {name: column.copy() for name, column in vars(capture.messages).items()}
    for name, value in changes.items():
        columns[name][1] = value
    return replace(capture, messages=Messages(**columns))


def repeated(capture: Capture) -> Capture:
    return replace(
        capture,
        messages=Messages(**{name: np.append(column, column[0]) for name, column in vars(capture.messages).items()}),
    )


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda c: replace(c, messages=without_row(c.messages, 1)), ["captured messages", "captured payload"]),
        (repeated, ["captured messages", "captured payload"]),
        (lambda c: with_second(c, size_bytes=199), ["captured messages"]),
        (lambda c: with_second(c, iteration=ITERATIONS), ["captured messages"]),
        (lambda c: with_second(c, message=0), ["captured messages"]),
        (lambda c: with_second(c, outbound=False), ["captured messages"]),
        (lambda c: with_second(c, message=10**6), ["captured messages", "captured payload"]),
    ],
    ids=["missing", "repeated", "other size", "iteration too many", "no message", "wrong way", "unknown"],
)
def test_other_messages_than_the_plans_are_seen(
    capture: Capture, change: Callable[[Capture], Capture], names: list[str]
) -> None:
    assert failed(record_of(capture), change(capture)) == names


def test_packets_that_the_kernel_dropped_or_that_are_not_in_the_file_are_seen(capture: Capture) -> None:
    packets = len(capture.packets.time_ns)
    assert failed(record_of(capture, seen=packets + 1, dropped=1), capture) == ["capture"]
    assert failed(record_of(capture, seen=packets + 3), capture) == ["capture"]


@pytest.mark.parametrize("port", ["h1-eth0", "s1-eth1"])
def test_bytes_that_no_packet_accounts_for_are_seen(capture: Capture, port: str) -> None:
    record = record_of(capture)
    bands = tuple(replace(b, bytes_sent=b.bytes_sent + 10_000) if b.port == port else b for b in record.counts.bands)
    assert failed(replace(record, counts=replace(record.counts, bands=bands)), capture) == ["captured bytes"]


def test_stream_bytes_of_no_message_are_seen(capture: Capture) -> None:
    columns = {name: column.copy() for name, column in vars(capture.packets).items()}
    columns["stream_bytes"][3] += 1
    assert failed(record_of(capture), replace(capture, packets=CapturedPackets(**columns))) == ["captured payload"]


@pytest.mark.parametrize(("apart", "names"), [(0.009, []), (0.02, ["iterations from packets"])])
def test_iterations_that_take_another_time_in_the_logs_are_seen(
    capture: Capture, apart: float, names: list[str]
) -> None:
    assert failed(record_of(capture), capture, log_of(round(ITERATION_NS * (1 + apart)))) == names


@pytest.mark.parametrize(("log_shift_ns", "names"), [(0, []), (MS, ["iterations from packets"])])
def test_iterations_that_differ_in_length_are_compared_from_first_message_to_first_message(
    capture: Capture, log_shift_ns: int, names: list[str]
) -> None:
    """The last iteration's messages are a millisecond late, and so are its SENDs in the log, or not."""
    columns = {name: column.copy() for name, column in vars(capture.messages).items()}
    columns["first_ns"][columns["iteration"] == ITERATIONS - 1] += MS
    late = replace(capture, messages=Messages(**columns))
    log = log_of()
    log.start_ns[log.iteration == ITERATIONS - 1] += MS - log_shift_ns
    assert failed(record_of(capture), late, log) == names


def test_without_a_period_or_a_complete_log_there_is_no_check_of_times(capture: Capture) -> None:
    record = record_of(capture)
    names = [check.name for check in capture_checks(PLAN, FABRIC, log_of(), record, [capture], False)]
    assert "iterations from packets" not in names
    assert capture_checks(PLAN, FABRIC, log_of(), replace(record, captures=()), [], True) == []
    with pytest.raises(InternalFault, match=in_order("1 ports", "0")):
        capture_checks(PLAN, FABRIC, log_of(), record, [], True)


def test_places_of_ports() -> None:
    fabric = Fabric(hosts=4, rate_bps=1e9, topology=Topology.LEAF_SPINE, leaves=2, spines=1, aggregators=True)
    assert location_of(fabric, "h3-eth0") == PortLocation("h3-eth0", "s2-eth1", 2, True)
    assert location_of(fabric, "s2-eth2") == PortLocation("s2-eth2", "h4-eth0", 3, False)
    assert location_of(fabric, "s1-eth3") == PortLocation("s1-eth3", "s3-eth1", None, False)
    assert location_of(fabric, "a1-eth0").endpoint == 4
    with pytest.raises(InternalFault, match="h9-eth0"):
        location_of(fabric, "h9-eth0")


def test_the_use_of_a_port_as_a_table_and_a_chart(capture: Capture, tmp_path: Path) -> None:
    record = record_of(capture)
    use = port_use(PLAN, FABRIC, log_of(), record, [capture], "h1-eth0", 0.001)
    assert use.counted_share == (1.0, 1.0)
    assert len(use.iterations) == ITERATIONS - WARMUP
    line_bytes = 8 * (30_050 + 21 * 90 + 250 + 90)
    assert use.iterations[0].outbound.mean == pytest.approx(line_bytes / 1e9 / 0.02, rel=1e-6)
    assert use.compute is not None
    assert use.compute.mean() == pytest.approx(1.0)
    table = use_table(use, PLAN, FABRIC, log_of(), record, capture)
    assert [row[:4] for row in table.rows] == [(name, "0.0200", "0.0200", "0.0200") for name in ("1", "2", "3", "all")]
    assert len(table.headers) == len(table.rows[0])
    path = save_use(use, PLAN, log_of(), record, tmp_path, "a title")
    assert {found.name for found in tmp_path.glob("utilisation-*")} == {
        f"{path.stem}{end}" for end in (".png", ".svg", ".csv")
    }


def test_a_port_that_was_not_captured_has_no_use(capture: Capture) -> None:
    record = record_of(capture)
    with pytest.raises(InputFault, match=in_order("'h2-eth0'", "not captured", "h1-eth0")):
        port_use(PLAN, FABRIC, log_of(), record, [capture], "h2-eth0", 0.001)
    with pytest.raises(InputFault, match=r"--set run\.capture=h1"):
        port_use(PLAN, FABRIC, log_of(), replace(record, captures=()), [], "", 0.001)

"""Every check of the verdict by its name: a case that it alone fails, so that no check is there that cannot fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.agreement.short_windows import ShortWindow, WindowUse
from gradwire.analysis.fluid.estimate import FluidTimes
from gradwire.analysis.packets.capture_files import Capture, CapturedPackets
from gradwire.analysis.verdict.condition_checks import Divided
from gradwire.analysis.verdict.packet_checks import capture_checks
from gradwire.analysis.verdict.program_checks import ProgramsState
from gradwire.analysis.verdict.verdict import Circumstances, Verdict, failed_run, judge, verdict_of
from gradwire.datatypes.host_settings import HostParameter, HostSetting
from gradwire.datatypes.network_counts import BandCount, LineCount
from gradwire.datatypes.pauses import PauseState
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.records import OpLog, PlannedFault, PointRecord, SocketState, WindowState
from gradwire.network.fabric import Fabric
from gradwire.network.lossless import Lossless
from gradwire.network.wire.flows import connections_of
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.combined_plans import PlacedJob, combined
from tests.shared.simulation import replay
from tests.shared.small_jobs import with_cell
from tests.unit.analysis.verdict import test_packet_checks as on_packets
from tests.unit.analysis.verdict.sound_run import (
    FABRIC,
    ITERATIONS,
    LEAF_SPINE,
    frames,
    pushes,
    sound_log,
    sound_record,
    sound_time_s,
)
from tests.unit.datatypes.test_pauses import count
from tests.unit.docs.test_documentation import checks_in_code

NEEDS_A_COMPLETE_LOG = ["agent lateness", "lower bound", "steady state"]
"""What cannot be known without one, and so fails with it."""
FIRST_COMPUTE, FIRST_PUSH, SECOND_PUSH = 0, 1, 3
"""Ops of `pushes`: the first worker computes and sends twice; between the sends is the server's RECV."""


def judged(
    record: PointRecord | None = None,
    *,
    plan: Plan | None = None,
    fabric: Fabric = FABRIC,
    log: OpLog | None = None,
    ideal: FluidTimes | None = None,
) -> Verdict:
    return judge(
        plan or pushes(),
        fabric,
        log or sound_log(),
        record or sound_record(),
        (),
        ideal,
        circumstances=Circumstances(departs=True),
    )


def counted(**changes: Any) -> PointRecord:
    record = sound_record()
    return replace(record, counts=replace(record.counts, **changes))


def with_bands(change: Callable[[BandCount], BandCount], *more: BandCount, fabric: Fabric = FABRIC) -> PointRecord:
    record = sound_record(fabric)
    bands = (*map(change, record.counts.bands), *more)
    return replace(record, counts=replace(record.counts, bands=bands))


def of_agent(**changes: int) -> PointRecord:
    record = sound_record()
    return replace(record, agents=(replace(record.agents[0], **changes),))  # type: ignore[arg-type]


MARKING = replace(FABRIC, ecn_bytes=500_000)


def above_the_threshold(band: BandCount) -> BandCount:
    """Packets waited behind too much, and none was marked."""
    return replace(band, above_threshold=10)


def controlled(congestion: str) -> PointRecord:
    """The sound record, whose connections have a congestion control."""
    sockets = tuple(
        SocketState(
            each.number,
            each.src_host,
            each.dst_host,
            congestion,
            window=20,
            least_window=10,
            most_window=40,
            slow_start_threshold=30,
            retransmits=0,
            delivered=100,
            delivered_marked=0,
        )
        for each in connections_of(pushes())
    )
    record = sound_record()
    return replace(record, agents=(replace(record.agents[0], sockets=sockets, accepted_congestion=(congestion,)),))


def judged_with(congestion: str, record: PointRecord) -> Verdict:
    return judge(
        pushes(), FABRIC, sound_log(), record, circumstances=Circumstances(departs=True, congestion=congestion)
    )


def logged(column: str, op: int, by_ns: int, iteration: int = ITERATIONS - 1) -> OpLog:
    """The sound log with one time of one op changed."""
    log = sound_log()
    times = getattr(log, column).copy()
    times[(log.op == op) & (log.iteration == iteration)] += by_ns
    return replace(log, **{column: times})


def stretched(_: Path) -> Verdict:
    """A band's bytes at the server's port doubled, and as many missing from the other."""
    extra = frames(1_000_000)
    return judged(
        with_bands(
            lambda b: (
                replace(b, bytes_sent=b.bytes_sent + (extra if b.band == 1 else -extra)) if b.port == "s1-eth4" else b
            )
        )
    )


def computing(lanes: tuple[int, int], orders: tuple[int, int] = (1, 2)) -> Plan:
    """A worker that computes 1 ms, and then two things of 10 ms and 20 ms, on these streams and in this order, beside
    one of 40 ms."""
    builder = PlanBuilder("computing")
    worker = builder.rank(Role.WORKER, 0)
    first = builder.compute(worker, 0.001, lane=2)
    work = [
        builder.compute(worker, duration_s, lane=lane, order=order)
        for duration_s, lane, order in zip((0.010, 0.020), lanes, orders, strict=True)
    ]
    work.append(builder.compute(worker, 0.040, lane=3))
    last = builder.compute(worker, 0.001, lane=3)
    for op in work:
        builder.depend(op, first)
    builder.depend(last, *work)
    builder.depend(first, last, lag=1)
    builder.iteration(worker, first, last)
    return builder.build(compute_s=0.042, samples=1)


def silent_record() -> PointRecord:
    """The record of a plan that sends nothing."""
    record = of_agent(messages_sent=0, messages_received=0, bytes_sent=0, bytes_received=0)
    return replace(record, counts=replace(record.counts, bands=()))


def ran_as(ran: Plan, planned: Plan) -> Verdict:
    """What one plan left, judged as if it were another."""
    return judged(silent_record(), plan=planned, log=replay(ran, ITERATIONS))


def put_off(_: Path) -> Verdict:
    """Of 110 ms of computation an iteration, the 100 that no iteration's end waits for are left until after the
    measurement."""
    builder = PlanBuilder("put off")
    worker = builder.rank(Role.WORKER, 0)
    first = builder.compute(worker, 0.010)
    later = builder.compute(worker, 0.100, order=1)
    builder.depend(first, first, lag=1)
    builder.depend(later, first)
    builder.iteration(worker, first, first)
    plan = builder.build(compute_s=0.110, samples=1)
    return judged(silent_record(), plan=plan, log=replay(plan, ITERATIONS))


def never_all_at_once(_: Path) -> Verdict:
    """Two jobs of which the second is half an iteration later: of two iterations, none after the first lies where both
    run."""
    builder = PlanBuilder("computing")
    worker = builder.rank(Role.WORKER, 0)
    step = builder.compute(worker, 0.010)
    builder.depend(step, step, lag=1)
    builder.iteration(worker, step, step)
    alone = builder.build(compute_s=0.010, samples=1)
    plan = combined([PlacedJob("a", alone, (0,)), PlacedJob("b", alone, (1,), start_ns=5_000_000)])
    return judged(replace(silent_record(), iterations=2), plan=plan, log=replay(plan, 2))


def fast_for_a_while(_: Path) -> Verdict:
    """Three pushes at once go into a port that carries two; the iteration is so long that its mean shows nothing."""
    return judged(plan=pushes(0.5), fabric=replace(FABRIC, rate_bps=1.2e9), log=sound_log(ITERATIONS, compute_s=0.5))


def past_an_uplink(_: Path) -> Verdict:
    """Messages cross one of eight uplinks, of 320 Mbit/s, with 380 Mbit/s. All eight together could carry them."""
    slow_uplinks = replace(LEAF_SPINE, spines=8, oversubscription=4000 / 8 / 320)
    record = sound_record(LEAF_SPINE)
    renamed = {"s3-eth2": "s10-eth2"}
    bands = tuple(replace(band, port=renamed.get(band.port, band.port)) for band in record.counts.bands)
    return judged(replace(record, counts=replace(record.counts, bands=bands)), fabric=slow_uplinks)


def past_two_spines(spine: int) -> Verdict:
    """Everything went past the first of two spines; by the rules it takes this one."""
    fabric, record = replace(LEAF_SPINE, spines=2), sound_record(LEAF_SPINE)
    return judge(
        pushes(), fabric, sound_log(), record, circumstances=Circumstances(departs=True, spine_of=lambda *_: spine)
    )


def captured_wrongly(
    change: Callable[[PointRecord, Capture], tuple[PointRecord, Capture, OpLog]],
) -> Callable[[Path], Verdict]:
    def case(folder: Path) -> Verdict:
        capture = on_packets.captured(folder)
        record, seen, log = change(on_packets.record_of(capture), capture)
        return verdict_of(capture_checks(on_packets.PLAN, on_packets.FABRIC, log, record, [seen], True))

    return case


def of_no_message(capture: Capture) -> Capture:
    columns = {name: column.copy() for name, column in vars(capture.packets).items()}
    columns["stream_bytes"][3] += 1
    return replace(capture, packets=CapturedPackets(**columns))


def beside_the_capture(record: PointRecord) -> PointRecord:
    bands = tuple(replace(band, bytes_sent=band.bytes_sent + 10_000) for band in record.counts.bands)
    return replace(record, counts=replace(record.counts, bands=bands))


SLOWER = on_packets.log_of(round(on_packets.ITERATION_NS * 1.02))
SAME = on_packets.log_of()
QUICKER = FluidTimes(np.full(6, sound_time_s() / 1.06), sound_time_s() / 1.06, 1)
UNSTEADY = FluidTimes(np.array([0.067, 0.041, 0.049, 0.045, 0.047, 0.047]), 0.047, 1)

HELD_BACK = WindowUse(
    3, (ShortWindow(WindowState(0, 0, 3, 64, 64, 64, 1, 1, 1, 0, 64), "h1 to h4", 64.0, 128.0, 1e-3, 1e9),), slower=2.0
)


def with_lines(**changes: object) -> PointRecord:
    """A run whose lines counted, the last of them something else."""
    lines = [LineCount(port.interface, True, 9, 9 * 1514, 0, 1000, 0, 2000) for port, _ in FABRIC.ports()]
    return counted(lines=(*lines[:-1], replace(lines[-1], **changes)))  # type: ignore[arg-type] # all of them are numbers


def with_changed_queues() -> Verdict:
    """A run with a limit of flows, which a program lifted at a host's port."""
    return judge(pushes(), replace(FABRIC, flow_rate_bps=5e9), sound_log(), counted(changed_ports=("h1-eth0",)))


def paused(**changes: int) -> Verdict:
    """A run on the same network with flow control, where a port of the switch counted something else than its far end."""
    fabric = replace(FABRIC, lossless=Lossless())
    counts = [
        count(port.interface, band, headroom_bytes=60_000 * (port.device == "s1"))
        for port, _ in fabric.ports()
        for band in (1, 2)
    ]
    counts[-1] = replace(counts[-1], **changes)  # type: ignore[arg-type] # all of them are counters
    return judge(pushes(), fabric, sound_log(), replace(sound_record(), pauses=PauseState(0, 0, tuple(counts))))


CASES: dict[str, Callable[[Path], Verdict]] = {
    "flow control": lambda _: judge(pushes(), replace(FABRIC, lossless=Lossless()), sound_log(), sound_record()),
    "headroom": lambda _: paused(dropped=1),
    "pauses": lambda _: paused(pauses=1),
    "lines": lambda _: judged(with_lines(is_there=False)),
    "line rate": lambda _: judged(with_lines(ahead_ns=2001)),
    "frame lengths": lambda _: judged(with_lines(size_bytes=9 * 1523)),
    "queues of hosts": lambda _: with_changed_queues(),
    "passed on by switches": lambda _: judged(with_lines(frames=8, size_bytes=8 * 1514)),
    "ops logged": lambda _: judged(log=OpLog(*(column[:-1] for column in vars(sound_log()).values()))),
    "drops": lambda _: judged(with_bands(lambda band: replace(band, drops=1))),
    "TCP retransmits": lambda _: judged(counted(tcp_retransmits=1)),
    "upcalls": lambda _: judged(counted(upcalls=10_000)),
    "table misses": lambda _: judged(counted(table_miss_packets=1)),
    "rate probe": lambda _: judged(replace(sound_record(), rate_probe=1.016)),
    "agents' bytes": lambda _: judged(of_agent(bytes_received=sound_record().agents[0].bytes_received - 1)),
    "port counters": lambda _: judged(
        with_bands(
            lambda band: band,
            *(BandCount(f"h{host}-eth0", 0, frames(1_200_000), 1000, 0) for host in (1, 2, 3)),
        )
    ),
    "bytes by class": stretched,
    "bytes by uplink": lambda _: past_two_spines(1),
    "agent lateness": lambda _: judged(of_agent(lateness_ns_max=10**8)),
    "agent lateness (p99)": lambda _: judged(replace(of_agent(lateness_ns_p99=10**8), clock="wall")),
    "lower bound": put_off,
    "jobs measured": never_all_at_once,
    "steady state": lambda _: judged(ideal=UNSTEADY),
    "dependencies": lambda _: judged(log=logged("nominal_start_ns", FIRST_PUSH, 1)),
    "one at a time": lambda _: ran_as(computing((0, 1)), computing((0, 0))),
    "idle streams and queues": lambda _: ran_as(computing((0, 0)), computing((0, 1))),
    "queue order": lambda _: ran_as(computing((0, 0)), computing((0, 0), (2, 1))),
    "op durations": lambda _: judged(log=logged("end_ns", FIRST_COMPUTE, 901)),
    "send times": lambda _: judged(log=logged("end_ns", SECOND_PUSH, -60_000_000)),
    "message times": past_an_uplink,
    "port rates": fast_for_a_while,
    "CPU saturation": lambda _: judged(replace(sound_record(), clock="wall", cpu_saturation=0.95)),
    "CPU wait": lambda _: judged(replace(sound_record(), clock="wall", cpu_wait=0.11)),
    "ideal network": lambda _: judged(replace(sound_record(), clock="wall"), ideal=QUICKER),
    "capture": captured_wrongly(
        lambda record, seen: (on_packets.record_of(seen, seen=len(seen.packets.time_ns) + 1, dropped=1), seen, SAME)
    ),
    "captured bytes": captured_wrongly(lambda record, seen: (beside_the_capture(record), seen, SAME)),
    "captured messages": captured_wrongly(
        lambda record, seen: (record, on_packets.with_second(seen, size_bytes=199), SAME)
    ),
    "captured payload": captured_wrongly(lambda record, seen: (record, of_no_message(seen), SAME)),
    "iterations from packets": captured_wrongly(lambda record, seen: (record, seen, SLOWER)),
    "programs": lambda _: judge(
        pushes(),
        FABRIC,
        sound_log(),
        sound_record(),
        circumstances=Circumstances(programs=ProgramsState(1, ["tenant/h1 ended with status 3"])),
    ),
    "figures": lambda _: judge(
        pushes(),
        FABRIC,
        sound_log(),
        sound_record(),
        circumstances=Circumstances(programs=ProgramsState(1, unreadable=["figures/tenant/h1.jsonl: line 2"])),
    ),
    "faults": lambda _: judge(
        pushes(),
        FABRIC,
        sound_log(),
        sound_record(),
        circumstances=Circumstances(faults=[PlannedFault("cut", "link-down", 5, place="h1-eth0")]),
    ),
    "windows": lambda _: judge(
        pushes(), FABRIC, sound_log(), sound_record(), circumstances=Circumstances(windows=HELD_BACK)
    ),
    "congestion control": lambda _: judged_with("bbr", controlled("cubic")),
    "host parameters": lambda _: judge(
        pushes(),
        replace(FABRIC, host_settings=(HostSetting("h2", (("net.ipv4.tcp_autocorking", "1"),)),)),
        sound_log(),
        replace(sound_record(), host_parameters=(HostParameter("h2", "net.ipv4.tcp_autocorking", "0", True, "0"),)),
        circumstances=Circumstances(departs=True),
    ),
    "switch queues": lambda _: judge(
        pushes(), MARKING, sound_log(), sound_record(), circumstances=Circumstances(departs=True)
    ),
    "ECN marks": lambda _: judge(
        pushes(),
        MARKING,
        sound_log(),
        with_bands(above_the_threshold, fabric=MARKING),
        circumstances=Circumstances(departs=True),
    ),
    "division": lambda _: judge(
        pushes(), FABRIC, sound_log(), sound_record(), circumstances=Circumstances(divided=Divided(16, 0.051))
    ),
    "run": lambda _: failed_run("rank 3 died"),
}


def test_every_check_has_a_case() -> None:
    assert set(CASES) == checks_in_code()


@pytest.mark.parametrize("name", CASES)
def test_each_case_fails_its_check_alone(name: str, tmp_path: Path) -> None:
    found = CASES[name](tmp_path)
    alone = [name, *(NEEDS_A_COMPLETE_LOG if name == "ops logged" else [])]
    assert [check.name for check in found.checks if not check.ok] == alone
    assert found.summary.startswith("invalid: ")


def test_nothing_fails_without_a_fault() -> None:
    for clock in ("virtual", "wall"):
        assert judged(replace(sound_record(), clock=clock)).summary == "valid"
    assert past_two_spines(0).summary == "valid"
    for divided in (Divided(16, 0.05), Divided(2, 0.09, fidelity=0.1), Divided(1, 0.3)):
        assert (
            judge(pushes(), FABRIC, sound_log(), sound_record(), circumstances=Circumstances(divided=divided)).summary
            == "valid"
        )
    coarse = judge(
        pushes(),
        FABRIC,
        sound_log(),
        sound_record(),
        circumstances=Circumstances(divided=Divided(2, 0.02, fidelity=0.01)),
    )
    assert coarse.summary == "invalid: division by 2: up to 2.0% (limit 1.0% as the scenario allows (run.fidelity))"
    for plan in (computing((0, 0)), computing((0, 1))):
        assert ran_as(plan, plan).summary == "valid"


@pytest.mark.parametrize(
    ("column", "op", "by_ns", "names"),
    [
        ("nominal_start_ns", FIRST_COMPUTE, -1, {"dependencies"}),
        ("nominal_start_ns", FIRST_COMPUTE, 1, {"dependencies", "idle streams and queues", "op durations"}),
        ("start_ns", SECOND_PUSH, -1_000_000, {"one at a time"}),
        ("start_ns", SECOND_PUSH, 1, {"idle streams and queues"}),
        ("end_ns", FIRST_COMPUTE, -1, {"op durations", "idle streams and queues"}),
    ],
)
def test_a_nanosecond_of_nominal_time_is_enough(column: str, op: int, by_ns: int, names: set[str]) -> None:
    found = judged(log=logged(column, op, by_ns))
    assert {check.name for check in found.checks if not check.ok} == names


def test_a_wrong_size_in_the_plan_is_seen() -> None:
    grown = with_cell(pushes(), "size_bytes", FIRST_PUSH, 10_001_000)
    assert "agents' bytes" in judged(plan=grown).summary

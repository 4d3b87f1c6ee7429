"""Figures of utilisation come from captured packets, whatever the logs say, and from none whose point is invalid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.agents.capture.recorder import Packet, PortFile
from gradwire.analysis.packets.capture_files import Capture, read_capture
from gradwire.analysis.points import VALID
from gradwire.analysis.verdict.verdict import judge
from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.datatypes.records import CAPTURE_FOLDER, OpLog, PointRecord
from gradwire.workloads.builder import PlanBuilder
from reproduction.measuring import capture_of, use_of_port
from reproduction.p3.explanations import others_gradients_share
from reproduction.p3.traffic import traffic
from reproduction.pages.curves import drawings_of
from reproduction.scoring.evidence import NoEvidence, PointEvidence, Points, measure_of
from reproduction.scoring.reference import Claim, load_paper
from reproduction.scoring.score import load_bindings
from tests.shared.captured_streams import HEADER_BYTES, Line, header
from tests.shared.parts import tells
from tests.shared.stored_points import NO_MODEL, result
from tests.unit.analysis.verdict.test_packet_checks import FABRIC, MS, record_of

ITERATIONS, WARMUP = 3, 1
ITERATION_NS = 100 * MS
PULL_NS, COMPUTE_NS, PUSH_NS = (2 * MS, 42 * MS), (32 * MS, 80 * MS), (82 * MS, 88 * MS)
"""Of an iteration: pieces of the pull arrive, the GPU computes, pieces of the push leave."""
PIECES = 5
SIZE_BYTES = 50_000


def pull_and_push() -> Plan:
    """The worker on h1 pulls a tensor from the server on h2, computes, and pushes its gradient."""
    builder = PlanBuilder("pull and push")
    worker, server = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    builder.tensor("t")
    chunk = builder.chunk(0, SIZE_BYTES)
    work = builder.compute(worker, 0.048)
    pull, pulled = builder.message(builder.queue(server), worker, SIZE_BYTES, chunk=chunk, combine=Combine.COPY)
    push, pushed = builder.message(builder.queue(worker), server, SIZE_BYTES, chunk=chunk, combine=Combine.ADD)
    builder.depend(work, pulled)
    builder.depend(push, work)
    builder.depend(pull, pushed, lag=1)
    builder.iteration(worker, work, work)
    return builder.build(compute_s=0.048, samples=1)


PLAN = pull_and_push()
PUSH, PULL = (int(PLAN.ops.message[PLAN.ops.combine == kind][0]) for kind in (Combine.ADD, Combine.COPY))


def passing(op: int, within_ns: tuple[int, int]) -> list[Packet]:
    """A message of each iteration in PIECES packets, the first and the last at the ends of `within_ns`."""
    outbound = op == PUSH
    line = Line() if outbound else Line(src=2, dst=1)
    ranks = (0, 1) if outbound else (1, 0)
    heads = [header(op, SIZE_BYTES, iteration, *ranks)._replace(chunk=0, tensor=0) for iteration in range(ITERATIONS)]
    piece = -(-(SIZE_BYTES + HEADER_BYTES) // PIECES)
    begun, *sent = line.packets(heads, 0, [piece] * (PIECES - 1) + [SIZE_BYTES + HEADER_BYTES - piece * (PIECES - 1)])
    greeting, *pieces = sent
    timed = [begun._replace(time_ns=0), greeting._replace(time_ns=0)]
    for number, one in enumerate(pieces):
        iteration, place = divmod(number, PIECES)
        begin, end = within_ns
        timed.append(one._replace(time_ns=iteration * ITERATION_NS + begin + (end - begin) * place // (PIECES - 1)))
    return [one._replace(is_outgoing=outbound) for one in timed]


def written(folder: Path, packets: Sequence[Packet]) -> Capture:
    (folder / CAPTURE_FOLDER).mkdir()
    path = folder / CAPTURE_FOLDER / "h1-eth0.pcapng"
    file = PortFile(path.open("wb"), "h1-eth0", FABRIC.rate_bps, 160)
    for one in sorted(packets, key=lambda one: one.time_ns):
        file.write(one)
    file.end(len(packets), 0)
    return read_capture(path, FABRIC.mtu_bytes, start_ns=0)


def log_of() -> OpLog:
    count = len(PLAN.ops)
    start, end = np.zeros(count, np.int64), np.full(count, ITERATION_NS, np.int64)
    work = PLAN.begin_op[0]
    start[work], end[work] = COMPUTE_NS
    iteration = np.repeat(np.arange(ITERATIONS), count)
    begins, ends = (iteration * ITERATION_NS + np.tile(times, ITERATIONS) for times in (start, end))
    return OpLog(iteration, np.tile(np.arange(count), ITERATIONS), begins, begins, ends)


def recorded(capture: Capture) -> PointRecord:
    return replace(record_of(capture), iterations=ITERATIONS, warmup=WARMUP, capture_start_ns=0)


def stored(folder: Path, record: PointRecord, log: OpLog, verdict: str = VALID) -> PointEvidence:
    parameters = {"seed": "1"}
    row = result(parameters, 0.1, verdict)
    return PointEvidence(parameters, row, FABRIC, NO_MODEL, lambda: PLAN, lambda: log, lambda: record, folder)


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    return written(tmp_path, [*passing(PULL, PULL_NS), *passing(PUSH, PUSH_NS)])


@pytest.fixture
def point(capture: Capture, tmp_path: Path) -> PointEvidence:
    return stored(tmp_path, recorded(capture), log_of())


def test_the_curve_is_the_packets(capture: Capture, point: PointEvidence) -> None:
    """Iterations end with the computation of each, at 80 ms of every 100."""
    used = use_of_port(point, 0.01)
    assert used.start_s == pytest.approx(0.08)
    assert len(used.inbound_bps) == 20
    packets = capture.packets
    for way, carried_bps in ((packets.outbound, used.outbound_bps), (~packets.outbound, used.inbound_bps)):
        measured = way & (packets.time_ns >= COMPUTE_NS[1]) & (packets.time_ns < COMPUTE_NS[1] + 2 * ITERATION_NS)
        assert carried_bps.sum() * 0.01 == pytest.approx(8 * packets.line_bytes[measured].sum(), rel=1e-3)
    assert np.flatnonzero(used.outbound_bps[:10] > 0).tolist() == [0], "the push, from 82 to 88 ms"
    assert np.flatnonzero(used.inbound_bps[:10] > 0).tolist() == [2, 3, 4, 5, 6], "the pull of the next iteration"


def test_traffic_of_a_machine_is_its_shares_of_the_line(point: PointEvidence) -> None:
    seen = traffic(point)
    assert seen.iteration.tolist() == [1] * 10 + [2] * 10
    np.testing.assert_allclose(seen.outbound, use_of_port(point, 0.01).outbound_bps / FABRIC.rate_bps)
    assert seen.idle_ms == pytest.approx(100), "single packets of 10 kB are not 5 % of 10 ms"


def test_a_pull_lasts_as_long_as_its_packets_arrive(point: PointEvidence) -> None:
    """The GPU computes in the last 10 of the pull's 40 ms, and for 38 of its 48 ms after it."""
    load_bindings()
    (claim,) = (c for s in load_paper("geryon").scenario if s.id == "geryon-fig2" for c in s.claim)
    measure = measure_of("geryon-fig2", "poor-pull-overlap")
    assert measure is not None
    found = measure(Points([point]), Claim.model_validate(claim.model_dump()))
    assert tells(str(found.value), "75%", "1 orders", "79%")
    assert found.holds
    assert "captured packets" in found.detail


def test_the_timeline_draws_what_the_packets_say(point: PointEvidence) -> None:
    load_bindings()
    (drawing,) = drawings_of("geryon-fig2")
    curves = drawing.curves(Points([point]))
    used = use_of_port(point, 0.005)
    shown = [y for _, y in curves["inbound"]]
    np.testing.assert_allclose(shown, 100 * used.inbound_bps / FABRIC.rate_bps)
    assert max(y for _, y in curves["GPU busy"]) == pytest.approx(100)


def failed_checks(record: PointRecord, capture: Capture, log: OpLog) -> set[str]:
    return {check.name for check in judge(PLAN, FABRIC, log, record, [capture]).checks if not check.ok}


def test_a_point_whose_packets_disagree_is_no_evidence(capture: Capture, tmp_path: Path) -> None:
    record, log = recorded(capture), log_of()
    others = failed_checks(record, capture, log)
    assert not {name for name in others if "captur" in name or "packets" in name}
    lost = record_of(capture, seen=len(capture.packets.time_ns) + 1)
    assert failed_checks(replace(lost, iterations=ITERATIONS), capture, log) - others == {"capture"}
    slower = replace(log, start_ns=log.start_ns * 102 // 100, end_ns=log.end_ns * 102 // 100)
    assert failed_checks(record, capture, slower) - others == {"iterations from packets", "op durations"}
    verdict = judge(PLAN, FABRIC, slower, record, [capture])
    assert not verdict.valid
    with pytest.raises(NoEvidence, match="iterations from packets"):
        capture_of(stored(tmp_path, record, slower, verdict.summary))


def test_a_port_that_was_not_captured_is_no_evidence(capture: Capture, tmp_path: Path) -> None:
    with pytest.raises(NoEvidence, match="h1-eth0 was not"):
        capture_of(stored(tmp_path, replace(recorded(capture), captures=()), log_of()))
    with pytest.raises(NoEvidence, match="only compiled"):
        capture_of(replace(stored(tmp_path, recorded(capture), log_of()), result=None))


def test_the_part_of_gradients_in_what_comes_in_while_gradients_leave(point: PointEvidence) -> None:
    """Pull and push never share an interval of 10 ms, unless the pull lasts into the push."""
    capture = capture_of(point)
    messages = capture.messages
    later = np.where(messages.outbound, messages.last_ns, messages.last_ns + 50 * MS)
    both = replace(capture, messages=replace(messages, last_ns=later))
    assert others_gradients_share(PLAN, both, 1e7) == 0.0
    gradients = replace(both, messages=replace(both.messages, src_rank=np.zeros_like(messages.src_rank)))
    assert others_gradients_share(PLAN, gradients, 1e7) == pytest.approx(1.0)

"""What the checks of ops take for sound, and what they do not, to the nanosecond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.verdict.op_checks import op_checks
from gradwire.datatypes.plan import Discipline, Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.network.fabric import Fabric
from gradwire.workloads.builder import PlanBuilder
from tests.shared.simulation import replay
from tests.unit.analysis.verdict.sound_run import FABRIC, ITERATIONS, pushes, sound_log, sound_record

PACKET_NS = int(65536 * 1538 / 1448 * 8 / 2) + 1
"""What a burst of GSO takes at 2 Gbit/s, in whole nanoseconds and rounded up."""


def failed(plan: Plan, log: OpLog, fabric: Fabric = FABRIC) -> set[str]:
    return {check.name for check in op_checks(plan, fabric, log, sound_record()) if not check.ok}


def moved(log: OpLog, op: int, by_ns: int, *columns: str) -> OpLog:
    """The log with these times of an op in the last iteration moved."""
    these = (log.op == op) & (log.iteration == ITERATIONS - 1)
    return replace(log, **{name: getattr(log, name) + by_ns * these for name in columns})


def test_computation_that_begins_a_nanosecond_before_what_it_waits_for_has_ended_is_seen() -> None:
    """Though no message tells of it."""
    builder = PlanBuilder("two computations")
    worker = builder.rank(Role.WORKER, 0)
    first, second = builder.compute(worker, 1e-3), builder.compute(worker, 1e-3, lane=1)
    builder.depend(second, first)
    builder.depend(first, second, lag=1)
    builder.iteration(worker, first, second)
    plan = builder.build(compute_s=2e-3, samples=1)
    log = replay(plan, ITERATIONS)
    assert failed(plan, log) == set()
    assert failed(plan, moved(log, second, -1, "nominal_start_ns", "start_ns", "end_ns")) == {"dependencies"}


def test_a_send_waits_for_computation_to_the_nanosecond() -> None:
    plan, log = pushes(), sound_log()
    first_push = int(np.flatnonzero(plan.is_remote())[0])
    assert failed(plan, moved(log, first_push, -1, "start_ns")) == {"dependencies"}


@pytest.mark.parametrize(("by_ns", "names"), [(0, set()), (-1, {"dependencies"})])
def test_a_send_may_follow_another_by_a_packet_before_its_end(by_ns: int, names: set[str]) -> None:
    """Through queues of their own: an agent is told of a SEND's end when its last packet is on the line."""
    builder = PlanBuilder("one behind the other")
    worker, other = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    compute = builder.compute(worker, 1e-3)
    send, _ = builder.message(builder.queue(worker), other, 1_000_000)
    behind, _ = builder.message(builder.queue(worker), other, 500_000)
    builder.depend(send, compute)
    builder.depend(behind, send)
    builder.depend(compute, compute, lag=1)
    builder.iteration(worker, compute, compute)
    plan = builder.build(compute_s=1e-3, samples=1)
    log = replay(plan, ITERATIONS)
    assert failed(plan, log) == set()
    assert failed(plan, moved(log, behind, by_ns - PACKET_NS, "start_ns")) == names


def test_streams_of_all_ranks_and_all_queues_are_busy_at_once() -> None:
    """Each for itself: two ranks compute on two streams each, and send meanwhile."""
    builder = PlanBuilder("all at once")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    for rank in ranks:
        queues = [builder.queue(rank) for _ in range(3)]
        begin, end = builder.compute(rank, 1e-3), builder.compute(rank)
        for queue in queues:
            send, _ = builder.message(queue, 1 - rank, 2_000_000)
            builder.depend(send, begin)
        for lane in range(2):
            work = builder.compute(rank, 30e-3, lane=lane)
            builder.depend(work, begin)
            builder.depend(end, work)
        builder.depend(begin, end, lag=1)
        builder.iteration(rank, begin, end)
    plan = builder.build(compute_s=31e-3, samples=1)
    assert failed(plan, replay(plan, ITERATIONS)) == set()


def test_a_queue_of_priorities_serves_an_earlier_iteration_first() -> None:
    """Messages of 10 ms of three iterations wait together: of the first one the less urgent goes before the next one's urgent."""
    builder = PlanBuilder("a queue that fills")
    worker, other = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    queue = builder.queue(worker, Discipline.PRIORITY)
    compute = builder.compute(worker, 1e-3)
    urgent, later = (builder.message(queue, other, 1_000_000, order=order)[0] for order in (1, 2))
    for send in (urgent, later):
        builder.depend(send, compute)
    builder.depend(compute, compute, lag=1)
    builder.iteration(worker, compute, compute)
    plan = builder.build(compute_s=1e-3, samples=1)
    log = replay(plan, ITERATIONS)
    assert failed(plan, log) == set()
    begun = {(iteration, op): begin for iteration, op, begin in zip(log.iteration, log.op, log.start_ns, strict=True)}
    assert begun[0, later] < begun[1, urgent] < begun[1, later] < begun[2, urgent]

    earlier, urgent_row = (
        int(np.flatnonzero((log.iteration == it) & (log.op == op))[0]) for it, op in ((1, later), (2, urgent))
    )
    order = np.arange(len(log.op))
    order[[earlier, urgent_row]] = order[[urgent_row, earlier]]
    exchanged = replace(
        log,
        iteration=log.iteration[order],
        op=log.op[order],
        nominal_start_ns=log.nominal_start_ns[order],
    )
    assert failed(plan, exchanged) == {"queue order"}

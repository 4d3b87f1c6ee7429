"""Computation that is slower while its GPU communicates, in the interpreter and in the second engine: against times
that are worked out anew from what was under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.logged import LoggedOps
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.network.fabric import Fabric
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.simulation import replay, times
from tests.shared.small_jobs import choices, compiled, job_of, jobs, profile_of

quick = settings(max_examples=examples(25))
SPEED = 0.25
Spans = list[tuple[float, float]]


def slowed(plan: Plan) -> Plan:
    return replace(plan, speed_while_communicating=SPEED)


def under_way(plan: Plan, start: np.ndarray, end: np.ndarray) -> dict[int, Spans]:
    """Of each worker: when a tensor was under way, from the first of its messages to the last, in each iteration.
    start, end: of each op, by iteration; a RECV begins when it ends."""
    spans: dict[int, Spans] = {}
    ops = plan.ops
    for rank in np.flatnonzero(plan.rank_role == Role.WORKER).tolist():
        moves = (ops.rank == rank) & (ops.chunk >= 0) & ((ops.kind == OpKind.SEND) | (ops.kind == OpKind.RECV))
        for tensor in np.unique(plan.chunk_tensor[ops.chunk[moves]]).tolist():
            of = np.flatnonzero(moves & (plan.chunk_tensor[ops.chunk] == tensor))
            begin = np.where(ops.kind[of] == OpKind.SEND, start[:, of], end[:, of])
            spans.setdefault(rank, []).extend(
                zip(begin.min(axis=1).tolist(), end[:, of].max(axis=1).tolist(), strict=True)
            )
    return spans


def work_done(spans: Spans, begin: float, end: float) -> float:
    """What a worker has computed between two times, in times at full speed."""
    slow, at = 0.0, begin
    for first, last in sorted(spans):
        slow += max(0.0, min(end, last) - max(at, first))
        at = max(at, min(end, last))
    return (end - begin) - slow * (1 - SPEED)


def assert_as_slow_as_it_should_be(plan: Plan, start: np.ndarray, end: np.ndarray, *, tolerance: float) -> None:
    spans, computes = under_way(plan, start, end), plan.ops.kind == OpKind.COMPUTE
    workers = plan.rank_role[plan.ops.rank] == Role.WORKER
    for op in np.flatnonzero(computes & workers).tolist():
        for iteration in range(len(start)):
            begin, finish = float(start[iteration, op]), float(end[iteration, op])
            done = work_done(spans.get(int(plan.ops.rank[op]), []), begin, finish)
            assert done == pytest.approx(plan.ops.duration_ns[op], abs=tolerance)


@quick
@given(job=jobs, choice=choices)
def test_an_interpreter_computes_at_the_speed_of_each_moment(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    plan = slowed(next(iter(compiled(job, *choice).values())))
    when = times(replay(plan, 3))
    table = np.array([[when[iteration, op] for op in range(len(plan.ops))] for iteration in range(3)])
    start = np.where(plan.ops.kind == OpKind.COMPUTE, table[:, :, 0], table[:, :, 1])
    # Ends are whole nanoseconds, rounded up, and so is each stretch.
    changes = 2 + 2 * int((plan.ops.kind == OpKind.SEND).sum() + (plan.ops.kind == OpKind.RECV).sum())
    assert_as_slow_as_it_should_be(plan, start, table[:, :, 2], tolerance=changes)


@quick
@given(job=jobs, choice=choices)
def test_the_second_engine_computes_at_the_speed_of_each_moment(
    job: Job, choice: tuple[str, Mapping[str, Any]]
) -> None:
    plan = slowed(next(iter(compiled(job, *choice).values())))
    if plan.ops.group.any():
        return
    found = estimate(plan, Fabric(max(2, plan.hosts), 8e9, classes=8), with_ops=True)
    assert found.op_start_s is not None
    assert found.op_end_s is not None
    whole = ~np.isnan(found.op_end_s).any(axis=1)
    start, end = found.op_start_s[whole] * 1e9, found.op_end_s[whole] * 1e9
    # What of a later iteration is under way already is not among these.
    if whole.all():
        assert_as_slow_as_it_should_be(plan, start, end, tolerance=1.0)


@quick
@given(job=jobs, choice=choices)
def test_at_full_speed_nothing_changes(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    plan = next(iter(compiled(job, *choice).values()))
    same = replace(plan, speed_while_communicating=1.0)
    assert same.digest() == plan.digest() != slowed(plan).digest()


def test_a_log_in_which_computation_is_slower_than_the_lower_speed_is_found() -> None:
    plan = slowed(next(iter(compiled(small_job(), "ring", {}).values())))
    log = replay(plan, 2)
    op = int(np.flatnonzero((plan.ops.kind == OpKind.COMPUTE) & (plan.ops.duration_ns > 0))[0])
    row = int(np.flatnonzero((log.op == op) & (log.iteration == 0))[0])
    ends = log.end_ns.copy()
    ends[row] += 10 * int(plan.ops.duration_ns[op])
    right, wrong = LoggedOps.of(plan, log), LoggedOps.of(plan, replace(log, end_ns=ends))
    assert right.end[0, op] == right.finish[0, op]
    assert wrong.end[0, op] > wrong.finish[0, op]


def small_job() -> Job:
    return job_of(profile_of([(LayerKind.OTHER, [4000]), (LayerKind.OTHER, [2000])]), Cluster(4))

"""Views of the op log over time, on a plan that is replayed without a network."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.workloads.builder import PlanBuilder
from reproduction.measuring import Spans, begin_ns, computed_spans, forward_wait_s, received_spans


def spans(*triples: tuple[int, int, int]) -> Spans:
    columns = np.array(triples, dtype=np.int64).T
    return Spans(columns[0], columns[1], columns[2])


def test_covered_time_counts_overlaps_once() -> None:
    some = spans((10, 30, 1), (20, 40, 1), (60, 70, 1))
    assert some.within_ns(0, 100) == 40
    assert some.within_ns(25, 65) == 20
    assert some.within_ns(41, 59) == 0


def small_plan() -> Plan:
    """A worker that computes for 2 s and pushes 100 bytes to a server, which answers with 100."""
    builder = PlanBuilder("small")
    worker, server = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    builder.tensor("t")
    chunk = builder.chunk(0, 100)
    begin, work = builder.compute(worker), builder.compute(worker, 2.0)
    push, pushed = builder.message(
        builder.queue(worker), server, 100, chunk=chunk, combine=Combine.ADD, traffic_class=0
    )
    pull, pulled = builder.message(
        builder.queue(server), worker, 100, chunk=chunk, combine=Combine.COPY, traffic_class=0
    )
    for op, after in ((work, begin), (push, work), (pull, pushed)):
        builder.depend(op, after)
    builder.iteration(worker, begin, pulled)
    return builder.build(2.0, 1)


def test_what_a_rank_did() -> None:
    plan = small_plan()
    ops = np.arange(len(plan.ops), dtype=np.int64)
    start = ops * 10
    log = OpLog(np.ones_like(ops), ops, start, start, start + 5)
    worker, server = 0, 1
    assert begin_ns(plan, log, worker, 1) == 0
    assert computed_spans(plan, log, worker, 1).amount.tolist() == [5]
    assert received_spans(plan, log, worker, 1).amount.tolist() == [100]
    assert received_spans(plan, log, worker, 1, Combine.ADD).amount.tolist() == []
    assert received_spans(plan, log, server, 1, Combine.ADD).amount.tolist() == [100]
    assert received_spans(plan, log, worker, 0).amount.sum() == pytest.approx(0)


def test_the_forward_pass_waits_for_parameters() -> None:
    """Begin at 0; computation from 10 to 15 and from 30 to 35 ns: of 10 ns of computation, 35 - 10 were waited for."""
    plan = small_plan()
    compute = 1
    iterations, ops = np.ones(3, dtype=np.int64), np.array([0, compute, compute])
    log = OpLog(iterations, ops, np.array([0, 10, 30]), np.array([0, 10, 30]), np.array([0, 15, 35]))
    assert forward_wait_s(plan, log, 0, 1, 10e-9) == pytest.approx(25e-9)
    assert forward_wait_s(plan, log, 0, 1, 5e-9) == pytest.approx(10e-9)

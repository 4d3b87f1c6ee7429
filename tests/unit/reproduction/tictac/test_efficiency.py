"""Scheduling efficiency, speedup bound, stragglers and their regression, on schedules small enough to work out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.agents.interpreter import Interpreter
from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault, InternalFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from reproduction.tictac.efficiency import r_squared, schedules, scheduling_efficiency, speedup_bound, straggler_effect
from tests.shared.examples import examples
from tests.shared.simulation import Simulation, all_ranks
from tests.shared.small_jobs import compiled, job_of, profile_of

MS = 1_000_000


def toy(workers: int = 1) -> tuple[Plan, list[list[int]]]:
    """Each worker receives two chunks of a server on one channel, and computes an op behind each; returns the ops of each worker."""
    builder = PlanBuilder("toy")
    ranks = [builder.rank(Role.WORKER, host) for host in range(workers)]
    server = builder.rank(Role.SERVER, workers)
    tensor = builder.tensor("weights")
    chunks = [builder.chunk(tensor, 8) for _ in range(2)]
    found = []
    for rank in ranks:
        queue = builder.queue(server)
        begin = builder.compute(rank)
        messages = [builder.message(queue, rank, 8, chunk=chunk, combine=Combine.COPY) for chunk in chunks]
        computes = [builder.compute(rank, 0.001) for _ in chunks]
        end = builder.compute(rank)
        builder.iteration(rank, begin, end)
        found.append([begin, *(op for pair in messages for op in pair), *computes, end])
    return builder.build(0.002, 1), found


def log_of(rows: list[tuple[int, int, float, float]]) -> OpLog:
    """Rows (iteration, op, start, end) in ms."""
    iteration, op = (np.array([row[column] for row in rows], np.int64) for column in (0, 1))
    start, end = (np.array([round(row[column] * MS) for row in rows], np.int64) for column in (2, 3))
    return OpLog(iteration, op, start, start, end)


def schedule(ops: list[int], at: list[tuple[float, float]], iteration: int = 0) -> list[tuple[int, int, float, float]]:
    return [(iteration, op, start, end) for op, (start, end) in zip(ops, at, strict=True)]


GOOD = [(0, 0), (0, 0.1), (0.2, 1), (0.1, 0.3), (1.3, 2), (1, 2), (2, 3), (3, 3)]
"""begin, SEND and RECV of both chunks, handed over at once, both ops, end: TicTac's Fig. 1(b)."""
BAD = [(0, 0), (0, 0.1), (0.2, 1), (0.1, 0.3), (1.3, 2), (2, 3), (3, 4), (4, 4)]


@pytest.mark.parametrize(("times", "makespan", "efficiency"), [(GOOD, 3, 0.5), (BAD, 4, 0.0)])
def test_figure_1(times: list[tuple[float, float]], makespan: float, efficiency: float) -> None:
    """The second transfer waits in the kernel behind the first: their channel is busy for 2 ms, U = 4, L = 2."""
    plan, (ops,) = toy()
    found = schedules(plan, log_of(schedule(ops, times)), 1)
    assert found.upper_s.item() == pytest.approx(0.004)
    assert found.lower_s.item() == pytest.approx(0.002)
    assert found.makespan_s.item() == pytest.approx(makespan * 1e-3)
    assert found.efficiency.item() == pytest.approx(efficiency)
    assert found.speedup.item() == pytest.approx(1.0)
    assert found.finish_s.item() == pytest.approx(makespan * 1e-3)


def test_waiting_for_others_is_no_fault_of_the_schedule() -> None:
    plan, (ops,) = toy()
    late = [(start + 5, end + 5) for start, end in GOOD]
    late[0], late[-1] = (0, 0), (20, 20)
    assert schedules(plan, log_of(schedule(ops, late)), 1).efficiency.item() == pytest.approx(0.5)


def test_definitions() -> None:
    upper, lower = np.array([4.0, 4.0, 3.0]), np.array([2.0, 2.0, 3.0])
    assert scheduling_efficiency(upper, lower, np.array([2.0, 4.0, 3.0])).tolist() == [1, 0, 1]
    assert speedup_bound(upper, lower).tolist() == [1, 1, 0]
    with pytest.raises(InternalFault, match="transfers nothing"):
        speedup_bound(upper, np.zeros(3))


def test_the_bottleneck_limits_what_scheduling_can_gain() -> None:
    """Section 3.2: S is small where one resource has nearly all the load, whichever it is."""
    transfer, compute = np.array([1.0, 5.0, 9.0]), np.array([9.0, 5.0, 1.0])
    gain = speedup_bound(transfer + compute, np.maximum(transfer, compute))
    assert gain[1] == gain.max() == 1
    assert gain[0] == gain[2] == pytest.approx(1 / 9)


def test_the_straggler_effect_is_the_longest_wait_for_the_slowest() -> None:
    plan, (fast, slow) = toy(2)
    quick, late = [*GOOD[:-1], (5, 5)], [*BAD[:-1], (5, 5)]
    again = [[(start + 5, end + 5) for start, end in times] for times in (quick, quick)]
    rows = schedule(fast, quick) + schedule(slow, late) + schedule(fast, again[0], 1) + schedule(slow, again[1], 1)
    assert straggler_effect(plan, log_of(rows), 2) == pytest.approx([1 / 5, 0])


def test_a_log_that_ends_early_is_refused() -> None:
    plan, (ops, _) = toy(2)
    with pytest.raises(InternalFault, match="ended early"):
        schedules(plan, log_of(schedule(ops, GOOD)), 1)


@settings(max_examples=examples(40))
@given(
    sizes=st.lists(st.lists(st.integers(1, 3000), max_size=3), min_size=1, max_size=5).filter(any),
    workers=st.integers(1, 3),
    servers=st.integers(1, 2),
    colocated=st.booleans(),
    order=st.sampled_from(["tic", "random"]),
    workload=st.sampled_from(["training", "inference"]),
    seed=st.integers(0, 99),
    late_us=st.sampled_from([0, 700]),
)
def test_efficiency_lies_between_0_and_1(
    sizes: list[list[int]],
    workers: int,
    servers: int,
    colocated: bool,
    order: str,
    workload: str,
    seed: int,
    late_us: int,
) -> None:
    """Whatever the plan, also where timers are acted on late."""
    profile = profile_of([(LayerKind.CONV, layer) for layer in sizes])
    job = job_of(profile, Cluster(workers, servers, colocated), seed=seed)
    (plan,) = compiled(job, "tictac", {"order": order, "workload": workload}).values()
    log = Simulation(plan, [Interpreter(plan, all_ranks(plan), 2)], late_ns=late_us * 1000).run()
    found = schedules(plan, log, 2)
    assert (found.lower_s <= found.makespan_s + 1e-9).all()
    assert (found.makespan_s <= found.upper_s + 1e-9).all()
    assert ((found.efficiency >= -1e-6) & (found.efficiency <= 1 + 1e-6)).all()
    assert (found.speedup >= 0).all()
    waits = straggler_effect(plan, log, 2)
    assert ((waits >= 0) & (waits <= 1)).all()


def test_r_squared_of_a_line_and_of_noise() -> None:
    efficiency = np.linspace(0.2, 1, 9)
    assert r_squared(efficiency, 3 - 2 * efficiency) == pytest.approx(1)
    assert r_squared(efficiency, (efficiency - 0.6) ** 2) == pytest.approx(0, abs=1e-12)
    hand = r_squared(np.array([0.0, 1, 2]), np.array([0.0, 1, 1]))
    assert hand == pytest.approx(0.75)


@pytest.mark.parametrize("times", [[1.0, 1.0, 1.0], [1.0, 2.0]])
def test_r_squared_needs_something_to_explain(times: list[float]) -> None:
    with pytest.raises(InputFault, match="3 or more"):
        r_squared(np.arange(len(times), dtype=np.float64), np.array(times))


def test_a_channel_is_one_resource_in_both_directions() -> None:
    """Pull, compute, push in a row: the best that any order could do is pull and push alone."""
    builder = PlanBuilder("both ways")
    worker, server = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    chunk = builder.chunk(builder.tensor("weights"), 8)
    op = builder.compute(worker, 0.001)
    pull, pulled = builder.message(builder.queue(server), worker, 8, chunk=chunk, combine=Combine.COPY)
    push, pushed = builder.message(builder.queue(worker), server, 8, chunk=chunk, combine=Combine.ADD)
    builder.iteration(worker, op, op)
    rows: list[tuple[int, int, float, float]] = [(0, pull, 0, 1), (0, pulled, 1, 2), (0, op, 2, 3)]
    found = schedules(builder.build(0.001, 1), log_of([*rows, (0, push, 3, 4), (0, pushed, 3.5, 5)]), 1)
    assert found.upper_s.item() == pytest.approx(0.005)
    assert found.lower_s.item() == pytest.approx(0.004)
    assert found.efficiency.item() == pytest.approx(0)


def test_transfers_between_workers_keep_both_busy() -> None:
    """A worker's push to another worker counts at both ends, each on the same channel."""
    builder = PlanBuilder("pair")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    chunk = builder.chunk(builder.tensor("weights"), 8)
    ops = [builder.compute(rank, 0.002) for rank in ranks]
    send, recv = builder.message(builder.queue(ranks[0]), ranks[1], 8, chunk=chunk, combine=Combine.ADD)
    for rank, op in zip(ranks, ops, strict=True):
        builder.iteration(rank, op, op)
    plan = replace(builder.build(0.002, 1), name="pair")
    log = log_of([(0, ops[0], 0, 2), (0, ops[1], 0, 2), (0, send, 2, 2.5), (0, recv, 2.5, 5)])
    found = schedules(plan, log, 1)
    assert found.upper_s[0] == pytest.approx([0.005, 0.005])
    assert found.lower_s[0] == pytest.approx([0.003, 0.003])
    assert found.efficiency[0] == pytest.approx([0, 0])

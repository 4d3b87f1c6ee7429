"""Iteration times, statistics and closed-form bounds on plans small enough to work out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradwire.analysis.bounds import bounds, critical_path_s, once, transfers
from gradwire.analysis.iterations import iteration_times_s, worker_times_s
from gradwire.analysis.statistics import summarise
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.faults import InternalFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.workloads.builder import PlanBuilder
from tests.shared.parts import in_order

RATE_BPS = 1e9


def ping(size_bytes: int = 1_000_000, same_host: bool = False, compute_s: float = 0.010) -> Plan:
    """A worker computes, sends to a server, which adds and answers; the answer is needed by the next iteration's compute."""
    builder = PlanBuilder("ping")
    worker, server = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 0 if same_host else 1)
    up, down = builder.queue(worker), builder.queue(server)
    compute = builder.compute(worker, compute_s)
    push, pushed = builder.message(up, server, size_bytes, traffic_class=0)
    add = builder.reduce(server, size_bytes, 1e9)
    answer, answered = builder.message(down, worker, size_bytes, traffic_class=1)
    builder.depend(push, compute)
    builder.depend(add, pushed)
    builder.depend(answer, add)
    builder.depend(compute, answered, lag=1)
    return finished(builder, [(worker, compute, compute)], compute_s)


def finished(builder: PlanBuilder, workers: list[tuple[int, int, int]], compute_s: float) -> Plan:
    for worker, begin, end in workers:
        builder.iteration(worker, begin, end)
    return builder.build(compute_s=compute_s, samples=32)


def two_workers() -> Plan:
    builder = PlanBuilder("two")
    ops = []
    for host in range(2):
        rank = builder.rank(Role.WORKER, host)
        first, last = builder.compute(rank, 0.001), builder.compute(rank, 0.002)
        builder.depend(last, first)
        ops.append((rank, first, last))
    return finished(builder, ops, 0.003)


def log_of(rows: list[tuple[int, int, int, int]]) -> OpLog:
    iteration, op, start, end = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return OpLog(iteration, op, start, start, end)


TWO_WORKER_ROWS = [
    (0, 0, 5, 10),
    (0, 1, 10, 30),
    (0, 2, 7, 20),
    (0, 3, 20, 50),
    (1, 0, 50, 60),
    (1, 1, 60, 95),
    (1, 2, 50, 60),
    (1, 3, 60, 90),
]


def test_iteration_ends_with_the_last_worker_and_the_first_counts_from_the_first_start() -> None:
    times = iteration_times_s(two_workers(), log_of(TWO_WORKER_ROWS), 2)
    assert times * 1e9 == pytest.approx([50 - 5, 95 - 50])


def test_order_of_the_rows_does_not_matter() -> None:
    assert iteration_times_s(two_workers(), log_of(TWO_WORKER_ROWS[::-1]), 2) * 1e9 == pytest.approx([45, 45])


def test_each_worker_has_times_of_its_own() -> None:
    times = worker_times_s(two_workers(), log_of(TWO_WORKER_ROWS), 2)
    assert times * 1e9 == pytest.approx(np.array([[25, 43], [65, 40]]))


def test_a_lost_end_is_named() -> None:
    with pytest.raises(InternalFault, match=in_order("op 3", "worker 1", "iteration 1")):
        iteration_times_s(two_workers(), log_of(TWO_WORKER_ROWS[:-1]), 2)


def test_interval_is_students_t() -> None:
    summary = summarise([1.0, 2.0, 3.0])
    assert (summary.mean, summary.std) == (2.0, 1.0)
    assert summary.ci == pytest.approx(4.302653 / math.sqrt(3))
    assert summary.low == pytest.approx(2 - 4.302653 / math.sqrt(3))


def test_one_value_has_no_spread_and_none_has_no_mean() -> None:
    one = summarise([3.0])
    assert (one.mean, one.std, one.ci, one.high) == (3.0, None, None, None)
    assert math.isnan(summarise([]).mean)


def test_bounds_of_a_round_trip() -> None:
    fabric = Fabric(hosts=2, rate_bps=RATE_BPS)
    wire_s = 1_000_000 * 8 / RATE_BPS * 1538 / 1448
    found = bounds(ping(), fabric)
    assert found.compute_s == pytest.approx(0.010)
    assert found.aggregation_s == pytest.approx(0.001)
    assert found.bandwidth_s == pytest.approx(wire_s)
    assert found.critical_path_s == pytest.approx(0.010 + 2 * wire_s + 0.001)
    assert (found.lower_bound_s, found.kind) == (found.critical_path_s, "critical path")


def test_a_message_on_one_host_takes_no_time() -> None:
    found = bounds(ping(same_host=True), Fabric(hosts=1, rate_bps=RATE_BPS))
    assert found.bandwidth_s == 0
    assert found.critical_path_s == pytest.approx(0.011)


def test_critical_path_of_alternating_iterations_is_their_mean() -> None:
    # What the worker sends at its begin arrives 10 s later and holds up the next iteration but one: spans alternate, 9 s and 1 s.
    builder = PlanBuilder("alternating")
    worker, server = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 0)
    begin = builder.compute(worker, 0.0)
    compute = builder.compute(worker, 1.0)
    send, received = builder.message(builder.queue(worker), server, 1, latency_s=10.0)
    answer, answered = builder.message(builder.queue(server), worker, 1)
    end = builder.compute(worker, 0.0)
    builder.depend(begin, end, lag=1)
    builder.depend(compute, begin)
    builder.depend(send, begin)
    builder.depend(answer, received)
    builder.depend(end, compute)
    builder.depend(end, answered, lag=1)
    plan = finished(builder, [(worker, begin, end)], 1.0)
    assert critical_path_s(plan, Fabric(hosts=1, rate_bps=RATE_BPS)) == pytest.approx(5.0)


def test_busiest_direction_is_what_bounds() -> None:
    builder = PlanBuilder("incast")
    workers = [builder.rank(Role.WORKER, host) for host in range(3)]
    server = builder.rank(Role.SERVER, 3)
    ops = []
    for worker in workers:
        compute = builder.compute(worker, 0.001)
        send, _ = builder.message(builder.queue(worker), server, 1448, traffic_class=0)
        builder.depend(send, compute)
        ops.append((worker, compute, compute))
    plan = finished(builder, ops, 0.001)
    assert bounds(plan, Fabric(hosts=4, rate_bps=RATE_BPS)).bandwidth_s == pytest.approx(3 * 1538 * 8 / RATE_BPS)
    leaf_spine = Fabric(4, RATE_BPS, Topology.LEAF_SPINE, leaves=2, spines=1, oversubscription=4.0)
    # Hosts 0 and 1 are on the other leaf; its uplink has half a host's rate.
    assert bounds(plan, leaf_spine).bandwidth_s == pytest.approx(2 * 1538 * 8 / (RATE_BPS / 2))
    assert bounds(plan, leaf_spine).critical_path_s <= bounds(plan, leaf_spine).lower_bound_s


def test_multicast_leaves_once_and_arrives_everywhere() -> None:
    builder = PlanBuilder("multicast")
    ranks = [builder.rank(Role.WORKER, host) for host in range(3)]
    plan = finished(builder, [(rank, op, op) for rank in ranks for op in [builder.compute(rank, 0.001)]], 0.001)
    ops = plan.ops
    send = type(ops)(
        **{
            name: np.append(getattr(ops, name), np.asarray(value, getattr(ops, name).dtype))
            for name, value in {
                "kind": 2,
                "rank": 0,
                "duration_ns": 0,
                "size_bytes": 1456,
                "lane": 0,
                "chunk": -1,
                "peer": 0,
                "group": 1,
                "message": 3,
                "traffic_class": 0,
                "order": 0,
                "combine": 0,
                "layer": -1,
            }.items()
        }
    )
    plan = type(plan)(
        **{
            **vars(plan),
            "ops": send,
            "dep_start": np.append(plan.dep_start, plan.dep_start[-1]),
            "group_start": np.array([0, 3]),
            "group_rank": np.array([0, 1, 2], dtype=np.int32),
        }
    )
    moved = transfers(plan)
    assert (moved.dst.tolist(), moved.first.tolist()) == ([1, 2], [True, False])
    assert bounds(plan, Fabric(3, RATE_BPS)).bandwidth_s == pytest.approx(1538 * 8 / RATE_BPS)


def test_a_copy_is_counted_once_where_ways_part() -> None:
    wanted = np.array([False, True, True, True, True])
    message, leaf = np.array([7, 7, 7, 7, 8]), np.array([1, 1, 1, 2, 1])
    assert once(wanted, message).tolist() == [False, True, False, False, True]
    assert once(wanted, message, leaf).tolist() == [False, True, False, True, True]


def test_a_cycle_is_refused() -> None:
    builder = PlanBuilder("cycle")
    worker = builder.rank(Role.WORKER, 0)
    first, second = builder.compute(worker, 0.001), builder.compute(worker, 0.001)
    builder.depend(first, second)
    builder.depend(second, first)
    with pytest.raises(InternalFault, match=in_order("2 of", "2 ops")):
        critical_path_s(finished(builder, [(worker, first, second)], 0.002), Fabric(1, RATE_BPS))

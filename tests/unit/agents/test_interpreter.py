"""Whole plans replayed by interpreters against a simulated network: no sockets, no clock."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from gradwire.agents.interpreter import Interpreter, Outgoing
from gradwire.agents.op_state import OpLogger
from gradwire.datatypes.plan import Combine, Contributions, Discipline, OpKind, Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.faults import InternalFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.simulation import BYTE_NS, Simulation, all_ranks, replay, times
from tests.shared.small_jobs import choices, compiled, dependencies, job_of, jobs, profile_of

quick = settings(max_examples=examples(25))


@quick
@given(job=jobs, choice=choices)
def test_replays_every_plan_in_the_order_of_its_dependencies(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    plan = next(iter(compiled(job, *choice).values()))
    log = replay(plan, 3)
    when = times(log)
    assert len(when) == len(log.op) == 3 * len(plan.ops)
    for op, on, lag in dependencies(plan):
        for iteration in range(lag, 3):
            began = when[iteration, op][2 if plan.ops.kind[op] == OpKind.RECV else 1]
            assert when[iteration - lag, on][2] <= began
    for op in np.flatnonzero(plan.ops.kind == OpKind.RECV).tolist():
        for iteration in range(3):
            assert when[iteration, int(plan.ops.message[op])][1] <= when[iteration, op][2]
    assert_streams_are_serial(plan, log)


def assert_streams_are_serial(plan: Plan, log: OpLog) -> None:
    streams: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for _, op, start, end in zip(*(c.tolist() for c in (log.iteration, log.op, log.start_ns, log.end_ns)), strict=True):
        if plan.ops.kind[op] in (OpKind.COMPUTE, OpKind.REDUCE):
            streams.setdefault((int(plan.ops.rank[op]), int(plan.ops.lane[op])), []).append((start, end))
    for spans in streams.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(spans)):
            assert end <= start


@quick
@given(job=jobs, choice=choices)
def test_agents_that_share_the_hosts_do_the_same_as_one(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    plan = next(iter(compiled(job, *choice).values()))
    hosts = plan.rank_host.tolist()
    shares = [{rank for rank, host in enumerate(hosts) if host % 2 == part} for part in range(2)]
    together = Simulation(plan, [Interpreter(plan, all_ranks(plan), 2)], apart_ns=7).run()
    apart = Simulation(plan, [Interpreter(plan, share, 2) for share in shares if share], apart_ns=7).run()
    assert times(apart) == times(together)


def test_an_iteration_takes_what_one_counts_by_hand() -> None:
    """One worker, one server on another host, one layer: request, pull, forward 1 ms, backward 2 ms, push, sum,
    token."""
    profile = profile_of([(LayerKind.CONV, [250])])
    costs = Costs(aggregation_bytes_per_s=1e6, message_latency_s=5e-6)
    plan = compiled(job_of(profile, Cluster(1, 1, colocated=False), costs=costs), "vanilla", {})["vanilla"]
    when = times(replay(plan))
    control_ns, data_ns = 2 * 64 * BYTE_NS + 1, 5_000 + 2 * 1000 * BYTE_NS + 1
    expected = control_ns + data_ns + 1_000_000 + 2_000_000 + data_ns + 1_000_000 + control_ns
    assert when[0, int(plan.end_op[0])][2] - when[0, int(plan.begin_op[0])][1] == expected
    assert when[1, int(plan.end_op[0])][2] == 2 * expected


def chain(durations_ns: list[int]) -> Plan:
    """A lone rank that computes one op after the other."""
    builder = PlanBuilder("chain")
    rank = builder.rank(Role.WORKER, 0)
    ops = [builder.compute(rank, duration * 1e-9) for duration in durations_ns]
    for before, after in itertools.pairwise(ops):
        builder.depend(after, before)
    builder.depend(ops[0], ops[-1], lag=1)
    builder.iteration(rank, ops[0], ops[-1])
    return builder.build(0.0, 1)


def test_lateness_is_measured_and_does_not_add_up() -> None:
    plan = chain([1000] * 50)
    interpreter = Interpreter(plan, {0}, 4)
    when = times(Simulation(plan, [interpreter], late_ns=300).run())
    for number in range(200):
        nominal, start, end = when[divmod(number, 50)]
        assert nominal == number * 1000
        assert end == nominal + 1300
        assert start == nominal + (300 if number else 0)
    assert interpreter.lateness_ns == [300] * 200


def test_a_wake_up_that_is_very_late_catches_up_at_once() -> None:
    interpreter = Interpreter(chain([1000] * 10), {0}, 1)
    interpreter.start(0)
    interpreter.advance(5500)
    assert interpreter.next_timer_ns() == 6000
    interpreter.advance(10_000)
    assert interpreter.finished
    log = interpreter.log.freeze()
    assert log.nominal_start_ns.tolist() == list(range(0, 10_000, 1000))
    assert (log.start_ns <= log.end_ns).all()


def two_hosts(discipline: Discipline, ready_ns: list[int], orders: list[int], *, latency_s: float = 0.0) -> Plan:
    """A rank with one queue of 100-byte messages to another host, each ready at its time."""
    builder = PlanBuilder("queue")
    source, sink = builder.rank(Role.SERVER, 0), builder.rank(Role.SERVER, 1)
    queue = builder.queue(source, discipline)
    ends = []
    for number, (at_ns, order) in enumerate(zip(ready_ns, orders, strict=True)):
        ready = builder.compute(source, at_ns * 1e-9, lane=number + 10)
        send, _ = builder.message(queue, sink, 100, order=order, latency_s=latency_s)
        builder.depend(send, ready)
        ends.append((ready, send))
    for ready, _ in ends:
        for _, send in ends:
            builder.depend(ready, send, lag=1)
    return builder.build(0.0, 0)


def sent(plan: Plan, iterations: int = 1) -> list[int]:
    """The `order` of every message, in the order of sending."""
    simulation = Simulation(plan, [Interpreter(plan, all_ranks(plan), iterations)])
    simulation.run()
    return [int(plan.ops.order[op]) for _, op in simulation.sent_order]


def test_fifo_sends_as_things_become_ready_and_by_order_at_the_same_time() -> None:
    assert sent(two_hosts(Discipline.FIFO, [30, 10, 20], [0, 1, 2])) == [1, 2, 0]
    assert sent(two_hosts(Discipline.FIFO, [10, 10, 10], [7, 5, 6])) == [5, 6, 7]
    assert sent(two_hosts(Discipline.FIFO, [0, 0, 0], [7, 5, 6]), 2) == [5, 6, 7, 5, 6, 7]


def test_priority_sends_the_lowest_order_that_is_ready() -> None:
    """The first goes because the queue is idle; of those that wait behind it (for 1000 ns), the lowest."""
    assert sent(two_hosts(Discipline.PRIORITY, [0, 10, 20, 30], [9, 3, 2, 1])) == [9, 1, 2, 3]
    assert sent(two_hosts(Discipline.PRIORITY, [0, 5000, 20, 30], [9, 1, 2, 3])) == [9, 2, 3, 1]


def test_counter_waits_for_its_turn() -> None:
    assert sent(two_hosts(Discipline.COUNTER, [0, 10, 50_000], [2, 1, 0]), 2) == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("discipline", list(Discipline))
def test_a_queue_serves_one_message_at_a_time(discipline: Discipline) -> None:
    plan = two_hosts(discipline, [0, 0, 0], [0, 1, 2], latency_s=2e-7)
    log = replay(plan)
    sends = plan.ops.kind[log.op] == OpKind.SEND
    spans = sorted(zip(log.start_ns[sends].tolist(), log.end_ns[sends].tolist(), strict=True))
    assert spans == [(200 + 1200 * i, 1200 * (i + 1)) for i in range(6)]


def test_a_stream_takes_ops_by_order_at_the_same_time() -> None:
    builder = PlanBuilder("stream")
    rank = builder.rank(Role.WORKER, 0)
    begin = builder.compute(rank)
    ops = {order: builder.compute(rank, 1e-6, order=order) for order in (3, 1, 2)}
    for op in ops.values():
        builder.depend(op, begin)
        builder.depend(begin, op, lag=1)
    builder.iteration(rank, begin, ops[3])
    when = times(replay(builder.build(0.0, 1), 1))
    assert [when[0, ops[order]][0] for order in (1, 2, 3)] == [0, 1000, 2000]


def test_messages_within_a_host_take_no_network() -> None:
    profile = profile_of([(LayerKind.CONV, [250]), (LayerKind.FC, [100])])
    plan = compiled(job_of(profile, Cluster(1, 1)), "vanilla", {})["vanilla"]
    simulation = Simulation(plan, [Interpreter(plan, all_ranks(plan), 3)])
    when = times(simulation.run())
    assert simulation.sent_order == []
    assert when[2, int(plan.end_op[0])][2] == 3 * 9_000_000


def exchange() -> Plan:
    """Three workers on hosts of their own, one server behind them."""
    profile = profile_of([(LayerKind.CONV, [25]), (LayerKind.FC, [10])])
    return compiled(job_of(profile, Cluster(3, 1, colocated=False)), "vanilla", {})["vanilla"]


def sends_to(plan: Plan, combine: Combine) -> set[int]:
    return set(plan.ops.message[(plan.ops.kind == OpKind.RECV) & (plan.ops.combine == combine)].tolist())


@pytest.mark.parametrize(
    ("combine", "carried", "complaint"),
    [
        (Combine.ADD, Contributions(0, 0), "contributes nothing"),
        (Combine.ADD, Contributions(0, 0b111), "count twice"),
        (Combine.ADD, Contributions(-1, 0b1), "count twice or too late"),
        (Combine.COPY, Contributions(0, 0b011), "not complete"),
        (Combine.COPY, Contributions(-1, 0b111), "but holds that of iteration -1"),
    ],
)
def test_wrong_contributions_are_noticed(combine: Combine, carried: Contributions, complaint: str) -> None:
    plan = exchange()
    tampered = sends_to(plan, combine)
    with pytest.raises(InternalFault, match=complaint):
        replay(plan, 3, tamper=lambda message: carried if message.op in tampered else message.contributions)


def test_contributions_on_the_wire_are_what_the_workers_have() -> None:
    plan = exchange()
    seen: Counter[tuple[int, int]] = Counter()

    def watch(message: Outgoing) -> Contributions:
        if message.op in sends_to(plan, Combine.ADD):
            seen[message.contributions.iteration, message.contributions.workers] += 1
        return message.contributions

    replay(plan, 2, tamper=watch)
    assert seen == {(iteration, 1 << worker): 2 for iteration in range(2) for worker in range(3)}


def test_is_not_finished_before_the_last_message_has_arrived() -> None:
    plan = two_hosts(Discipline.FIFO, [0], [0])
    interpreter = Interpreter(plan, {0, 1}, 1)
    interpreter.start(0)
    (message,) = interpreter.take_outbox()
    assert interpreter.take_outbox() == []
    interpreter.sent(0, message.op, 0, 1000)
    assert not interpreter.finished
    interpreter.arrived(message.op, 1, 0, message.contributions, 500, 2000)
    assert interpreter.finished
    assert times(interpreter.log.freeze())[0, message.op + 1] == (500, 500, 2000)


def test_a_log_holds_the_rows_that_were_added_and_no_more_than_it_has_room_for() -> None:
    logger = OpLogger(2)
    assert len(logger.freeze().op) == 0
    logger.add(0, 7, 1, 2, 3)
    logger.add(1, 8, 4, 5, 6)
    log = logger.freeze()
    assert (log.op.tolist(), log.iteration.tolist(), log.end_ns.tolist()) == ([7, 8], [0, 1], [3, 6])
    with pytest.raises(IndexError):
        logger.add(2, 9, 7, 8, 9)
    assert len(OpLogger(0).freeze().op) == 0


def test_a_latency_begins_when_the_last_packet_has_left_and_a_message_without_one_goes_at_once() -> None:
    for latency_ns, sent_at_ns in ((0, 70), (100, 70 + 30 + 100)):
        builder = PlanBuilder("two messages")
        ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
        queue = builder.queue(ranks[0])
        ends = [builder.compute(rank) for rank in ranks]
        for order in range(2):
            send, received = builder.message(queue, ranks[1], 1000, order=order, latency_s=latency_ns / 1e9)
            builder.depend(ends[0], send)
            builder.depend(ends[1], received)
        for rank, end in zip(ranks, ends, strict=True):
            builder.iteration(rank, end, end)
        interpreter = Interpreter(builder.build(compute_s=1e-3, samples=1), {0}, 1)
        interpreter.start(0)
        interpreter.advance(latency_ns)
        (first,) = interpreter.take_outbox()
        # It leaves the port 70 ns after it was handed over, and is on the line for 30 ns more.
        interpreter.sent(0, first.op, latency_ns, latency_ns + 70, 30)
        due_ns = interpreter.next_timer_ns()
        assert (due_ns is None) == (not latency_ns)
        if due_ns is not None:
            assert due_ns == latency_ns + sent_at_ns
            interpreter.advance(due_ns)
        (second,) = interpreter.take_outbox()
        interpreter.sent(0, second.op, latency_ns + sent_at_ns, latency_ns + sent_at_ns + 70)
        assert interpreter.log.freeze().end_ns.tolist()[:2] == [latency_ns + 100, latency_ns + sent_at_ns + 70]

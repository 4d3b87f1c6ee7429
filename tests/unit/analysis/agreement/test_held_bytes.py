"""What connections held, from logs that say it."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.analysis.agreement.held_bytes import HeldBytes, held_bytes_of
from gradwire.analysis.fluid.estimate import Buffered
from gradwire.analysis.logged import LoggedOps
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import OpLog
from gradwire.workloads.patterns import Transfer, compile_transfers, incast
from tests.unit.analysis.agreement.made_up_runs import halving_doubling, ideal_run, logged

SIZE_BYTES = 1_000_000


def log_of(plan: Plan, ends_ns: dict[int, int], starts_ns: dict[int, int] | None = None) -> LoggedOps:
    """One iteration, in which ops start and end at these times and all others at 0."""
    count = len(plan.ops)
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for op, at_ns in ends_ns.items():
        end[op] = at_ns
    for op, at_ns in (starts_ns or {}).items():
        start[op] = at_ns
    return LoggedOps.of(plan, OpLog(np.zeros(count, np.int64), np.arange(count), start, start, end))


def messages_of(plan: Plan) -> list[tuple[int, int]]:
    """SEND and RECV of each message with data."""
    ops = plan.ops
    recvs = np.flatnonzero((ops.kind == OpKind.RECV) & (ops.traffic_class >= 0)).tolist()
    return sorted((int(ops.message[recv]), recv) for recv in recvs)


def test_what_has_not_arrived_when_a_send_ends_is_held() -> None:
    plan = compile_transfers("one", 2, [Transfer(0, 1, SIZE_BYTES)])
    ((send, recv),) = messages_of(plan)
    # The message arrives evenly from 100 to 200 ns, and its SEND ends in between.
    for ended_ns, share in ((100, 1.0), (130, 0.7), (200, 0.0), (300, 0.0)):
        found = held_bytes_of(log_of(plan, {send: ended_ns, recv: 200}, {recv: 100}), 0)
        assert found.most_bytes == pytest.approx(share * SIZE_BYTES, abs=1)


def test_messages_of_one_connection_add_up() -> None:
    plan = compile_transfers("two", 2, [Transfer(0, 1, 2 * SIZE_BYTES, messages=2)])
    (first, first_recv), (second, second_recv) = messages_of(plan)
    log = log_of(
        plan,
        {first: 10, second: 20, first_recv: 100, second_recv: 200},
        {second: 10, first_recv: 20, second_recv: 100},
    )
    assert held_bytes_of(log, 0) == HeldBytes(SIZE_BYTES, 2 * SIZE_BYTES)


def test_what_arrives_later_on_a_connection_proves_what_was_sent_before_it() -> None:
    """The first RECV waited for something else and was logged late."""
    plan = compile_transfers("two", 2, [Transfer(0, 1, 2 * SIZE_BYTES, messages=2)])
    (first, first_recv), (second, second_recv) = messages_of(plan)
    log = log_of(
        plan,
        {first: 10, second: 60, first_recv: 10**6, second_recv: 60},
        {second: 10, first_recv: 10, second_recv: 50},
    )
    assert held_bytes_of(log, 0).most_bytes == SIZE_BYTES


def test_warm_up_does_not_count_and_a_plan_without_messages_holds_nothing() -> None:
    plan = compile_transfers("one", 2, [Transfer(0, 1, SIZE_BYTES)])
    ((send, recv),) = messages_of(plan)
    assert held_bytes_of(log_of(plan, {send: 100, recv: 200}, {recv: 100}), 1) == HeldBytes()
    assert held_bytes_of(log_of(halving_doubling(1), {}), 0) == HeldBytes()


def test_a_run_that_buffers_holds_what_its_sockets_may_and_one_that_does_not_holds_nothing() -> None:
    plan = compile_transfers("incast", 4, [*incast(4, 4 * SIZE_BYTES), Transfer(0, 1, SIZE_BYTES)])
    for send_ends, most_bytes in ((Buffered(300_000), 300_000), (None, 0)):
        run = ideal_run(plan, iterations=3)
        effects = {"send_ends": send_ends} if send_ends else {}
        found = held_bytes_of(LoggedOps.of(plan, logged(run, **effects)), 1)
        assert found.most_bytes == pytest.approx(most_bytes, rel=0.05, abs=1000)

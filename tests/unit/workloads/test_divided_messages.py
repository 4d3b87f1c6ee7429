"""Messages that are divided over several connections: the same bytes, in parts as NCCL cuts them, for which the rest of the plan waits."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.analysis.plan_names import PlanNames
from gradwire.datatypes.message_parts import carried_chunks, first_parts
from gradwire.datatypes.plan import Combine, Discipline, OpKind, Plan, Role
from gradwire.faults import InputFault
from gradwire.network.wire.flows import connection_of_send, connections_of
from gradwire.workloads import divided_messages
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.divided_messages import divided
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.parts import in_order

LEAST_BYTES = 1000


def sizes_of(plan: Plan) -> dict[int, list[int]]:
    """Bytes of the parts of each message of data across the network, by the SEND of its first part."""
    first = first_parts(plan)
    sends = np.flatnonzero(plan.is_remote() & (plan.ops.traffic_class >= 0))
    found: dict[int, list[int]] = {int(send): [] for send in sends if first[send] < 0}
    for send in sends:
        found[int(send if first[send] < 0 else first[send])].append(int(plan.ops.size_bytes[send]))
    return found


def transfers(*sizes: int, messages: int = 1) -> Plan:
    """Each size from the first host to the second, one after the other."""
    return compile_transfers("some", 2, [Transfer(0, 1, size, messages=messages) for size in sizes])


@pytest.mark.parametrize(
    ("size_bytes", "parts"),
    [
        (999, [999]),
        (1000, [1000]),
        (1001, [1000, 1]),
        (4000, [1000] * 4),
        (9500, [2375] * 4),
        (9501, [2376] * 3 + [2373]),
    ],
)
def test_parts_are_even_but_for_the_last_one(size_bytes: int, parts: list[int]) -> None:
    plan = divided(transfers(size_bytes), 4, LEAST_BYTES)
    check(plan)
    assert list(sizes_of(plan).values()) == [parts]


def test_each_part_has_its_connection_and_what_waited_waits_for_all() -> None:
    before = transfers(8000)
    plan = divided(before, 4, LEAST_BYTES)
    numbers = connection_of_send(plan, connections_of(plan))
    (first,) = sizes_of(plan)
    parts = [first, *np.flatnonzero(first_parts(plan) == first).tolist()]
    assert len({numbers[send] for send in parts}) == 4
    waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start))
    followers = {int(op) for op in waiting[plan.dep_op == first]}
    assert followers == set(
        np.repeat(np.arange(len(before.ops)), np.diff(before.dep_start))[before.dep_op == first].tolist()
    )
    for part in parts:
        assert {int(op) for op in waiting[plan.dep_op == part]} == followers
    (recv,) = np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.message == first))
    arrived = set(plan.dep_op[waiting == recv].tolist())
    assert {int(plan.ops.message[op]) for op in arrived} == set(parts[1:])


def test_short_messages_take_connections_in_turn() -> None:
    plan = divided(transfers(6000, messages=6), 4, LEAST_BYTES)
    check(plan)
    sends = np.flatnonzero(plan.is_remote() & (plan.ops.traffic_class >= 0))
    numbers = connection_of_send(plan, connections_of(plan))
    first = numbers[int(sends[0])]
    assert [numbers[int(send)] - first for send in sends] == [0, 1, 2, 3, 0, 1]


def test_a_send_that_waits_for_another_one_waits_for_all_of_its_parts() -> None:
    builder = PlanBuilder("chain")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    begin = [builder.compute(rank) for rank in ranks]
    end = [builder.compute(rank) for rank in ranks]
    queue, after = builder.queue(0), begin[0]
    for number in range(2):
        send, recv = builder.message(queue, 1, 2500, traffic_class=0, order=number)
        builder.depend(send, after)
        builder.depend(end[1], recv)
        after = send
    builder.depend(end[0], after)
    builder.depend(end[1], begin[1])
    for rank in ranks:
        builder.depend(begin[rank], end[rank], lag=1)
        builder.iteration(rank, begin[rank], end[rank])
    plan = divided(builder.build(compute_s=0.0, samples=0), 3, LEAST_BYTES)
    check(plan)
    one, other = sizes_of(plan)
    parts_of_one = {one, *np.flatnonzero(first_parts(plan) == one).tolist()}
    for send in (other, *np.flatnonzero(first_parts(plan) == other).tolist()):
        assert set(plan.dep_op[plan.dep_start[send] : plan.dep_start[send + 1]].tolist()) == parts_of_one


def allreduced(discipline: Discipline) -> Plan:
    """Two workers that exchange two chunks, of 3,500 bytes and of 500."""
    builder = PlanBuilder("exchange")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    chunks = [builder.chunk(builder.tensor(f"layer{number}/weights"), size) for number, size in enumerate((3500, 500))]
    begin = [builder.compute(rank) for rank in ranks]
    end = [builder.compute(rank) for rank in ranks]
    sent: dict[tuple[int, int], int] = {}
    received: dict[tuple[int, int], int] = {}
    for rank in ranks:
        queue = builder.queue(rank, discipline)
        for number, chunk in enumerate(chunks):
            builder.produces(begin[rank], chunk)
            builder.consumes(begin[rank], chunk)
            send, recv = builder.message(
                queue, 1 - rank, (3500, 500)[number], chunk=chunk, combine=Combine.ADD, traffic_class=0, order=number
            )
            sent[rank, number], received[1 - rank, number] = send, recv
            builder.depend(send, begin[rank])
            builder.depend(end[rank], send)
            builder.depend(end[1 - rank], recv)
        builder.depend(end[rank], begin[rank])
        builder.depend(begin[rank], end[rank], lag=1)
        builder.iteration(rank, begin[rank], end[rank])
    for place, recv in received.items():
        builder.depend(recv, sent[place])  # what is sent is the rank's own contribution alone
    return builder.build(compute_s=0.0, samples=0)


@pytest.mark.parametrize("discipline", Discipline)
def test_chunks_are_as_before(discipline: Discipline) -> None:
    plan = divided(allreduced(discipline), 3, LEAST_BYTES)
    check(plan)
    assert list(sizes_of(plan).values()) == [[1167, 1167, 1166], [500], [1167, 1167, 1166], [500]]
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND)
    tensors = [PlanNames(plan).tensor(int(send)) for send in sends]
    assert tensors.count("layer0/weights") == 6
    assert (carried_chunks(plan)[plan.ops.kind == OpKind.RECV] >= 0).all()


def test_queues_whose_order_is_a_promise_keep_first_parts_together() -> None:
    plan = divided(allreduced(Discipline.COUNTER), 3, LEAST_BYTES)
    first = [send for send in sizes_of(plan) if plan.ops.rank[send] == 0]
    assert len({int(plan.ops.lane[send]) for send in first}) == 1


def test_a_part_that_is_sent_twice_is_found() -> None:
    """A token that is no part of a message is still one too many."""
    builder = PlanBuilder("twice")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    begin, end = [builder.compute(rank) for rank in ranks], [builder.compute(rank) for rank in ranks]
    queue = builder.queue(0)
    for _ in range(2):
        send, recv = builder.message(queue, 1, 500, traffic_class=0)
        builder.depend(send, begin[0])
        builder.depend(end[1], recv)
    for rank in ranks:
        builder.depend(end[rank], begin[rank])
        builder.depend(begin[rank], end[rank], lag=1)
        builder.iteration(rank, begin[rank], end[rank])
    with pytest.raises(PlanError, match="sent twice"):
        check(builder.build(compute_s=0.0, samples=0))


def test_what_is_not_divided_stays_the_same() -> None:
    plan = transfers(8000)
    assert divided(plan, 1, LEAST_BYTES) is plan
    short = transfers(1000)
    assert (divided(short, 4, LEAST_BYTES).ops.size_bytes == short.ops.size_bytes).all()


def test_a_plan_does_not_become_larger_than_plans_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided_messages, "MOST_OPS", 12)
    with pytest.raises(InputFault, match=in_order("transport.connections = 4:", "may have 12")):
        divided(transfers(8000), 4, LEAST_BYTES)

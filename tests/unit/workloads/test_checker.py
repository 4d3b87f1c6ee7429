"""The checker accepts what strategies compile, and finds whatever is broken in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import Combine, Discipline, Int64, OpKind, Plan, Role
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.parts import in_order
from tests.shared.small_jobs import (
    choices,
    compiled,
    dependencies,
    job_of,
    jobs,
    profile_of,
    with_cell,
    with_copies,
    with_dependencies,
    without_op,
)

Choice = tuple[str, Mapping[str, Any]]

quick = settings(max_examples=examples(30))


@quick
@given(job=jobs, choice=choices)
def test_accepts_every_compiled_plan(job: Job, choice: Choice) -> None:
    for plan in compiled(job, *choice).values():
        check(plan)


@quick
@given(job=jobs, choice=choices)
def test_every_worker_and_server_exchange_each_parameter_once_each_way(job: Job, choice: Choice) -> None:
    """Closed form: a worker pushes and pulls the whole model; what stays on one host crosses no link."""
    for plan in compiled(job, *choice).values():
        ops = plan.ops
        model_bytes = job.profile.parameters * BYTES_PER_PARAMETER
        assert int(plan.chunk_bytes.sum()) == model_bytes
        pushes = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (plan.rank_role[ops.rank] == Role.WORKER)
        pulls = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (plan.rank_role[ops.rank] == Role.SERVER)
        for worker in plan.workers.tolist():
            assert ops.size_bytes[pushes & (ops.rank == worker)].sum() == model_bytes
            assert ops.size_bytes[pulls & (ops.peer == worker)].sum() == model_bytes
        assert link_bytes(plan, out=True).tolist() == link_bytes(plan, out=False).tolist()
        local = job.cluster.colocated
        for host in range(job.cluster.hosts):
            held = held_bytes(plan, host)
            workers = int(host < job.cluster.workers)
            others = job.cluster.workers - workers if local else job.cluster.workers
            own = held if local else 0
            assert link_bytes(plan, out=True)[host] == workers * (model_bytes - own) + held * others


def link_bytes(plan: Plan, *, out: bool) -> Int64:
    """Bytes of chunks that leave or enter each host in an iteration."""
    ops = plan.ops
    sends = plan.is_remote() & (ops.chunk >= 0)
    ends = ops.rank if out else ops.peer
    return np.bincount(plan.rank_host[ends[sends]], ops.size_bytes[sends], plan.hosts).astype(np.int64)


def held_bytes(plan: Plan, host: int) -> int:
    """Bytes of the chunks that the host's server holds: those that it reduces for the first worker."""
    ops = plan.ops
    reduces = (ops.kind == OpKind.REDUCE) & (plan.rank_host[ops.rank] == host)
    return int(ops.size_bytes[reduces].sum()) // len(plan.workers)


def sends_of(plan: Plan, role: Role) -> list[int]:
    """SENDs of chunks by workers (pushes) or servers (pulls)."""
    ops = plan.ops
    chosen = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (plan.rank_role[ops.rank] == role)
    return np.flatnonzero(chosen).tolist()


def recv_of(plan: Plan, send: int) -> int:
    return int(np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.message == send))[0])


def drop_dependencies(plan: Plan, drop: Callable[[int, int, int], bool]) -> Plan:
    deps = dependencies(plan)
    kept = [dep for dep in deps if not drop(*dep)]
    assert len(kept) == len(deps) - 1
    return with_dependencies(plan, kept)


def drop_send(plan: Plan, pick: int) -> Plan:
    return drop_op(plan, OpKind.SEND, pick)


def drop_recv(plan: Plan, pick: int) -> Plan:
    return drop_op(plan, OpKind.RECV, pick)


def drop_op(plan: Plan, kind: OpKind, pick: int) -> Plan:
    ops = np.flatnonzero(plan.ops.kind == kind)
    return without_op(plan, int(ops[pick % len(ops)]))


def duplicate_message(plan: Plan, pick: int) -> Plan:
    sends = sends_of(plan, Role.WORKER)
    send = sends[pick % len(sends)]
    return with_copies(plan, [send, recv_of(plan, send)])


def duplicate_receive(plan: Plan, pick: int) -> Plan:
    recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV)
    return with_copies(plan, [int(recvs[pick % len(recvs)])])


def push_before_backward(plan: Plan, pick: int) -> Plan:
    sends = sends_of(plan, Role.WORKER)
    send = sends[pick % len(sends)]
    return drop_dependencies(plan, lambda op, on, lag: op == send)


def push_one_layer_early(plan: Plan, pick: int) -> Plan:
    """The push waits for what its backward op waits for, and not for the op itself."""
    sends = sends_of(plan, Role.WORKER)
    send = sends[pick % len(sends)]
    deps = dependencies(plan)
    (backward,) = (on for op, on, _ in deps if op == send)
    earlier = [(send, on, lag) for op, on, lag in deps if op == backward]
    return with_dependencies(plan, [*(dep for dep in deps if dep[0] != send), *earlier])


def forward_before_pull(plan: Plan, pick: int) -> Plan:
    sends = sends_of(plan, Role.SERVER)
    recv = recv_of(plan, sends[pick % len(sends)])
    return drop_dependencies(plan, lambda op, on, lag: on == recv)


def sum_before_receive(plan: Plan, pick: int) -> Plan:
    sends = sends_of(plan, Role.WORKER)
    recv = recv_of(plan, sends[pick % len(sends)])
    return drop_dependencies(plan, lambda op, on, lag: on == recv)


def update_before_sum(plan: Plan, pick: int) -> Plan:
    reduces = np.flatnonzero(plan.ops.kind == OpKind.REDUCE)
    reduce = int(reduces[pick % len(reduces)])
    return drop_dependencies(plan, lambda op, on, lag: on == reduce)


def resize(plan: Plan, pick: int) -> Plan:
    ends = np.flatnonzero(np.isin(plan.ops.kind, (OpKind.SEND, OpKind.RECV)))
    op = int(ends[pick % len(ends)])
    return with_cell(plan, "size_bytes", op, int(plan.ops.size_bytes[op]) + 4)


def redirect(plan: Plan, pick: int) -> Plan:
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND)
    send = int(sends[pick % len(sends)])
    return with_cell(plan, "peer", send, (int(plan.ops.peer[send]) + 1) % len(plan.rank_role))


def other_chunk(plan: Plan, pick: int) -> Plan:
    """Both ends of a push name another chunk, so that one gradient comes twice and another never."""
    assume(len(plan.chunk_bytes) > 1)
    sends = sends_of(plan, Role.WORKER)
    send = sends[pick % len(sends)]
    chunk = (int(plan.ops.chunk[send]) + 1) % len(plan.chunk_bytes)
    return with_cell(with_cell(plan, "chunk", send, chunk), "chunk", recv_of(plan, send), chunk)


def cycle(plan: Plan, pick: int) -> Plan:
    deps = [dep for dep in dependencies(plan) if dep[2] == 0]
    op, on, _ = deps[pick % len(deps)]
    return with_dependencies(plan, [*dependencies(plan), (on, op, 0)])


def foreign_dependency(plan: Plan, pick: int) -> Plan:
    begins = plan.begin_op.tolist()
    server = int(np.flatnonzero(plan.rank_role == Role.SERVER)[0])
    foreign = int(np.flatnonzero(plan.ops.rank == server)[0])
    return with_dependencies(plan, [*dependencies(plan), (begins[pick % len(begins)], foreign, 0)])


def distant_lag(plan: Plan, pick: int) -> Plan:
    deps = dependencies(plan)
    op, on, _ = deps[pick % len(deps)]
    return with_dependencies(plan, [*(d for d in deps if d[:2] != (op, on)), (op, on, 2)])


@pytest.mark.parametrize(
    "change",
    [
        drop_send,
        drop_recv,
        duplicate_message,
        duplicate_receive,
        push_before_backward,
        push_one_layer_early,
        forward_before_pull,
        sum_before_receive,
        update_before_sum,
        resize,
        redirect,
        other_chunk,
        cycle,
        foreign_dependency,
        distant_lag,
    ],
    ids=lambda change: change.__name__,
)
@settings(quick, max_examples=examples(15))
@given(job=jobs, choice=choices, pick=st.integers(0, 10_000))
def test_rejects_a_broken_plan(change: Callable[[Plan, int], Plan], job: Job, choice: Choice, pick: int) -> None:
    plan = next(iter(compiled(job, *choice).values()))
    # A lone worker's own gradient is the whole sum, which it holds without a pull.
    assume(change is not forward_before_pull or len(plan.workers) > 1)
    with pytest.raises(PlanError):
        check(change(plan, pick))


def test_the_servers_update_is_implied_by_the_global_barrier() -> None:
    """A pull's dependency on the update of the iteration before is redundant: the request only comes after the
    barrier."""
    profile = profile_of([(LayerKind.CONV, [10]), (LayerKind.FC, [20])])
    plan = compiled(job_of(profile, Cluster(2, 2)), "vanilla", {})["vanilla"]
    pulls = set(sends_of(plan, Role.SERVER))
    check(with_dependencies(plan, [dep for dep in dependencies(plan) if not (dep[0] in pulls and dep[2] == 1)]))


def test_every_single_missing_receive_is_found_whatever_the_order() -> None:
    """Several chunks a layer and several layers: whichever receive forward passes forget, some order of arrival shows
    it."""
    profile = profile_of([(LayerKind.CONV, [5, 7]), (LayerKind.FC, [9, 6]), (LayerKind.FC, [8, 3])])
    plan = compiled(job_of(profile, Cluster(2, 2)), "partition-slicing", {"slice_parameters": 3})["partition-slicing"]
    for pick in range(len(sends_of(plan, Role.SERVER))):
        with pytest.raises(PlanError, match="needs chunk"):
            check(forward_before_pull(plan, pick))


def test_message_names_op_and_tensor() -> None:
    profile = profile_of([(LayerKind.CONV, [10])])
    plan = compiled(job_of(profile, Cluster(1, 1)), "vanilla", {})["vanilla"]
    with pytest.raises(PlanError, match=in_order("'vanilla': op", "(SEND at rank 0", "rank 1", "layer0/0/0)")):
        check(without_op(plan, recv_of(plan, sends_of(plan, Role.WORKER)[0])))


def test_refuses_equal_orders_in_a_counting_queue_and_a_foreign_queue() -> None:
    builder = PlanBuilder("counting")
    a, b = builder.rank(Role.SERVER, 0), builder.rank(Role.SERVER, 1)
    queue = builder.queue(a, Discipline.COUNTER)
    for _ in range(2):
        builder.message(queue, b, 8, order=3)
    plan = builder.build(0.0, 0)
    with pytest.raises(PlanError, match="same order"):
        check(plan)
    with pytest.raises(PlanError, match="another rank's queue"):
        check(with_cell(with_cell(plan, "order", 0, 1), "rank", 0, b))


def test_a_counting_queue_that_contradicts_the_dependencies_is_a_cycle() -> None:
    builder = PlanBuilder("counting")
    a, b = builder.rank(Role.SERVER, 0), builder.rank(Role.SERVER, 1)
    queue = builder.queue(a, Discipline.COUNTER)
    late, _ = builder.message(queue, b, 8, order=0)
    early, _ = builder.message(queue, b, 8, order=1)
    builder.depend(late, early)
    with pytest.raises(PlanError, match="never becomes ready"):
        check(builder.build(0.0, 0))


def test_a_worker_must_contribute_to_and_need_every_chunk() -> None:
    builder = PlanBuilder("idle")
    worker = builder.rank(Role.WORKER, 0)
    chunk = builder.chunk(builder.tensor("weights"), 8)
    op = builder.compute(worker)
    builder.depend(op, op, lag=1)
    builder.iteration(worker, op, op)
    with pytest.raises(PlanError, match=in_order("never contributes", "chunk 0", "weights")):
        check(builder.build(0.0, 1))
    builder.produces(op, chunk)
    with pytest.raises(PlanError, match=in_order("never needs", "chunk 0", "weights")):
        check(builder.build(0.0, 1))
    builder.consumes(op, chunk)
    check(builder.build(0.0, 1))


def test_multicast_needs_a_receive_a_member() -> None:
    builder = PlanBuilder("multicast")
    ranks = [builder.rank(Role.SERVER, host) for host in range(3)]
    group = builder.group(ranks[1:])
    begin = builder.compute(ranks[0])
    builder.depend(begin, begin, lag=1)
    send, received = builder.message(builder.queue(ranks[0]), ranks[1], 8)
    builder.depend(send, begin)
    plan = with_cell(with_cell(builder.build(0.0, 0), "group", send, 1), "peer", send, group)
    with pytest.raises(PlanError, match=in_order("1 RECVs", "2")):
        check(plan)
    check(with_cell(with_copies(plan, [received]), "rank", len(plan.ops), ranks[2]))


def test_what_waits_for_nothing_would_start_all_its_iterations_at_once() -> None:
    builder = PlanBuilder("free")
    builder.message(builder.queue(builder.rank(Role.SERVER, 0)), builder.rank(Role.SERVER, 1), 8)
    with pytest.raises(PlanError, match="waits for nothing"):
        check(builder.build(0.0, 0))


def test_a_worker_that_computes_less_than_its_profile_says_is_refused() -> None:
    profile = profile_of([(LayerKind.CONV, [10]), (LayerKind.FC, [20])])
    plan = compiled(job_of(profile, Cluster(2, 2)), "vanilla", {})["vanilla"]
    longest = int(np.argmax(np.where(plan.ops.kind == OpKind.COMPUTE, plan.ops.duration_ns, -1)))
    with pytest.raises(PlanError, match=in_order("0.005", "0.009")):
        check(with_cell(plan, "duration_ns", longest, 0))


def test_numbers_of_what_does_not_exist_are_refused() -> None:
    profile = profile_of([(LayerKind.CONV, [10]), (LayerKind.FC, [20])])
    plan = compiled(job_of(profile, Cluster(2, 2)), "vanilla", {})["vanilla"]
    send = sends_of(plan, Role.WORKER)[0]
    for column, value, what in (
        ("chunk", 99, "chunk"),
        ("peer", 99, "peer"),
        ("lane", 99, "queue"),
        ("rank", -1, "rank"),
    ):
        with pytest.raises(PlanError, match=f"{what} does not"):
            check(with_cell(plan, column, send, value))


def test_copying_what_is_not_complete_is_refused() -> None:
    """A pull whose server adds up nothing hands out a stale value in the second iteration."""
    builder = PlanBuilder("stale")
    worker, server = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    chunk = builder.chunk(builder.tensor("weights"), 8)
    forward, backward = builder.compute(worker), builder.compute(worker)
    builder.depend(backward, forward)
    builder.depend(forward, backward, lag=1)
    builder.iteration(worker, forward, backward)
    _, pulled = builder.message(builder.queue(server), worker, 8, chunk=chunk, combine=Combine.COPY)
    builder.depend(forward, pulled)
    builder.produces(backward, chunk)
    builder.consumes(forward, chunk)
    with pytest.raises(PlanError, match=in_order("needs chunk 0", "holds", "iteration")):
        check(builder.build(0.0, 1))

"""Faults of plans, put into a compiled plan before it is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradwire.datatypes.plan import Combine, OpKind, Plan
from tests.mutations.fault import Fault
from tests.shared.small_jobs import dependencies, with_cell, with_copies, with_dependencies, without_op


def op_of(plan: Plan, kind: OpKind) -> int:
    """The middle op of a kind: one that carries a gradient between hosts, if it is a message."""
    wanted = plan.ops.kind == kind
    if kind in (OpKind.SEND, OpKind.RECV):
        added = plan.ops.message[plan.ops.combine == Combine.ADD]
        wanted &= np.isin(plan.ops.message, added) & plan.is_remote()[np.maximum(plan.ops.message, 0)]
    found = np.flatnonzero(wanted)
    return int(found[len(found) // 2])


def recv_of(plan: Plan, send: int) -> int:
    return int(np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.message == send))[0])


def both_ends(column: str, change: Callable[[Plan, int], int]) -> Callable[[Plan], Plan]:
    """Another value for a message, at both of its ends."""

    def inject(plan: Plan) -> Plan:
        send = op_of(plan, OpKind.SEND)
        value = change(plan, send)
        return with_cell(with_cell(plan, column, send, value), column, recv_of(plan, send), value)

    return inject


def one_end(column: str, kind: OpKind, change: Callable[[Plan, int], int]) -> Callable[[Plan], Plan]:
    """Another value for one op."""

    def inject(plan: Plan) -> Plan:
        op = op_of(plan, kind)
        return with_cell(plan, column, op, change(plan, op))

    return inject


def without(kind: OpKind) -> Callable[[Plan], Plan]:
    return lambda plan: without_op(plan, op_of(plan, kind))


def sent_twice(plan: Plan) -> Plan:
    send = op_of(plan, OpKind.SEND)
    return with_copies(plan, [send, recv_of(plan, send)])


def dependency_dropped(kind: OpKind) -> Callable[[Plan], Plan]:
    """An op of a kind waits for nothing that it has waited for in its iteration."""

    def inject(plan: Plan) -> Plan:
        op = op_of(plan, kind)
        return with_dependencies(plan, [dep for dep in dependencies(plan) if dep[0] != op or dep[2] == 1])

    return inject


def waits_for_message_only(waiting: OpKind) -> Callable[[Plan], Plan]:
    """An op of a kind goes on once a message is there, and not when the addition of what it brought has ended."""

    def inject(plan: Plan) -> Plan:
        deps, kinds = dependencies(plan), plan.ops.kind
        found = [dep for dep in deps if kinds[dep[0]] == waiting and kinds[dep[1]] == OpKind.REDUCE]
        op, addition, lag = found[len(found) // 2]
        brought = [(op, on, lag) for reduce, on, _ in deps if reduce == addition]
        return with_dependencies(plan, [dep for dep in deps if dep != (op, addition, lag)] + brought)

    return inject


def goes_on_before_its_own_part_is_complete(plan: Plan) -> Plan:
    """A worker that sums a part up for all does not wait until it has sent it to the others, which was its only wait for the additions."""
    deps, ops = dependencies(plan), plan.ops
    copied = np.flatnonzero(ops.combine == Combine.COPY)
    given = set(zip(ops.rank[copied].tolist(), ops.chunk[copied].tolist(), strict=True))
    own = {send for send in ops.message[copied].tolist() if (int(ops.rank[send]), int(ops.chunk[send])) not in given}
    # What earlier buckets leave unsaid, the start of the last one says.
    dropped = next(dep for dep in reversed(deps) if dep[1] in own and ops.kind[dep[0]] == OpKind.COMPUTE)
    return with_dependencies(plan, [dep for dep in deps if dep != dropped])


def cycle(plan: Plan) -> Plan:
    deps = dependencies(plan)
    op, on, _ = next(dep for dep in deps if dep[2] == 0)
    return with_dependencies(plan, [*deps, (on, op, 0)])


def of_another_rank(plan: Plan) -> Plan:
    deps = dependencies(plan)
    op, _, lag = deps[0]
    foreign = int(np.flatnonzero(plan.ops.rank != plan.ops.rank[op])[0])
    return with_dependencies(plan, [(op, foreign, lag), *deps[1:]])


def no_barrier(plan: Plan) -> Plan:
    """What waits for the iteration before waits for nothing of it."""
    return with_dependencies(plan, [dep for dep in dependencies(plan) if dep[2] == 0])


def gradient_missing(plan: Plan) -> Plan:
    return replace(plan, produces=plan.produces[1:])


def half_computation(plan: Plan) -> Plan:
    durations = np.where(plan.ops.kind == OpKind.COMPUTE, plan.ops.duration_ns // 2, plan.ops.duration_ns)
    return replace(plan, ops=replace(plan.ops, duration_ns=durations))


def orders_reversed(plan: Plan) -> Plan:
    sends = plan.ops.kind == OpKind.SEND
    return replace(plan, ops=replace(plan.ops, order=np.where(sends, -plan.ops.order, plan.ops.order)))


def superfluous(plan: Plan) -> Plan:
    """An op waits for what one of its dependencies waits for anyway."""
    deps = dependencies(plan)
    before = {op: on for op, on, lag in deps if lag == 0}
    op, on, _ = next(dep for dep in deps if dep[2] == 0 and dep[1] in before)
    return with_dependencies(plan, [*deps, (op, before[on], 0)])


FAULTS = [
    Fault("a SEND is left out", without(OpKind.SEND)),
    Fault("a RECV is left out", without(OpKind.RECV)),
    Fault("a computation is left out", without(OpKind.COMPUTE)),
    Fault("a message is sent twice", sent_twice),
    Fault(
        "a RECV expects other bytes",
        one_end("size_bytes", OpKind.RECV, lambda plan, op: int(plan.ops.size_bytes[op]) + 1),
    ),
    Fault(
        "a message is half as large as its chunk",
        both_ends("size_bytes", lambda plan, op: int(plan.ops.size_bytes[op]) // 2),
    ),
    Fault(
        "a SEND is of another class than its RECV",
        one_end("traffic_class", OpKind.SEND, lambda plan, op: 1 - int(plan.ops.traffic_class[op])),
    ),
    Fault(
        "a message is of another class",
        both_ends("traffic_class", lambda plan, op: 1 - int(plan.ops.traffic_class[op])),
    ),
    Fault(
        "a SEND uses another rank's queue",
        one_end("lane", OpKind.SEND, lambda plan, op: int(np.flatnonzero(plan.queue_rank != plan.ops.rank[op])[0])),
    ),
    Fault(
        "a message carries another chunk",
        both_ends("chunk", lambda plan, op: (int(plan.ops.chunk[op]) + 1) % len(plan.chunk_bytes)),
    ),
    Fault(
        "a gradient is copied and not added",
        one_end("combine", OpKind.RECV, lambda plan, op: Combine.COPY + Combine.ADD - int(plan.ops.combine[op])),
    ),
    Fault("a SEND does not wait for its gradient", dependency_dropped(OpKind.SEND)),
    Fault("a computation does not wait for the layer before", dependency_dropped(OpKind.COMPUTE)),
    Fault("an update does not wait for the end of an addition", waits_for_message_only(OpKind.COMPUTE)),
    Fault("a sum is passed on before an addition has ended", waits_for_message_only(OpKind.SEND), "ring"),
    Fault("a worker continues before its part has all additions", goes_on_before_its_own_part_is_complete, "ring"),
    Fault("two ops wait for each other", cycle),
    Fault("an op waits for one of another rank", of_another_rank),
    Fault("nothing waits for the iteration before", no_barrier),
    Fault("a worker contributes no gradient", gradient_missing),
    Fault("computation is half as long as the profile's", half_computation),
    Fault("an op waits for what it waits for already", superfluous),
    Fault("priorities are the other way round", orders_reversed, "priorities"),
]

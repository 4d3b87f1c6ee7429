"""Checks a plan before it runs: it must be well-formed and acyclic, conserve bytes, and deliver every contribution
everywhere exactly once.

Contributions are tracked by executing the plan without time, in several orders. Whatever could come out otherwise in
yet another order is found in what waits for what (workloads/symbolic/).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.message_parts import first_parts
from gradwire.datatypes.plan import LATENCY_LANE, Combine, Discipline, Int64, Moment, OpKind, Plan
from gradwire.faults import InternalFault
from gradwire.workloads.symbolic.verification import defects

FEW_STREAMS = 128
"""Streams are numbered below the number of ops, or below this: a replay adds streams behind those that a
trace may use, and latencies that overlap have theirs behind these."""


class PlanError(InternalFault):
    """The plan is wrong, which is a bug in the strategy that compiled it."""

    at_fault = "bug in the strategy that compiled the plan"


def check(plan: Plan, relative_times: Sequence[float] = ()) -> None:
    """Raises PlanError at the first defect. See Job for `relative_times`."""
    check_references(plan)
    _check_messages(plan)
    _check_computation(plan, relative_times)
    _check_contributions(plan)
    _check_starts(plan)


def check_references(plan: Plan) -> None:
    """Raises PlanError at the first thing that an op, a queue or a message refers to and that is not there.

    Takes no more than a sort.
    """
    _check_references(plan)
    _check_ends(plan)
    _check_moments(plan)


def _fail(plan: Plan, op: int, what: str) -> PlanError:
    return PlanError(f"plan '{plan.name}': {describe(plan, op)}: {what}")


def describe(plan: Plan, op: int) -> str:
    """Describes an op for error messages."""
    ops = plan.ops
    kind = OpKind(int(ops.kind[op])).name
    chunk = int(ops.chunk[op])
    tensor = f" of {plan.tensors[plan.chunk_tensor[chunk]]}/{chunk}" if chunk >= 0 else ""
    peer = f" with rank {ops.peer[op]}" if ops.peer[op] >= 0 else ""
    return f"op {op} ({kind} at rank {ops.rank[op]}{peer}{tensor})"


def _check_references(plan: Plan) -> None:
    _check_ranges(plan)
    ops, count = plan.ops, len(plan.ops)
    if len(plan.dep_lag) and plan.dep_lag.max() > 1:
        raise PlanError(f"plan '{plan.name}': a dependency reaches further back than the previous iteration")
    waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
    across = np.flatnonzero(ops.rank[waiting] != ops.rank[plan.dep_op])
    if len(across):
        raise _fail(
            plan, int(waiting[across[0]]), f"waits for {describe(plan, int(plan.dep_op[across[0]]))} of another rank"
        )
    sends = np.flatnonzero(ops.kind == OpKind.SEND)
    foreign = sends[plan.queue_rank[ops.lane[sends]] != ops.rank[sends]]
    if len(foreign):
        raise _fail(plan, int(foreign[0]), "uses another rank's queue")
    counted = sends[plan.queue_discipline[ops.lane[sends]] == Discipline.COUNTER]
    counted = counted[np.lexsort((ops.order[counted], ops.lane[counted]))]
    queue, order = ops.lane[counted], ops.order[counted]
    alike = np.flatnonzero((queue[1:] == queue[:-1]) & (order[1:] == order[:-1]))
    if len(alike):
        raise PlanError(f"plan '{plan.name}': counter queue {queue[alike[0]]} has two sends with the same order")


def _check_ranges(plan: Plan) -> None:
    """Checks that everything referred to by number exists."""
    ops, count = plan.ops, len(plan.ops)
    if len(plan.begin_op) != len(plan.workers) or len(plan.end_op) != len(plan.workers):
        raise PlanError(f"plan '{plan.name}': every worker needs an op that begins and one that ends its iteration")
    for sets in (plan.chunk_contributors, plan.chunk_receivers):
        if len(sets) not in (0, len(plan.chunk_bytes)):
            raise PlanError(f"plan '{plan.name}': {len(sets)} of {len(plan.chunk_bytes)} chunks have a set of workers")
    if not np.isin(plan.set_rank, plan.workers).all() or (np.diff(plan.set_start) < 1).any():
        raise PlanError(f"plan '{plan.name}': a set of workers is empty, or has a rank that is not a worker")
    communicates = (ops.kind == OpKind.SEND) | (ops.kind == OpKind.RECV)
    sends = ops.kind == OpKind.SEND
    to_group = sends & (ops.group == 1)
    ranks, chunks = len(plan.rank_role), len(plan.chunk_bytes)
    references: tuple[tuple[str, npt.NDArray[np.generic], int, int], ...] = (
        ("a dependency", plan.dep_op, 0, count),
        ("the begin of an iteration", plan.begin_op, 0, count),
        ("the end of an iteration", plan.end_op, 0, count),
        ("what produces a chunk", plan.produces[:, 0], 0, count),
        ("what consumes a chunk", plan.consumes[:, 0], 0, count),
        ("a produced chunk", plan.produces[:, 1], 0, chunks),
        ("a consumed chunk", plan.consumes[:, 1], 0, chunks),
        ("a moment of a request", plan.moments[:, 0], 0, count),
        ("a kind of moment", plan.moments[:, 1], min(Moment), max(Moment) + 1),
        ("a request", plan.moments[:, 2], 0, max(1, len(plan.moments))),
        ("what needs a chunk", plan.needs[:, 0], 0, count),
        ("a needed chunk", plan.needs[:, 1], 0, chunks),
        ("a chunk's contributors", plan.chunk_contributors, -1, max(0, len(plan.set_start) - 1)),
        ("a chunk's receivers", plan.chunk_receivers, -1, max(0, len(plan.set_start) - 1)),
        ("an op's rank", ops.rank, 0, ranks),
        ("an op's chunk", ops.chunk, -1, chunks),
        ("a message's peer", ops.peer[communicates & ~to_group], 0, ranks),
        ("a message's group", ops.peer[to_group], 0, max(0, len(plan.group_start) - 1)),
        ("a message's queue", ops.lane[sends], 0, len(plan.queue_rank)),
        ("a stream", ops.lane[~communicates], 0, max(count, FEW_STREAMS)),
        ("a queue's rank", plan.queue_rank, 0, ranks),
    )
    for what, values, lowest, end in references:
        if len(values) and (values.min() < lowest or values.max() >= end):
            raise PlanError(f"plan '{plan.name}': {what} does not exist: {values.min()} or {values.max()} of {end}")


def _check_ends(plan: Plan) -> None:
    """Checks that every SEND is named by one RECV at its peer, or at each member of its group, of the same size, chunk
    and class."""
    ops = plan.ops
    sends, recvs = np.flatnonzero(ops.kind == OpKind.SEND), np.flatnonzero(ops.kind == OpKind.RECV)
    wrong = sends[ops.message[sends] != sends]
    if len(wrong):
        raise _fail(plan, int(wrong[0]), "a SEND must name itself as its message")
    named = ops.message[recvs]
    bad = recvs[(named < 0) | (named >= len(ops))]
    if len(bad) or len(recvs[ops.kind[named] != OpKind.SEND]):
        raise _fail(
            plan, int(bad[0] if len(bad) else recvs[ops.kind[named] != OpKind.SEND][0]), "no SEND belongs to it"
        )
    expected = np.where(
        ops.group[sends] == 1, _group_sizes(plan)[np.where(ops.group[sends] == 1, ops.peer[sends], 0)], 1
    )
    received = np.bincount(named, minlength=len(ops))[sends]
    for i in np.flatnonzero(expected != received):
        raise _fail(plan, int(sends[i]), f"{received[i]} RECVs belong to it instead of {expected[i]}")
    for column in ("size_bytes", "chunk", "traffic_class"):
        values = getattr(ops, column)
        differing = recvs[values[recvs] != values[named]]
        if len(differing):
            raise _fail(plan, int(differing[0]), f"its {column} differs from its SEND's")
    unicast = recvs[ops.group[named] == 0]
    sender = ops.message[unicast]
    astray = unicast[(ops.peer[sender] != ops.rank[unicast]) | (ops.peer[unicast] != ops.rank[sender])]
    if len(astray):
        raise _fail(plan, int(astray[0]), "its SEND goes elsewhere")


def _check_messages(plan: Plan) -> None:
    """Checks who receives the messages of groups, and that every message has a purpose."""
    ops, recvs = plan.ops, np.flatnonzero(plan.ops.kind == OpKind.RECV)
    _check_groups(plan, recvs)
    _check_purpose(plan, recvs)
    data = recvs[ops.chunk[recvs] >= 0]
    if len(data) and (ops.combine[data] < Combine.COPY).any():
        raise _fail(
            plan, int(data[ops.combine[data] < Combine.COPY][0]), "carries a chunk, but does not say how to combine it"
        )


def _check_purpose(plan: Plan, recvs: Int64) -> None:
    """Checks that every message carries something, no more than its chunk, and that none is sent twice."""
    ops = plan.ops
    data = recvs[ops.chunk[recvs] >= 0]
    empty = recvs[ops.size_bytes[recvs] <= 0]
    if len(empty):
        raise _fail(plan, int(empty[0]), "carries nothing")
    larger = data[ops.size_bytes[data] > plan.chunk_bytes[ops.chunk[data]]]
    if len(larger):
        raise _fail(plan, int(larger[0]), "is larger than its chunk")
    ranks, chunks = len(plan.rank_role), max(1, len(plan.chunk_bytes))
    sender = ops.rank[ops.message[data]].astype(np.int64)
    route = ((sender * ranks + ops.rank[data]) * chunks + ops.chunk[data]) * (max(Combine) + 1) + ops.combine[data]
    if (np.diff(np.sort(route)) == 0).any():
        _, first = np.unique(route, return_index=True)
        again = np.setdiff1d(np.arange(len(data)), first)
        raise _fail(plan, int(data[again[0]]), "comes twice in an iteration from the same rank")
    _check_tokens(plan)


def _check_tokens(plan: Plan) -> None:
    """Checks that no token is sent twice: tokens of the same ranks and queue must wait for different ops, have
    different orders, or be parts of different messages."""
    ops = plan.ops
    tokens = np.flatnonzero((ops.kind == OpKind.SEND) & (ops.chunk < 0))
    waiting = np.repeat(np.arange(len(ops)), np.diff(plan.dep_start))
    # A sum of the dependencies' numbers tells different sets apart well enough to look closer.
    waits_for = np.bincount(waiting, plan.dep_op + 1 + plan.dep_lag * 0.5, len(ops))
    columns = (ops.rank, ops.peer, ops.lane, ops.order, waits_for, first_parts(plan))
    shape = np.stack([column[tokens] for column in columns])
    _, kind, count = np.unique(shape, axis=1, return_inverse=True, return_counts=True)
    seen: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
    for token, alike in zip(tokens[count[kind] > 1].tolist(), kind[count[kind] > 1].tolist(), strict=True):
        rows = slice(plan.dep_start[token], plan.dep_start[token + 1])
        dependencies = sorted(zip(plan.dep_op[rows].tolist(), plan.dep_lag[rows].tolist(), strict=True))
        if (alike, tuple(dependencies)) in seen:
            raise _fail(plan, token, "is sent twice")
        seen.add((alike, tuple(dependencies)))


def _check_groups(plan: Plan, recvs: Int64) -> None:
    """Checks that a group's members are on other machines than its sender, and that each has one RECV of each of its
    messages."""
    ops, machine = plan.ops, plan.rank_host // plan.nics_per_host
    receivers: dict[int, list[int]] = {}
    for recv in recvs[ops.group[ops.message[recvs]] == 1].tolist():
        receivers.setdefault(int(ops.message[recv]), []).append(int(ops.rank[recv]))
        if ops.peer[recv] != ops.rank[ops.message[recv]]:
            raise _fail(plan, recv, "names another sender than its group's message has")
    for send, ranks in receivers.items():
        group = ops.peer[send]
        members = plan.group_rank[plan.group_start[group] : plan.group_start[group + 1]].tolist()
        if sorted(ranks) != sorted(members):
            raise _fail(plan, send, f"ranks {sorted(ranks)} receive it instead of the group's {sorted(members)}")
        if machine[ops.rank[send]] in machine[members]:
            raise _fail(plan, send, "a member of its group is on the sender's own host, where memory is the way")


def _check_moments(plan: Plan) -> None:
    """Checks that each request arrives once and has a token, and that a cache that is sent also arrives."""
    if not len(plan.moments):
        return
    requests = int(plan.moments[:, 2].max()) + 1
    times = {kind: np.bincount(plan.moments[plan.moments[:, 1] == kind, 2], minlength=requests) for kind in Moment}
    sent, cached = times[Moment.SENT], times[Moment.CACHED]
    wrong = (times[Moment.ARRIVED] != 1) | (times[Moment.TOKEN] < 1) | (sent != cached) | (sent > 1)
    if wrong.any():
        raise PlanError(
            f"plan '{plan.name}': request {np.flatnonzero(wrong)[0]} does not arrive once, has no token, or a cache "
            "that is sent and not there"
        )


def _group_sizes(plan: Plan) -> Int64:
    sizes = np.diff(plan.group_start)
    return sizes if len(sizes) else np.zeros(1, np.int64)


def _check_contributions(plan: Plan) -> None:
    for defect in defects(plan):
        when = f"in iteration {defect.iteration} " if defect.iteration >= 0 else ""
        what = defect.what if defect.other < 0 else defect.what.format(other=describe(plan, defect.other))
        raise _fail(plan, defect.op, when + what)
    chunks = max(1, len(plan.chunk_bytes))
    produced = _rank_chunks(plan, plan.produces)
    consumed = np.concatenate([_rank_chunks(plan, plan.consumes), _rank_chunks(plan, plan.needs)])
    is_worker = np.isin(produced // chunks, plan.workers)
    by_workers, from_outside = produced[is_worker], produced[~is_worker] % chunks
    contributing = _members(plan, plan.chunk_contributors)
    owed = contributing[~np.isin(contributing % chunks, from_outside)]
    needed = _members(plan, plan.chunk_receivers)
    for these, those, verb in (
        (owed, produced, "never contributes to"),
        (by_workers, contributing, "contributes, though it is none of the contributors, to"),
        (by_workers, owed, "contributes to what comes from outside the job,"),
        (needed, consumed, "never needs"),
    ):
        wrong = these[~np.isin(these, those)]
        if len(wrong):
            rank, chunk = divmod(int(wrong.min()), chunks)
            tensor = plan.tensors[plan.chunk_tensor[chunk]]
            raise PlanError(f"plan '{plan.name}': worker rank {rank} {verb} chunk {chunk} of {tensor}")


def _check_starts(plan: Plan) -> None:
    """Checks that only RECVs, which wait for their messages, have no dependencies."""
    free = np.flatnonzero((np.diff(plan.dep_start) == 0) & (plan.ops.kind != OpKind.RECV))
    if len(free):
        raise _fail(plan, int(free[0]), "waits for nothing, so that all its iterations would start at once")


def _check_computation(plan: Plan, relative_times: Sequence[float]) -> None:
    """Checks that every worker computes for as long as the profile says, up to the rounding of each op to whole
    nanoseconds."""
    ops = plan.ops
    computes = (ops.kind == OpKind.COMPUTE) & (ops.lane < LATENCY_LANE)
    spent_ns = np.bincount(ops.rank[computes], ops.duration_ns[computes], len(plan.rank_role))[plan.workers]
    count = np.bincount(ops.rank[computes], minlength=len(plan.rank_role))[plan.workers]
    required_s = plan.compute_s * np.array(relative_times or [1.0] * len(spent_ns))
    idle = np.flatnonzero(spent_ns < required_s * 1e9 - count)
    if len(idle):
        at = idle[0]
        raise PlanError(
            f"plan '{plan.name}': worker rank {plan.workers[at]} computes {spent_ns[at] / 1e9:.9f} s of "
            f"{required_s[at]:.9f} s"
        )


def _members(plan: Plan, sets: Int64) -> Int64:
    """Pairs as in `_rank_chunks`, given the set of workers of each chunk, or no sets where each has all workers."""
    chunks = len(plan.chunk_bytes)
    number = sets if len(sets) else np.full(chunks, -1, np.int64)
    # Set -1, all workers, comes first in the table.
    ranks = np.concatenate([plan.workers, plan.set_rank])
    start = np.concatenate(
        [[0], len(plan.workers) + (plan.set_start if len(plan.set_start) else np.zeros(1, np.int64))]
    )
    lengths = np.diff(start)[number + 1]
    position = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    members: Int64 = ranks[np.repeat(start[number + 1], lengths) + position] * max(1, chunks)
    return members + np.repeat(np.arange(chunks), lengths)


def _rank_chunks(plan: Plan, pairs: Int64) -> Int64:
    """Ranks and chunks of pairs of an op and a chunk: rank times the number of chunks, plus the chunk."""
    return plan.ops.rank[pairs[:, 0]].astype(np.int64) * max(1, len(plan.chunk_bytes)) + pairs[:, 1]

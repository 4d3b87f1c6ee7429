"""Plans of several jobs side by side: each is repeated, held back and numbered anew, and their columns are joined.
Pure.

Agents, checker, engines and verdict know one plan, which they replay iteration by iteration. Jobs need not take equally
long, so the faster one has several of its iterations in one of the plan; apart from that, nothing ties jobs together
but the network.

The data that a message of a plan carries is of the same iteration, or of the one before, as that of a pull of parameters
is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradwire.datatypes.plan import OP_DTYPES, Combine, Discipline, Int64, Ledger, OpKind, Ops, Plan, PlanJob, Role
from gradwire.faults import InternalFault
from gradwire.workloads.symbolic.wait_graph import WaitGraph

_NO_ROWS: Int64 = np.zeros(1, np.int64)
_NO_MOMENTS: Int64 = np.zeros((0, 4), np.int64)
_COUNTED: dict[str, Any] = {
    "ranks": lambda plan: plan.rank_role,
    "queues": lambda plan: plan.queue_rank,
    "chunks": lambda plan: plan.chunk_bytes,
    "tensors": lambda plan: plan.tensors,
    "groups": lambda plan: plan.group_start[1:],
    "ops": lambda plan: plan.ops.kind,
}


@dataclass(frozen=True)
class PlacedJob:
    """A job's plan, and how it takes part."""

    name: str
    plan: Plan
    #: Index of the network's host for each host of the plan.
    hosts: Sequence[int]
    #: Iterations of the job in one of the combined plan.
    iterations: int = 1
    #: How much later than the others its first iteration begins.
    start_ns: int = 0
    #: Added to the traffic classes of its data.
    class_offset: int = 0


def combined(jobs: Sequence[PlacedJob]) -> Plan:
    """One plan in which all jobs run side by side. Plans must be without aggregators, of hosts with one NIC, and with the
    same `speed_while_communicating`."""
    parts = [_placed(job) for job in jobs]
    starts = {what: _starts([len(column(part)) for part in parts]) for what, column in _COUNTED.items()}
    ops = Ops(**{name: _joined_ops(parts, name, starts) for name in OP_DTYPES})
    shifted = [
        _Shifted(part, {what: int(start[number]) for what, start in starts.items()})
        for number, part in enumerate(parts)
    ]
    sets = [moved.sets() for moved in shifted]
    set_starts = _starts([len(moved.starts) - 1 for moved in sets])
    return Plan(
        name=" + ".join(part.name for part in parts),
        rank_role=np.concatenate([part.rank_role for part in parts]),
        rank_host=np.concatenate([part.rank_host for part in parts]),
        queue_rank=np.concatenate([moved.plan.queue_rank + moved.by["ranks"] for moved in shifted]).astype(np.int32),
        queue_discipline=np.concatenate([part.queue_discipline for part in parts]),
        chunk_bytes=np.concatenate([part.chunk_bytes for part in parts]),
        chunk_tensor=np.concatenate([moved.plan.chunk_tensor + moved.by["tensors"] for moved in shifted]).astype(
            np.int32
        ),
        tensors=tuple(
            f"{job.name}: {tensor}" for job, part in zip(jobs, parts, strict=True) for tensor in part.tensors
        ),
        ops=ops,
        dep_start=_joined_rows([part.dep_start for part in parts]),
        dep_op=np.concatenate([moved.plan.dep_op + moved.by["ops"] for moved in shifted]),
        dep_lag=np.concatenate([part.dep_lag for part in parts]),
        produces=np.concatenate([moved.pairs(moved.plan.produces) for moved in shifted]),
        consumes=np.concatenate([moved.pairs(moved.plan.consumes) for moved in shifted]),
        needs=np.concatenate([moved.pairs(moved.plan.needs) for moved in shifted]),
        moments=_numbered_anew([(moved.plan.moments, moved.by["ops"]) for moved in shifted]),
        begin_op=np.concatenate([moved.plan.begin_op + moved.by["ops"] for moved in shifted]),
        end_op=np.concatenate([moved.plan.end_op + moved.by["ops"] for moved in shifted]),
        group_start=_joined_rows([part.group_start if len(part.group_start) else _NO_ROWS for part in parts]),
        group_rank=np.concatenate([moved.plan.group_rank + moved.by["ranks"] for moved in shifted]).astype(np.int32),
        chunk_contributors=np.concatenate(
            [moved.contributors + start for moved, start in zip(sets, set_starts, strict=False)]
        ),
        chunk_receivers=np.concatenate(
            [moved.receivers + start for moved, start in zip(sets, set_starts, strict=False)]
        ),
        set_start=_joined_rows([moved.starts for moved in sets]),
        set_rank=np.concatenate([moved.ranks for moved in sets]),
        compute_s=max(part.compute_s for part in parts),
        samples=sum(part.samples for part in parts),
        notes=tuple(f"{job.name}: {note}" for job, part in zip(jobs, parts, strict=True) for note in part.notes),
        jobs=tuple(_entry(job, moved) for job, moved in zip(jobs, shifted, strict=True)),
        speed_while_communicating=parts[0].speed_while_communicating,
    )


def relative_times(plan: Plan, of_jobs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Each worker's factor on `Plan.compute_s` of a combined plan, given those of each job's workers; none stand for 1."""
    factors: list[float] = []
    for job, own in zip(plan.jobs, of_jobs, strict=True):
        roles = plan.rank_role[job.first_rank : job.first_rank + job.ranks]
        workers = int((roles == Role.WORKER).sum())
        share = job.iterations * job.compute_s / plan.compute_s if plan.compute_s else 1.0
        factors += [share * factor for factor in own or [1.0] * workers]
    return tuple(factors)


def repeated(plan: Plan, times: int) -> Plan:
    """Returns a plan of the same ranks, each of whose iterations is `times` iterations of this one, one after the
    other.

    An op then mostly waits for ops of the same iteration where it waited for some of the iteration before, and holds
    chunks of the same iteration as well.

    What an op waits for in the iteration before is then mostly an op of the same iteration, and so is the iteration that a chunk is of.
    """
    if times == 1:
        return plan
    ops, count, chunks = plan.ops, len(plan.ops), len(plan.chunk_bytes)
    copy = np.repeat(np.arange(times), count)
    columns: dict[str, Any] = {name: np.tile(getattr(ops, name), times) for name in OP_DTYPES}
    # A pull carries what the iteration before has summed.
    of_copy = (copy - np.tile(carried_lag(plan), times)) % times
    columns["message"] = np.where(columns["message"] >= 0, columns["message"] + copy * count, -1)
    columns["chunk"] = np.where(columns["chunk"] >= 0, columns["chunk"] + of_copy * chunks, -1).astype(np.int32)
    columns["order"] = columns["order"] + copy * np.tile(_stride(plan), times)
    dep_copy = np.repeat(np.arange(times), len(plan.dep_op))
    source, lag = np.tile(plan.dep_op, times), np.tile(plan.dep_lag, times).astype(np.int64)
    source = source + (dep_copy - lag) % times * count
    lag = lag * (dep_copy == 0)
    later = [_moved(plan.consumes, number * count, (number - 1) * chunks) for number in range(1, times)]
    return replace(
        plan,
        ops=Ops(**columns),
        chunk_bytes=np.tile(plan.chunk_bytes, times),
        chunk_tensor=np.tile(plan.chunk_tensor, times),
        dep_start=_joined_rows([plan.dep_start] * times),
        dep_op=source,
        dep_lag=lag.astype(np.uint8),
        produces=np.concatenate([_moved(plan.produces, n * count, n * chunks) for n in range(times)]),
        consumes=_moved(plan.consumes, 0, (times - 1) * chunks),
        needs=np.concatenate([*(_moved(plan.needs, n * count, n * chunks) for n in range(times)), *later]),
        moments=_numbered_anew([(plan.moments, n * count) for n in range(times)]),
        end_op=plan.end_op + (times - 1) * count,
        chunk_contributors=np.tile(plan.chunk_contributors, times),
        chunk_receivers=np.tile(plan.chunk_receivers, times),
        compute_s=plan.compute_s * times,
        samples=plan.samples * times,
    )


def _numbered_anew(parts: Sequence[tuple[Int64, int]]) -> Int64:
    """Moments of requests, each part with what its ops' numbers grow by; its requests are others than those of the parts before."""
    found, requests = [_NO_MOMENTS], 0
    for moments, by in parts:
        found.append(moments + np.array([by, 0, requests, 0], np.int64))
        requests = int(found[-1][:, 2].max(initial=requests - 1)) + 1
    return np.concatenate(found)


def held_back(plan: Plan, start_ns: int) -> Plan:
    """The plan with its first iteration begun so much later.

    Each rank gets a timer on an extra stream: an op that waits for the begin of the rank's iteration before, and for which its begin
    waits. It holds back the first iteration, and no later one as long as iterations last longer than it.
    """
    if start_ns == 0:
        return plan
    roots = _roots(plan)
    ranks, first = np.unique(plan.ops.rank[roots], return_index=True)
    count, added = len(plan.ops), len(ranks)
    serial = (plan.ops.kind == OpKind.COMPUTE) | (plan.ops.kind == OpKind.REDUCE)
    stream = int(plan.ops.lane[serial].max(initial=-1)) + 1
    columns = {name: np.full(added, -1, dtype) for name, dtype in OP_DTYPES.items() if np.dtype(dtype).kind == "i"}
    columns |= {name: np.zeros(added, OP_DTYPES[name]) for name in ("size_bytes", "group", "order", "combine")}
    columns |= {
        name: np.full(added, value, OP_DTYPES[name]) for name, value in (("lane", stream), ("duration_ns", start_ns))
    }
    columns |= {
        "kind": np.full(added, OpKind.COMPUTE, np.uint8),
        "rank": ranks,
        "traffic_class": np.zeros(added, np.int8),
    }
    columns = {
        name: np.concatenate([getattr(plan.ops, name), columns[name]]).astype(OP_DTYPES[name]) for name in OP_DTYPES
    }
    timer = count + np.searchsorted(ranks, plan.ops.rank[roots])
    waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
    target = np.concatenate([waiting, roots, count + np.arange(added)])
    source = np.concatenate([plan.dep_op, timer, roots[first]])
    lag = np.concatenate([plan.dep_lag, np.zeros(len(roots), np.uint8), np.ones(added, np.uint8)])
    by_target = np.argsort(target, kind="stable")
    return replace(
        plan,
        ops=Ops(**columns),
        dep_start=np.concatenate([[0], np.cumsum(np.bincount(target, minlength=count + added))]).astype(np.int64),
        dep_op=source[by_target].astype(np.int64),
        dep_lag=lag[by_target],
    )


def _roots(plan: Plan) -> Int64:
    """The ops that begin at once in the first iteration: they wait for nothing in it, and for no message."""
    waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start))
    same = np.bincount(waiting[plan.dep_lag == 0], minlength=len(plan.ops))
    return np.flatnonzero((same == 0) & (plan.ops.kind != OpKind.RECV)).astype(np.int64)


def _placed(job: PlacedJob) -> Plan:
    plan = job.plan
    if plan.nics_per_host != 1 or (plan.rank_role == Role.AGGREGATOR).any() or plan.jobs:
        raise InternalFault(
            f"the plan of job '{job.name}' cannot be combined with others; report this with the scenario"
        )
    plan = held_back(repeated(plan, job.iterations), job.start_ns)
    classes = np.where(plan.ops.traffic_class >= 0, plan.ops.traffic_class + job.class_offset, plan.ops.traffic_class)
    hosts = np.asarray(job.hosts, np.int32)[plan.rank_host]
    return replace(plan, ops=replace(plan.ops, traffic_class=classes.astype(np.int8)), rank_host=hosts)


def _stride(plan: Plan) -> Int64:
    """Returns the amount by which each op's order grows from one iteration to the next, so that queues that go by order
    serve one iteration after the other; 0 for ops that need none.

    A stream that adds goes by order alone, and what goes by time needs none.
    """
    ops = plan.ops
    stride: Int64 = np.zeros(len(ops), np.int64)
    sends = np.flatnonzero(ops.kind == OpKind.SEND)
    by_order = sends[plan.queue_discipline[ops.lane[sends]] != Discipline.FIFO]
    if len(by_order):
        stride[by_order] = int(ops.order[by_order].max()) - int(ops.order[by_order].min()) + 1
    return stride


def _starts(lengths: Sequence[int]) -> Int64:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _joined_rows(starts: Sequence[Int64]) -> Int64:
    """Row starts of tables that are put one behind the other."""
    ends = _starts([int(each[-1]) for each in starts])
    joined = [each[1:] + before for each, before in zip(starts, ends, strict=False)]
    return np.concatenate([_NO_ROWS, *joined]).astype(np.int64)


def _moved(pairs: Int64, by_op: int, by_chunk: int) -> Int64:
    return pairs + np.array([by_op, by_chunk], np.int64)


def _joined_ops(parts: Sequence[Plan], name: str, starts: dict[str, Int64]) -> Any:
    """Returns a column of the ops of all parts. If its values are numbers of something, they are moved to its place in
    the combined plan."""
    columns = []
    for number, part in enumerate(parts):
        ops = part.ops
        column = getattr(ops, name).astype(np.int64)
        by = {what: int(start[number]) for what, start in starts.items()}
        if name == "rank":
            column = column + by["ranks"]
        elif name == "lane":
            column = column + by["queues"] * (ops.kind == OpKind.SEND)
        elif name == "chunk":
            column = column + by["chunks"] * (column >= 0)
        elif name == "message":
            column = column + by["ops"] * (column >= 0)
        elif name == "peer":
            column = column + np.where(ops.group == 1, by["groups"], by["ranks"]) * (column >= 0)
        columns.append(column.astype(OP_DTYPES[name]))
    return np.concatenate(columns)


@dataclass(frozen=True)
class _Sets:
    """The sets of contributors and receivers of one part's chunks, with all of its workers as the last set."""

    starts: Int64
    ranks: Int64
    contributors: Int64
    receivers: Int64


@dataclass(frozen=True)
class _Shifted:
    """A part, and by how much its numbers move."""

    plan: Plan
    by: dict[str, int]

    def pairs(self, pairs: Int64) -> Int64:
        return _moved(pairs, self.by["ops"], self.by["chunks"])

    def sets(self) -> _Sets:
        plan = self.plan
        starts = plan.set_start if len(plan.set_start) else _NO_ROWS
        own = [
            chosen if len(chosen) else np.full(len(plan.chunk_bytes), -1, np.int64)
            for chosen in (plan.chunk_contributors, plan.chunk_receivers)
        ]
        everyone = len(starts) - 1
        contributors, receivers = (np.where(chosen < 0, everyone, chosen) for chosen in own)
        workers = plan.workers
        return _Sets(
            np.append(starts, starts[-1] + len(workers)),
            np.concatenate([plan.set_rank, workers]) + self.by["ranks"],
            contributors,
            receivers,
        )


def _entry(job: PlacedJob, part: _Shifted) -> PlanJob:
    return PlanJob(
        name=job.name,
        first_rank=part.by["ranks"],
        ranks=len(part.plan.rank_role),
        first_op=part.by["ops"],
        ops=len(job.plan.ops),
        iterations=job.iterations,
        compute_s=job.plan.compute_s,
        samples=job.plan.samples,
        delays=len(part.plan.ops) - job.iterations * len(job.plan.ops),
    )


def carried_lag(plan: Plan) -> Int64:
    """Returns, for each SEND and RECV, how many iterations older its data is than its own iteration: 0 or 1; 0 for all
    other ops.

    The plan is executed without time for two iterations. In a plan that passes the checker, a message carries the same in any order.
    Raises InternalFault for a plan that gets stuck, or that would need more than two iterations.
    """
    ops, count = plan.ops, len(plan.ops)
    recvs = np.flatnonzero((ops.kind == OpKind.RECV) & (ops.chunk >= 0))
    combine = {int(ops.message[recv]): Combine(int(ops.combine[recv])) for recv in recvs}
    produced: dict[int, list[int]] = {}
    for op, chunk in plan.produces.tolist():
        produced.setdefault(op, []).append(chunk)
    number = {rank: place for place, rank in enumerate(plan.workers.tolist())}
    ledger = Ledger(len(plan.workers), plan.contributors())
    carried = {}
    kind, rank, chunk_of, message = (getattr(ops, name).tolist() for name in ("kind", "rank", "chunk", "message"))
    for node in _in_order(WaitGraph(plan)):
        iteration, op = divmod(node, count)
        chunk = chunk_of[op]
        if kind[op] == OpKind.SEND and op in combine:
            carried[iteration, op] = ledger.outgoing(rank[op], chunk, combine[op])
        elif kind[op] == OpKind.RECV and message[op] in combine:
            sent = carried[iteration, message[op]]
            ledger.arrive(rank[op], chunk, combine[message[op]], sent)
        for made in produced.get(op, ()):
            ledger.produce(rank[op], made, number.get(rank[op]), iteration)
    lag: Int64 = np.zeros(count, np.int64)
    for (iteration, op), what in carried.items():
        if iteration == 1:
            lag[op] = 1 - what.iteration
    lag[recvs] = lag[ops.message[recvs]]
    if len(lag) and (lag.min() < 0 or lag.max() > 1):
        raise InternalFault(f"plan '{plan.name}': a message carries data that is older than the iteration before")
    return lag


def _in_order(graph: WaitGraph) -> list[int]:
    """The nodes of two iterations, each behind those that it waits for."""
    waits = graph.waits_for.copy()
    order = np.flatnonzero(waits == 0).tolist()
    for node in order:
        following = graph.successors(np.array([node], np.int64))
        np.subtract.at(waits, following, 1)
        order += np.unique(following[waits[following] == 0]).tolist()
    if len(order) < len(waits):
        raise InternalFault(f"plan '{graph.plan.name}': {len(waits) - len(order)} ops wait for one another")
    return order

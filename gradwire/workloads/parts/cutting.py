"""Cuts a plan to a part of its machines.

The ranks of the part do all they do in the whole. Of the machines that they exchange messages with, a stand-in for each
receives what the part sends it, and sends what the part receives from it: as long after the message's cause
(parts/causes.py) as in the estimate of the whole. So what is slow in the part holds back its surroundings as it would in
the whole, and nothing drifts. Where the cause came to another stand-in, that one sends a token, which stands for the
messages on the way between the two. A message without a cause follows the one of the iteration before.

Where what the part sends arrives sooner than in the whole, because others are not there, that alone would be too early. So
stand-ins may also keep the estimate's *pace*: the part's first worker tells them when it begins an iteration, or to
compute, and they send nothing sooner after that than in the estimate.

Messages carry no contributions, since the sums of outside ranks are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import (
    CONTROL_CLASS,
    LATENCY_LANE,
    OP_DTYPES,
    Combine,
    Discipline,
    Int64,
    OpKind,
    Ops,
    Plan,
    Role,
)
from gradwire.faults import InputFault
from gradwire.workloads.builder import CONTROL_BYTES, Columns
from gradwire.workloads.engines.allreduce_transfers import turns
from gradwire.workloads.parts.causes import NOTHING, Causes, Times, causes


@dataclass(frozen=True)
class PartOfPlan:
    """The plan of a part, and what it was cut from."""

    plan: Plan
    #: Hosts of the whole's fabric, in the order of those of the part's: those that are whole, then the stand-ins.
    hosts: Int64
    #: How many of them are whole.
    whole: int


@dataclass(frozen=True)
class _Border:
    """The messages between the part and the rest."""

    #: Whether each rank is in the part.
    inside: npt.NDArray[np.bool_]
    #: SENDs of the rest to the part, and RECVs of the rest from it.
    to_part: Int64
    from_part: Int64


def parts_of(plan: Plan, hosts: Sequence[int], times: Times) -> Iterator[PartOfPlan]:
    """The part of a plan on these hosts, whole machines, in the order given: with stand-ins that go by causes alone, and
    with some that keep the estimate's pace as well, from two beginnings. Raises InputFault for a plan that cannot be cut."""
    _refuse(plan)
    border = _border(plan, np.array(hosts, np.int64))
    begins = plan.begin_op[border.inside[plan.ops.rank[plan.begin_op]]]
    if not len(begins):
        raise InputFault("part: its hosts have no worker: choose others")
    found = causes(plan, border.from_part, border.to_part, times)
    for begin in (NOTHING, int(begins[0]), _first_computation(plan, int(begins[0]), times)):
        yield _Cut(plan, np.array(hosts, np.int64), border, found, times, begin).build()


def _first_computation(plan: Plan, begin: int, times: Times) -> int:
    """The op with which the worker of a first op begins to compute; an iteration may begin before what it waits for."""
    ops = plan.ops
    computes = (ops.rank == ops.rank[begin]) & (ops.kind == OpKind.COMPUTE) & (ops.lane < LATENCY_LANE)
    found = np.flatnonzero(computes & (ops.duration_ns > 0))
    return int(found[np.argmin(times.start_s[1, found])]) if len(found) else begin


def _refuse(plan: Plan) -> None:
    if plan.jobs:
        raise InputFault("part: is of one job, and this plan has several")
    if len(plan.group_rank):
        raise InputFault(
            "part: copies of a multicast go to ranks in the part and outside together; take another strategy"
        )
    if (plan.rank_role == Role.AGGREGATOR).any():
        raise InputFault("part: switches that add belong to the part and to the rest; take another strategy")


def _border(plan: Plan, hosts: Int64) -> _Border:
    ops = plan.ops
    inside = np.isin(plan.rank_host, hosts)
    recvs = np.flatnonzero(ops.kind == OpKind.RECV)
    send_of = ops.message[recvs]
    receives, sends = inside[ops.rank[recvs]], inside[ops.rank[send_of]]
    return _Border(inside, send_of[receives & ~sends], recvs[~receives & sends])


class _Cut:
    """The part under construction: ops that are kept, and behind them delays, then tokens.

    Where the cause is of the iteration before, the delay is two: up to when the whole begins its next iteration, and from
    then on. So the first iteration, before which nothing came, is as cold as that of the whole.
    """

    def __init__(self, plan: Plan, hosts: Int64, border: _Border, found: Causes, times: Times, pace_from: int) -> None:
        self.plan, self.border, self.found, self.times = plan, border, found, times
        ops = plan.ops
        self.kept = np.sort(np.concatenate([np.flatnonzero(border.inside[ops.rank]), border.to_part, border.from_part]))
        outside = np.unique(np.concatenate([ops.rank[border.to_part], ops.rank[border.from_part]])).astype(np.int64)
        self.ranks = np.concatenate([np.flatnonzero(border.inside), outside])
        self.whole_ranks = int(border.inside.sum())
        nics = plan.nics_per_host
        machines = np.unique(plan.rank_host[outside] // nics)
        self.whole_hosts = len(hosts)
        self.hosts = np.concatenate([hosts, (machines[:, None] * nics + np.arange(nics)).ravel()]).astype(np.int64)
        self.new_op = _numbered(len(ops), self.kept)
        #: Whether the cause of each message to the part is of the iteration before. If it has no cause, the message
        #: itself in that iteration stands for one.
        self.is_before = (found.lag > 0) | (found.op < 0)
        self.delays = len(border.to_part) + int(self.is_before.sum())
        #: The op from which on messages to the part keep pace, which these do, and how much later they are; or NOTHING.
        self.pace_from = pace_from
        after_s = times.start_s[1, border.to_part] - times.start_s[1, pace_from]
        self.paced = np.flatnonzero((after_s > 0) & (pace_from >= 0))
        self.after_s = after_s[self.paced]
        self.new_rank = _numbered(len(plan.rank_role), self.ranks)
        self.queues = np.flatnonzero(self.new_rank[plan.queue_rank] >= 0)
        self.new_queue = _numbered(len(plan.queue_rank), self.queues)

    def build(self) -> PartOfPlan:
        """Puts all together."""
        kept, delays, (tokens, told) = self._kept(), self._delays(), self._tokens()
        pace, waits_for_pace = self._pace(len(self.kept) + self.delays + len(tokens["kind"]), delays["lane"])
        columns = {
            name: np.concatenate([each[name] for each in (kept, delays, tokens, pace)]).astype(OP_DTYPES[name])
            for name in OP_DTYPES
        }
        waits = [self._waits_inside(), *self._waits_of_stand_ins(told), *waits_for_pace]
        target, source, lag = (np.concatenate([each[row] for each in waits]) for row in range(3))
        by_target = np.argsort(target, kind="stable")
        count = len(columns["kind"])
        cut = replace(
            self.plan,
            ops=Ops(**columns),
            dep_start=np.concatenate([[0], np.cumsum(np.bincount(target, minlength=count))]).astype(np.int64),
            dep_op=source[by_target].astype(np.int64),
            dep_lag=lag[by_target].astype(np.uint8),
            **self._of_ranks(),
            **without_chunks(),
        )
        return PartOfPlan(cut, self.hosts, self.whole_hosts)

    def _kept(self) -> dict[str, Int64]:
        columns = {name: getattr(self.plan.ops, name)[self.kept].astype(np.int64) for name in OP_DTYPES}
        kind = columns["kind"]
        is_send, is_recv = kind == OpKind.SEND, kind == OpKind.RECV
        columns["rank"] = self.new_rank[columns["rank"]]
        columns["peer"] = np.where(columns["peer"] >= 0, self.new_rank[columns["peer"]], NOTHING)
        columns["message"] = np.where(columns["message"] >= 0, self.new_op[columns["message"]], NOTHING)
        columns["lane"] = np.where(is_send, self.new_queue[np.where(is_send, columns["lane"], 0)], columns["lane"])
        columns["combine"] = np.where(is_recv, int(Combine.CONTROL), 0)
        columns["chunk"] = np.full(len(kind), NOTHING)
        columns["order"] = told_apart(columns["order"], is_send)
        return columns

    def _delays(self) -> dict[str, Int64]:
        """Returns columns of the ops that delay messages: one for each message to the part, which ends when it is the
        message's turn, and behind them those that last until the iteration begins."""
        to_part, found, times = self.border.to_part, self.found, self.times
        cause = np.where(found.op >= 0, found.op, to_part)
        before = np.flatnonzero(self.is_before)
        begin_s = float(times.start_s[1, self.plan.begin_op].min())
        came_s = np.where(self.is_before, times.end_s[0, cause], times.end_s[1, cause])
        since_s = np.where(self.is_before, np.maximum(came_s, begin_s), came_s)
        waits_s = np.concatenate([times.start_s[1, to_part] - since_s, begin_s - came_s[before]])
        rank = self.new_rank[self.plan.ops.rank[np.concatenate([to_part, to_part[before]])]]
        # Delays pass side by side: each has a stream of its rank for itself.
        return _added(
            len(rank),
            kind=int(OpKind.COMPUTE),
            rank=rank,
            duration_ns=np.round(np.maximum(0.0, waits_s) * 1e9).astype(np.int64),
            lane=LATENCY_LANE + turns(rank),
        )

    def _tokens(self) -> tuple[dict[str, Int64], Int64]:
        """A SEND and a RECV for each cause and each other rank that waits for it; and for each message to the part, the
        op of its rank that says that the cause has come, or NOTHING where there is none."""
        ops, to_part, found = self.plan.ops, self.border.to_part, self.found
        has = found.op >= 0
        told = np.where(has, self.new_op[np.where(has, found.op, 0)], to_part * 0 + NOTHING)
        away = has & (ops.rank[np.where(has, found.op, 0)] != ops.rank[to_part])
        pairs = np.stack([found.op[away], ops.rank[to_part[away]].astype(np.int64)])
        pairs, number = np.unique(pairs, axis=1, return_inverse=True)
        self.token_cause = self.new_op[pairs[0]]
        source, target = self.new_rank[ops.rank[pairs[0]]], self.new_rank[pairs[1]]
        first = len(self.kept) + self.delays
        count = pairs.shape[1]
        told[away] = first + count + number.ravel()
        self.token_ranks = np.unique(source)
        queue = len(self.queues) + np.searchsorted(self.token_ranks, source)
        shared: dict[str, Columns] = {
            "size_bytes": CONTROL_BYTES,
            "message": first + np.arange(count),
            "traffic_class": CONTROL_CLASS,
        }
        sends = _added(count, kind=int(OpKind.SEND), rank=source, peer=target, lane=queue, **shared)
        recvs = _added(count, kind=int(OpKind.RECV), rank=target, peer=source, combine=int(Combine.CONTROL), **shared)
        return {name: np.concatenate([sends[name], recvs[name]]) for name in OP_DTYPES}, told

    def _pace(self, first: int, lanes: Int64) -> tuple[dict[str, Int64], list[tuple[Int64, Int64, Int64]]]:
        """Tokens of the part's first worker to each stand-in that keeps pace, and as long an op after them for each message
        as it is sent after that worker's begin; and what waits for what."""
        rank = self.new_rank[self.plan.ops.rank[self.border.to_part[self.paced]]]
        told = np.unique(rank)
        count, source = len(told), self.new_rank[self.plan.ops.rank[self.pace_from]]
        shared: dict[str, Columns] = {
            "size_bytes": CONTROL_BYTES,
            "message": first + np.arange(count),
            "traffic_class": CONTROL_CLASS,
        }
        queue = len(self.queues) + len(self.token_ranks)
        parts = [
            _added(count, kind=int(OpKind.SEND), rank=source, peer=told, lane=queue, order=np.arange(count), **shared),
            _added(count, kind=int(OpKind.RECV), rank=told, peer=source, combine=int(Combine.CONTROL), **shared),
            _added(
                len(rank),
                kind=int(OpKind.COMPUTE),
                rank=rank,
                duration_ns=np.round(self.after_s * 1e9).astype(np.int64),
                lane=lanes.max(initial=LATENCY_LANE) + 1 + turns(rank),
            ),
        ]
        sends, recvs = first + np.arange(count), first + count + np.arange(count)
        passing = first + 2 * count + np.arange(len(rank))
        pairs = [
            (sends, np.full(count, self.new_op[self.pace_from])),
            (passing, recvs[np.searchsorted(told, rank)]),
            (self.new_op[self.border.to_part[self.paced]], passing),
        ]
        waits = [(target, on, np.zeros(len(target), np.int64)) for target, on in pairs]
        return {name: np.concatenate([each[name] for each in parts]) for name in OP_DTYPES}, waits

    def _waits_inside(self) -> tuple[Int64, Int64, Int64]:
        plan = self.plan
        waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start))
        inside = self.border.inside[plan.ops.rank[waiting]]
        return self.new_op[waiting[inside]], self.new_op[plan.dep_op[inside]], plan.dep_lag[inside].astype(np.int64)

    def _waits_of_stand_ins(self, told: Int64) -> list[tuple[Int64, Int64, Int64]]:
        sends = self.new_op[self.border.to_part]
        came = np.where(told >= 0, told, sends)
        ends = len(self.kept) + np.arange(len(sends))
        before = np.flatnonzero(self.is_before)
        up_to_begin = len(self.kept) + len(sends) + np.arange(len(before))
        now = ~self.is_before
        tokens = len(self.kept) + self.delays + np.arange(len(self.token_cause))
        pairs = [
            (sends, ends, 0),
            (ends[now], came[now], 0),
            (ends[before], up_to_begin, 1),
            (up_to_begin, came[before], 0),
            (tokens, self.token_cause, 0),
        ]
        return [(target, source, np.full(len(target), lag, np.int64)) for target, source, lag in pairs]

    def _of_ranks(self) -> dict[str, Any]:
        plan = self.plan
        host = _numbered(int(max(self.hosts.max(), plan.rank_host.max())) + 1, self.hosts)
        stands_in = np.arange(len(self.ranks)) >= self.whole_ranks
        queue_rank = self.new_rank[plan.queue_rank[self.queues]]
        discipline = np.where(stands_in[queue_rank], Discipline.FIFO, plan.queue_discipline[self.queues])
        of_begin = self.new_rank[plan.ops.rank[[self.pace_from]]][: len(self.paced)]
        own_queues = np.concatenate([self.token_ranks, of_begin])
        begins, ends = (
            self.new_op[each[self.border.inside[plan.ops.rank[each]]]] for each in (plan.begin_op, plan.end_op)
        )
        return {
            "rank_role": np.where(stands_in, Role.SERVER, plan.rank_role[self.ranks]).astype(np.uint8),
            "rank_host": host[plan.rank_host[self.ranks]].astype(np.int32),
            "queue_rank": np.concatenate([queue_rank, own_queues]).astype(np.int32),
            "queue_discipline": np.concatenate([discipline, np.full(len(own_queues), int(Discipline.FIFO))]).astype(
                np.uint8
            ),
            "begin_op": begins,
            "end_op": ends,
        }


def without_chunks() -> dict[str, Any]:
    """Columns of a plan whose messages carry no contributions, and whose ops are others than those that requests wait for."""
    nothing, pairs = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    return {
        "chunk_bytes": nothing,
        "chunk_tensor": nothing.astype(np.int32),
        "tensors": (),
        "produces": pairs,
        "consumes": pairs,
        "needs": pairs,
        "chunk_contributors": nothing,
        "chunk_receivers": nothing,
        "set_start": nothing,
        "set_rank": nothing,
        "moments": np.zeros((0, 4), np.int64),
    }


def _added(count: int, **values: Columns) -> dict[str, Int64]:
    """Columns of further ops."""
    empty = ("lane", "chunk", "peer", "message", "traffic_class", "layer")
    given: dict[str, Columns] = {**dict.fromkeys(OP_DTYPES, 0), **dict.fromkeys(empty, NOTHING), **values}
    return {name: np.broadcast_to(np.asarray(value, np.int64), (count,)) for name, value in given.items()}


def told_apart(order: Int64, is_send: npt.NDArray[np.bool_]) -> Int64:
    """Orders of ops, those of SENDs with ties broken as agents break them, by number: without their chunks, messages of
    one order would look like one that is sent twice."""
    sends = np.flatnonzero(is_send)
    ranked = order.copy()
    ranked[sends[np.argsort(order[sends], kind="stable")]] = np.arange(len(sends))
    return ranked


def _numbered(count: int, chosen: Int64) -> Int64:
    """The place of each of `count` things among the chosen; NOTHING for the others."""
    numbers: Int64 = np.full(count, NOTHING, np.int64)
    numbers[chosen] = np.arange(len(chosen))
    return numbers

"""One job out of a plan that has several, as a separate plan."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int64, OpKind, Ops, Plan, PlanJob, UInt8

Number = TypeVar("Number", bound=np.generic)


def plan_of_job(plan: Plan, job: PlanJob) -> Plan:
    """The job's own plan, on the same hosts, with as many iterations of the job in one, and begun with the others.

    What it is bound by, and what it takes with the network for itself, is what it says of this plan. Its connections keep
    their numbers, so that switches that hash them send them the ways that they go beside the other jobs.
    """
    last = job.first_op + job.iterations * job.ops
    rows = slice(job.first_op, last)
    ops = {one.name: getattr(plan.ops, one.name)[rows] for one in fields(Ops)}
    ranks = slice(job.first_rank, job.first_rank + job.ranks)
    queues = np.flatnonzero((plan.queue_rank >= ranks.start) & (plan.queue_rank < ranks.stop))
    groups = np.unique(ops["peer"][ops["group"] == 1])
    pairs = {name: _between(getattr(plan, name), job.first_op, last) for name in ("produces", "consumes", "needs")}
    named = [ops["chunk"][ops["chunk"] >= 0], *(each[:, 1] for each in pairs.values())]
    chunks = np.unique(np.concatenate(named)).astype(np.int64)
    pairs = {
        name: np.stack([each[:, 0] - job.first_op, np.searchsorted(chunks, each[:, 1])], axis=1).astype(np.int64)
        for name, each in pairs.items()
    }
    tensors = np.unique(plan.chunk_tensor[chunks])
    sets = np.unique(np.concatenate([plan.chunk_contributors[chunks], plan.chunk_receivers[chunks]]))
    sends = ops["kind"] == OpKind.SEND
    is_group = ops["group"] == 1
    to_rank = (ops["peer"] >= 0) & ~is_group
    lane, peer = ops["lane"].copy(), ops["peer"].copy()
    lane[sends] = np.searchsorted(queues, lane[sends])
    peer[to_rank] -= job.first_rank
    peer[is_group] = np.searchsorted(groups, peer[is_group])
    dep_start, dep_op, dep_lag = _own_dependencies(plan, job.first_op, last)
    group_start, group_rank = _rows(plan.group_start, plan.group_rank, groups)
    set_start, set_rank = _rows(plan.set_start, plan.set_rank, sets)
    return replace(
        plan,
        name=job.name,
        rank_role=plan.rank_role[ranks],
        rank_host=plan.rank_host[ranks],
        queue_rank=plan.queue_rank[queues] - np.int32(job.first_rank),
        queue_discipline=plan.queue_discipline[queues],
        chunk_bytes=plan.chunk_bytes[chunks],
        chunk_tensor=np.searchsorted(tensors, plan.chunk_tensor[chunks]).astype(np.int32),
        tensors=tuple(plan.tensors[tensor] for tensor in tensors.tolist()),
        ops=replace(
            Ops(**ops),
            rank=ops["rank"] - np.int32(job.first_rank),
            lane=lane,
            peer=peer,
            chunk=np.where(ops["chunk"] >= 0, np.searchsorted(chunks, ops["chunk"]), -1).astype(np.int32),
            message=np.where(ops["message"] >= 0, ops["message"] - job.first_op, -1),
        ),
        dep_start=dep_start,
        dep_op=dep_op,
        dep_lag=dep_lag,
        produces=pairs["produces"],
        consumes=pairs["consumes"],
        needs=pairs["needs"],
        moments=moments_of_job(plan, job) - np.array([job.first_op, 0, 0, 0], np.int64),
        begin_op=_of(plan.begin_op, job.first_op, last),
        end_op=_of(plan.end_op, job.first_op, last),
        group_start=group_start,
        group_rank=group_rank - np.int32(job.first_rank),
        chunk_contributors=np.searchsorted(sets, plan.chunk_contributors[chunks]).astype(np.int64),
        chunk_receivers=np.searchsorted(sets, plan.chunk_receivers[chunks]).astype(np.int64),
        set_start=set_start,
        set_rank=set_rank - job.first_rank,
        compute_s=job.compute_s * job.iterations,
        samples=job.samples * job.iterations,
        notes=(),
        jobs=(),
        first_connection=int((plan.connection_keys()[:, 0] < queues[0]).sum()) if len(queues) else 0,
    )


def moments_of_job(plan: Plan, job: PlanJob) -> Int64:
    """The moments of a job's requests, which are numbered from 0 on, with the ops that the whole plan has."""
    moments = _between(plan.moments, job.first_op, job.first_op + job.iterations * job.ops)
    first = int(moments[:, 2].min()) if len(moments) else 0
    return moments - np.array([0, 0, first, 0], np.int64)


def _between(pairs: Int64, first: int, last: int) -> Int64:
    return pairs[(pairs[:, 0] >= first) & (pairs[:, 0] < last)]


def _of(ops: Int64, first: int, last: int) -> Int64:
    return ops[(ops >= first) & (ops < last)] - first


def _own_dependencies(plan: Plan, first: int, last: int) -> tuple[Int64, Int64, UInt8]:
    """Returns the dependencies between a job's own ops, which are those from `first` up to `last`, without those that
    delay its first iteration: where each op's begin, the ops, and the lags."""
    begin, end = int(plan.dep_start[first]), int(plan.dep_start[last])
    waiting = np.repeat(np.arange(last - first), np.diff(plan.dep_start[first : last + 1]))
    own = plan.dep_op[begin:end] < last
    starts = np.concatenate([[0], np.cumsum(np.bincount(waiting[own], minlength=last - first))]).astype(np.int64)
    return starts, plan.dep_op[begin:end][own] - first, plan.dep_lag[begin:end][own]


def _rows(
    starts: Int64, values: npt.NDArray[Number], wanted: npt.NDArray[np.generic]
) -> tuple[Int64, npt.NDArray[Number]]:
    """The wanted rows of a table."""
    rows = [values[starts[row] : starts[row + 1]] for row in wanted.tolist()]
    new_starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return new_starts, np.concatenate([values[:0], *rows])

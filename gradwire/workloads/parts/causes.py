"""Causes of the messages that outside ranks send to a part. A message to the part depends on messages from it, through
any number of ranks outside; its *cause* is the one of them that arrived last in an estimate.

Causes are followed through two consecutive iterations of the estimate, all ops of one depth at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int64, OpKind, Plan
from gradwire.workloads.symbolic.wait_graph import WaitGraph

NOTHING = -1
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Times:
    """Start and end of each op in two consecutive steady iterations of the whole plan's estimate, shape (2, ops)."""

    start_s: Float64
    end_s: Float64


@dataclass(frozen=True)
class Causes:
    """The causes of messages to the part, in columns by message."""

    #: The RECV outside of the message from the part that arrived last, or NOTHING.
    op: Int64
    #: How many iterations before: 0 or 1.
    lag: Int64


def causes(plan: Plan, from_part: Int64, to_part: Int64, times: Times) -> Causes:
    """The causes of the SENDs `to_part` among the RECVs `from_part`."""
    count = len(plan.ops)
    came_s = np.full(2 * count, -np.inf)
    cause: Int64 = np.full(2 * count, NOTHING, np.int64)
    is_source = np.zeros(2 * count, np.bool_)
    for iteration in (0, 1):
        nodes = iteration * count + from_part
        is_source[nodes], cause[nodes] = True, nodes
        came_s[nodes] = times.end_s[iteration, from_part]
    start, before = _predecessors(plan)
    for front in _fronts(plan):
        nodes = front[~is_source[front]]
        lengths = start[nodes + 1] - start[nodes]
        nodes, lengths = nodes[lengths > 0], lengths[lengths > 0]
        if not len(nodes):
            continue
        first = np.cumsum(lengths) - lengths
        others = before[np.repeat(start[nodes] - first, lengths) + np.arange(int(lengths.sum()))]
        latest_s = np.maximum.reduceat(came_s[others], first)
        is_latest = came_s[others] == np.repeat(latest_s, lengths)
        came_s[nodes] = latest_s
        cause[nodes] = np.maximum.reduceat(np.where(is_latest, cause[others], NOTHING), first)
    found = cause[count + to_part]
    known = found >= 0
    return Causes(np.where(known, found % count, NOTHING), np.where(known, 1 - found // count, 1))


def _predecessors(plan: Plan) -> tuple[Int64, Int64]:
    """Returns the ops that each op of two iterations waits for, in compressed rows: where each row begins, and the ops.
    Counter queues are left out: their order passes nothing on."""
    count = len(plan.ops)
    waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
    recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV)
    source = np.concatenate([plan.dep_op, plan.ops.message[recvs]])
    target = np.concatenate([waiting, recvs])
    lag = np.concatenate([plan.dep_lag, np.zeros(len(recvs), np.uint8)])
    now = lag == 0
    sources = np.concatenate([source[now], source[now] + count, source[~now]])
    targets = np.concatenate([target[now], target[now] + count, target[~now] + count])
    start = np.concatenate([[0], np.cumsum(np.bincount(targets, minlength=2 * count))])
    return start, sources[np.argsort(targets, kind="stable")]


def _fronts(plan: Plan) -> list[npt.NDArray[np.intp]]:
    """Ops of two iterations by depth, each behind all that it waits for."""
    graph = WaitGraph(plan)
    waits = graph.waits_for.copy()
    front = np.flatnonzero(waits == 0)
    fronts = []
    while len(front):
        fronts.append(front)
        following, lengths = np.unique(graph.successors(front), return_counts=True)
        waits[following] -= lengths
        front = following[waits[following] == 0]
    return fronts

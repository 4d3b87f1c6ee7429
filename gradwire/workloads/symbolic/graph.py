"""What waits for what when a plan is executed: dependencies, messages and the order of counter queues."""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Discipline, Int32, Int64, OpKind, Plan

ITERATIONS = 2
"""The first starts from initial parameters; the second consumes what the plan itself delivered."""


class Graph:
    """A plan's ops with their edges, and the same unrolled into ITERATIONS. Messages and counter queues are edges too.

    A node is an iteration times `count` plus an op.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.count = len(plan.ops)
        waiting = np.repeat(np.arange(self.count), np.diff(plan.dep_start))
        recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV)
        first, second, lag = _counter_edges(plan)
        #: Columns of the edges: op, op that waits for it, and 1 if that is the one of the next iteration.
        self.source: Int64 = np.concatenate([plan.dep_op, plan.ops.message[recvs], first])
        self.target: Int64 = np.concatenate([waiting, recvs, second])
        self.lag: Int64 = np.concatenate([plan.dep_lag.astype(np.int64), np.zeros(len(recvs), np.int64), lag])

    @cached_property
    def waits_for(self) -> Int64:
        """How many nodes each node waits for."""
        within = np.bincount(self.target[self.lag == 0], minlength=self.count)
        across = np.bincount(self.target[self.lag == 1], minlength=self.count)
        return np.concatenate([within + across * (iteration > 0) for iteration in range(ITERATIONS)])

    def unrolled(self) -> tuple[Int32, Int32]:
        """Columns of all edges between nodes: node, and node that waits for it."""
        source, target, lag = self.source.astype(np.int32), self.target.astype(np.int32), self.lag
        ahead = [(it, it + step) for it in range(ITERATIONS) for step in (0, 1) if it + step < ITERATIONS]
        sources = np.concatenate([source[lag == after - it] + np.int32(it * self.count) for it, after in ahead])
        targets = np.concatenate([target[lag == after - it] + np.int32(after * self.count) for it, after in ahead])
        return sources, targets

    @cached_property
    def _unrolled(self) -> tuple[Int64, Int64]:
        """Successors of all nodes in compressed rows: where each begins, and the nodes."""
        sources, targets = (column.astype(np.int64) for column in self.unrolled())
        by_source = np.argsort(sources, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=ITERATIONS * self.count))])
        return start, targets[by_source]

    def successors(self, nodes: Int64) -> Int64:
        """Concatenates the successors of all `nodes`."""
        return self.successors_of_each(nodes)[0]

    def successors_of_each(self, nodes: Int64) -> tuple[Int64, Int64]:
        """The same, and how many each node has."""
        start, successors = self._unrolled
        lengths = start[nodes + 1] - start[nodes]
        first = np.repeat(start[nodes] - (np.cumsum(lengths) - lengths), lengths)
        return successors[first + np.arange(int(lengths.sum()))], lengths

    def dead_ends(self) -> npt.NDArray[np.bool_]:
        """Whether each op is a dead end, for which only other dead ends wait. If a dependency is missing, the race is
        lost there."""
        waiting = np.bincount(self.source, minlength=self.count)
        by_target = np.argsort(self.target, kind="stable")
        sources = self.source[by_target]
        start = np.concatenate([[0], np.cumsum(np.bincount(self.target, minlength=self.count))])
        dead: npt.NDArray[np.bool_] = waiting == 0
        frontier = np.flatnonzero(dead)
        while len(frontier):
            lengths = start[frontier + 1] - start[frontier]
            first = np.repeat(start[frontier] - (np.cumsum(lengths) - lengths), lengths)
            before = sources[first + np.arange(int(lengths.sum()))]
            np.subtract.at(waiting, before, 1)
            frontier = np.unique(before[waiting[before] == 0])
            dead[frontier] = True
        return dead


def _counter_edges(plan: Plan) -> tuple[Int64, Int64, Int64]:
    """Columns (first, second, lag) of the sends that counter queues order.

    Each send comes before the next one, and the last one before the first one of the next iteration.
    """
    ops = plan.ops
    sends = np.flatnonzero(ops.kind == OpKind.SEND)
    edges: list[tuple[int, int, int]] = []
    for queue in np.flatnonzero(plan.queue_discipline == Discipline.COUNTER):
        queued = sends[ops.lane[sends] == queue]
        queued = queued[np.argsort(ops.order[queued], kind="stable")]
        edges += [(a, b, 0) for a, b in itertools.pairwise(queued.tolist())]
        if len(queued):
            edges.append((int(queued[-1]), int(queued[0]), 1))
    columns = np.array(edges, dtype=np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]

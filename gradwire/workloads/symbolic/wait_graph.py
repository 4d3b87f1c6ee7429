"""The graph of what waits for what when a plan is executed, by dependencies, messages and the order of counter queues.

`Holdings` has the chunks that its ranks may hold, and the contributions that make a chunk complete.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Discipline, Int32, Int64, OpKind, Plan

ITERATIONS = 2
"""The first starts from initial parameters; the second consumes what the plan itself delivered."""


class WaitGraph:
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
        """Returns how many nodes each node waits for."""
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
    def _successor_rows(self) -> tuple[Int64, Int64]:
        """Successors of all nodes in compressed rows: where each begins, and the nodes."""
        sources, targets = (column.astype(np.int64) for column in self.unrolled())
        by_source = np.argsort(sources, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=ITERATIONS * self.count))])
        return start, targets[by_source]

    def successors(self, nodes: Int64) -> Int64:
        """Concatenates the successors of all `nodes`."""
        return self.successors_of_each(nodes)[0]

    def successors_of_each(self, nodes: Int64) -> tuple[Int64, Int64]:
        """Returns the successors of these nodes, one node after the other, and how many each node has."""
        start, successors = self._successor_rows
        lengths = start[nodes + 1] - start[nodes]
        first = np.repeat(start[nodes] - (np.cumsum(lengths) - lengths), lengths)
        return successors[first + np.arange(int(lengths.sum()))], lengths

    def dead_ends(self) -> npt.NDArray[np.bool_]:
        """Returns, for each op, whether it is a dead end, for which only other dead ends wait.

        If a dependency is missing, the race is lost there.
        """
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
    queued = sends[plan.queue_discipline[ops.lane[sends]] == Discipline.COUNTER]
    queued = queued[np.lexsort((ops.order[queued], ops.lane[queued]))]
    lanes = ops.lane[queued]
    is_first = np.diff(lanes, prepend=-1) != 0
    is_last = np.diff(lanes, append=-1) != 0
    following = np.roll(queued, -1)
    following[is_last] = queued[is_first]
    return queued, following, is_last.astype(np.int64)


WORD_BITS = 64
UInt64 = npt.NDArray[np.uint64]


class Holdings:
    """The contributions that every rank may hold of every chunk, by the rules of gradwire.datatypes.plan.Ledger.

    A row is a (rank, chunk) that some op touches.
    """

    def __init__(self, plan: Plan) -> None:
        ops, chunks = plan.ops, max(1, len(plan.chunk_bytes))
        key = ops.rank.astype(np.int64) * chunks + ops.chunk
        pairs = np.concatenate([plan.produces, plan.consumes, plan.needs])
        pair_key = ops.rank[pairs[:, 0]].astype(np.int64) * chunks + pairs[:, 1]
        rows, index = np.unique(np.concatenate([key, pair_key]), return_inverse=True)
        self.row_of_op = index[: len(ops)]
        self.row_of_produced = index[len(ops) : len(ops) + len(plan.produces)]
        #: The row of each of Plan.consumes, and behind them of each of Plan.needs.
        self.row_of_needed = index[len(ops) + len(plan.produces) :]
        words = -(-max(1, len(plan.workers)) // WORD_BITS)
        everyone = self._bits(np.arange(len(plan.workers)), words).sum(axis=0, dtype=np.uint64)
        self.rows = len(rows)
        #: Key of each row: the rank times the number of chunks, plus the chunk.
        self.rows_key: Int64 = rows
        #: Rows whose sum has become complete at some time, in any order.
        self.summed = np.zeros(len(rows), dtype=np.bool_)
        number_of = np.full(len(plan.rank_role), -1, dtype=np.int64)
        number_of[plan.workers] = np.arange(len(plan.workers))
        producer = number_of[ops.rank[plan.produces[:, 0]]]
        #: The contributions that make a chunk complete, by set of contributors; one row if every chunk is everybody's.
        self.wholes: UInt64 = everyone[None, :]
        #: For each row, that of `wholes`.
        self.whole_of_row = np.zeros(len(rows), dtype=np.int64)
        if len(plan.chunk_contributors):
            of_set = [
                self._bits(number_of[plan.set_ranks(i)], words).sum(axis=0) for i in range(-1, len(plan.set_start) - 1)
            ]
            self.wholes = np.array(of_set, dtype=np.uint64)
            self.whole_of_row = plan.chunk_contributors[np.maximum(rows, 0) % chunks] + 1
        whole = self.whole(self.row_of_produced)
        self.contribution = np.where(producer[:, None] < 0, whole, self._bits(producer, words))

    @staticmethod
    def _bits(workers: Int64, words: int) -> UInt64:
        bits = np.zeros((len(workers), words), dtype=np.uint64)
        numbered = np.flatnonzero(workers >= 0)
        bits[numbered, workers[numbered] // WORD_BITS] = np.uint64(1) << (workers[numbered] % WORD_BITS).astype(
            np.uint64
        )
        return bits

    def whole(self, rows: Int64) -> UInt64:
        """The contributions that make the chunks of `rows` complete, in one row if they are the same for all."""
        if len(self.wholes) == 1:
            return self.wholes
        of_rows: UInt64 = self.wholes[self.whole_of_row[rows]]
        return of_rows

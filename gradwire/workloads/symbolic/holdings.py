"""What the ranks of a plan may hold of its chunks, and what makes a chunk complete."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int64, Plan

WORD_BITS = 64
UInt64 = npt.NDArray[np.uint64]


class Holdings:
    """What every rank may hold of every chunk, by the rules of gradwire.datatypes.plan.Ledger. A row is a (rank,
    chunk) that some op touches."""

    def __init__(self, plan: Plan) -> None:
        ops, chunks = plan.ops, max(1, len(plan.chunk_bytes))
        key = ops.rank.astype(np.int64) * chunks + ops.chunk
        pairs = np.concatenate([plan.produces, plan.consumes, plan.needs])
        pair_key = ops.rank[pairs[:, 0]].astype(np.int64) * chunks + pairs[:, 1]
        rows, index = np.unique(np.concatenate([key, pair_key]), return_inverse=True)
        self.row_of_op = index[: len(ops)]
        self.row_of_produced = index[len(ops) : len(ops) + len(plan.produces)]
        #: Of rows of Plan.consumes, and behind them of Plan.needs.
        self.row_of_needed = index[len(ops) + len(plan.produces) :]
        words = -(-max(1, len(plan.workers)) // WORD_BITS)
        everyone = self._bits(np.arange(len(plan.workers)), words).sum(axis=0, dtype=np.uint64)
        self.rows = len(rows)
        #: Of each row: the rank times the number of chunks, plus the chunk.
        self.rows_key: Int64 = rows
        #: Rows whose sum has become complete at some time, in any order.
        self.summed = np.zeros(len(rows), dtype=np.bool_)
        own = np.full(len(plan.rank_role), -1, dtype=np.int64)
        own[plan.workers] = np.arange(len(plan.workers))
        producer = own[ops.rank[plan.produces[:, 0]]]
        #: The contributions that make a chunk complete, by set of contributors; one row if every chunk is everybody's.
        self.wholes: UInt64 = everyone[None, :]
        #: For each row, that of `wholes`.
        self.whole_of_row = np.zeros(len(rows), dtype=np.int64)
        if len(plan.chunk_contributors):
            of_set = [self._bits(own[plan.set_ranks(i)], words).sum(axis=0) for i in range(-1, len(plan.set_start) - 1)]
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

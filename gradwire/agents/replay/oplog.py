"""Collects the log of ops in one table of integers while a plan is replayed."""

from __future__ import annotations

import numpy as np

from gradwire.agents.replay.graph import column
from gradwire.datatypes.records import OpLog

COLUMNS = 5


class OpLogger:
    """Takes one row per executed op, at most `rows` in all; `freeze` returns the log.

    The table has its full size from the start and is written once before it is used. Columns that grew side by side
    would take pages of memory in turn, and each page would be a mapping of its own (see graph.py).
    """

    def __init__(self, rows: int) -> None:
        # np.zeros would not do: memory that was never written is a single page of zeros, mapped again for every page
        # of the array.
        self._rows = np.full((rows, COLUMNS), 0, np.int64)
        self._table = column(self._rows.reshape(-1))
        self._used = 0

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._used // COLUMNS

    def add(self, iteration: int, op: int, nominal_start_ns: int, start_ns: int, end_ns: int) -> None:
        """Adds a row, with the columns of OpLog. Raises IndexError if the table is full."""
        table, at = self._table, self._used
        table[at] = iteration
        table[at + 1] = op
        table[at + 2] = nominal_start_ns
        table[at + 3] = start_ns
        table[at + 4] = end_ns
        self._used = at + COLUMNS

    def freeze(self) -> OpLog:
        """The log so far."""
        rows = self._rows[: self._used // COLUMNS]
        return OpLog(*(rows[:, number].copy() for number in range(COLUMNS)))

"""Collects the log of ops in flat integer arrays while a plan is replayed."""

from __future__ import annotations

import numpy as np

from gradwire.agents.graph import column
from gradwire.agents.records import OpLog

COLUMNS = 5


class OpLogger:
    """Takes one row an op carried out, `rows` at most; `freeze` gives the log.

    One table of a fixed size, written once before it is used: columns that grew side by side would share out the pages of memory
    among them, and each page would be a mapping of its own (agents/graph.py).
    """

    def __init__(self, rows: int) -> None:
        # Not np.zeros: memory that was never written is one page of zeros, mapped again and again.
        self._rows = np.full((rows, COLUMNS), 0, np.int64)
        self._table = column(self._rows.reshape(-1))
        self._used = 0

    def add(self, iteration: int, op: int, nominal_start_ns: int, start_ns: int, end_ns: int) -> None:
        """Adds a row; columns as in OpLog. Raises IndexError beyond `rows`."""
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

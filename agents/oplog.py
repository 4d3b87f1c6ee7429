"""Collects the log of ops in flat integer arrays while a plan is replayed."""

from __future__ import annotations

from array import array

import numpy as np

from agents.records import OpLog


class OpLogger:
    """Appends one row an op carried out; `freeze` gives the log."""

    def __init__(self) -> None:
        self._columns = tuple(array("q") for _ in range(5))

    def add(self, iteration: int, op: int, nominal_start_ns: int, start_ns: int, end_ns: int) -> None:
        """Appends a row; columns as in OpLog."""
        iterations, ops, nominals, starts, ends = self._columns
        iterations.append(iteration)
        ops.append(op)
        nominals.append(nominal_start_ns)
        starts.append(start_ns)
        ends.append(end_ns)

    def freeze(self) -> OpLog:
        """The log so far."""
        return OpLog(*(np.array(column, dtype=np.int64) for column in self._columns))

"""Sets of times: what is covered by one and not by another."""

from __future__ import annotations

import numpy as np

from gradwire.workloads.traces.workload import Int64


def union(begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The same times as intervals that neither overlap nor touch, in order."""
    if not len(begin):
        return begin, end
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    opens = np.concatenate([[True], begin[1:] > end[:-1]])
    return begin[opens], end[np.concatenate([opens[1:], [True]])]


def length(begin: Int64, end: Int64) -> int:
    """Sum of the lengths of a union."""
    return int((end - begin).sum())


def length_outside(begin: Int64, end: Int64, other_begin: Int64, other_end: Int64) -> int:
    """How long the first times are outside of the second: of communication and computation, what is exposed."""
    both = union(np.concatenate([begin, other_begin]), np.concatenate([end, other_end]))
    return length(*both) - length(*union(other_begin, other_end))

"""Progress of each op of each iteration: the mutable part of a replay that is not lanes or network."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradwire.analysis.fluid.agenda import Agenda, agenda_for
from gradwire.analysis.fluid.graph import Float64, Graph, Records
from gradwire.datatypes.plan import Int32, Int64

NONE = -1

COLUMN = np.dtype(
    [
        ("iteration", "i8"),  # the iteration that uses the column, or NONE
        ("unended", "i8"),  # its ops that have not ended
        ("begun_ns", "f8"),  # when its first op was touched
        ("fingerprint_ns", "f8"),  # see RESULT, so far
    ]
)
RESULT = np.dtype(
    [
        ("begun_ns", "f8"),  # when the iteration's first op was touched
        ("end_ns", "f8"),  # when its last worker ended
        ("fingerprint_ns", "f8"),  # a sum of its ops' ends, each with a weight of its own, since it began
        ("has_ended", "i8"),  # whether all its ops have ended
    ]
)


class Progress(NamedTuple):
    """The ops of the iterations under way.

    There are w columns of ops. Iteration i uses column i % w, and its op j is the instance (i % w) * ops + j.
    """

    #: COLUMNs.
    columns: Records
    #: Dependencies that each instance still waits for.
    pending: Int32
    #: Instances that have ended and whose successors do not know it yet.
    ended: Int64
    #: A RESULT per iteration of the replay.
    results: Records
    #: Arrival of the message of each instance of a SEND, once the message has left.
    travellers: Agenda
    #: Values at the indices below.
    counts: Int64
    #: Start of the earliest op that begins an iteration 0; one element.
    first_begin_ns: Float64
    #: Start and end of each op, shape (iterations, ops); no rows if they are not asked for.
    op_start_ns: Float64
    op_end_ns: Float64


ENDED, OVERLAP = 0, 1
"""Indices of Progress.counts: length of `ended`, 1 if more than w iterations overlap."""


def progress_of(graph: Graph, iterations: int, window: int, *, delayed: bool, logged: bool) -> Progress:
    """A replay of at most `iterations` iterations that has not begun; `window` of them may be under way at a time.

    delayed: whether messages travel. logged: whether starts and ends of ops are kept.
    """
    ops = len(graph.ops) - 1
    columns = np.zeros(window, COLUMN)
    columns["iteration"] = NONE
    logs = (iterations if logged else 0, ops)
    return Progress(
        columns=columns,
        pending=np.zeros(ops * window, np.int32),
        ended=np.empty(ops * window, np.int64),
        results=np.zeros(iterations, RESULT),
        travellers=agenda_for(ops * window if delayed else 1),
        counts=np.zeros(2, np.int64),
        first_begin_ns=np.full(1, np.inf),
        op_start_ns=np.full(logs, np.nan),
        op_end_ns=np.full(logs, np.nan),
    )

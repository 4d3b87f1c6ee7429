"""Parts of messages, which travel at the same time on different connections. Pure; imports only numpy and frozen data.

A message that is divided over the connections of its pair (workloads/divided_messages.py) has a first part, which says
what it carries of which chunk, and others, which only carry bytes: the first part's RECV waits for theirs.
"""

from __future__ import annotations

import numpy as np

from gradwire.datatypes.plan import Int64, OpKind, Plan


def first_parts(plan: Plan) -> Int64:
    """Returns, for each SEND that is a later part of a message, the SEND of the first part; -1 for all other ops."""
    ops = plan.ops
    waiting = np.repeat(np.arange(len(ops)), np.diff(plan.dep_start))
    source = plan.dep_op
    edges = np.flatnonzero((ops.kind[waiting] == OpKind.RECV) & (ops.kind[source] == OpKind.RECV) & (plan.dep_lag == 0))
    first, later = ops.message[waiting[edges]], ops.message[source[edges]]
    alike = (
        (ops.chunk[later] < 0)
        & (ops.traffic_class[later] >= 0)
        & (ops.traffic_class[first] == ops.traffic_class[later])
        & (ops.rank[first] == ops.rank[later])
        & (ops.lane[first] != ops.lane[later])
        & (ops.group[first] == 0)
    )
    found: Int64 = np.full(len(ops), -1, np.int64)
    found[later[alike]] = first[alike]
    return found


def most_parts(plan: Plan) -> int:
    """The most parts that a message has; 1 where none is divided."""
    first = first_parts(plan)
    return 1 + int(np.bincount(first[first >= 0]).max(initial=0))


def carried_chunks(plan: Plan) -> Int64:
    """Returns, for each op, the chunk that it produces, moves or adds, also if it is a later part of a message; -1 for
    none."""
    ops = plan.ops
    chunks: Int64 = ops.chunk.astype(np.int64)
    first = first_parts(plan)
    moves = np.flatnonzero(ops.message >= 0)
    of_message = first[ops.message[moves]]
    parts = moves[of_message >= 0]
    chunks[parts] = ops.chunk[of_message[of_message >= 0]]
    return chunks

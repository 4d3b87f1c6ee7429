"""A plan's ops and dependencies, as the compiled replay reads them.

The replay's data are arrays of records. numba passes an array as seven numbers, and a named tuple as those of all its
arrays. With a column for each field, which makes ninety arrays, the functions took 55 s to compile; with thirty arrays
of records they take 23 s.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.analysis.fluid.paths import Paths
from gradwire.datatypes.plan import Int64, OpKind, Plan

Float64 = npt.NDArray[np.float64]
Records = npt.NDArray[Any]
"""An array of a structured type; an element has its fields as attributes in compiled code."""

STREAM = 0
"""The policy of a serial stream; that of a send queue is its Discipline."""

OP = np.dtype(
    [
        ("duration_ns", "f8"),
        ("order", "f8"),
        ("line_bytes", "f8"),  # of a SEND that passes a port: payload and the overhead of full frames
        ("lane", "i4"),  # -1 for a RECV
        ("flow", "i4"),  # of a SEND that passes a port, else -1
        ("first_recv", "i4"),  # the RECVs of a SEND are recvs[first_recv] up to the first_recv of the next op
        ("first_edge", "i4"),  # the same for the ops that wait for it
        ("waits_first", "i4"),  # dependencies in iteration 0; the message of a RECV counts as one
        ("waits_later", "i4"),  # dependencies in later iterations
        ("kind", "i4"),
        ("begins", "i2"),  # 1: its start begins a worker's iteration
        ("concludes", "i2"),  # 1: its end concludes a worker's iteration
    ]
)
EDGE = np.dtype(
    [
        ("op", "i4"),  # an op that waits
        ("lag", "i4"),  # how many iterations later it is: 0 or 1
    ]
)


class Graph(NamedTuple):
    """The data that do not change while a plan is replayed. Lanes are the ranks' serial streams, then the send
    queues."""

    #: One OP per op of the plan, and one more, whose first_recv and first_edge are the ends of the last op's.
    ops: Records
    recvs: Int64
    #: EDGEs by the op that is waited for.
    edges: Records
    #: The `order` of all ops of each lane, ascending, lane by lane. A COUNTER queue serves its SENDs strictly one
    #: after another.
    orders: Float64


def graph_of(plan: Plan, paths: Paths) -> tuple[Graph, Int64, Int64]:
    """The graph of a plan whose messages take `paths`; policy and number of ops of each lane."""
    columns, count = plan.ops, len(plan.ops)
    lane, policy = _lanes(plan)
    recvs = np.flatnonzero(columns.kind == OpKind.RECV)
    waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
    same, before = (np.bincount(waiting[plan.dep_lag == lag], minlength=count) for lag in (0, 1))

    ops = np.zeros(count + 1, OP)
    ops["kind"][:count], ops["lane"][:count] = columns.kind, lane
    ops["duration_ns"][:count], ops["order"][:count] = columns.duration_ns, columns.order
    ops["flow"][:count], ops["line_bytes"][:count] = paths.flow_of_send, paths.line_bytes
    ops["waits_first"][:count] = same + (columns.kind == OpKind.RECV)
    ops["waits_later"][:count] = ops["waits_first"][:count] + before
    ops["begins"][plan.begin_op] = ops["concludes"][plan.end_op] = 1
    ops["first_recv"], by_message = _grouped(columns.message[recvs], count)
    ops["first_edge"], by_awaited = _grouped(plan.dep_op, count)

    edges = np.zeros(len(by_awaited), EDGE)
    edges["op"], edges["lag"] = waiting[by_awaited], plan.dep_lag[by_awaited]
    held = np.flatnonzero(lane >= 0)
    orders = columns.order[held[np.lexsort((columns.order[held], lane[held]))]].astype(np.float64)
    graph = Graph(ops, recvs[by_message].astype(np.int64), edges, orders)
    return graph, policy, np.bincount(lane[held], minlength=len(policy)).astype(np.int64)


def _lanes(plan: Plan) -> tuple[Int64, Int64]:
    """Lane of each op, and policy of each lane."""
    ops = plan.ops
    serial = (ops.kind == OpKind.COMPUTE) | (ops.kind == OpKind.REDUCE)
    sends = ops.kind == OpKind.SEND
    per_rank = int(ops.lane[serial].max(initial=0)) + 1
    streams, stream = np.unique(ops.rank[serial].astype(np.int64) * per_rank + ops.lane[serial], return_inverse=True)
    lane: Int64 = np.full(len(ops), -1, dtype=np.int64)
    lane[serial] = stream
    lane[sends] = len(streams) + ops.lane[sends]
    policy = np.concatenate([np.full(len(streams), STREAM), plan.queue_discipline]).astype(np.int64)
    return lane, policy


def _grouped(keys: Int64, count: int) -> tuple[Int64, Int64]:
    """Rows by key: those of key i are the second array's [first[i]:first[i + 1]]."""
    start: Int64 = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=start[1:])
    return start, np.argsort(keys, kind="stable").astype(np.int64)

"""Times and shares of plain transfers: the measurements of calibration and the ideal that they are compared with."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.bounds import transfers
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import OpLog
from gradwire.network.fabric import Fabric


def transfer_time_s(plan: Plan, log: OpLog, iteration: int) -> float:
    """Seconds from the first byte sent to the last byte received of an
    iteration's transfers, without control messages."""
    now = (log.iteration == iteration) & (plan.ops.traffic_class[log.op] >= 0)
    kinds = plan.ops.kind[log.op]
    first = log.start_ns[now & (kinds == OpKind.SEND)].min()
    last = log.end_ns[now & (kinds == OpKind.RECV)].max()
    return float(last - first) / 1e9


def steady_flow_time_s(plan: Plan, log: OpLog, iteration: int) -> float:
    """The longest, over flows, from the arrival of a flow's first message to that of its last, in seconds.

    Flows that end at the same time are noticed one after the other, 16 flows 14 us apart, because each clock read of
    an agent or of the kernel takes some time. A flow's first message is late by as much, so the lateness cancels out
    here. Every flow needs two messages.
    """
    ops = plan.ops
    arrived = (log.iteration == iteration) & (ops.kind[log.op] == OpKind.RECV) & (ops.traffic_class[log.op] >= 0)
    flow = ops.peer[log.op[arrived]].astype(np.int64) * len(plan.rank_host) + ops.rank[log.op[arrived]]
    ends_ns = log.end_ns[arrived]
    order = np.lexsort((ends_ns, flow))
    _, first, count = np.unique(flow[order], return_index=True, return_counts=True)
    spans_ns = ends_ns[order][first + count - 1] - ends_ns[order][first]
    return float(spans_ns.max()) / 1e9


def ideal_s(plan: Plan, fabric: Fabric) -> float:
    """Time that the busiest host port takes at line rate for an iteration's
    transfers, with the overhead of full frames."""
    moved = transfers(plan)
    data = plan.ops.traffic_class[moved.op] >= 0
    multicast = plan.ops.group[moved.op] == 1
    line = moved.size_bytes / np.where(multicast, fabric.multicast_goodput_share(), fabric.goodput_share())
    out = np.bincount(moved.src[data & moved.first], line[data & moved.first], minlength=fabric.hosts)
    into = np.bincount(moved.dst[data], line[data], minlength=fabric.hosts)
    return float((np.maximum(out, into)[: fabric.hosts] / np.array(fabric.host_bps)).max()) * 8


def low_share(plan: Plan, log: OpLog, iteration: int) -> float:
    """Share of class 1 in all bytes that arrived between its start and the end of class 0.

    Class 0 is assumed to arrive evenly, as it does when it saturates its port.
    """
    kind, traffic_class = plan.ops.kind[log.op], plan.ops.traffic_class[log.op]
    now = log.iteration == iteration
    high_sent = now & (kind == OpKind.SEND) & (traffic_class == 0)
    high = now & (kind == OpKind.RECV) & (traffic_class == 0)
    low_sent = now & (kind == OpKind.SEND) & (traffic_class == 1)
    high_start, high_end = log.start_ns[high_sent].min(), log.end_ns[high].max()
    low_start = log.start_ns[low_sent].min()
    low = now & (kind == OpKind.RECV) & (traffic_class == 1) & (log.end_ns <= high_end)
    low_bytes = float(plan.ops.size_bytes[log.op[low]].sum())
    overlap = float(high_end - low_start) / float(high_end - high_start)
    high_bytes = float(plan.ops.size_bytes[log.op[high]].sum()) * overlap
    return low_bytes / (low_bytes + high_bytes)

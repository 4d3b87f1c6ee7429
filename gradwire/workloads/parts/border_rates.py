"""Rates of the ports of stand-ins, for the part's messages.

In the whole, such a port carries messages between outside ranks too, which the part does not have. So it gets the rate
that the estimate leaves to the part's messages: that of the port, less what others send through it while any of the
part's is under way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwire.datatypes.plan import Int64, OpKind, Plan
from gradwire.workloads.parts.causes import Float64, Times

LEAST_SHARE = 1e-3
"""The least share of a port's rate that is left to the part's messages."""


def border_shares(plan: Plan, part: Sequence[int], stand_ins: Int64, times: Times, port_bytes_per_s: float) -> Float64:
    """The share of its rate that the port of each stand-in's host gets, in the direction that has more left.

    part: hosts that are whole. port_bytes_per_s: payload that a host's port carries.
    """
    ops = plan.ops
    recvs = np.flatnonzero(ops.kind == OpKind.RECV)
    sends = ops.message[recvs]
    remote = plan.is_remote()[sends]
    recvs, sends = recvs[remote], sends[remote]
    from_host, to_host = plan.rank_host[ops.rank[sends]], plan.rank_host[ops.rank[recvs]]
    with_part = np.isin(from_host, part) | np.isin(to_host, part)
    size = ops.size_bytes[sends].astype(np.float64)
    begins_s = times.start_s[:, sends] + ops.duration_ns[sends] / 1e9
    ends_s = np.maximum(times.end_s[:, recvs], begins_s)
    shares = np.zeros(len(stand_ins))
    for hosts in (from_host, to_host):
        by_host = np.argsort(hosts, kind="stable")
        bounds = np.searchsorted(hosts[by_host], np.stack([stand_ins, stand_ins + 1]))
        for number, (first, last) in enumerate(bounds.T.tolist()):
            here = by_host[first:last]
            own, others = here[with_part[here]], here[~with_part[here]]
            left = 1.0
            if len(own):
                left = _left(begins_s, ends_s, size, own, others, port_bytes_per_s)
                shares[number] = max(shares[number], left)
    return np.where(shares > 0, np.clip(shares, LEAST_SHARE, 1.0), 1.0)


def _left(
    begins_s: Float64, ends_s: Float64, size: Float64, own: Int64, others: Int64, port_bytes_per_s: float
) -> float:
    """The share of a port's rate that is left to `own` messages while any of them is under way."""
    order = np.argsort(begins_s[:, own].ravel(), kind="stable")
    begin_s, end_s = begins_s[:, own].ravel()[order], np.maximum.accumulate(ends_s[:, own].ravel()[order])
    # Time of the union of these up to each of its corners.
    begin_s = np.maximum(begin_s, np.concatenate([[-np.inf], end_s[:-1]]))
    lasted_s = np.cumsum(np.maximum(0.0, end_s - begin_s))
    active_s = float(lasted_s[-1])
    if active_s <= 0 or not len(others):
        return 1.0
    corners_s = np.stack([begin_s, end_s], axis=1).ravel()
    passed_s = np.stack([np.concatenate([[0.0], lasted_s[:-1]]), lasted_s], axis=1).ravel()
    since_s, until_s = begins_s[:, others], ends_s[:, others]
    overlap_s = np.interp(until_s, corners_s, passed_s) - np.interp(since_s, corners_s, passed_s)
    length_s = until_s - since_s
    share = np.divide(overlap_s, length_s, out=np.zeros_like(length_s), where=length_s > 0)
    others_bytes = float((share * size[others]).sum())
    return 1.0 - others_bytes / (active_s * port_bytes_per_s)

"""Scales a plan down for a slower network: bytes and rates divided by the same number leave every time as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topo.fabric import ETHERNET_HEADER_BYTES, Fabric
from workloads.plan import Int64, Plan


def scaled_plan(plan: Plan, scale: int) -> Plan:
    """The plan with every size divided by `scale`, a byte at least; durations stay."""
    if scale == 1:
        return plan
    ops = replace(plan.ops, size_bytes=_divided(plan.ops.size_bytes, scale))
    return replace(plan, ops=ops, chunk_bytes=_divided(plan.chunk_bytes, scale))


def scaled_fabric(fabric: Fabric, scale: int) -> Fabric:
    """The fabric with its rate divided by `scale`, and the GSO burst as well, down to one frame, so that it takes the same time."""
    gso_bytes = max(fabric.mtu_bytes + ETHERNET_HEADER_BYTES, fabric.gso_bytes // scale)
    return replace(fabric, rate_bps=fabric.rate_bps / scale, gso_bytes=gso_bytes)


def _divided(sizes: Int64, scale: int) -> Int64:
    return np.where(sizes > 0, np.maximum(1, sizes // scale), 0).astype(np.int64)

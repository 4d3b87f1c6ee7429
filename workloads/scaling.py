"""Scales a plan down for a slower network: bytes and rates divided by the same number leave every time as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradwire.topo.fabric import ETHERNET_HEADER_BYTES, Fabric
from gradwire.workloads.plan import Int64, Plan


def scaled_plan(plan: Plan, scale: int) -> Plan:
    """The plan with every size divided by `scale`, a byte at least; durations stay."""
    if scale == 1:
        return plan
    ops = replace(plan.ops, size_bytes=_divided(plan.ops.size_bytes, scale))
    return replace(plan, ops=ops, chunk_bytes=_divided(plan.chunk_bytes, scale))


def scaled_fabric(fabric: Fabric, scale: int, *, keep_burst: bool = False) -> Fabric:
    """The fabric with its rate divided by `scale`, and the GSO burst as well, down to one frame, so that it takes the same time.

    keep_burst: leaves bursts as they are, so that there are fewer of them, each taking `scale` times as long.
    """
    gso_bytes = max(fabric.mtu_bytes + ETHERNET_HEADER_BYTES, fabric.gso_bytes // scale)
    kept = fabric.gso_bytes if keep_burst else gso_bytes
    return replace(fabric, rate_bps=fabric.rate_bps / scale, gso_bytes=kept)


VIRTUAL_CAPACITY_BPS = 3.3e12
"""What all hosts together have been seen to send on the virtual clock as they should: 33 at 100 Gbit/s, of whom each sends to the next,
within 0.35 % of the ideal time (`gradwire calibrate --hosts 33 --rate 100gbit`). Reading that clock takes virtual time, and hosts read it
one after the other, about twice a burst (vm/kernel_source.py); more of them at a higher rate would slow each other down in the end."""


def virtual_scale(fabric: Fabric) -> int:
    """By how much a fabric's bytes and rates have to be divided for the virtual clock to carry it: 1, or a power of 2."""
    scale = 1
    while fabric.hosts * fabric.rate_bps / scale > VIRTUAL_CAPACITY_BPS:
        scale *= 2
    return scale


def _divided(sizes: Int64, scale: int) -> Int64:
    return np.where(sizes > 0, np.maximum(1, sizes // scale), 0).astype(np.int64)

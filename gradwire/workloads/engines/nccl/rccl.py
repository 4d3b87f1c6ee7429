"""RCCL on a machine of eight MI300X, which are joined to each other by a link of xGMI each.

Source: RCCL 2.21.5 of https://github.com/ROCm/rccl (commit 0cbce2a7): `ncclTopoTuneModel`, `ncclTopoGetAlgoTime` and
`tuning_model_5` of src/graph/tuning.cc, which `rome_model_79` and `rome_model_81` of src/graph/rome_models.cc name for
this machine, and src/graph/topo.h. Its rings use each link of the mesh equally. What RCCL hands to MSCCL and MSCCL++
(small and middle all-reduces, where it is built with them) is not here: newer releases have neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import LL, RING, SHARED, SIMPLE, TREE
from gradwire.workloads.engines.nccl.tables import NcclAlgorithm, Protocol

GPUS = 8
LINKS = GPUS - 1
XGMI_GB_PER_S = 48.0
"""Rate that RCCL counts for a link: `GFX94X_XGMI_WIDTH`, src/graph/topo.h. AMD: "approximately 48 GB/s per link"
(https://rocm.blogs.amd.com/software-tools-optimization/mi300x-rccl-xgmi/README.html)."""
LINKS_SHARE = 0.94
"""Fitted to one row of docs/ccl.md: what rings by Simple reach of the links together, 315.69 of 336 GB/s for 8 GiB."""
BASE_US = {LL: 12.0, SIMPLE: 17.0}
"""`baseLat`: from the launch to the first hop."""
HOP_US = {(RING, LL): 0.8, (RING, SIMPLE): 2.1, (TREE, LL): 0.9, (TREE, SIMPLE): 2.3}
"""`hwLat` of links."""
RATE_SHARE = {(RING, LL): 0.08, (RING, SIMPLE): 1.0, (TREE, LL): 0.06}
"""`bwRatio` of one and two machines. Trees by Simple are not taken on one machine, nor is LL128 on this GPU."""
LL_FROM_ROOT = 1.65
"""Rings by LL that begin or end at a root are faster by this (`ncclTopoTuneModel`)."""
TREE_CORRECTION = (*(0.1,) * 6, *(1.0,) * 5, 0.6, 1.0, 0.9, 1.0, 1.0, *(0.1,) * 11)
"""`treeCorrectionFactor` of LL: for 64 bytes and each further power of two."""
LEAST_BYTES = 64


@dataclass(frozen=True)
class RcclEstimate:
    """An algorithm and a protocol, and the time that a call takes by them."""

    algorithm: NcclAlgorithm
    protocol: Protocol
    #: The time that RCCL expects, by which it chooses.
    expected_us: float
    time_us: float


def choose(kind: Collective, size_bytes: int) -> RcclEstimate:
    """Returns RCCL's choice for a call of all eight GPUs."""
    ways = [(TREE, LL)] if kind is Collective.ALL_REDUCE else []
    return min(
        (_estimate(kind, size_bytes, *way) for way in [*ways, (RING, LL), (RING, SIMPLE)]),
        key=lambda one: one.expected_us,
    )


def _estimate(kind: Collective, size_bytes: int, algorithm: NcclAlgorithm, protocol: Protocol) -> RcclEstimate:
    gb_per_s = LINKS * XGMI_GB_PER_S * RATE_SHARE[algorithm, protocol]
    hop_us = HOP_US[algorithm, protocol]
    if algorithm is TREE:
        power = max(1, size_bytes // LEAST_BYTES).bit_length() - 1
        gb_per_s *= TREE_CORRECTION[min(power, len(TREE_CORRECTION) - 1)] / 2
        hops = 2 * (GPUS - 1)
    else:
        hops = _steps(kind)
        gb_per_s *= GPUS / hops
        if kind in (Collective.BROADCAST, Collective.REDUCE):
            # Rings visit GPUs in orders of their own, so that the way is as long as the longest.
            hop_us = HOP_US[TREE, SIMPLE] if protocol is SIMPLE else hop_us
            gb_per_s *= LL_FROM_ROOT if protocol is LL else 1.0
    latency_us, carried_us = BASE_US[protocol] + hops * hop_us, size_bytes / gb_per_s / 1e3
    share = LINKS_SHARE if protocol is SIMPLE else 1.0
    return RcclEstimate(algorithm, protocol, latency_us + carried_us, latency_us + carried_us / share)


def _steps(kind: Collective) -> int:
    if kind is Collective.ALL_REDUCE:
        return 2 * (GPUS - 1)
    return GPUS - 1 if kind in SHARED else GPUS

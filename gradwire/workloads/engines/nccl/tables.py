"""NCCL's tables of latency and bandwidth, per version.

Source: src/graph/tuning.cc, src/graph/search.cc, src/graph/topo.h, src/include/device.h (devcomm.h before 2.19) and
src/transport/nvls.cc of https://github.com/NVIDIA/nccl at the tags in `TAGS`. Latencies are in microseconds and
bandwidths in GB/s of 10^9 bytes, as there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from gradwire.faults import InputFault


class NcclAlgorithm(StrEnum):
    """An algorithm, in NCCL's order: of equally fast ones, the first is taken. CollNet needs a plugin and is left
    out."""

    TREE = "Tree"
    RING = "Ring"
    NVLS = "NVLS"
    NVLS_TREE = "NVLSTree"
    PAT = "PAT"


class Protocol(StrEnum):
    """A protocol, in NCCL's order."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


class Gpu(IntEnum):
    """A generation of GPUs, by its CUDA compute capability."""

    VOLTA = 70
    AMPERE = 80
    HOPPER = 90
    BLACKWELL = 100


class HopKind(StrEnum):
    """The kinds of links that hops go over, as rows of the latency table."""

    NVLINK = "NVLink"
    PCI = "PCI"
    NET = "network"


Three = tuple[float, float, float]
"""Values for LL, LL128 and Simple; or for one, two and more machines."""
Latencies = dict[NcclAlgorithm, Three]

TAGS = {
    (2, 18): "v2.18.6-1",
    (2, 19): "v2.19.4-1",
    (2, 20): "v2.20.5-1",
    (2, 21): "v2.21.5-1",
    (2, 22): "v2.22.3-1",
    (2, 23): "v2.23.4-1",
    (2, 24): "v2.24.3-1",
    (2, 25): "v2.25.1-1",
    (2, 26): "v2.26.6-1",
    (2, 27): "v2.27.7-1",
    (2, 28): "v2.28.9-1",
    (2, 29): "v2.29.7-1",
    (2, 30): "v2.30.7-1",
}
"""The tag that each version was read at."""
Version = tuple[int, int]

VOLTA, AMPERE, HOPPER, BLACKWELL = Gpu.VOLTA, Gpu.AMPERE, Gpu.HOPPER, Gpu.BLACKWELL
TREE, RING, NVLS, NVLS_TREE, PAT = NcclAlgorithm


@dataclass(frozen=True)
class Tables:
    """The numbers of one version."""

    #: `baseLat`: what a call takes before any hop.
    base_latency: Latencies
    #: `hwLat`: what a hop takes.
    hop_latency: dict[HopKind, Latencies]
    #: `llMaxBws` on one machine, by its GPU, on two and on more by the processor: Intel's, then AMD's.
    ll_max_one_machine: dict[Gpu, float]
    ll_max_machines: tuple[tuple[float, float], tuple[float, float]]
    #: `perChMaxRingLL128Bws`, `perChMaxTreeLL128Bws`, `perChMaxTreeBws`: per channel, on one, two and more machines.
    ring_ll128_max: dict[Gpu, Three]
    tree_ll128_max: dict[Gpu, Three]
    tree_max: dict[Gpu, Three]
    #: `speedArrayIntra` and `speedArrayInter`, with those of sm90 and sm100: rates of a channel that the search tries.
    speeds_inside: dict[Gpu, tuple[float, ...]]
    speeds_between: dict[Gpu, tuple[float, ...]]
    #: `SM.._NVLINK_BW`: what a link of NVLink carries.
    nvlink: dict[Gpu, float]
    #: `MAXCHANNELS`.
    max_channels: int
    #: `NVLS_NCHANNELS`: on one machine, and on several.
    nvls_channels: dict[Gpu, tuple[int, int]]
    #: `perChMaxNVLSTreeBws`, since 2.28: busbw of a head on one, two and more machines.
    nvls_tree_max: dict[Gpu, Three] | None = None


def _by_gpu(volta: Three, ampere: Three, hopper: Three, blackwell: Three | None = None) -> dict[Gpu, Three]:
    return {VOLTA: volta, AMPERE: ampere, HOPPER: hopper, BLACKWELL: blackwell or hopper}


def _hop_latency(tree_simple: Three, nvls: Three, nvls_tree_net: float) -> dict[HopKind, Latencies]:
    """tree_simple: of trees with Simple, on each way; nvls: NVLS on NVLink, NVLSTree on NVLink, NVLS on the network."""
    return {
        HopKind.NVLINK: {
            TREE: (0.6, 1.25, tree_simple[0]),
            RING: (0.6, 1.9, 3.4),
            NVLS: (0, 0, nvls[0]),
            NVLS_TREE: (0, 0, nvls[1]),
            PAT: (0, 0, 0),
        },
        HopKind.PCI: {
            TREE: (1.0, 1.9, tree_simple[1]),
            RING: (1.0, 2.5, 5.7),
            NVLS: (0, 0, 0),
            NVLS_TREE: (0, 0, 0),
            PAT: (0, 0, 0),
        },
        HopKind.NET: {
            TREE: (5.0, 8.5, tree_simple[2]),
            RING: (2.7, 4.0, 14.0),
            NVLS: (0, 0, nvls[2]),
            NVLS_TREE: (0, 0, nvls_tree_net),
            PAT: (0, 0, 0),
        },
    }


def _base_latency(tree_simple: float, nvls: float) -> Latencies:
    return {
        TREE: (6.8, 14.0, tree_simple),
        RING: (6.6, 14.0, 8.4),
        NVLS: (0, 0, nvls),
        NVLS_TREE: (0, 0, nvls),
        PAT: (0, 0, 0),
    }


_SPEEDS_INSIDE = (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
_SPEEDS_BETWEEN = (
    *(48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2),
    *(0.24, 0.12),
)
_SLOW = (17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12)
_SM90_BETWEEN_218 = (48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 20.0, *_SLOW)
_SM90_BETWEEN = (48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, *_SLOW)
_SM90_INSIDE_218 = (60.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 6.0, 3.0)
_SM90_INSIDE_219 = (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 6.0, 3.0)
_SM90_INSIDE = (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
_SM100_INSIDE_225 = (90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 19.0)


def _speeds(
    old: tuple[float, ...], hopper: tuple[float, ...], blackwell: tuple[float, ...]
) -> dict[Gpu, tuple[float, ...]]:
    return {VOLTA: old, AMPERE: old, HOPPER: hopper, BLACKWELL: blackwell}


_218 = Tables(
    base_latency=_base_latency(0, 23.0),
    hop_latency=_hop_latency((4, 6, 14), (0, 0, 18), 19),
    ll_max_one_machine={VOLTA: 39.0, AMPERE: 87.7, HOPPER: 87.7, BLACKWELL: 87.7},
    ll_max_machines=((39.0, 20.4), (22.5, 19.0)),
    ring_ll128_max=_by_gpu((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 36.7)),
    tree_ll128_max=_by_gpu((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 29.0)),
    tree_max=_by_gpu((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0)),
    speeds_inside=_speeds(_SPEEDS_INSIDE, _SM90_INSIDE_218, _SM90_INSIDE_218),
    speeds_between=_speeds(_SPEEDS_BETWEEN, _SM90_BETWEEN_218, _SM90_BETWEEN_218),
    nvlink={VOLTA: 20.0, AMPERE: 20.0, HOPPER: 20.0, BLACKWELL: 20.0},
    max_channels=32,
    nvls_channels={VOLTA: (0, 0), AMPERE: (0, 0), HOPPER: (16, 16), BLACKWELL: (16, 16)},
)
_219 = replace(
    _218,
    base_latency=_base_latency(0, 0),
    hop_latency=_hop_latency((28, 28, 28), (23, 23, 18), 14),
    speeds_inside=_speeds(_SPEEDS_INSIDE, _SM90_INSIDE_219, _SM90_INSIDE_219),
    speeds_between=_speeds(_SPEEDS_BETWEEN, _SM90_BETWEEN, _SM90_BETWEEN),
)
_220 = replace(_219, nvlink={VOLTA: 20.0, AMPERE: 20.0, HOPPER: 20.6, BLACKWELL: 20.6})
_221 = replace(
    _220,
    hop_latency=_hop_latency((28, 28, 28), (25, 25, 18), 14),
    ll_max_one_machine={VOLTA: 39.0, AMPERE: 87.7, HOPPER: 141.0, BLACKWELL: 141.0},
    speeds_inside=_speeds(_SPEEDS_INSIDE, _SM90_INSIDE, _SM90_INSIDE),
)
_223 = replace(_221, base_latency=_base_latency(8.4, 0), hop_latency=_hop_latency((4.0, 4.0, 14), (25, 25, 18), 14))
_225 = replace(
    _223,
    ll_max_one_machine={VOLTA: 39.0, AMPERE: 87.7, HOPPER: 141.0, BLACKWELL: 2 * 141.0},
    ring_ll128_max=_by_gpu((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 36.7), (2 * 36.7, 2 * 36.7, 2 * 36.7)),
    tree_ll128_max=_by_gpu((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 29.0), (2 * 36.7, 2 * 36.7, 2 * 29.0)),
    tree_max=_by_gpu((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (2 * 38.7, 2 * 41.4, 2 * 36.0)),
    speeds_inside=_speeds(_SPEEDS_INSIDE, _SM90_INSIDE, _SM100_INSIDE_225),
    nvlink={VOLTA: 20.0, AMPERE: 20.0, HOPPER: 20.6, BLACKWELL: 40.0},
    max_channels=64,
    nvls_channels={VOLTA: (0, 0), AMPERE: (0, 0), HOPPER: (16, 16), BLACKWELL: (32, 32)},
)
_227 = replace(
    _225,
    speeds_inside=_speeds(_SPEEDS_INSIDE, _SM90_INSIDE, (*_SM100_INSIDE_225, 18.0)),
    speeds_between=_speeds(
        _SPEEDS_BETWEEN, _SM90_BETWEEN, (96.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, *_SLOW)
    ),
    nvlink={VOLTA: 20.0, AMPERE: 20.0, HOPPER: 20.6, BLACKWELL: 40.1},
    nvls_channels={VOLTA: (0, 0), AMPERE: (0, 0), HOPPER: (16, 16), BLACKWELL: (24, 32)},
)
_SM100_INSIDE_229 = (90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0)
_SM100_BETWEEN = (48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, *_SLOW)
_228 = replace(
    _227,
    hop_latency=_hop_latency((4.0, 4.0, 14), (25, 25, 18), 20.9),
    ring_ll128_max=_by_gpu((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 36.7), (2 * 36.7, 34.6, 2 * 36.7)),
    tree_ll128_max=_by_gpu((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 29.0), (55.6, 31.67, 20.0)),
    tree_max=_by_gpu((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0)),
    nvls_tree_max=_by_gpu((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (0.0, 57.7, 45.5), (0.0, 96.0, 43.8)),
)
_229 = replace(
    _228,
    ring_ll128_max=_by_gpu((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 36.7), (40.0, 40.0, 40.0)),
    speeds_inside=_speeds(_SPEEDS_INSIDE, _SM90_INSIDE, _SM100_INSIDE_229),
    speeds_between=_speeds(_SPEEDS_BETWEEN, _SM90_BETWEEN, (96.0, 80.0, *_SM100_BETWEEN)),
)
_230 = replace(
    _229,
    nvls_tree_max=_by_gpu((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (0.0, 57.7, 45.5), (0.0, 96.0, 80.0)),
    speeds_between=_speeds(_SPEEDS_BETWEEN, _SM90_BETWEEN, (96.0, 86.0, 80.0, *_SM100_BETWEEN)),
)

TABLES: dict[Version, Tables] = {
    (2, 18): _218,
    (2, 19): _219,
    (2, 20): _220,
    (2, 21): _221,
    (2, 22): _221,
    (2, 23): _223,
    (2, 24): _223,
    (2, 25): _225,
    (2, 26): _225,
    (2, 27): _227,
    (2, 28): _228,
    (2, 29): _229,
    (2, 30): _230,
}

NVLS_EFFICIENCY = {Gpu.HOPPER: 0.85, Gpu.BLACKWELL: 0.74}
"""Share of a GPU's links that NVLS uses (`nvlsEfficiency`, src/graph/tuning.cc since 2.28)."""

TREE_CORRECTION: dict[Protocol, tuple[float, ...]] = {
    Protocol.LL: (
        *(1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        *(1.0, 1.0, 1.0, 1.0),
    ),
    Protocol.LL128: (
        *(1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9),
        *(0.9, 0.9, 1.0, 1.0),
    ),
    Protocol.SIMPLE: (
        *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7),
        *(0.7, 0.8, 0.9, 0.9),
    ),
}
"""`treeCorrectionFactor`, for sizes that are powers of two from 64 bytes on, the same in all versions; since 2.29 with one
more, which only NVLSTree has."""


def version_of(text: str) -> Version:
    """The version that a text such as 2.22, 2.22.3 or 2.22.3-1 names. Raises InputFault for others than in `TABLES`."""
    parts = text.strip().split(".")
    numbers = tuple(int(part) for part in parts[:2] if part.isdecimal())
    if len(numbers) == 2 and numbers in TABLES:
        return numbers
    newest = max(TABLES)
    if len(numbers) == 2 and numbers > newest:
        raise InputFault(
            f"NCCL {text}: newer than {name_of(newest)} ({TAGS[newest]}), the newest whose source was public when these tables were "
            f"made: take {name_of(newest)}"
        )
    raise InputFault(f"NCCL {text}: must be one of {', '.join(name_of(version) for version in TABLES)}")


def name_of(version: Version) -> str:
    """Returns a version as users write it."""
    return f"{version[0]}.{version[1]}"

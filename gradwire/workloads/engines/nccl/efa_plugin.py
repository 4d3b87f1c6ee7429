"""The plugin by which NCCL reaches EFA, aws-ofi-nccl, as far as it decides how a collective is carried out: the latency
that it reports, sizes of chunks that it sets, and its tuner, which chooses in NCCL's place on three machines and more.

Source: https://github.com/aws/aws-ofi-nccl at v1.13.2-aws, v1.15.0, v1.16.3 and v1.17.0: src/platform-aws.cpp (`latency`,
`env`), src/tuner/nccl_ofi_regions.cpp (regions, and how a point is found in them) and RELEASENOTES.md (which version of
NCCL a release supports). `ofi_regions.csv` has the corners of the regions, as bytes and ranks.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.tables import Gpu, NcclAlgorithm, Protocol, Version

RELEASES = ("1.13", "1.15", "1.16", "1.17")
"""Releases of December 2024, June, June and September 2025. 1.15 is the first with P6-B200 (RELEASENOTES.md)."""
RELEASE_OF: dict[Version, str] = {(2, 26): "1.15", (2, 27): "1.16"}
"""The release whose notes name the version of NCCL that it supports: 1.15.0 has 2.26.6, 1.16.0 to 1.16.3 have 2.27.5 to
2.27.7, and 1.17.0 has 2.28.3. Others have the oldest known here."""
TUNES_SINCE = "1.16"
"""Release that loads its tuner by itself. Before, NCCL_TUNER_PLUGIN asks for it."""
PLATFORM = {Gpu.VOLTA: "p3dn", Gpu.AMPERE: "p4d", Gpu.HOPPER: "p5", Gpu.BLACKWELL: "p6-b200"}
"""Machines of the cloud by their GPU."""
LATENCY_US = {Gpu.VOLTA: 150.0, Gpu.AMPERE: 75.0, Gpu.HOPPER: 75.0, Gpu.BLACKWELL: 35.0}
"""`latency` of the platform, since 1.15 (75 before for P6, which it did not know yet)."""
CROSSING_S = {Gpu.VOLTA: 20e-6, Gpu.AMPERE: 20e-6, Gpu.HOPPER: 20e-6, Gpu.BLACKWELL: 74e-6}
"""Time of a message between machines on top of NCCL's table. Fitted: 8 bytes on 2 machines of 8 H100 (P5) took 69.1 us;
1 MiB on 4 machines of 8 B200 (P6) 5.37 GB/s."""
GROUPING = (Gpu.HOPPER, Gpu.BLACKWELL)
"""Generations of its protocol RDMA, by which the NICs of a GPU are one for NCCL (`default_protocol`; src/nccl_ofi_topo.cpp).
Older machines have SENDRECV, which keeps no order within a message, so that it sets NCCL_PROTO=simple."""
CHUNK_BYTES = 512 * 1024
"""NCCL_NVLSTREE_MAX_CHUNKSIZE and NCCL_NVLS_CHUNKSIZE, which it sets from P5 on."""
BUFFER_BYTES = 8 << 20
"""NCCL_BUFFSIZE, which it sets since 1.16 from P4d on."""
LEAST_MACHINES = 3
"""The tuner leaves smaller communicators to NCCL."""
TUNED_CHANNELS = (16, 24, 32)
"""Numbers of channels that it weighs for Tree with LL128 on P6, since 1.16 (`calculateBestNChannel`)."""
TUNED_CHANNELS_SIZES = (4 << 20, 32 << 20)
EPSILON = 1e-10
FAR = (2 * 100.0 * 2**30, 2 * 2.0**20)
"""A point outside of all regions: twice `TUNER_MAX_SIZE` and `TUNER_MAX_RANKS`."""

Point = tuple[float, float]
Pair = tuple[NcclAlgorithm, Protocol]


@dataclass(frozen=True)
class Region:
    """Sizes and numbers of ranks for which the tuner takes an algorithm and a protocol."""

    algorithm: NcclAlgorithm
    protocol: Protocol
    corners: tuple[Point, ...]

    def has(self, point: Point) -> bool:
        """Returns whether a point is inside or on an edge (`is_inside_region`)."""
        edges = list(zip(self.corners, (*self.corners[1:], self.corners[0]), strict=True))
        if any(_is_on(point, *edge) for edge in edges):
            return True
        for axis in (0, 1):
            values = [corner[axis] for corner in self.corners]
            if not min(values) <= point[axis] <= max(values):
                return False
        return sum(_meet(point, FAR, *edge)[0] == 1 for edge in edges) % 2 == 1


def _meet(start: Point, end: Point, first: Point, last: Point) -> tuple[int, Point]:
    """Intersects two segments (`intersect`): returns 1 if they cross, -1 if not, 0 if they meet at an end or are
    parallel; and the point where their lines meet."""
    run, edge = (end[0] - start[0], end[1] - start[1]), (last[0] - first[0], last[1] - first[1])
    turn = edge[0] * run[1] - edge[1] * run[0]
    if abs(turn) < EPSILON:
        return 0, (0.0, 0.0)
    along = ((start[0] * run[1] - start[1] * run[0]) - (first[0] * run[1] - first[1] * run[0])) / turn
    where = (first[0] + along * edge[0], first[1] + along * edge[1])
    if along < -EPSILON or along > 1 + EPSILON:
        return -1, where
    if along < EPSILON or along > 1 - EPSILON:
        return 0, where
    ahead = ((start[0] * edge[1] - start[1] * edge[0]) - (first[0] * edge[1] - first[1] * edge[0])) / turn
    return (1 if 0 <= ahead <= 1 else -1), where


def _is_on(point: Point, first: Point, last: Point) -> bool:
    """Returns whether a point is on an edge (`distance`)."""
    beside = (point[0] + last[1] - first[1], point[1] - (last[0] - first[0]))
    met, (x, y) = _meet(point, beside, first, last)
    return met != -1 and (x - point[0]) ** 2 + (y - point[1]) ** 2 < EPSILON**2


@dataclass(frozen=True)
class Plugin:
    """A release of the plugin on machines with a GPU, with or without its tuner."""

    release: str
    gpu: Gpu
    tunes: bool

    @property
    def latency_us(self) -> float:
        """Returns the latency of a message that the plugin reports to NCCL, in microseconds."""
        return LATENCY_US[self.gpu]

    @property
    def crossing_s(self) -> float:
        """Returns the seconds that a message between machines takes on top of NCCL's table."""
        return CROSSING_S[self.gpu]

    @property
    def keeps_order(self) -> bool:
        """Returns whether the bytes of a message come in their order, which LL and LL128 need."""
        return self.gpu in GROUPING

    def groups(self, nics: int, gpus: int) -> int:
        """Returns the number of NICs that NCCL sees on a machine: one for each GPU where GPUs have several."""
        return gpus if self.gpu in GROUPING and nics > gpus and nics % gpus == 0 else nics

    @property
    def nvls_chunk_bytes(self) -> int | None:
        """The largest chunk of NVLS and NVLSTree, where it sets one."""
        return CHUNK_BYTES if self.gpu >= Gpu.HOPPER else None

    @property
    def buffer_bytes(self) -> int | None:
        """The buffer of a connection by Simple, where it sets one."""
        return BUFFER_BYTES if self.gpu >= Gpu.AMPERE and _is_since(self.release, "1.16") else None

    def tuned(
        self, kind: Collective, machines: int, gpus: int, size_bytes: int, is_allowed: Callable[[Pair], bool]
    ) -> Pair | None:
        """Returns the choice of the plugin's tuner for a call; None if it leaves the choice to NCCL."""
        if not self.tunes or machines < LEAST_MACHINES:
            return None
        point = (float(size_bytes), float(machines * gpus))
        for region in _regions().get((self.release, self.gpu, gpus, kind), ()):
            if is_allowed((region.algorithm, region.protocol)) and region.has(point):
                return region.algorithm, region.protocol
        return None

    def channels(self, kind: Collective, machines: int, gpus: int, size_bytes: int) -> int | None:
        """Channels that it sets where it takes Tree with LL128; None: as many as NCCL takes. Of the numbers whose chunks
        are largest, the largest."""
        least, most = TUNED_CHANNELS_SIZES
        is_weighed = kind is Collective.ALL_REDUCE and gpus == 8 and least <= size_bytes <= most
        if not is_weighed or self.gpu is not Gpu.BLACKWELL or not _is_since(self.release, "1.16"):
            return None
        return max(TUNED_CHANNELS, key=lambda number: (_tree_chunk(size_bytes, number, machines), number))


def _tree_chunk(size_bytes: int, channels: int, machines: int) -> int:
    """`calculateChunkSizeTreeLL128`: what NCCL's chunk would take, of which the tuner only compares sizes."""
    chunk = 120 * 640 * 8 // 16 * 15
    steps = 1 + (machines.bit_length() - 1) + 0.1 * 8
    for loops, least in ((steps * 64 / 8, 131072), (steps * 16 / 8, 32768)):
        while size_bytes // (channels * chunk) < loops and chunk > least:
            chunk //= 2
    return chunk // 1920


def plugin_of(release: str | None, version: Version, gpu: Gpu, tuner: str | None) -> Plugin:
    """The plugin of a release, or of the one that supports a version of NCCL.

    tuner: NCCL_TUNER_PLUGIN, if it is set. Raises InputFault for unknown releases, and where there is no tuner.
    """
    if release is None:
        release = RELEASE_OF.get(version, RELEASES[0])
    if release not in RELEASES:
        raise InputFault(f"--plugin {release}: must be one of {', '.join(RELEASES)}")
    tunes = _is_since(release, TUNES_SINCE) if tuner is None else tuner.strip().lower() != "none"
    if tuner is not None and tunes and release == RELEASES[0]:
        raise InputFault(
            f"NCCL_TUNER_PLUGIN={tuner}: the tables of release {release} are not known here; 1.15 and later are"
        )
    return Plugin(release, gpu, tunes)


def _is_since(release: str, first: str) -> bool:
    return RELEASES.index(release) >= RELEASES.index(first)


@cache
def _regions() -> dict[tuple[str, Gpu, int, Collective], tuple[Region, ...]]:
    """The regions of a release, a GPU, GPUs of a machine and a collective, in their order."""
    gpus = {"h100": Gpu.HOPPER, "b200": Gpu.BLACKWELL}
    found: dict[tuple[str, Gpu, int, Collective], tuple[Region, ...]] = {}
    with (files(__package__) / "ofi_regions.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            corners = tuple(
                (float(size), float(ranks)) for size, ranks in (corner.split(":") for corner in row["borders"].split())
            )
            region = Region(NcclAlgorithm(row["algorithm"]), Protocol(row["protocol"]), corners)
            for release in row["releases"].split():
                key = (release, gpus[row["gpu"]], int(row["gpus"]), Collective(row["collective"]))
                found[key] = (*found.get(key, ()), region)
    return found

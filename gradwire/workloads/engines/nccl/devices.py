"""GPUs by the names that people use, as far as NCCL tells them apart: the generation whose tables it takes, and the links
between GPUs of a machine.

Numbers of links are those of NVIDIA's data sheets: 25 GB/s each way per link up to Hopper, 50 GB/s since Blackwell. A800,
H800 and H20 are A100 and H100 as sold where exports are limited.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gradwire.workloads.engines.nccl.tables import Gpu, Version


class GpuName(StrEnum):
    """GPUs whose machines NCCL's model knows."""

    P100 = "p100"
    V100 = "v100"
    T4 = "t4"
    A100 = "a100"
    A800 = "a800"
    A10 = "a10"
    A40 = "a40"
    L4 = "l4"
    L40S = "l40s"
    RTX4090 = "rtx4090"
    H100 = "h100"
    H200 = "h200"
    H800 = "h800"
    H20 = "h20"
    GH200 = "gh200"
    B200 = "b200"
    B300 = "b300"
    GB200 = "gb200"
    GB300 = "gb300"


@dataclass(frozen=True)
class NcclDevice:
    """A GPU as NCCL sees it."""

    #: The generation whose tables NCCL takes.
    gpu: Gpu
    #: Links of NVLink; 0: GPUs of a machine are joined by PCI Express.
    links: int


DEVICES = {
    GpuName.P100: NcclDevice(Gpu.VOLTA, 4),
    GpuName.V100: NcclDevice(Gpu.VOLTA, 6),
    GpuName.T4: NcclDevice(Gpu.VOLTA, 0),
    GpuName.A100: NcclDevice(Gpu.AMPERE, 12),
    GpuName.A800: NcclDevice(Gpu.AMPERE, 8),
    GpuName.A10: NcclDevice(Gpu.AMPERE, 0),
    GpuName.A40: NcclDevice(Gpu.AMPERE, 0),
    GpuName.L4: NcclDevice(Gpu.AMPERE, 0),
    GpuName.L40S: NcclDevice(Gpu.AMPERE, 0),
    GpuName.RTX4090: NcclDevice(Gpu.AMPERE, 0),
    GpuName.H100: NcclDevice(Gpu.HOPPER, 18),
    GpuName.H200: NcclDevice(Gpu.HOPPER, 18),
    GpuName.H800: NcclDevice(Gpu.HOPPER, 8),
    GpuName.H20: NcclDevice(Gpu.HOPPER, 18),
    GpuName.GH200: NcclDevice(Gpu.HOPPER, 18),
    GpuName.B200: NcclDevice(Gpu.BLACKWELL, 18),
    GpuName.B300: NcclDevice(Gpu.BLACKWELL, 18),
    GpuName.GB200: NcclDevice(Gpu.BLACKWELL, 18),
    GpuName.GB300: NcclDevice(Gpu.BLACKWELL, 18),
}
FIRST_WITH_BLACKWELL: Version = (2, 25)
"""The first with a rate for Blackwell's NVLink (`SM100_NVLINK_BW`, src/graph/topo.h): older ones count it as Hopper's."""
DEFAULT_VERSION, DEFAULT_FOR_BLACKWELL = "2.22", "2.27"


def default_version(gpu: GpuName) -> str:
    """Returns the version of NCCL that is taken where none is asked for: one that knows the GPU."""
    return DEFAULT_FOR_BLACKWELL if DEVICES[gpu].gpu is Gpu.BLACKWELL else DEFAULT_VERSION


def counts_as_hopper(gpu: GpuName, version: Version) -> bool:
    """Returns whether a version takes a GPU of Blackwell for one of Hopper."""
    return DEVICES[gpu].gpu is Gpu.BLACKWELL and version < FIRST_WITH_BLACKWELL

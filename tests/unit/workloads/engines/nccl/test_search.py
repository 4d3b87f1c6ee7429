"""The search against NCCL's own: channels and rates that `ncclTopoCompute` of 2.28.9 printed (src/graph/search.cc, with
topo.cc, paths.cc and xml.cc), for machines in its XML.

GPUs and NICs in them have 16 lanes of PCI Express each. GPUs share a switch with the NIC next to them, but have none where
NICs do not reach their memory.
"""

from __future__ import annotations

import pytest

from gradwire.workloads.engines.nccl.search import FoundChannels, GpuMachine, search
from gradwire.workloads.engines.nccl.tables import Gpu

Found = tuple[int, float, float]
NONE = (0, 0.0, 0.0)
LINKS = {Gpu.VOLTA: 6, Gpu.AMPERE: 12, Gpu.HOPPER: 18, Gpu.BLACKWELL: 18}


def machine(gpu: Gpu, gpus: int, nics: int, nic_gbit: float, transport: str) -> GpuMachine:
    return GpuMachine(
        gpus=gpus,
        gpu=gpu,
        nics=nics,
        nic_bytes_per_s=nic_gbit * 1e9 / 8,
        gpu_direct=transport == "rdma",
        links=LINKS[gpu],
        amd=transport == "amd",
    )


@pytest.mark.parametrize(
    ("one", "ring", "tree", "nvls"),
    [
        ((Gpu.HOPPER, 8, 8, 400, "rdma"), (8, 48, 48), (8, 48, 48), (8, 40, 48)),
        ((Gpu.HOPPER, 8, 8, 200, "rdma"), (8, 24, 24), (8, 48, 24), (8, 24, 24)),
        ((Gpu.HOPPER, 8, 4, 400, "rdma"), (8, 24, 24), (8, 48, 24), (4, 48, 48)),
        ((Gpu.HOPPER, 2, 2, 400, "rdma"), (4, 24, 24), (4, 48, 24), (2, 48, 48)),
        ((Gpu.HOPPER, 8, 1, 200, "tcp"), (1, 24, 24), (1, 48, 24), (1, 24, 24)),
        ((Gpu.HOPPER, 8, 4, 200, "tcp"), (4, 24, 24), (4, 48, 24), (4, 24, 24)),
        ((Gpu.HOPPER, 4, 8, 400, "tcp"), (8, 20, 20), (8, 40, 20), (4, 40, 40)),
        ((Gpu.BLACKWELL, 8, 8, 400, "rdma"), (8, 48, 48), (8, 96, 48), (8, 48, 48)),
        ((Gpu.BLACKWELL, 8, 8, 800, "rdma"), (8, 48, 48), (8, 96, 48), (8, 48, 48)),
        ((Gpu.BLACKWELL, 4, 4, 400, "rdma"), (8, 24, 24), (8, 48, 24), (4, 48, 48)),
        ((Gpu.BLACKWELL, 1, 8, 100, "rdma"), (4, 12, 12), (4, 24, 12), NONE),
        ((Gpu.BLACKWELL, 1, 4, 100, "tcp"), (3, 12, 12), (3, 24, 12), NONE),
        ((Gpu.AMPERE, 1, 4, 100, "rdma"), (2, 12, 12), (2, 24, 12), NONE),
        ((Gpu.AMPERE, 8, 4, 100, "tcp"), (4, 12, 12), (4, 24, 12), NONE),
        ((Gpu.VOLTA, 1, 1, 100, "rdma"), (1, 10, 10), (1, 20, 10), NONE),
        ((Gpu.VOLTA, 8, 1, 100, "rdma"), (1, 12, 12), (1, 24, 12), NONE),
    ],
)
def test_channels_between_machines_are_those_of_nccls_own_search(
    one: tuple[Gpu, int, int, float, str], ring: Found, tree: Found, nvls: Found
) -> None:
    # A ring's closing hop, and a chain's end, are none of its machine's links.
    found = search((2, 28), machine(*one), 2)
    assert (found.ring, found.tree, found.nvls) == (FoundChannels(*ring), FoundChannels(*tree), FoundChannels(*nvls))


@pytest.mark.parametrize(
    ("gpu", "gpus", "ring", "tree", "nvls"),
    [
        (Gpu.AMPERE, 8, (12, 20), (12, 20), (0, 0)),
        (Gpu.HOPPER, 8, (12, 30), (12, 30), (8, 40)),
        (Gpu.HOPPER, 2, (12, 30), (12, 60), (2, 60)),
        (Gpu.BLACKWELL, 8, (16, 45), (16, 40), (8, 80)),
    ],
)
def test_channels_of_one_machine_are_those_of_nccls_own_search(
    gpu: Gpu, gpus: int, ring: tuple[int, float], tree: tuple[int, float], nvls: tuple[int, float]
) -> None:
    found = search((2, 28), machine(gpu, gpus, 8, 200, "rdma"), 1)
    assert [(graph.channels, graph.inside) for graph in (found.ring, found.tree, found.nvls)] == [ring, tree, nvls]

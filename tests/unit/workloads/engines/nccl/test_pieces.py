"""How a call is divided: channels, chunks and slices."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.pieces import Pieces, divide
from gradwire.workloads.engines.nccl.search import GpuMachine
from gradwire.workloads.engines.nccl.tables import NcclAlgorithm, Protocol
from tests.unit.workloads.engines.nccl.test_chooser import B200, GIB, H100_RDMA, H100_TCP, communicator

ALL_REDUCE = Collective.ALL_REDUCE


def test_a_ring_with_simple_has_chunks_of_four_slots_in_two_slices() -> None:
    # 4 MiB in 8 slots; a chunk is four of them, and 1 GiB over 16 channels goes twice around 24 ranks.
    tcp = communicator("2.22", H100_TCP, 3)
    assert divide(tcp, ALL_REDUCE, NcclAlgorithm.RING, Protocol.SIMPLE, GIB) == Pieces(16, 1 << 21, 1 << 20, 2, slots=4)
    small = communicator("2.22", H100_TCP, 3, NCCL_BUFFSIZE="1048576")
    assert divide(small, ALL_REDUCE, NcclAlgorithm.RING, Protocol.SIMPLE, GIB).chunk_bytes == 1 << 19
    assert divide(tcp, Collective.BROADCAST, NcclAlgorithm.RING, Protocol.SIMPLE, GIB) == Pieces(
        16, 1 << 19, 1 << 19, 128
    )


def test_small_calls_have_few_channels_and_small_chunks() -> None:
    tcp = communicator("2.21", H100_TCP, 2)
    assert divide(tcp, ALL_REDUCE, NcclAlgorithm.RING, Protocol.LL, 8) == Pieces(1, 1, 1, 1)
    # 16 threads' worth: LL has 512 threads of 8 bytes for each of 16 ranks, 64 KiB a channel.
    assert divide(tcp, ALL_REDUCE, NcclAlgorithm.RING, Protocol.LL, 2**17).channels == 2
    assert divide(tcp, ALL_REDUCE, NcclAlgorithm.RING, Protocol.LL, 2**16).channels == 1


def test_trees_up_to_2_19_have_smaller_chunks_for_small_calls() -> None:
    old, new = (communicator(version, H100_TCP, 2) for version in ("2.19", "2.21"))
    # Two channels; 8 loops for each of 7 + 1 levels would be wanted of 128 KiB, and 4 of 64 KiB.
    assert divide(old, ALL_REDUCE, NcclAlgorithm.TREE, Protocol.SIMPLE, 2**22).chunk_bytes == 65536
    assert divide(new, ALL_REDUCE, NcclAlgorithm.TREE, Protocol.SIMPLE, 2**22).chunk_bytes == 1 << 19


def test_ll128_carries_fifteen_of_sixteen_elements() -> None:
    # 600 KiB a slot; a chunk is a multiple of what a warp stores, 1920 bytes.
    tcp = communicator("2.22", H100_TCP, 2, NCCL_PROTO="LL128")
    chunk = divide(tcp, ALL_REDUCE, NcclAlgorithm.RING, Protocol.LL128, 16 * GIB).chunk_bytes
    assert chunk == 614400 // 16 * 15 // 1920 * 1920


def test_nvls_has_chunks_by_size() -> None:
    alone = communicator("2.22", H100_RDMA, 1)
    sizes = {size: divide(alone, ALL_REDUCE, NcclAlgorithm.NVLS, Protocol.SIMPLE, size) for size in (2**22, 2**26, GIB)}
    assert [pieces.chunk_bytes for pieces in sizes.values()] == [16384, 65536, 131072]
    many = communicator("2.22", H100_RDMA, 4)
    assert divide(many, ALL_REDUCE, NcclAlgorithm.NVLS_TREE, Protocol.SIMPLE, GIB).chunk_bytes == 65536


@pytest.mark.parametrize(
    ("version", "machine", "machines", "channels", "chunk_bytes"),
    [
        ("2.29", B200, 2, 32, 131072),
        ("2.29", B200, 4, 32, 65536),
        ("2.30", B200, 2, 32, 65536),
        ("2.30", replace(B200, gpu_direct=False), 2, 32, 131072),
        ("2.30", replace(B200, gpus=4, nics=4), 2, 32, 262144),
        ("2.30", replace(B200, gpus=16, nics=16), 2, 32, 65536),
        ("2.30", B200, 3, 24, 65536),
        ("2.30", replace(B200, gpu_direct=False), 8, 24, 131072),
        ("2.30", replace(B200, nic_bytes_per_s=25e9), 2, 32, 131072),
        ("2.30", replace(B200, nic_bytes_per_s=25e9), 4, 32, 65536),
        ("2.30", H100_RDMA, 4, 16, 65536),
    ],
)
def test_nvls_tree_of_blackwell_goes_by_the_network_since_2_30(
    version: str, machine: GpuMachine, machines: int, channels: int, chunk_bytes: int
) -> None:
    # Printed by NCCL's own `ncclNvlsTuning` (src/transport/nvls.cc) and `calcCollChunking` (src/enqueue.cc).
    pieces = divide(
        communicator(version, machine, machines), ALL_REDUCE, NcclAlgorithm.NVLS_TREE, Protocol.SIMPLE, 16 * GIB
    )
    assert (pieces.channels, pieces.chunk_bytes) == (channels, chunk_bytes)


def test_pat_has_all_channels() -> None:
    alone = communicator("2.30", replace(H100_RDMA, gpus=1), 4)
    pieces = divide(alone, Collective.ALL_GATHER, NcclAlgorithm.PAT, Protocol.SIMPLE, 1 << 17)
    assert pieces.channels == alone.searched.channels == 4


@pytest.mark.parametrize("version", ["2.18", "2.20", "2.22", "2.27", "2.30"])
def test_pieces_make_up_the_call(version: str) -> None:
    comm = communicator(version, H100_TCP, 3)
    for power, protocol in product(range(0, 35, 2), Protocol):
        size_bytes = 1 << power
        pieces = divide(comm, ALL_REDUCE, NcclAlgorithm.RING, protocol, size_bytes)
        assert pieces.channels * pieces.loops * pieces.chunk_bytes * comm.ranks >= size_bytes, (size_bytes, protocol)
        assert 1 <= pieces.slice_bytes <= pieces.chunk_bytes

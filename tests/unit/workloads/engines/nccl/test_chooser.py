"""What NCCL chooses: against NCCL's own code, and by hand.

`choices_of_nccl.csv` has 260 cases of thirteen versions. Algorithm, protocol and time in it were printed by NCCL's
src/graph/tuning.cc of each tag in `tables.TAGS`, compiled by itself: `ncclTopoTuneModel` and `ncclTopoGetAlgoTime` with
the channels that `search` finds, and the loop of `topoGetAlgoInfo` over them. "none" is where NCCL ends with an error.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import Communicator, choose, estimates
from gradwire.workloads.engines.nccl.environment import environment_of
from gradwire.workloads.engines.nccl.search import FoundChannels, GpuMachine, search
from gradwire.workloads.engines.nccl.tables import TABLES, Gpu, NcclAlgorithm, Protocol, version_of
from tests.shared.parts import in_order

CASES = list(csv.DictReader((Path(__file__).parent / "choices_of_nccl.csv").read_text().splitlines()))
GIB = 2**30
H100_TCP = GpuMachine(gpus=8, gpu=Gpu.HOPPER, nics=1, nic_bytes_per_s=25e9, gpu_direct=False, links=18)
H100_RDMA = GpuMachine(gpus=8, gpu=Gpu.HOPPER, nics=8, nic_bytes_per_s=25e9, gpu_direct=True, links=18)
B200 = GpuMachine(gpus=8, gpu=Gpu.BLACKWELL, nics=8, nic_bytes_per_s=50e9, gpu_direct=True, links=18)
A100 = GpuMachine(gpus=8, gpu=Gpu.AMPERE, nics=8, nic_bytes_per_s=25e9, gpu_direct=True, links=12)
V100_ALONE = GpuMachine(
    gpus=1, gpu=Gpu.VOLTA, nics=1, nic_bytes_per_s=1.25e9, gpu_direct=False, links=0, nvswitch=False
)


def communicator(version: str, machine: GpuMachine, machines: int, **variables: str) -> Communicator:
    known = version_of(version)
    return Communicator(known, machine, machines, environment_of(variables, known))


def of_case(case: dict[str, str]) -> Communicator:
    machine = GpuMachine(
        gpus=int(case["gpus"]),
        gpu=Gpu[case["gpu"].upper()],
        nics=int(case["nics"]),
        nic_bytes_per_s=float(case["nic_gbit"]) * 1e9 / 8,
        gpu_direct=case["gpu_direct"] == "1",
        links=int(case["links"]),
        nvswitch=case["nvswitch"] == "1",
        amd=case["amd"] == "1",
    )
    set_ = {name: case[name] for name in ("NCCL_ALGO", "NCCL_PROTO") if case[name]}
    return communicator(case["version"], machine, int(case["machines"]), **set_)


def test_there_are_260_cases_of_all_versions_algorithms_and_protocols() -> None:
    assert len(CASES) == 260
    assert {version_of(case["version"]) for case in CASES} == set(TABLES)
    assert {case["algorithm"] for case in CASES} == {*NcclAlgorithm, "none"}
    assert {case["protocol"] for case in CASES} == {*Protocol, "none"}


def chosen(case: dict[str, str]) -> tuple[str, str, float]:
    """The algorithm, the protocol and the expected time of a case. Raises InputFault if it has no algorithm."""
    choice = choose(of_case(case), Collective(case["collective"]), int(case["size_bytes"]))
    return choice.algorithm, choice.protocol, choice.expected_us


@pytest.mark.parametrize("version", sorted({case["version"] for case in CASES}))
def test_choices_are_those_of_nccls_own_code(version: str) -> None:
    for case in (case for case in CASES if case["version"] == version):
        if case["algorithm"] == "none":
            with pytest.raises(InputFault, match="has no algorithm"):
                chosen(case)
        else:
            *names, time_us = chosen(case)
            assert names == [case["algorithm"], case["protocol"]], case
            assert time_us == pytest.approx(float(case["time_us"]), rel=2e-5), case


BY_HAND = [
    # NVLS has 8 heads of 40 GB/s, and five sixths of them count.
    ("2.22", H100_RDMA, 1, GIB, "NVLS", "Simple", 25 + GIB / (1000 * 8 * 40 * 5 / 6)),
    # Between two machines, a head has what a channel of 24 GB/s carries; one doubling, up and down, of 14 us.
    ("2.22", H100_RDMA, 2, GIB, "NVLSTree", "Simple", 25 + 2 * 1 * 14 + GIB / (1000 * 8 * 24 * 5 / 6)),
    # One channel, of 48 GB/s inside, of which trees of two Hopper machines get 41.4; half of it is the algorithm's.
    ("2.22", H100_TCP, 2, GIB, "Tree", "Simple", 2 * (7 * 28 + 1 * 28) + GIB / (1000 * 41.4 / 2)),
    # 46 steps, of which six are counted as crossings and 40 stay inside; the plateau of rings; 24/46 of 24 GB/s.
    ("2.22", H100_TCP, 3, 2**26, "Ring", "Simple", 1.4 * (8.4 + 40 * 3.4 + 6 * 14) + 2**26 / (1000 * 24 * 24 / 46)),
    # Seven hops of 0.6 us up and down, and one of 5 us; sizes below 64 bytes are not corrected; 41.4 / 3.8 / 2 GB/s.
    ("2.22", H100_TCP, 2, 8, "Tree", "LL", 6.8 + 2 * (7 * 0.6 + 5) + 8 / (1000 * 41.4 / 3.8 / 2)),
    # 62 steps, of which 2 (4 - 1) cross; eight channels of 48 GB/s.
    ("2.27", B200, 4, 2**34, "Ring", "Simple", 1.4 * (8.4 + 56 * 3.4 + 6 * 14) + 2**34 / (1000 * 384 * 32 / 62)),
    # 2^20 / 2^6 is 2^14, where LL128's trees are corrected by 0.6.
    (
        *("2.27", B200, 4, 2**20, "Tree", "LL128"),
        14 + 2 * (7 * 1.25 + 2 * 8.5) + 2**20 / (1000 * 384 * 0.92 * 120 / 128 / 2 * 0.6),
    ),
    # 2.18 counts 4 us for a hop and 14 us for the network; eight channels of 41.4 GB/s.
    ("2.18", H100_RDMA, 2, GIB, "Tree", "Simple", 2 * (7 * 4 + 14) + GIB / (1000 * 8 * 41.4 / 2)),
    # Twelve channels of 20 GB/s, 92 % of which LL128 carries; 14 steps of 1.9 us.
    ("2.21", A100, 1, 2**24, "Ring", "LL128", 14 + 14 * 1.9 + 2**24 / (1000 * 240 * 0.92 * 8 / 14)),
    # Six steps, of which eight are counted as crossings: two fewer than none stay inside. One channel of 1.2 GB/s.
    ("2.18", V100_ALONE, 4, 2**27, "Ring", "Simple", 1.9 * (8.4 - 2 * 5.7 + 8 * 14) + 2**27 / (1000 * 1.2 * 4 / 6)),
]


@pytest.mark.parametrize(("version", "machine", "machines", "size_bytes", "algorithm", "protocol", "time_us"), BY_HAND)
def test_ten_choices_by_hand(
    version: str, machine: GpuMachine, machines: int, size_bytes: int, algorithm: str, protocol: str, time_us: float
) -> None:
    choice = choose(communicator(version, machine, machines), Collective.ALL_REDUCE, size_bytes)
    assert (choice.algorithm, choice.protocol) == (algorithm, protocol)
    assert choice.expected_us == pytest.approx(time_us, rel=1e-9)


def test_the_search_finds_what_the_links_carry() -> None:
    # H100: 18 links of 20.6 GB/s are 370.8. Six rings of 60 are divided in two; NVLS needs nine times a head's rate.
    alone = search((2, 22), H100_RDMA, 1)
    assert (alone.ring, alone.tree) == (FoundChannels(12, 30, 30), FoundChannels(12, 30, 30))
    assert (alone.nvls.channels, alone.nvls.inside) == (8, 40)
    assert alone.channels == 24
    # One NIC of 25 GB/s has one channel of 24; trees have 48 inside. NVLS has a head for each NIC.
    tcp = search((2, 22), H100_TCP, 2)
    assert (tcp.ring, tcp.tree, tcp.nvls) == (
        FoundChannels(1, 24, 24),
        FoundChannels(1, 48, 24),
        FoundChannels(1, 24, 24),
    )
    # Since 2.22, rings use NVLS's 16 channels as well.
    assert [search(version, H100_TCP, 2).channels for version in ((2, 19), (2, 21), (2, 22))] == [2, 2, 16]
    # Each of eight GPUs is the last one of a ring, from which nothing goes on inside: seven times 48 are 336.
    fast = GpuMachine(gpus=8, gpu=Gpu.HOPPER, nics=8, nic_bytes_per_s=50e9, gpu_direct=True, links=18)
    assert search((2, 22), fast, 2).ring == FoundChannels(8, 48, 48)


def test_nvls_has_heads_where_the_version_has_it() -> None:
    four_nics = replace(H100_RDMA, nics=4)
    assert search((2, 28), four_nics, 2).nvls == FoundChannels(4, 24, 24)
    assert search((2, 28), four_nics, 1).nvls.channels == 8
    # Two GPUs have NVLS since 2.28.9 (`ncclNvlsInit`), and one head is not enough since then.
    two_gpus = replace(H100_RDMA, gpus=2)
    assert [search(version, two_gpus, 1).nvls.channels for version in ((2, 27), (2, 28))] == [0, 2]
    named = [estimates(communicator(version, H100_TCP, 2), Collective.ALL_REDUCE) for version in ("2.27", "2.28")]
    assert [any(one.algorithm is NcclAlgorithm.NVLS_TREE for one in every) for every in named] == [True, False]


def test_nvls_can_be_switched_off() -> None:
    without, with_ = (communicator("2.22", H100_RDMA, 2, NCCL_NVLS_ENABLE=text) for text in ("0", "2"))
    assert choose(with_, Collective.ALL_REDUCE, GIB).algorithm is NcclAlgorithm.NVLS_TREE
    assert choose(without, Collective.ALL_REDUCE, GIB).algorithm is NcclAlgorithm.TREE
    # Rings have the channels of NVLS no longer.
    assert (without.searched.nvls_channels, with_.searched.nvls_channels) == (0, 16)


def test_the_environment_decides() -> None:
    ring = communicator("2.22", H100_TCP, 2, NCCL_ALGO="ring", NCCL_PROTO="^LL128")
    assert choose(ring, Collective.ALL_REDUCE, GIB).algorithm is NcclAlgorithm.RING
    channels = communicator("2.22", H100_TCP, 2, NCCL_MAX_NCHANNELS="4", NCCL_ALGO="Ring").searched
    assert channels.channels == 16  # NVLS has 16 whatever is set, and rings use them.
    assert communicator("2.21", H100_TCP, 2, NCCL_MIN_NCHANNELS="8").searched.channels == 8
    mixed = communicator("2.24", A100, 2, NCCL_ALGO="tree;allreduce:^tree;broadcast:ring", NCCL_PROTO="simple")
    assert {one.algorithm for one in estimates(mixed, Collective.ALL_REDUCE)} == {NcclAlgorithm.RING}
    with pytest.raises(InputFault, match=in_order("no algorithm", "all-gather")):
        estimates(mixed, Collective.ALL_GATHER)


@pytest.mark.parametrize(
    ("version", "variables", "message"),
    [
        ("2.22", {"NCCL_ALGO": "rings"}, "must be one of tree, ring"),
        ("2.22", {"NCCL_ALGO": "allreduce:ring"}, "knows no prefixes"),
        ("2.24", {"NCCL_ALGO": "ring;tree"}, "must have a prefix"),
        ("2.24", {"NCCL_ALGO": "sum:ring"}, "'sum' must be one of"),
        ("2.22", {"NCCL_PROTO": ""}, "'nothing'"),
        ("2.22", {"NCCL_BUFFSIZE": "-1"}, "whole number"),
        ("2.22", {"NCCL_BUFFSIZE": "7"}, "at least 4096"),
        ("2.22", {"NCCL_NVLS_ENABLE": "no"}, "must be 0, 1 or 2"),
        ("2.22", {"NCCL_IB_HCA": "mlx5"}, "not a variable"),
    ],
)
def test_wrong_variables_are_refused(version: str, variables: dict[str, str], message: str) -> None:
    with pytest.raises(InputFault, match=message):
        environment_of(variables, version_of(version))


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(InputFault, match=in_order("NCCL 2.17:", "2.18")):
        version_of("2.17")
    with pytest.raises(InputFault, match="GPUs on a machine"):
        GpuMachine(gpus=0, gpu=Gpu.VOLTA, nics=1, nic_bytes_per_s=1e9, gpu_direct=False, links=0)
    with pytest.raises(InputFault, match="chooses for"):
        choose(communicator("2.22", A100, 2), Collective.ALL_TO_ALL, 8)

"""Sends and receives in a group: what carries them by hand, and NCCL's channels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.engines.nccl.chooser import LL, SIMPLE, Communicator
from gradwire.workloads.engines.nccl.duration import MachineNetwork
from gradwire.workloads.engines.nccl.grouped import (
    CHANNEL_BYTES_PER_S,
    LINKS_SHARE,
    GroupedCall,
    GroupFacts,
    channels_of_a_peer,
    group_s,
)
from gradwire.workloads.engines.nccl.search import PCI_GB_PER_S, GpuMachine
from gradwire.workloads.engines.nccl.tables import Gpu
from tests.unit.workloads.engines.nccl.test_chooser import communicator

GIB = 1 << 30
H100 = GpuMachine(gpus=8, gpu=Gpu.HOPPER, nics=8, nic_bytes_per_s=50e9, gpu_direct=True, links=18)
GH200 = GpuMachine(gpus=4, gpu=Gpu.HOPPER, nics=4, nic_bytes_per_s=25e9, gpu_direct=True, links=18, nvswitch=False)
NETWORK = MachineNetwork(nic_bytes_per_s=48e9, crossing_s=5e-6, back_s=0.0)
NVLINK = 18 * 20.6e9 * LINKS_SHARE


def seconds(comm: Communicator, kind: GroupedCall, size_bytes: int, network: MachineNetwork = NETWORK) -> float:
    return group_s(GroupFacts(comm, network, kind, size_bytes))


LARGE = [
    # Half of the blocks cross, by eight NICs of eight GPUs.
    (H100, 2, GroupedCall.ALL_TO_ALL, 8 / 16 / 48e9),
    # Two GPUs share a NIC.
    (replace(H100, nics=4), 2, GroupedCall.ALL_TO_ALL, 2 * 8 / 16 / 48e9),
    (H100, 1, GroupedCall.ALL_TO_ALL, 7 / 8 / NVLINK),
    (H100, 3, GroupedCall.SEND_RECV, 1 / 48e9),
    (H100, 1, GroupedCall.SEND_RECV, 1 / NVLINK),
    # Two NICs of a GPU.
    (replace(H100, nics=16, nic_bytes_per_s=12e9), 2, GroupedCall.SEND_RECV, 1 / 24e9),
    # All blocks come by the NIC of the one GPU, and leave by all NICs.
    (H100, 2, GroupedCall.GATHER, 8 / 16 / 48e9),
    (H100, 2, GroupedCall.SCATTER, 15 / 16 * 7 / 15 / NVLINK + 8 / 16 * 7 / 8 / NVLINK),
    (replace(H100, links=0), 2, GroupedCall.SCATTER, 15 / 16 / 48e9),
    # Blocks of 1, 2 and 4 by NVLink.
    (H100, 1, GroupedCall.HYPERCUBE, 7 / 8 / NVLINK),
    (H100, 2, GroupedCall.HYPERCUBE, 7 / 16 / NVLINK + 8 / 16 / 48e9),
]


@pytest.mark.parametrize(("machine", "machines", "kind", "s_per_byte"), LARGE)
def test_a_large_call_takes_what_its_busiest_part_carries(
    machine: GpuMachine, machines: int, kind: GroupedCall, s_per_byte: float
) -> None:
    comm = communicator("2.30", machine, machines)
    network = replace(NETWORK, nic_bytes_per_s=min(48e9, machine.nic_bytes_per_s))
    taken_s = seconds(comm, kind, 64 * GIB, network) - seconds(comm, kind, 32 * GIB, network)
    assert taken_s == pytest.approx(32 * GIB * s_per_byte, rel=1e-6)


def test_a_machine_and_its_hosts_limit_what_nics_carry() -> None:
    comm = communicator("2.22", H100, 2)
    limited = replace(NETWORK, machine_bytes_per_s=100e9)
    assert seconds(comm, GroupedCall.ALL_TO_ALL, 64 * GIB, limited) == pytest.approx(8 * 32 * GIB / 100e9, rel=0.001)
    costly = replace(NETWORK, burst_s=20e-6)
    bursts = 32 * GIB / 65536
    assert seconds(comm, GroupedCall.ALL_TO_ALL, 64 * GIB, costly) == pytest.approx(bursts * 20e-6, rel=0.001)


def test_sockets_go_by_the_slot_of_the_sender() -> None:
    staged = communicator("2.22", replace(H100, gpu_direct=False, nics=4, nic_bytes_per_s=100e9), 2)
    fast = replace(NETWORK, nic_bytes_per_s=1e12, back_s=None)
    taken_s = seconds(staged, GroupedCall.ALL_TO_ALL, 64 * GIB, fast)
    assert taken_s == pytest.approx(32 * GIB / (PCI_GB_PER_S[Gpu.HOPPER] * 1e9), rel=0.001)


@pytest.mark.parametrize(
    ("version", "machine", "machines", "variables", "channels"),
    [
        # From 32 GPUs on, 2.20 has one channel to a peer (NCCL's issue 1272), and 2.19 two.
        ("2.20", GH200, 4, {}, 2),
        ("2.20", GH200, 8, {}, 1),
        ("2.19", GH200, 8, {}, 2),
        ("2.20", GH200, 8, {"NCCL_NCHANNELS_PER_NET_PEER": "4"}, 4),
        # Since 2.29 as the NIC's rate needs, as long as all peers have one.
        ("2.28", H100, 2, {}, 2),
        ("2.29", H100, 2, {}, 4),
        ("2.29", H100, 16, {}, 1),
        ("2.29", H100, 1, {}, 32),
    ],
)
def test_channels_to_a_peer_are_nccls(
    version: str, machine: GpuMachine, machines: int, variables: dict[str, str], channels: int
) -> None:
    assert channels_of_a_peer(communicator(version, machine, machines, **variables)) == channels


def test_one_channel_does_not_fill_a_nic() -> None:
    alone, both = (communicator(version, GH200, 8) for version in ("2.20", "2.19"))
    network = replace(NETWORK, nic_bytes_per_s=24.4e9)
    rates = [GIB / seconds(comm, GroupedCall.SEND_RECV, GIB, network) for comm in (alone, both)]
    assert rates == pytest.approx([CHANNEL_BYTES_PER_S, 24.4e9], rel=0.01)


def test_a_long_way_holds_no_more_than_the_slots() -> None:
    comm = communicator("2.22", H100, 2)
    far = replace(NETWORK, crossing_s=5e-3, back_s=5e-3)
    # Two channels with eight slots of 128 KiB each, again every 10 ms.
    assert seconds(comm, GroupedCall.SEND_RECV, GIB, far) == pytest.approx(GIB / (2 << 20) * 10e-3, rel=0.01)


def test_small_messages_go_by_ll_inside_a_machine_alone() -> None:
    inside = GroupFacts(communicator("2.30", H100, 1), NETWORK, GroupedCall.ALL_TO_ALL, 64)
    across = replace(inside, comm=communicator("2.30", H100, 2))
    assert [inside.pieces(size).protocol for size in (8, 4 << 20)] == [LL, SIMPLE]
    assert across.pieces(8).protocol is SIMPLE


def test_a_hypercube_has_a_power_of_two_of_gpus() -> None:
    with pytest.raises(InputFault, match="power of two of GPUs, and not 24"):
        seconds(communicator("2.22", H100, 3), GroupedCall.HYPERCUBE, GIB)

"""What no machine can do, whatever it is made of: random machines, with every algorithm and protocol that NCCL has there,
and its groups of sends and receives."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest

from gradwire.faults import InputFault
from gradwire.runs.ccl import bus_factor
from gradwire.runs.ccl_machines import CclOptions, Wires, set_up
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import Choice, Communicator, estimates
from gradwire.workloads.engines.nccl.devices import DEVICES, GpuName
from gradwire.workloads.engines.nccl.duration import CallFacts, duration_s
from gradwire.workloads.engines.nccl.grouped import GroupedCall, GroupFacts, group_s
from gradwire.workloads.engines.nccl.pieces import divide
from gradwire.workloads.engines.nccl.search import PCI_PAYLOAD_GB_PER_S
from gradwire.workloads.engines.nccl.tables import TABLES, Gpu, name_of
from tests.shared.ccl_given import USUAL

KINDS = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.BROADCAST)
GIB = 1 << 30
LARGE = 8 * GIB
"""Large, so that the first pieces of all channels, which fill the way, are a small part of a call."""
FILL = 0.04
"""That part at most: 64 channels, each with a first chunk of 1 MiB on its way through 16 machines."""


def machines(seed: int) -> CclOptions:
    """A random cluster."""
    chance = random.Random(seed)
    return replace(
        USUAL,
        machines=chance.choice([1, 2, 2, 3, 4, 8, 16]),
        gpus=chance.choice([2, 4, 8]),
        gpu=chance.choice(list(GpuName)).value,
        nics=chance.choice([1, 2, 4, 8]),
        nic=chance.choice(["10gbit", "25gbit", "100gbit", "200gbit", "400gbit", "800gbit"]),
        transport=chance.choice(["tcp", "rdma", "efa"]),
        version=name_of(chance.choice(list(TABLES))),
    )


def calls(given: CclOptions, kind: Collective, size_bytes: int) -> list[CallFacts]:
    """The call by each algorithm and protocol that NCCL has for it."""
    comm, wires, _ = set_up(given)
    return [
        _call(comm, wires, kind, Choice(one.algorithm, one.protocol, 0.0), size_bytes) for one in estimates(comm, kind)
    ]


def _call(comm: Communicator, wires: Wires, kind: Collective, choice: Choice, size_bytes: int) -> CallFacts:
    pieces = divide(comm, kind, choice.algorithm, choice.protocol, size_bytes)
    return CallFacts(comm, wires.network, kind, choice, pieces, size_bytes)


def refuse_impossible(given: CclOptions, kind: Collective, size_bytes: int) -> None:
    """Fails if a call is faster than what carries it."""
    device = DEVICES[GpuName(given.gpu)]
    slot = PCI_PAYLOAD_GB_PER_S[device.gpu] * 1e9
    links = max(device.links * (50e9 if device.gpu is Gpu.BLACKWELL else 25e9), slot)
    for call in calls(given, kind, size_bytes):
        rate = size_bytes / duration_s(call)
        bus = rate * bus_factor(kind, call.comm.ranks)
        assert bus < (2 if call.algorithm.startswith("NVLS") else 1) * links, (given, call.choice)
        if given.machines == 1:
            continue
        # What each machine sends at least, if not all of it comes from its own GPUs.
        share = 1.0 if kind is Collective.BROADCAST else (given.machines - 1) / given.machines
        sent = rate * share * (2 if kind is Collective.ALL_REDUCE else 1)
        carried = min(call.comm.machine.nics * call.comm.machine.nic_bytes_per_s, given.gpus * slot)
        assert sent < carried, (given, call.choice)


def best_s(given: CclOptions, kind: Collective, size_bytes: int) -> float:
    return min(duration_s(call) for call in calls(given, kind, size_bytes))


def refuse_gains(given: CclOptions, kind: Collective) -> None:
    """Fails if a second machine makes a call faster, or more NICs make it slower."""
    time_s = best_s(given, kind, LARGE)
    if given.machines > 1:
        assert best_s(replace(given, machines=1), kind, LARGE) <= time_s * 1.005, given
    assert best_s(replace(given, nics=2 * given.nics), kind, LARGE) <= time_s * (1 + FILL), given


def group_time_s(given: CclOptions, kind: GroupedCall, size_bytes: int) -> float:
    comm, wires, _ = set_up(given)
    return group_s(GroupFacts(comm, wires.network, kind, size_bytes))


def refuse_impossible_groups(given: CclOptions, kind: GroupedCall, size_bytes: int) -> None:
    """Fails if sends and receives are faster than what carries them."""
    comm, _, _ = set_up(given)
    device, ranks = DEVICES[GpuName(given.gpu)], comm.ranks
    slot = PCI_PAYLOAD_GB_PER_S[device.gpu] * 1e9
    links = max(device.links * (50e9 if device.gpu is Gpu.BLACKWELL else 25e9), slot)
    rate = size_bytes / group_time_s(given, kind, size_bytes)
    sent = rate if kind is GroupedCall.SEND_RECV else rate * (ranks - 1) / ranks
    assert sent < links, given
    if given.machines == 1:
        return
    far = rate if kind is GroupedCall.SEND_RECV else rate * (ranks - given.gpus) / ranks
    nic = comm.machine.nic_bytes_per_s
    if kind in (GroupedCall.ALL_TO_ALL, GroupedCall.HYPERCUBE):
        assert far * given.gpus < min(comm.machine.nics * nic, given.gpus * slot), given
    elif kind is GroupedCall.SCATTER:
        assert far < min(comm.machine.nics * nic, given.gpus * slot), given
    else:
        # It comes to one GPU, or leaves it.
        assert far < min(max(1, comm.machine.nics // given.gpus) * nic, slot), given


def refuse_group_gains(given: CclOptions, kind: GroupedCall) -> None:
    time_s = group_time_s(given, kind, LARGE)
    if given.machines > 1:
        assert group_time_s(replace(given, machines=1), kind, LARGE) <= time_s * 1.005, given
    assert group_time_s(replace(given, nics=2 * given.nics), kind, LARGE) <= time_s, given


def examine_groups(seeds: range) -> None:
    for seed in seeds:
        given, kind = machines(seed), list(GroupedCall)[seed % len(GroupedCall)]
        if kind is GroupedCall.HYPERCUBE and given.machines == 3:
            given = replace(given, machines=2)
        refuse_impossible_groups(given, kind, (16, 1 << 20, GIB, LARGE)[seed // len(GroupedCall) % 4])
        refuse_group_gains(given, kind)


def test_no_send_is_faster_than_what_carries_it() -> None:
    examine_groups(range(2000))


@pytest.mark.long
def test_no_send_is_faster_than_what_carries_it_on_twenty_thousand_machines() -> None:
    examine_groups(range(2000, 22_000))


def examine(seeds: range) -> None:
    for seed in seeds:
        given, kind = machines(seed), KINDS[seed % len(KINDS)]
        refuse_impossible(given, kind, (1 << 20, 1 << 26, GIB, LARGE)[seed // len(KINDS) % 4])
        refuse_gains(given, kind)


def test_nothing_is_faster_than_what_carries_it() -> None:
    examine(range(300))


@pytest.mark.long
def test_nothing_is_faster_than_what_carries_it_on_ten_thousand_machines() -> None:
    examine(range(300, 10_300))


def test_no_random_machine_is_impossible() -> None:
    """A fault of the options would leave a machine out in silence."""
    for given in islice(map(machines, range(10_000)), 200):
        try:
            set_up(given)
        except InputFault as fault:
            raise AssertionError(given) from fault

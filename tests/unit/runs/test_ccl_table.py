"""Times of calls: the closed form beside the second engine, and the table that users see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.runs.ccl import bus_factor, expectations_of, kind_of, replayed_s, row_of, rows, size_of, sizes_of
from gradwire.runs.ccl_machines import Wires, set_up
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.call_plan import compile_call
from gradwire.workloads.engines.nccl.chooser import SIMPLE, Communicator, choose
from gradwire.workloads.engines.nccl.duration import SOCKETS_S, CallFacts, duration_s, tree_shape
from gradwire.workloads.engines.nccl.grouped import GroupedCall
from gradwire.workloads.engines.nccl.pieces import divide
from gradwire.workloads.engines.nccl.search import GpuMachine
from gradwire.workloads.engines.nccl.tables import Gpu
from tests.shared.ccl_given import USUAL
from tests.shared.parts import in_order, tells
from tests.unit.workloads.engines.nccl.test_chooser import (
    A100,
    B200,
    GIB,
    H100_RDMA,
    H100_TCP,
    V100_ALONE,
    communicator,
)

ALL_REDUCE = Collective.ALL_REDUCE
SLOW = Wires(nic_bps=200e9, mtu_bytes=9000, crossing_s=75e-6)
FAST = Wires(nic_bps=200e9, mtu_bytes=9000, crossing_s=5e-6)
SLOTS = replace(SLOW, back_s=35e-6)
SMALL = GpuMachine(gpus=2, gpu=Gpu.AMPERE, nics=1, nic_bytes_per_s=25e9, gpu_direct=True, links=12)


def call_of(comm: Communicator, wires: Wires, kind: Collective, size_bytes: int) -> CallFacts:
    choice = choose(comm, kind, size_bytes)
    pieces = divide(comm, kind, choice.algorithm, choice.protocol, size_bytes)
    return CallFacts(comm, wires.network, kind, choice, pieces, size_bytes)


RINGS = [
    (communicator("2.21", H100_TCP, 2, NCCL_ALGO="Ring"), SLOW, ALL_REDUCE, 8),
    (communicator("2.21", H100_TCP, 2, NCCL_ALGO="Ring"), SLOW, ALL_REDUCE, 2**20),
    (communicator("2.21", H100_TCP, 3, NCCL_ALGO="Ring"), SLOW, ALL_REDUCE, 2**28),
    (communicator("2.22", B200, 3, NCCL_ALGO="Ring"), FAST, ALL_REDUCE, 2**26),
    (communicator("2.27", B200, 3, NCCL_ALGO="Ring", NCCL_PROTO="LL128"), SLOW, ALL_REDUCE, 2**22),
    (communicator("2.22", H100_RDMA, 2, NCCL_ALGO="Ring", NCCL_PROTO="LL"), SLOW, ALL_REDUCE, 2**20),
    (communicator("2.18", V100_ALONE, 4), replace(SLOW, nic_bps=10e9, crossing_s=2e-3), ALL_REDUCE, 2**27),
    (communicator("2.22", A100, 2), FAST, Collective.ALL_GATHER, 2**26),
    (communicator("2.22", H100_TCP, 3), SLOW, Collective.REDUCE_SCATTER, 2**24),
    (communicator("2.22", SMALL, 3), FAST, Collective.BROADCAST, 2**24),
    (communicator("2.22", SMALL, 4), SLOW, Collective.REDUCE, 2**20),
    # Slots of connections: eight with LL128, four of slices with Simple.
    (communicator("2.27", B200, 3, NCCL_ALGO="Ring", NCCL_PROTO="LL128"), SLOTS, ALL_REDUCE, 2**22),
    (communicator("2.22", H100_RDMA, 2, NCCL_ALGO="Ring", NCCL_PROTO="Simple"), SLOTS, ALL_REDUCE, 2**24),
]


@pytest.mark.parametrize(("comm", "wires", "kind", "size_bytes"), RINGS)
def test_rings_take_what_the_second_engine_says(
    comm: Communicator, wires: Wires, kind: Collective, size_bytes: int
) -> None:
    call = call_of(comm, wires, kind, size_bytes)
    assert call.algorithm == "Ring"
    assert duration_s(call) == pytest.approx(replayed_s(call, wires), rel=0.01)


TREES = [
    (communicator("2.22", H100_TCP, 2), SLOW, 8, 0.005),
    (communicator("2.22", H100_TCP, 3, NCCL_ALGO="Tree"), SLOW, 2**22, 0.005),
    (communicator("2.22", H100_RDMA, 2), FAST, 2**20, 0.03),
    # Many chunks: the closed form is a little slow, because the first of them find lines empty.
    (communicator("2.22", H100_RDMA, 2), FAST, GIB, 0.01),
    (communicator("2.22", H100_RDMA, 2, NCCL_ALGO="Tree"), FAST, 2 * GIB, 0.02),
    (communicator("2.22", H100_TCP, 3, NCCL_ALGO="Tree"), SLOW, 2**28, 0.03),
]


@pytest.mark.parametrize(("comm", "wires", "size_bytes", "within"), TREES)
def test_trees_of_one_chunk_and_of_many_take_what_the_second_engine_says(
    comm: Communicator, wires: Wires, size_bytes: int, within: float
) -> None:
    call = call_of(comm, wires, ALL_REDUCE, size_bytes)
    assert call.algorithm in ("Tree", "NVLSTree")
    assert duration_s(call) == pytest.approx(replayed_s(call, wires), rel=within)


def test_by_lines_a_chunk_goes_through_a_machine_in_its_own_time_once() -> None:
    comm = communicator("2.27", B200, 4, NCCL_ALGO="Ring", NCCL_PROTO="LL128")
    call = call_of(comm, Wires(nic_bps=400e9, mtu_bytes=9000, crossing_s=75e-6), ALL_REDUCE, 2**26)
    assert call.pieces.loops == 1
    chunk = call.pieces.chunk_bytes
    # The last chunk's way around 32 GPUs, nearly twice: 8 times between machines, and through 8 machines.
    inside_s, between_s = chunk / call.inside, chunk / call.between
    way_s = call.apart_s + 54 * call.hop_s + 8 * (call.crossing_s + between_s + inside_s)
    assert duration_s(call) == pytest.approx(way_s, rel=0.1)
    # Passed on whole, it would take its time at each of 54 hops.
    assert duration_s(call) < way_s + 46 * inside_s / 2


def test_trees_are_replayed_where_their_plans_are_not_too_large() -> None:
    comm = communicator("2.27", B200, 4)
    wires = replace(SLOW, nic_bps=400e9)
    row = row_of(comm, wires, ALL_REDUCE, 2**26, 4)
    assert (row.algorithm, row.by) == ("NVLSTree", "second engine")
    assert row.time_s == replayed_s(call_of(comm, wires, ALL_REDUCE, 2**26), wires)
    assert row_of(comm, wires, ALL_REDUCE, 2**34, 4).by == "closed form"
    large = communicator("2.22", H100_TCP, 2)
    assert [row_of(large, SLOW, ALL_REDUCE, size, 4).by for size in (8, 4 * GIB)] == ["second engine", "closed form"]


def test_two_trees_by_hand() -> None:
    # Two machines: one crossing by half of the channels; each carries up in one tree and down in the other.
    assert (tree_shape(2).depth, tree_shape(2).climb, tree_shape(2).load) == (1, 0.5, 1.0)
    # Four: the first tree is 0 over 2 over 1 and 3. Two children reach 2 at once, and it alone reaches 0.
    assert (tree_shape(4).depth, tree_shape(4).climb) == (2, 1 + 0.5)
    # Machine 2 sends up and to two children in one tree, and as a leaf up in the other: four halves.
    assert tree_shape(4).load == 2.0


def test_what_carries_the_data_limits_it() -> None:
    ring = communicator("2.22", H100_TCP, 3, NCCL_ALGO="Ring")
    payload = 25e9 * (9000 - 52) / (9000 + 38)
    assert row_of(ring, SLOW, ALL_REDUCE, 16 * GIB, 4).bus_bytes_per_s == pytest.approx(payload, rel=0.001)
    limited = replace(SLOW, machine_bytes_per_s=10e9)
    assert row_of(ring, limited, ALL_REDUCE, 16 * GIB, 4).bus_bytes_per_s == pytest.approx(10e9, rel=0.001)
    costly = replace(SLOW, burst_s=1e-3)
    assert row_of(ring, costly, ALL_REDUCE, GIB, 4).time_s > 2 * row_of(ring, SLOW, ALL_REDUCE, GIB, 4).time_s


def test_hosts_take_as_long_for_a_small_message_as_for_a_whole_burst() -> None:
    """By hand: 16 channels, 46 steps of a ring and 2 slices are 1,472 messages of a NIC, each below 64 KiB."""
    ring = communicator("2.22", H100_TCP, 3, NCCL_ALGO="Ring")
    costly = replace(SLOW, crossing_s=0.0, burst_s=50e-6)
    assert row_of(ring, costly, ALL_REDUCE, 4_000_000, 4).time_s == pytest.approx(1472 * 50e-6, rel=0.02)
    # Of large messages, the rate is nearly that of whole bursts, by the closed form and by the second engine.
    assert row_of(ring, costly, ALL_REDUCE, 16 * GIB, 4).bus_bytes_per_s == pytest.approx(65536 / 50e-6, rel=0.04)
    tree = communicator("2.22", H100_TCP, 2, NCCL_ALGO="Tree")
    for by, size_bytes in (("second engine", GIB), ("closed form", 4 * GIB)):
        row = row_of(tree, replace(costly, burst_s=10e-6), ALL_REDUCE, size_bytes, 4)
        assert row.by == by
        assert row.algorithm_bytes_per_s == pytest.approx(65536 / 10e-6, rel=0.03)


def test_sockets_have_data_copied_by_way_of_the_hosts() -> None:
    """By hand: of 4 MB in one piece, half crosses at a time, by 48 GB/s to a host's memory and from the other's; NCCL's
    sockets take their time for each crossing as well."""
    staged = communicator("2.22", H100_TCP, 3, NCCL_ALGO="Tree", NCCL_PROTO="Simple")
    direct = communicator("2.22", replace(H100_TCP, gpu_direct=True), 3, NCCL_ALGO="Tree", NCCL_PROTO="Simple")
    calls = [call_of(comm, SLOW, ALL_REDUCE, 4_000_000) for comm in (staged, direct)]
    more_s = calls[0].crossing_s - calls[1].crossing_s
    assert more_s == pytest.approx(2 * 2e6 / 48e9 + SOCKETS_S[SIMPLE], rel=0.001)


ONE_MACHINE = [
    ("2.22", H100_RDMA, {}),
    ("2.27", B200, {}),
    ("2.22", A100, {}),
    ("2.22", H100_RDMA, {"NCCL_ALGO": "Tree"}),
]


@pytest.mark.parametrize(("version", "machine", "variables"), ONE_MACHINE)
@pytest.mark.parametrize("size_bytes", [8, 2**20, GIB])
def test_on_one_machine_a_call_is_the_same_without_a_network(
    version: str, machine: GpuMachine, variables: dict[str, str], size_bytes: int
) -> None:
    rates = [
        row_of(communicator(version, machine, machines, **variables), FAST, ALL_REDUCE, size_bytes, 4)
        for machines in (1, 2)
    ]
    assert rates[0].time_s < rates[1].time_s
    # What a GPU's links carry, by NVIDIA's data sheets: NVSwitch adds and copies, so that busbw may be twice as much.
    links = machine.links * (50e9 if machine.gpu is Gpu.BLACKWELL else 25e9)
    assert rates[0].bus_bytes_per_s < (2 if rates[0].algorithm == "NVLS" else 1) * links


@pytest.mark.parametrize(
    ("algorithm", "protocol", "ranks", "measured_us"),
    [
        ("Tree", "LL", 2, 43.1),
        ("Tree", "LL", 3, 85.7),
        ("Ring", "LL", 2, 45.3),
        ("Ring", "LL", 3, 70.2),
        ("Tree", "LL128", 2, 63.1),
        ("Tree", "Simple", 2, 81.8),
        ("Tree", "Simple", 3, 159.1),
        ("Ring", "Simple", 2, 96.9),
        ("Ring", "Simple", 3, 147.4),
    ],
)
def test_calls_of_nccl_through_sockets_take_what_they_took_on_an_h100(
    algorithm: str, protocol: str, ranks: int, measured_us: float
) -> None:
    """8 bytes on the loopback interface, half a round trip of which was 8.3 us: benchmarks/host/nccl_sockets.cu."""
    alone = replace(H100_TCP, gpus=1, links=0, nvswitch=False)
    comm = communicator("2.27", alone, ranks, NCCL_ALGO=algorithm, NCCL_PROTO=protocol)
    row = row_of(comm, replace(SLOW, crossing_s=8.3e-6), ALL_REDUCE, 8, 4)
    assert row.time_s * 1e6 == pytest.approx(measured_us, rel=0.15)


def test_counts_and_bandwidths_are_those_of_nccl_tests() -> None:
    comm = communicator("2.22", H100_TCP, 2)
    assert row_of(comm, SLOW, ALL_REDUCE, 1024, 4).count == 256
    assert row_of(comm, SLOW, Collective.ALL_GATHER, 1024, 4).count == 16
    assert [row.size_bytes for row in rows(comm, SLOW, Collective.ALL_GATHER, [8, 64, 100], 4)] == [64, 64]
    assert [bus_factor(kind, 16) for kind in (ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)] == [
        30 / 16,
        15 / 16,
        1.0,
    ]
    with pytest.raises(InputFault, match="one element"):
        row_of(comm, SLOW, ALL_REDUCE, 3, 4)


def test_groups_of_sends_are_counted_as_nccl_tests_count_them() -> None:
    """src/alltoall.cu, gather.cu, sendrecv.cu and hypercube.cu: elements, algbw and busbw."""
    comm = communicator("2.22", H100_RDMA, 2)
    found = {kind: row_of(comm, FAST, kind, 1024, 4) for kind in GroupedCall}
    assert [row.count for row in found.values()] == [16, 256, 16, 16, 16]
    assert [row.algorithm_bytes_per_s * row.time_s for row in found.values()] == pytest.approx(
        [1024, 1024, 1024, 1024, 960]
    )
    assert [row.bus_bytes_per_s * row.time_s for row in found.values()] == pytest.approx([960, 1024, 960, 960, 960])
    assert [kind_of(text) for text in ("alltoall", "send/recv", "sendrecv", "Gather")] == [
        GroupedCall.ALL_TO_ALL,
        GroupedCall.SEND_RECV,
        GroupedCall.SEND_RECV,
        GroupedCall.GATHER,
    ]


def test_longer_calls_take_longer() -> None:
    comm = communicator("2.22", H100_TCP, 3, NCCL_ALGO="Ring", NCCL_PROTO="Simple")
    times = [row.time_s for row in rows(comm, SLOW, ALL_REDUCE, sizes_of("8..16GiB"), 4)]
    assert times == sorted(times)


def test_plans_of_single_machines_are_refused() -> None:
    with pytest.raises(InputFault, match="has no plan"):
        compile_call(call_of(communicator("2.22", A100, 1), SLOW, ALL_REDUCE, GIB))
    with pytest.raises(InputFault, match="ops"):
        compile_call(call_of(communicator("2.22", H100_TCP, 64, NCCL_ALGO="Ring"), SLOW, ALL_REDUCE, GIB))


def test_what_is_written_is_read() -> None:
    assert kind_of("all_reduce") is kind_of("AllReduce") is ALL_REDUCE
    assert sizes_of("8..64,1MiB") == [8, 16, 32, 64, 2**20]
    assert size_of("4 MB") == 4_000_000
    one = expectations_of(["1GiB=350GB/s:5%"])[0]
    assert one.size_bytes == GIB
    assert one.bound_bytes_per_s == pytest.approx(332.5e9)


@pytest.mark.parametrize("text", ["1GiB", "1GiB=350", "1GiB=0GB/s", "1GiB=350GB/s:100%", "x=350GB/s", "1GiB=350GB/s:5"])
def test_wrong_expectations_are_refused(text: str) -> None:
    with pytest.raises(InputFault):
        expectations_of([text])


@pytest.mark.parametrize("text", ["", "8..4", "1PB", "0", "8..", "-1", "9" * 400])
def test_wrong_sizes_are_refused(text: str) -> None:
    with pytest.raises(InputFault):
        sizes_of(text)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("--machines", {"machines": 70_000}),
        ("--gpus", {"gpus": 0}),
        ("--nics", {"nics": 0}),
        ("--latency", {"latency": "1e300s"}),
        ("--delay", {"delay": "2s"}),
        ("--burst-cost", {"burst_cost": "1h"}),
    ],
)
def test_machines_and_delays_that_cannot_be_are_refused(option: str, wrong: Mapping[str, Any]) -> None:
    with pytest.raises(InputFault, match=f"^{option} .*: must be"):
        set_up(replace(USUAL, **wrong))


def test_trees_of_as_many_machines_as_there_may_be_take_no_time() -> None:
    """By hand: the halves of 65,536 machines and of what is left, down to one."""
    assert tree_shape(2**16).depth == 16


def test_wrong_collectives_are_refused() -> None:
    with pytest.raises(InputFault, match=in_order("all-to-some", "all-reduce", "all-to-all", "hypercube")):
        kind_of("all-to-some")


def test_a_connection_has_eight_slices_under_way() -> None:
    """By hand: with a long way, eight chunks of a tree leave at once, and the next when the first is known to have come."""
    comm = communicator("2.27", B200, 2, NCCL_ALGO="Tree", NCCL_PROTO="LL128")
    far = Wires(nic_bps=400e9, mtu_bytes=9000, crossing_s=5e-3, back_s=5e-3)
    call = call_of(comm, far, ALL_REDUCE, GIB)
    assert (call.pieces.loops, call.pieces.slots) == (59, 8)
    # Up and down once, and before the last of 59 chunks seven times eight others, each of which waits for two ways.
    waited_s, sent_s = 2 * 5e-3 + 59 // 8 * 10e-3, GIB / 32 * 16 / 15 / call.between
    assert waited_s < replayed_s(call, far) < waited_s + 2 * sent_s
    assert duration_s(call) == pytest.approx(replayed_s(call, far), rel=0.05)
    # Sockets hold what comes, so that nobody waits.
    unlimited = replace(far, back_s=None)
    assert replayed_s(call_of(comm, unlimited, ALL_REDUCE, GIB), unlimited) < 2 * 5e-3 + 2 * sent_s


@pytest.mark.parametrize(("gpu", "version"), [("h100", (2, 22)), ("b200", (2, 27)), ("gb200", (2, 27))])
def test_the_version_is_one_that_knows_the_gpu(gpu: str, version: tuple[int, int]) -> None:
    comm, _, notes = set_up(replace(USUAL, machines=1, gpu=gpu))
    assert comm.version == version
    assert not any("does not know" in note for note in notes)


def test_a_version_without_blackwell_is_said() -> None:
    """Half of the bandwidth: an NVLink of Blackwell counts as one of Hopper."""
    new, old = (set_up(replace(USUAL, machines=1, gpu="b200", version=version)) for version in (None, "2.22"))
    assert any(tells(note, "2.22", "b200") for note in old[2])
    large = [row_of(comm, wires, ALL_REDUCE, GIB, 4).bus_bytes_per_s for comm, wires, _ in (new, old)]
    assert large[0] > 1.8 * large[1]


def test_versions_that_are_not_public_are_named_as_such() -> None:
    with pytest.raises(InputFault, match=in_order("2.31", "newer", "2.30")):
        set_up(replace(USUAL, version="2.31"))


def test_meshes_are_said_to_be_counted_as_a_whole() -> None:
    notes = [set_up(replace(USUAL, machines=1, gpu="v100", nvswitch=nvswitch))[2] for nvswitch in (True, False)]
    assert [any("mesh" in note for note in each) for each in notes] == [False, True]

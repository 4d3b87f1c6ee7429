"""NCCL's sockets without a GPU: what a kernel and its proxies do, and rows as scenarios of programs."""

from __future__ import annotations

import csv
import socket
import threading
from collections import deque

import pytest

from gradwire.datatypes.host_settings import HostTcp
from gradwire.documents import table_at
from gradwire.scenario.loading import ScenarioOrigin
from gradwire.scenario.program_scenarios import ProgramPoint
from gradwire.scenario.scenario_files import resolved_scenario
from reproduction.world import nccl_ranks
from reproduction.world.cells import GIVEN, By, Programs, load_given, with_further
from reproduction.world.gloo_rows import rows_of
from reproduction.world.nccl_ranks import MIB, STEP_BYTES, STEPS, Channel, Neighbour, Slice, call, slices_of
from reproduction.world.nccl_rows import MOST_HOSTS, WHAT, programs, scenario
from reproduction.world.sources.tc_cluster import TC_CLUSTER

RANKS = 4


def slices(collective: str, rank: int, ranks: int = RANKS) -> list[Slice]:
    return list(slices_of(collective, rank, ranks, 64 * MIB))


@pytest.mark.parametrize("collective", ["all-reduce", "broadcast", "reduce"])
def test_what_a_rank_sends_its_successor_receives_in_the_same_slices(collective: str) -> None:
    for rank in range(RANKS):
        sent = [each.size_bytes for each in slices(collective, rank) if each.sends]
        received = [each.size_bytes for each in slices(collective, (rank + 1) % RANKS) if each.receives]
        assert sent == received


def test_chains_and_rings_carry_what_they_must() -> None:
    def carried(collective: str, rank: int) -> float:
        return sum(each.size_bytes for each in slices(collective, rank) if each.sends) / (64 * MIB)

    # A broadcast ends at the root's predecessor, a reduction at the root, and each rank of a ring sends 2 (N - 1) / N.
    assert [carried("broadcast", rank) for rank in range(RANKS)] == [1, 1, 1, 0]
    assert [carried("reduce", rank) for rank in range(RANKS)] == [0, 1, 1, 1]
    assert [carried("all-reduce", rank) for rank in range(RANKS)] == [1.5] * RANKS
    assert {each.size_bytes for each in slices("broadcast", 0)} == {STEP_BYTES}
    assert {each.size_bytes for each in slices("all-reduce", 0)} == {2 * STEP_BYTES}
    assert {each.size_bytes for each in slices("p2p", 0, 2)} == {STEP_BYTES // 4}


def neighbours(count: int) -> tuple[Neighbour, Neighbour]:
    pairs = [socket.socketpair() for _ in range(count + 1)]
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
    sender = Neighbour(True, pairs[-1][0], [one for one, _ in pairs[:-1]], STEPS)
    receiver = Neighbour(False, pairs[-1][1], [other for _, other in pairs[:-1]], STEPS)
    return sender, receiver


def test_parts_of_a_slot_go_by_the_next_connections_in_turn_and_one_slot_at_a_time() -> None:
    sender, receiver = neighbours(16)
    memory = memoryview(bytearray(STEP_BYTES))
    sender.sizes, sender.by_kernel, receiver.end = deque([STEP_BYTES, STEP_BYTES]), 2, 2
    sender.progress(memory)
    # 64 KiB at least: half of the connections, and the other half for the next slot.
    assert sender.by_proxy == 1
    assert (sender.next_connection, len(sender.parts)) == (8, 8)
    while receiver.by_proxy < 2:
        receiver.progress(memory)
        sender.progress(memory)
    assert sender.next_connection == receiver.next_connection == 0


def test_a_kernel_waits_for_an_empty_slot_and_a_full_one() -> None:
    sender, receiver = neighbours(1)
    assert sender.kernel_may_go_on
    assert not receiver.kernel_may_go_on
    sender.by_kernel = STEPS
    assert not sender.kernel_may_go_on
    receiver.by_proxy = 1
    assert receiver.kernel_may_go_on


def test_a_call_ends_at_both_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_ranks, "BUSY_S", 1e-4)
    (first_out, second_in), (second_out, first_in) = neighbours(8), neighbours(8)
    memory = memoryview(bytearray(STEP_BYTES))
    rings = [Channel(first_in, first_out, memory), Channel(second_in, second_out, memory)]
    for rank, ring in enumerate(rings):
        ring.begin(slices_of("all-reduce", rank, 2, 8 * MIB), STEPS // 2)
    other = threading.Thread(target=call, args=([rings[1]],))
    other.start()
    assert call([rings[0]]) > 0
    other.join()
    assert all(not ring.slices and ring.before.by_kernel == ring.before.end for ring in rings)


def test_rows_are_of_stock_hosts_and_need_no_torch() -> None:
    with GIVEN.open(newline="") as lines:
        rows = rows_of(csv.DictReader(lines), WHAT)
    assert len(rows) == 16
    for row in rows:
        (point,) = resolved_scenario(scenario(row), ScenarioOrigin("test.toml", "test", None)).points
        assert isinstance(point, ProgramPoint)
        assert point.fabric.host_tcp is HostTcp.STOCK_BEFORE_6_6
        assert not programs(row).needs_torch
    (delayed,) = [row for row in rows if row.setting == "delay 10 ms"]
    assert table_at(scenario(delayed), "program", "nccl", "arguments")["netem"] == "delay 10ms limit 1000"
    assert len({programs(row).name for row in rows}) == len(rows)


def test_given_rows_and_small_cells_are_by_sockets() -> None:
    for row in with_further(TC_CLUSTER, load_given()):
        cell = TC_CLUSTER.cell(row)
        if row.what.startswith("nccl") and " hosts" in row.what:
            hosts = int(row.what.split()[-2])
            by_sockets = isinstance(cell.planned, Programs) and cell.planned.by is By.SOCKETS
            assert by_sockets == (row.printed is not None or hosts <= MOST_HOSTS)
            assert not cell.fitted

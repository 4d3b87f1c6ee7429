"""Plans of workloads: every call and byte of the trace and no other, in the trace's order, whatever the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import check
from gradwire.workloads.engines.collective_routes import option_of
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.workload import Kind, Workload
from tests.unit.workloads.traces.small_traces import chakra_file, chakra_node, imported, words

GROUPS: dict[str, tuple[int, ...]] = {"tp0": (0, 1), "tp1": (3, 2), "dp0": (0, 2), "dp1": (1, 3), "all": (0, 1, 2, 3)}
SIZES = {
    Kind.ALL_REDUCE: 4000,
    Kind.ALL_GATHER: 600,
    Kind.REDUCE_SCATTER: 802,
    Kind.ALL_TO_ALL: 1000,
    Kind.BROADCAST: 50,
    Kind.BARRIER: 0,
}
CHAKRA_TYPES = {
    Kind.ALL_REDUCE: 0,
    Kind.ALL_GATHER: 2,
    Kind.BROADCAST: 5,
    Kind.ALL_TO_ALL: 6,
    Kind.REDUCE_SCATTER: 7,
    Kind.BARRIER: 9,
}
ALGORITHMS: tuple[dict[Kind, str], ...] = (
    {},
    {Kind.ALL_REDUCE: "ring", Kind.ALL_GATHER: "ring", Kind.REDUCE_SCATTER: "ring", Kind.BROADCAST: "tree"},
    {Kind.ALL_REDUCE: "halving-doubling"},
)


def collective(number: int, kind: Kind, group: str, after: int) -> Any:
    attributes: dict[str, Any] = {"comm_type": CHAKRA_TYPES[kind], "comm_size": SIZES[kind], "pg_name": group}
    return chakra_node(number, chakra.COLL, [after], **attributes)


def workload(folder: Path) -> Workload:
    """Four ranks: computation, a collective of each kind in groups of two and of all, and messages along a pipeline."""
    paths = []
    for rank in range(4):
        nodes = [chakra_node(1, chakra.COMP, duration_us=50 * (rank + 1))]
        for number, kind in enumerate(CHAKRA_TYPES, start=2):
            nodes.append(collective(number, kind, ("tp0", "tp0", "tp1", "tp1")[rank], 1))
            nodes.append(collective(number + 20, kind, f"dp{rank % 2}", number))
            nodes.append(collective(number + 40, kind, "all", number + 20))
        if rank < 3:
            nodes.append(chakra_node(100, chakra.SEND, [42], comm_size=7, comm_dst=rank + 1))
        if rank:
            nodes.append(chakra_node(101, chakra.RECV, [], comm_size=7, comm_src=rank - 1))
            nodes.append(chakra_node(102, chakra.COMP, [101], duration_us=10))
        paths.append(chakra_file(folder / f"{rank}.et", nodes))
    outcome = imported(*paths, reading=Reading(groups=GROUPS))
    assert outcome.workload is not None, words(outcome)
    return outcome.workload


def compiled(source: Workload, algorithms: dict[Kind, str], costs: Costs | None = None, per_host: int = 1) -> Plan:
    options = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "broadcast"), "direct")
    options |= {option_of(Collective[kind.name]): name for kind, name in algorithms.items()}
    chosen = routes_of(ReplayOptions.model_validate(options))
    cluster = Cluster(source.ranks, workers_per_host=per_host)
    return compile_workload(source, cluster, costs or Costs(), chosen, min(busiest_s(source)), 0)


def sent_in_all(kind: Kind, members: int) -> int:
    """Bytes of a collective on the wire, by hand: every algorithm here is optimal in bytes."""
    size = SIZES[kind]
    return {
        Kind.ALL_REDUCE: 2 * (members - 1) * size,
        Kind.ALL_GATHER: members * (members - 1) * size,
        Kind.REDUCE_SCATTER: (members - 1) * size,
        Kind.ALL_TO_ALL: (members - 1) * size,
        Kind.BROADCAST: (members - 1) * size,
        Kind.BARRIER: members * (members - 1).bit_length() * 64,
    }[kind]


@pytest.mark.parametrize("algorithms", ALGORITHMS)
def test_calls_and_bytes_are_those_of_the_trace(tmp_path: Path, algorithms: dict[Kind, str]) -> None:
    source = workload(tmp_path)
    plan = compiled(source, algorithms)
    check(plan)
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND)
    call = plan.ops.order[sends] >> 16
    assert set(call.tolist()) == set(range(int(source.tasks.call.max()) + 1))
    for number in range(int(source.tasks.call.max()) + 1):
        tasks = np.flatnonzero(source.tasks.call == number)
        of_call = sends[call == number]
        kind = Kind(int(source.tasks.kind[tasks[0]]))
        expected = 7 if kind in (Kind.SEND, Kind.RECV) else sent_in_all(kind, len(tasks))
        assert plan.ops.size_bytes[of_call].sum() == expected, kind
        ranks = set(source.tasks.rank[tasks].tolist())
        assert set(plan.ops.rank[of_call].tolist()) | set(plan.ops.peer[of_call].tolist()) == ranks
    computes = plan.ops.kind == OpKind.COMPUTE
    assert plan.ops.duration_ns[computes].sum() == sum((50 * (rank + 1) + 10 * (rank > 0)) * 1000 for rank in range(4))


def test_fewer_elements_than_parts(tmp_path: Path) -> None:
    nodes = [chakra_node(1, chakra.COMP), chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=3)]
    outcome = imported(*(chakra_file(tmp_path / f"{rank}.et", nodes) for rank in range(8)))
    assert outcome.workload is not None
    for algorithm in ("ring", "halving-doubling", "butterfly", "direct"):
        plan = compiled(outcome.workload, {Kind.ALL_REDUCE: algorithm})
        check(plan)
        sent = plan.ops.size_bytes[plan.ops.kind == OpKind.SEND].sum()
        assert sent == (8 * 3 * 3 if algorithm == "butterfly" else 2 * 7 * 3)


def test_what_waits_for_a_collective_begins_when_it_has_ended(tmp_path: Path) -> None:
    """Two ranks that compute for 1 ms and 3 ms, reduce 12.5 MB by a ring at 10 Gbit/s, and compute for 2 ms."""
    paths = []
    for rank in range(2):
        nodes = [
            chakra_node(1, chakra.COMP, duration_us=1000 + 2000 * rank),
            chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=12_500_000),
            chakra_node(3, chakra.COMP, [2], duration_us=2000),
        ]
        paths.append(chakra_file(tmp_path / f"{rank}.et", nodes))
    outcome = imported(*paths)
    assert outcome.workload is not None
    plan = compiled(outcome.workload, {Kind.ALL_REDUCE: "ring"})
    fabric = Fabric(hosts=2, rate_bps=10e9)
    wire_s = 12_500_000 * 8 / (10e9 * fabric.goodput_share())
    assert estimate(plan, fabric).iteration_s == pytest.approx(0.003 + wire_s + 0.002, rel=0.01)


@pytest.mark.parametrize("kind", ["message", "broadcast", "all-to-all"])
def test_what_waits_for_data_begins_when_they_are_there(tmp_path: Path, kind: str) -> None:
    """Rank 0 computes for 3 ms and sends 1.25 MB (1 ms at 10 Gbit/s) to rank 1, which then computes for 2 ms."""
    size = 1_250_000
    ends: dict[str, tuple[Any, Any]] = {
        "message": (
            chakra_node(2, chakra.SEND, [1], comm_size=size, comm_dst=1),
            chakra_node(2, chakra.RECV, comm_size=size, comm_src=0),
        ),
        "broadcast": tuple(
            chakra_node(2, chakra.COLL, [1] * (rank == 0), comm_type=5, comm_size=size) for rank in (0, 1)
        ),
        "all-to-all": tuple(
            chakra_node(2, chakra.COLL, [1] * (rank == 0), comm_type=6, comm_size=2 * size) for rank in (0, 1)
        ),
    }
    first, second = ends[kind]
    paths = [
        chakra_file(tmp_path / "0.et", [chakra_node(1, chakra.COMP, duration_us=3000), first]),
        chakra_file(tmp_path / "1.et", [second, chakra_node(3, chakra.COMP, [2], duration_us=2000)]),
    ]
    outcome = imported(*paths)
    assert outcome.workload is not None, words(outcome)
    plan = compiled(outcome.workload, {})
    check(plan)
    fabric = Fabric(hosts=2, rate_bps=10e9)
    times = estimate(plan, fabric, with_ops=True)
    assert times.op_end_s is not None
    assert times.op_end_s[0].max() == pytest.approx(0.006, rel=0.02)


def test_a_ring_goes_round_in_the_order_of_its_group(tmp_path: Path) -> None:
    nodes = [chakra_node(1, chakra.COMP), chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=400, pg_name="g")]
    paths = [chakra_file(tmp_path / f"{rank}.et", nodes) for rank in range(4)]
    outcome = imported(*paths, reading=Reading(groups={"g": (0, 2, 1, 3)}))
    assert outcome.workload is not None
    ops = compiled(outcome.workload, {Kind.ALL_REDUCE: "ring"}).ops
    sends = ops.kind == OpKind.SEND
    assert {tuple(pair) for pair in np.stack([ops.rank[sends], ops.peer[sends]], axis=1).tolist()} == {
        (0, 2),
        (2, 1),
        (1, 3),
        (3, 0),
    }


def test_adding_takes_its_time_and_machines_have_links_of_their_own(tmp_path: Path) -> None:
    source = workload(tmp_path)
    plan = compiled(
        source, {Kind.ALL_REDUCE: "ring"}, Costs(aggregation_bytes_per_s=1e9, local_bytes_per_s=1e9), per_host=2
    )
    check(plan)
    reduces = plan.ops.kind == OpKind.REDUCE
    assert plan.ops.duration_ns[reduces].sum() == plan.ops.size_bytes[reduces].sum()
    inside = (plan.ops.kind == OpKind.SEND) & ~plan.is_remote()
    assert plan.ops.duration_ns[inside].sum() == plan.ops.size_bytes[inside].sum()
    assert inside.any()
    assert plan.is_remote().any()
    late = Costs(1e9, message_latency_s=1.0, local_bytes_per_s=1e9, local_latency_s=0.5)
    delayed = compiled(source, {Kind.ALL_REDUCE: "ring"}, late, per_host=2).ops.duration_ns
    assert (delayed[inside] - plan.ops.duration_ns[inside]).tolist() == [500_000_000] * int(inside.sum())
    assert set(delayed[plan.is_remote()].tolist()) == {1_000_000_000}

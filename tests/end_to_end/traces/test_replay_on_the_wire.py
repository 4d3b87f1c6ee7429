"""A trace on the wire: groups of ranks, collectives of every algorithm and messages, as long as the ideal network says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import replay_plans
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.record import Reading
from tests.unit.workloads.traces.small_traces import chakra_file, chakra_node, imported

pytestmark = pytest.mark.kernel

ITERATIONS = 3
GROUPS: dict[str, tuple[int, ...]] = {"tp0": (0, 1), "tp1": (2, 3), "dp0": (0, 2), "dp1": (1, 3)}
MEGABYTE = 1_000_000


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "direct"])
def test_a_trace_takes_as_long_as_on_the_ideal_network(virtual_kernel: Path, tmp_path: Path, algorithm: str) -> None:
    paths = []
    for rank in range(4):
        nodes = [
            chakra_node(1, chakra.COMP, duration_us=1000 + 500 * rank),
            chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=4 * MEGABYTE, pg_name=f"tp{rank // 2}"),
            chakra_node(3, chakra.COMP, [2], duration_us=2000),
            chakra_node(4, chakra.COLL, [3], comm_type=7, comm_size=8 * MEGABYTE, pg_name=f"dp{rank % 2}"),
            chakra_node(5, chakra.COLL, [4], comm_type=2, comm_size=4 * MEGABYTE, pg_name=f"dp{rank % 2}"),
            chakra_node(6, chakra.COLL, [5], comm_type=0, comm_size=12 * MEGABYTE),
            chakra_node(7, chakra.COLL, [6], comm_type=9),
        ]
        if rank % 2:
            nodes.append(chakra_node(8, chakra.RECV, [3], comm_size=MEGABYTE, comm_src=rank - 1))
        else:
            nodes.append(chakra_node(8, chakra.SEND, [3], comm_size=MEGABYTE, comm_dst=rank + 1))
        paths.append(chakra_file(tmp_path / f"{rank}.et", nodes))
    outcome = imported(*paths, reading=Reading(groups=GROUPS))
    assert outcome.workload is not None
    routes = routes_of(ReplayOptions(all_reduce=algorithm, reduce_scatter="direct"))
    plan = compile_workload(outcome.workload, Cluster(4), Costs(), routes, min(busiest_s(outcome.workload)), 0)
    check(plan)
    fabric = Fabric(hosts=4, rate_bps=10e9)
    (run,) = replay_plans({"replay": plan}, fabric, ITERATIONS).values()
    measured_s = float(iteration_times_s(run.plan, run.log, ITERATIONS)[-1])
    assert measured_s == pytest.approx(estimate(plan, fabric).iteration_s, rel=0.02)

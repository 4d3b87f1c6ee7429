"""A trace on three times its ranks, on a real network: as long as the ideal network says, and as much as rings of more ranks carry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import replay_plans
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.recorded_job import ALL_RANKS, grow_job, growing_groups
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.traces.formats import chakra_messages as chakra
from tests.unit.workloads.traces.small_traces import chakra_file, chakra_node, imported

pytestmark = pytest.mark.kernel

ITERATIONS, COPIES, SIZE = 2, 3, 12_000_000


def test_a_grown_trace_takes_as_long_as_on_the_ideal_network(virtual_kernel: Path, tmp_path: Path) -> None:
    nodes = [
        chakra_node(1, chakra.COMP, duration_us=1000),
        chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=SIZE),
        chakra_node(3, chakra.COMP, [2], duration_us=500),
    ]
    source = imported(*(chakra_file(tmp_path / f"{rank}.et", nodes) for rank in range(2))).workload
    assert source is not None
    more = grow_job(source, COPIES, growing_groups(source, [ALL_RANKS]))
    ranks = 2 * COPIES
    plan = compile_workload(more, Cluster(ranks), Costs(), routes_of(ReplayOptions()), min(busiest_s(more)), 0)
    check(plan)
    fabric = Fabric(hosts=ranks, rate_bps=10e9)
    (run,) = replay_plans({"replay": plan}, fabric, ITERATIONS).values()
    measured_s = float(iteration_times_s(run.plan, run.log, ITERATIONS)[-1])
    assert measured_s == pytest.approx(estimate(plan, fabric).iteration_s, rel=0.02)
    wire_s = 2 * (ranks - 1) / ranks * SIZE * 8 / (10e9 * fabric.goodput_share())
    assert measured_s == pytest.approx(1e-3 + wire_s + 0.5e-3, rel=0.02)
    assert np.unique(run.log.iteration).tolist() == list(range(ITERATIONS))

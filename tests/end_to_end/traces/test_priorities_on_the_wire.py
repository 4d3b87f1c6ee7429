"""Two calls in flight at once on a real network: the urgent one has the line for itself, and the other what is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import replay_plans
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.trace_replay.urgency import classes_as_recorded, classes_by_need
from gradwire.workloads.traces.formats import chakra_messages as chakra
from tests.unit.workloads.traces.small_traces import chakra_file, chakra_node, imported

pytestmark = pytest.mark.kernel

ITERATIONS = 2
RATE_BPS = 10e9
LARGE, URGENT = 24_000_000, 6_000_000


@pytest.mark.parametrize("classes_of", [classes_as_recorded, lambda trace: classes_by_need(trace, 2), None])
def test_the_urgent_call_ends_first_and_at_full_rate(virtual_kernel: Path, tmp_path: Path, classes_of: object) -> None:
    """A ring of two carries a buffer once each way. Without classes, the urgent call goes behind the large one in the same queue."""
    nodes = [
        chakra_node(1, chakra.COMP, duration_us=1000),
        chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=LARGE, comm_priority=0),
        chakra_node(3, chakra.COLL, [1], comm_type=0, comm_size=URGENT, comm_priority=9),
        chakra_node(4, chakra.COMP, [3], duration_us=100),
        chakra_node(5, chakra.COMP, [4, 2], duration_us=100),
    ]
    source = imported(*(chakra_file(tmp_path / f"{rank}.et", nodes) for rank in range(2))).workload
    assert source is not None
    classes = classes_of(source) if callable(classes_of) else None
    plan = compile_workload(source, Cluster(2), Costs(), routes_of(ReplayOptions()), min(busiest_s(source)), 0, classes)
    check(plan)
    fabric = Fabric(hosts=2, rate_bps=RATE_BPS, classes=1 if classes is None else 2)
    (run,) = replay_plans({"replay": plan}, fabric, ITERATIONS).values()
    begin_ns = int(iteration_ends_ns(run.plan, run.log, ITERATIONS)[-2])
    ended_s = {}
    for call, size in enumerate((LARGE, URGENT)):
        ops = np.flatnonzero((plan.ops.order >> 16 == call) & (plan.ops.size_bytes > 0))
        recvs = np.flatnonzero(np.isin(plan.ops.message, ops))
        logged = (run.log.iteration == ITERATIONS - 1) & np.isin(run.log.op, recvs)
        ended_s[size] = (int(run.log.end_ns[logged].max()) - begin_ns) / 1e9 - 1e-3
    wire_s = {size: size * 8 / (RATE_BPS * fabric.goodput_share()) for size in (LARGE, URGENT)}
    both_s = wire_s[LARGE] + wire_s[URGENT]
    assert max(ended_s.values()) == pytest.approx(both_s, rel=0.02)
    assert ended_s[URGENT] == pytest.approx(both_s if classes is None else wire_s[URGENT], rel=0.05)

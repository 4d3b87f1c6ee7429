"""The fluid engine beside SimGrid, an independent simulator with a network of the same kind."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.fluid.paths import paths_of
from gradwire.datatypes.plan import Discipline, OpKind, Plan
from gradwire.network.fabric import Fabric, Topology
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.patterns import all_to_all, compile_transfers
from tests.shared.small_jobs import compiled, job_of, profile_of

PROGRAM = Path(__file__).with_name("simgrid_replay.py")
SYSTEM_PYTHON = "/usr/bin/python3"
ITERATIONS = 4
SCALE = 1000
"""SimGrid counts whole bytes: so many of its bytes are one of ours."""
LAYERS = [(LayerKind.CONV, [20_000, 300]), (LayerKind.CONV, [70_000]), (LayerKind.FC, [250_000, 1000])]
COSTS = Costs(aggregation_bytes_per_s=2e9, message_latency_s=2e-5)


def task_of(plan: Plan, fabric: Fabric) -> dict[str, Any]:
    """What simgrid_replay.py reads."""
    paths = paths_of(plan, fabric, Spines(fabric).spine_of)
    ops, deps = plan.ops, list(zip(plan.dep_op.tolist(), plan.dep_lag.tolist(), strict=True))
    rows: list[dict[str, Any]] = []
    routes: dict[tuple[str, ...], list[str]] = {}
    lanes: dict[tuple[int, int], dict[str, Any]] = {}
    concludes = set(plan.end_op.tolist())
    recvs: dict[int, list[int]] = {}
    for recv in np.flatnonzero(ops.kind == OpKind.RECV).tolist():
        recvs.setdefault(int(ops.message[recv]), []).append(recv)
    for op in range(len(ops)):
        kind, flow = OpKind(int(ops.kind[op])), int(paths.flow_of_send[op])
        ends = [f"h{plan.rank_host[ops.rank[op]]}", f"h{plan.rank_host[ops.peer[op]]}"]
        if flow >= 0:
            ports = paths.route_port[paths.route_start[flow] : paths.route_start[flow + 1]]
            routes[tuple(ends)] = [f"port{port}" for port in ports]
        key = (int(ops.rank[op]) if kind != OpKind.SEND else -1, int(ops.lane[op]))
        if kind != OpKind.RECV:
            name = Discipline(int(plan.queue_discipline[ops.lane[op]])).name if kind == OpKind.SEND else kind.name
            lane = lanes.setdefault(key, {"policy": name.lower(), "orders": [], "number": len(lanes)})
            lane["orders"].append(int(ops.order[op]))
        rows.append(
            {
                "kind": kind.name.lower(),
                "lane": -1 if kind == OpKind.RECV else lanes[key]["number"],
                "order": int(ops.order[op]),
                "duration_s": 0 if kind == OpKind.RECV else int(ops.duration_ns[op]) / 1e9,
                "route": ends if flow >= 0 else None,
                "bytes": round(float(paths.line_bytes[op]) * SCALE),
                "recvs": recvs.get(op, []),
                "deps": deps[plan.dep_start[op] : plan.dep_start[op + 1]],
                "concludes": op in concludes,
            }
        )
    return {
        "hosts": [f"h{host}" for host in range(fabric.hosts)],
        "links": {f"port{i}": rate * 1e9 * SCALE for i, rate in enumerate(paths.port_bytes_per_ns.tolist())},
        "routes": [(*ends, names) for ends, names in routes.items()],
        "lanes": list(lanes.values()),
        "ops": rows,
        "iterations": ITERATIONS,
    }


def by_simgrid(plan: Plan, fabric: Fabric) -> list[float]:
    """Times of ITERATIONS iterations."""
    told = subprocess.run(
        [SYSTEM_PYTHON, str(PROGRAM)],
        input=json.dumps(task_of(plan, fabric)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    ends_s: list[float] = json.loads(told.stdout)
    return [end_s - begin_s for begin_s, end_s in itertools.pairwise([0.0, *ends_s])]


def plan_of(name: str, options: Mapping[str, Any], workers: int = 4, servers: int = 2) -> Plan:
    job = job_of(profile_of(LAYERS), Cluster(workers, servers), costs=COSTS)
    return next(iter(compiled(job, name, options).values()))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vanilla", {}),
        ("kvstore", {}),
        ("partition-slicing", {"slice_parameters": 20_000}),
        ("p3-slicing", {}),
        ("tictac-slicing", {}),
        ("ring", {}),
        ("ring", {"concurrent": True}),
        ("halving-doubling", {}),
        ("hierarchical-ring", {}),
    ],
)
def test_a_strategy_takes_as_long_as_in_simgrid(name: str, options: Mapping[str, Any]) -> None:
    plan = plan_of(name, options)
    fabric = Fabric(plan.hosts, 1e9, classes=1)
    ours = estimate(plan, fabric, most_iterations=ITERATIONS)
    theirs = by_simgrid(plan, fabric)
    assert ours.iterations_s.tolist() == pytest.approx(theirs[: ours.needed], rel=0.01)


def test_an_oversubscribed_leaf_and_spine_takes_as_long_as_in_simgrid() -> None:
    fabric = Fabric(6, 1e9, Topology.LEAF_SPINE, leaves=3, spines=2, oversubscription=3.0, classes=1)
    transfers = [transfer for number, transfer in enumerate(all_to_all(6, 300_000)) if number % 4]
    plan = compile_transfers("some to some", 6, transfers)
    ours = estimate(plan, fabric, Spines(fabric).spine_of, most_iterations=ITERATIONS)
    assert ours.iterations_s.tolist() == pytest.approx(by_simgrid(plan, fabric)[: ours.needed], rel=0.01)

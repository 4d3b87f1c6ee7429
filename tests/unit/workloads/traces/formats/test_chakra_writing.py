"""Runs as Chakra traces: what is written comes back as it was measured, and replays as the plan did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.traces.formats.chakra_writing import write_chakra
from gradwire.workloads.traces.workload import Kind
from tests.shared.parts import in_order
from tests.shared.simulation import replay
from tests.shared.small_jobs import compiled, job_of, profile_of
from tests.unit.workloads.traces.small_traces import finds, imported, words

LAYERS: list[tuple[LayerKind, list[int]]] = [(LayerKind.FC, [300_000]), (LayerKind.CONV, [50_000, 7])]


def plan_of(name: str, servers: int = 0) -> Plan:
    job = job_of(profile_of(LAYERS), Cluster(2, servers))
    return next(iter(compiled(job, name, {}).values()))


@pytest.mark.parametrize(("name", "servers"), [("ring", 0), ("halving-doubling", 0), ("vanilla", 2)])
def test_a_run_comes_back_as_it_was_measured(tmp_path: Path, name: str, servers: int) -> None:
    plan = plan_of(name, servers)
    log = replay(plan, iterations=3)
    files = write_chakra(tmp_path / "run", plan, log, 1)
    assert [file.name for file in files] == [f"rank.{rank}.et" for rank in range(len(plan.rank_role))]
    outcome = imported(*files)
    assert outcome.workload is not None, words(outcome)
    tasks = outcome.workload.tasks
    sends = plan.ops.kind == OpKind.SEND
    assert tasks.size_bytes[tasks.kind == Kind.SEND].sum() == plan.ops.size_bytes[sends].sum()
    timed = (plan.ops.kind == OpKind.COMPUTE) & (plan.ops.duration_ns > 0)
    spent_ns = tasks.duration_ns[tasks.kind == Kind.COMPUTE].sum()
    assert spent_ns == pytest.approx(plan.ops.duration_ns[timed].sum(), abs=1000 * int(timed.sum()))
    assert finds(outcome, "gradwire: comm_size", "bytes")


def test_it_replays_in_the_time_of_the_plan(tmp_path: Path) -> None:
    plan = plan_of("ring")
    outcome = imported(*write_chakra(tmp_path / "run", plan, replay(plan), 1))
    assert outcome.workload is not None
    again = compile_workload(
        outcome.workload, Cluster(2), Costs(), routes_of(ReplayOptions()), min(busiest_s(outcome.workload)), 0
    )
    check(again)
    fabric = Fabric(hosts=2, rate_bps=1e9)
    assert estimate(again, fabric).iteration_s == pytest.approx(estimate(plan, fabric).iteration_s, rel=0.02)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    multicast = plan_of("ring-multicast")
    with pytest.raises(InputFault, match="several ranks"):
        write_chakra(tmp_path / "run", multicast, replay(plan_of("ring")), 1)
    plan = plan_of("ring")
    log = replay(plan)
    with pytest.raises(InputFault, match=in_order("iteration 5:", "0 of", f"{len(plan.ops)} ops")):
        write_chakra(tmp_path / "run", plan, log, 5)
    assert not (tmp_path / "run").exists()
    assert np.unique(log.iteration).tolist() == [0, 1]

"""Evidence for NetOps that is read from plans and logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradwire.datatypes.plan import Combine, OpKind, Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from reproduction.gathering import model_facts
from reproduction.netops.points import arrivals_ns, begin_ns, gain, phases, ratios, shares, times
from reproduction.scoring.evidence import Points
from tests.shared.small_jobs import compiled, job_of, profile_of
from tests.shared.stored_points import stored

SCENARIO = Path(__file__).resolve().parents[4] / "scenarios" / "netops-table7.toml"


@pytest.mark.parametrize(("model", "printed"), [("vgg16-299", 0.859), ("inception-v3-with-head", 0.292)])
def test_shares_of_a_compiled_plan_are_those_of_table_7(model: str, printed: float) -> None:
    points = [p for p in load_scenario(SCENARIO).points if p.parameters["model"] == model]
    point = next(p for p in points if p.parameters["servers"] == "8")
    (plan,) = compile_point(point.section).plans.values()
    found = shares(model_facts(point), plan)
    assert found[0] == pytest.approx(printed, abs=0.0005)
    assert sum(found) == pytest.approx(1)
    assert found == sorted(found, reverse=True)


def _in_order(plan: Plan) -> OpLog:
    """A log in which ops run one after the other, 10 ns each, in the order of their numbers."""
    count = len(plan.ops)
    start = np.arange(count, dtype=np.int64) * 10
    return OpLog(np.zeros(count, np.int64), np.arange(count, dtype=np.int64), start, start, start + 10)


def test_phases_are_those_of_every_worker() -> None:
    job = job_of(profile_of([(LayerKind.CONV, [4]), (LayerKind.FC, [6, 2])]), Cluster(3, 1, colocated=False))
    (plan,) = compiled(job, "netops-ps", {}).values()
    log, ops = _in_order(plan), plan.ops
    found = phases(plan, log)
    for worker, rank in enumerate(plan.workers):
        chain = np.flatnonzero((ops.kind == OpKind.COMPUTE) & (ops.rank == rank) & (ops.layer >= 0))
        assert [ops.layer[op] for op in chain] == [0, 1, 1, 0]
        assert found.forward_end[worker] == log.end_ns[chain[1]]
        assert found.backward_start[worker] == log.start_ns[chain[2]]
        assert found.backward_end[worker] == log.end_ns[chain[3]]
    assert begin_ns(plan, log) == log.start_ns[plan.begin_op].min()


def test_arrivals_are_data_alone() -> None:
    job = job_of(profile_of([(LayerKind.CONV, [4]), (LayerKind.FC, [6, 2])]), Cluster(3, 1, colocated=False))
    (plan,) = compiled(job, "netops-ps", {}).values()
    log = _in_order(plan)
    starts, ends = arrivals_ns(plan, log, Role.SERVER, Combine.ADD)
    assert len(starts) == 3 * 3
    assert np.array_equal(ends - starts, np.full(9, 10))
    assert len(arrivals_ns(plan, log, Role.WORKER, Combine.COPY)[0]) == 9


def test_gains_and_series_come_from_their_scenario_files() -> None:
    points = Points(
        [
            stored(8.0, run="netops-mechanisms", model="m", strategy="netops-ps", rate="25gbit"),
            stored(2.0, run="netops-mechanisms", model="m", strategy="ring", rate="25gbit"),
            stored(4.0, run="other", model="m", strategy="ring", rate="10gbit"),
        ]
    )
    assert gain(points, "m", "ring") == 4.0
    series = times(points, ("other", "netops-mechanisms", "nowhere"), "rate", "m", "ring")
    assert series == [(10e9, 4.0), (25e9, 2.0)]
    assert ratios(series, [(25e9, 1.0)]) == [(25e9, 2.0)]

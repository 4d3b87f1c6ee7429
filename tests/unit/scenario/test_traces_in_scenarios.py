"""Scenarios that name a trace: compiled as recorded, refused where the rest of the scenario does not suit it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from gradwire.faults import InputFault
from gradwire.runs.planned import virtual_clock
from gradwire.scenario.loading import Scenario, load_scenario
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_point
from gradwire.workloads.checker import check
from gradwire.workloads.traces.formats import chakra_messages as chakra
from tests.unit.workloads.traces.small_traces import KinetoFile, chakra_file, chakra_node, ddp_step, imported

SCENARIO = """
title = "a recorded step"
cluster.workers = 2
fabric.rate = "25gbit"
model = { name = "recorded", trace = "small" }
strategy.name = "replay"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario file with a workload beside it."""
    imported(ddp_step().write(tmp_path / "a.json")).write(tmp_path / "small")
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


def compiled(scenario: Scenario) -> Any:
    return compile_point(scenario.points[0].section)


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "butterfly", "direct"])
def test_a_scenario_names_a_trace_beside_it(scenario: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    monkeypatch.chdir("/")
    point = compiled(load_scenario(scenario, [f"strategy.options.all_reduce={algorithm}"]))
    (plan,) = point.plans.values()
    check(plan, point.job.relative_times)
    assert plan.compute_s == pytest.approx(580e-6)
    assert ResolvedPoint(load_scenario(scenario).points[0].section).compute.iteration_s == pytest.approx(580e-6)


def test_the_copy_in_a_run_folder_finds_the_trace(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_scenario(scenario)
    copied = tmp_path / "elsewhere" / "scenario.toml"
    copied.parent.mkdir()
    copied.write_text(tomli_w.dumps(first.document))
    monkeypatch.chdir("/")
    (one,), (other,) = (compiled(each).plans.values() for each in (first, load_scenario(copied, as_run=True)))
    assert one.digest() == other.digest()


def test_a_trace_that_has_changed_gives_another_plan(scenario: Path, tmp_path: Path) -> None:
    (before,) = compiled(load_scenario(scenario)).plans.values()
    trace = ddp_step()
    trace.collective("allreduce", 77, at=95, begin=900, dur=5)
    imported(trace.write(tmp_path / "b.json")).write(tmp_path / "small")
    (after,) = compiled(load_scenario(scenario)).plans.values()
    assert before.digest() != after.digest()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["cluster.workers=4"], "cluster.workers = 4: the trace has 2 ranks"),
        (["strategy.name=ring"], "strategy.name = 'ring': a trace (model.trace) goes by strategy 'replay'"),
        (["model.device=k40"], "trace: has times and sizes: leave out device"),
        (["model.trace=nowhere"], "there is no such file; `gradwire import` makes one of traces"),
        (["strategy.options.all_reduce=gossip"], "all_reduce"),
        (['costs.compute_variation={value=0.1,source="x"}'], "computation takes as long as the trace says"),
    ],
)
def test_what_does_not_suit_a_trace_is_refused(scenario: Path, settings: list[str], says: str) -> None:
    with pytest.raises(InputFault) as fault:
        virtual_clock(load_scenario(scenario, settings).points)
    assert says in str(fault.value)


def test_replay_needs_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO.replace('name = "recorded", trace = "small"', 'name = "alexnet", device = "k40"'))
    with pytest.raises(InputFault, match=r"give model\.trace"):
        virtual_clock(load_scenario(path).points)


def test_ranks_that_compute_unequally_and_one_that_only_receives(tmp_path: Path) -> None:
    """The mean is what an iteration is compared with; each rank is held to its own time."""
    nodes = {
        0: [chakra_node(1, chakra.COMP, duration_us=300), chakra_node(2, chakra.SEND, [1], comm_size=9, comm_dst=1)],
        1: [chakra_node(1, chakra.RECV, comm_size=9, comm_src=0), chakra_node(2, chakra.COMP, [1], duration_us=100)],
    }
    imported(*(chakra_file(tmp_path / f"{rank}.et", own) for rank, own in nodes.items())).write(tmp_path / "small")
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    point = compiled(load_scenario(path))
    assert point.job.relative_times == pytest.approx((1.5, 0.5))
    for plan in point.plans.values():
        check(plan, point.job.relative_times)


def test_communication_alone(tmp_path: Path) -> None:
    trace = KinetoFile()
    trace.collective("allreduce", 500, at=0, begin=0, dur=10)
    imported(trace.write(tmp_path / "a.json")).write(tmp_path / "small")
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    assert compiled(load_scenario(path)).plans

"""What the benchmarks ask of scenarios, without running anything."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from gradwire.workloads.compilation import compile_point
from gradwire.workloads.faults.section import NEEDS
from gradwire.workloads.scenario.loading import load_scenario, scenario_of

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"


@pytest.mark.parametrize("seconds", [0.846, 0.846 * 1.01, 1e-5, 2.65])
def test_a_fitted_time_is_the_points_time(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    sys.modules.pop("fit_compute_time", None)
    fitting = __import__("fit_compute_time")
    aggregation = __import__("aggregation_sensitivity")
    settings = ["model.name=alexnet", "strategy.name=vanilla", "costs.aggregation_rate.value=4GB/s"]
    (point,) = load_scenario(aggregation.SCENARIO, [*settings, fitting.iteration_time(seconds)]).points
    assert compile_point(point.section).job.compute.iteration_s == pytest.approx(seconds)


def test_every_kind_of_fault_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS.parent)
    benchmark = importlib.import_module("benchmarks.faults")
    assert {*benchmark.FAULTS, benchmark.DEADLY} == set(NEEDS)
    (point,) = scenario_of(benchmark.faulty("ring", list(benchmark.FAULTS), benchmark.MOMENTS, 0.02)).points
    assert len(point.section.fault) == len(benchmark.FAULTS) * len(benchmark.MOMENTS)
    assert len(scenario_of(benchmark.deadly("ring", benchmark.MOMENTS, 0.02)).points) == len(benchmark.MOMENTS)


def test_a_soak_has_every_kind_of_fault_that_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS.parent)
    soak = importlib.import_module("benchmarks.soak")
    drawn = soak.faults(50, 1000, 1)
    assert drawn == soak.faults(50, 1000, 1)
    assert {fault["kind"] for fault in drawn.values()} == set(NEEDS) - {"dead-worker"}
    (point,) = scenario_of(soak.scenario("ring", 1000, drawn)).points
    assert not compile_point(point.section).fabric.is_lossless

"""What the benchmarks ask of scenarios, without running anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradwire.workloads.compilation import compile_point
from gradwire.workloads.scenario.loading import load_scenario

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

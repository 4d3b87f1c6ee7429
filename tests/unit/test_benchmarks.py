"""What the benchmarks ask of scenarios, without running anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradwire.workloads.compilation import compile_point
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


@pytest.mark.parametrize(("hosts", "leaves"), [(8, 1), (64, 2), (512, 16)])
def test_start_up_is_measured_on_as_many_hosts_as_asked(
    hosts: int, leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    start_up = __import__("start_up")
    (point,) = scenario_of(start_up.scenario(hosts)).points
    assert (point.section.cluster.workers, point.section.fabric.leaves) == (hosts, leaves)


def test_start_up_takes_the_fastest_round_of_each_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    start_up = __import__("start_up")
    rounds = [dict.fromkeys(start_up.STAGES.values(), (2.0, 1.0)) for _ in range(2)]
    rounds[1]["boot"] = (1.0, 0.5)
    assert start_up.line(8, rounds).startswith(
        "8 hosts: 2.50 s of CPU to the first byte, 5.00 s of wall time (boot 0.50,"
    )

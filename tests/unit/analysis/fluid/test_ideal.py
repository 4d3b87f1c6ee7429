"""The iterations of an estimate that stand beside those of a run."""

from __future__ import annotations

import pytest

from gradwire.analysis.fluid import ideal
from gradwire.analysis.fluid.estimate import FluidTimes, Jitter, estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.fabric import Fabric
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from tests.shared.small_allreduces import plan_of
from tests.shared.small_jobs import job_of, profile_of
from tests.unit.analysis.agreement.made_up_runs import RATE_BPS, halving_doubling, ideal_run, logged


@pytest.mark.parametrize("warmup", [0, 2])
def test_the_same_iterations_are_averaged_as_in_the_run(warmup: int) -> None:
    run = ideal_run(halving_doubling(4), warmup=warmup)
    measured_s = iteration_times_s(run.plan, logged(run), run.window.end)[warmup:]
    assert run.time_s() == pytest.approx(float(measured_s.mean()), rel=1e-6)
    assert len(run.iterations_s()) == run.window.iterations


def test_effects_and_networks_are_those_that_were_asked_for() -> None:
    run = ideal_run(halving_doubling(4))
    fabric = Fabric(4, RATE_BPS / 2, classes=4)
    assert run.on(fabric).time_s() > 1.5 * run.time_s()
    assert run.time_s(jitter=Jitter(1e-4)) > run.time_s(latency_s=1e-5) > run.time_s()
    there_and_back = ideal_run(
        plan_of(job_of(profile_of([(LayerKind.FC, [250_000])]), Cluster(1, 1, False)), "vanilla")
    )
    assert there_and_back.time_s(early_bytes=10**5) < there_and_back.time_s()


def test_large_plans_are_computed_for_few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ideal_run(halving_doubling(2), iterations=100)
    asked: list[int] = []

    def noted(*arguments: object, most_iterations: int, **options: object) -> FluidTimes:
        asked.append(most_iterations)
        return estimate(*arguments, most_iterations=most_iterations, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ideal, "estimate", noted)
    run.time_s()
    monkeypatch.setattr(ideal, "MOST_OPS", 7 * len(run.plan.ops) + 1)
    run.time_s()
    assert asked == [100, 7]

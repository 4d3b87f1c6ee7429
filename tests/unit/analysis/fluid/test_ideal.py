"""The iterations of an estimate that stand beside those of a run."""

from __future__ import annotations

import pytest

from gradwire.analysis.fluid import ideal
from gradwire.analysis.fluid.estimate import Departure, FluidTimes, Jitter, estimate
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.plan import Role
from gradwire.network.fabric import Fabric
from gradwire.network.links import LinkSetting
from gradwire.workloads.builder import PlanBuilder
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


def test_messages_that_left_wait_in_switches_where_that_is_asked_for() -> None:
    """One queue sends a message to a host with a slow port and then one to a host with a fast port. On an ideal network the second one
    leaves when the first one has arrived; with queues at ports, when the first one has left."""
    size_bytes, delay_s = 10_000_000, 1e-4
    builder = PlanBuilder("two after another")
    ranks = [builder.rank(Role.WORKER, host) for host in range(3)]
    begins = [builder.compute(rank) for rank in ranks]
    ends = [builder.compute(rank) for rank in ranks]
    for begin, end in zip(begins, ends, strict=True):
        builder.depend(end, begin)
    queue = builder.queue(ranks[0])
    for place, target in enumerate((1, 2)):
        send, recv = builder.message(queue, target, size_bytes, order=place)
        builder.depend(send, begins[0])
        builder.depend(ends[0], send)
        builder.depend(ends[target], recv)
    for rank, begin, end in zip(ranks, begins, ends, strict=True):
        builder.depend(begin, end, lag=1)
        builder.iteration(rank, begin, end)
    plan = builder.build(compute_s=0.0, samples=0)
    slow = LinkSetting("h2", rate_bps=RATE_BPS / 10)
    fabric = Fabric(3, RATE_BPS, classes=4, delay_s=delay_s, link_settings=(slow,))
    run = IdealRun(plan, fabric, None, MeasuredIterations(0, 1), Departure())
    alone_s = size_bytes / fabric.goodput_share() * 8 / RATE_BPS
    assert run.time_s() == pytest.approx(11 * alone_s + 2 * delay_s, rel=1e-3)
    assert run.with_queues_at_ports().time_s() == pytest.approx(10 * alone_s + 2 * delay_s, rel=1e-3)

"""One of several jobs: which of its iterations count, and the phases in which jobs meet, on a network that has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.agreement.causes import Cause
from gradwire.analysis.agreement.phases import DRAWS, IterationsOfJob, phases_s, with_phases
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.plan_of_job import plan_of_job
from gradwire.workloads.combined_plans import PlacedJob, combined
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.unit.analysis.agreement.made_up_runs import ideal_run

SIZE_BYTES = 1_000_000


def transfer() -> Plan:
    """One host sends to another, and computes for as long."""
    return compile_transfers("one", 2, [Transfer(0, 1, SIZE_BYTES, delay_s=8e-4)])


def to_one_host(*, iterations: int = 1, priority: int = 0) -> Plan:
    """Two jobs whose messages all go to host 2. Either needs half of its port."""
    jobs = [PlacedJob("a", transfer(), (0, 2)), PlacedJob("b", transfer(), (1, 2), iterations, class_offset=priority)]
    return combined(jobs)


def job_run(plan: Plan, number: int, *, at_least: bool = False) -> IdealRun:
    return replace(ideal_run(plan, warmup=1), counted=IterationsOfJob(number, at_least))


def test_a_job_by_itself_is_timed() -> None:
    """Together they take longer than alone, and b ends two iterations in each of the plan."""
    plan = to_one_host(iterations=2)
    alone_s = ideal_run(plan_of_job(plan, plan.jobs[0])).time_s()
    together_s = [job_run(plan, number).time_s() for number in (0, 1)]
    assert min(together_s) > 1.2 * alone_s
    assert together_s[0] == pytest.approx(together_s[1], rel=0.01)


def test_a_job_that_ends_nothing_while_all_run_has_at_least_the_time_of_what_is_under_way() -> None:
    """Job a has all of the port, and b none of it: its first iteration ends when a has ended all of its own."""
    busy = compile_transfers("busy", 2, [Transfer(0, 1, SIZE_BYTES, messages=4)])
    plan = combined([PlacedJob("a", busy, (0, 2)), PlacedJob("b", transfer(), (1, 2), class_offset=1)])
    run = ideal_run(plan, warmup=1)
    assert np.isnan(replace(run, counted=IterationsOfJob(1)).time_s())
    assert replace(run, counted=IterationsOfJob(1, at_least=True)).time_s() > 0


def test_phases_are_of_the_next_iterations_after_the_warm_up() -> None:
    plan = to_one_host()
    edges_s = [np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.25, 1.25, 2.25, 3.25])]
    of_a, of_b = phases_s(plan, edges_s, 1)[:1], phases_s(plan, edges_s, 1)[-1:]
    assert (of_a, of_b) == ((0.75,), (0.0,))


def test_jobs_that_were_seen_apart_lose_nothing_to_each_other() -> None:
    """Begun together they share the port; begun as far apart as one computes, each has it while the other computes."""
    plan = to_one_host()
    together, alone_s = job_run(plan, 0), ideal_run(plan_of_job(plan, plan.jobs[0])).time_s()
    apart = tuple(8.5e-4 if begin >= plan.jobs[1].first_op else 0.0 for begin in plan.begin_op.tolist())
    first, *others = with_phases(together, apart, (0,), 65_536, 5e-5)
    assert first.cause is Cause.PHASES
    assert alone_s < first.with_effect_s < 1.05 * alone_s < 0.9 * together.time_s()
    assert "850 us apart" in first.effect
    assert len(others) == DRAWS
    assert all(trial.is_bound for trial in others)

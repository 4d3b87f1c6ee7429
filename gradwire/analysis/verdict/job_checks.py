"""Checks of the times of several jobs, each held against its own bound and its own iterations.

All jobs together have no bound: one that is ahead leaves the network to the others before the run ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradwire.analysis.bounds import bounds
from gradwire.analysis.job_times import Float64, MeasuredJob, logged_edges_s, measured_jobs
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.condition_checks import steady_check
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.plan_of_job import plan_of_job
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.network.fabric import Fabric

MEASURED_MEANING = (
    "No whole iteration of a job lies where all jobs run and none is in its warm-up, so nothing is known of it: "
    "measure more iterations, or, if a more urgent job leaves it next to nothing, change `priority`."
)


def job_timing(
    plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord, early_s: float, slack: float, bound_meaning: str
) -> tuple[float, list[Check]]:
    """The shortest mean iteration of any job, and the checks of all jobs' times.

    early_s: how early a message may arrive; slack: the share of a bound that is not undercut.
    """
    edges_s = logged_edges_s(plan, log, record.iterations)
    measured = measured_jobs(plan, edges_s, record.warmup)
    checks = [_measured(plan, measured), _lower_bounds(plan, fabric, measured, early_s, slack, bound_meaning)]
    shortest_s = min((each.mean_s for each in measured if each.whole), default=0.0)
    return shortest_s, [*checks, _steady(plan, edges_s, measured)]


def _measured(plan: Plan, measured: Sequence[MeasuredJob]) -> Check:
    """Each job has a whole iteration while all others run."""
    counts = [f"{job.name}: {each.shares.sum():.4g}" for job, each in zip(plan.jobs, measured, strict=True)]
    begin_s, end_s = measured[0].interval_s
    value = f"{', '.join(counts)} in {end_s - begin_s:.4g} s"
    ok = all(each.whole for each in measured)
    return Check("jobs measured", value, "one whole iteration of each or more", ok, MEASURED_MEANING)


def _lower_bounds(
    plan: Plan, fabric: Fabric, measured: Sequence[MeasuredJob], early_s: float, slack: float, meaning: str
) -> Check:
    """No job is faster than it could be with the network for itself."""
    values, limits, ok = [], [], True
    for job, each in zip(plan.jobs, measured, strict=True):
        lower = bounds(plan_of_job(plan, job), fabric, early_s)
        limit_s = lower.lower_bound_s / job.iterations * slack
        mean_s = each.mean_s if each.whole else math.inf
        values.append(f"{job.name}: {mean_s:.6g} s")
        limits.append(f"{limit_s:.6g} s ({lower.kind} x {slack})")
        ok = ok and mean_s >= limit_s
    return Check("lower bound", ", ".join(values), f"at least {', '.join(limits)}", ok, meaning)


def _steady(plan: Plan, edges_s: Sequence[Float64], measured: Sequence[MeasuredJob]) -> Check:
    """The measured iterations of no job have a trend."""
    made = [
        steady_check(np.diff(edges)[: each.window.end], each.window.warmup, None)
        for edges, each in zip(edges_s, measured, strict=True)
    ]
    values = [f"{job.name}: {check.value}" for job, check in zip(plan.jobs, made, strict=True)]
    first = made[0]
    return Check(first.name, "; ".join(values), first.limit, all(check.ok for check in made), first.meaning)

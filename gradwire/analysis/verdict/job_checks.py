"""Checks of the times of several jobs, each held against its own bound and its own iterations.

All jobs together have no bound: one that is ahead leaves the network to the others before the run ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwire.analysis.bounds import bounds
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.job_times import Float64, logged_edges_s, measured_times_s, measured_windows
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
    windows = measured_windows(plan, edges_s, record.warmup)
    measured = [measured_times_s(edges, window) for edges, window in zip(edges_s, windows, strict=True)]
    checks = [_measured(plan, windows), _lower_bounds(plan, fabric, measured, early_s, slack, bound_meaning)]
    shortest_s = min((float(times.mean()) for times in measured if len(times)), default=0.0)
    return shortest_s, [*checks, _steady(plan, edges_s, windows)]


def _measured(plan: Plan, windows: Sequence[MeasuredIterations]) -> Check:
    """Each job has iterations while all others run."""
    counts = [f"{job.name}: {window.iterations}" for job, window in zip(plan.jobs, windows, strict=True)]
    ok = all(window.iterations for window in windows)
    return Check("jobs measured", ", ".join(counts), "one iteration of each or more", ok, MEASURED_MEANING)


def _lower_bounds(
    plan: Plan, fabric: Fabric, measured: Sequence[Float64], early_s: float, slack: float, meaning: str
) -> Check:
    """No job is faster than it could be with the network for itself."""
    values, limits, ok = [], [], True
    for job, times in zip(plan.jobs, measured, strict=True):
        lower = bounds(plan_of_job(plan, job), fabric, early_s)
        limit_s = lower.lower_bound_s / job.iterations * slack
        mean_s = float(times.mean()) if len(times) else float("inf")
        values.append(f"{job.name}: {mean_s:.6g} s")
        limits.append(f"{limit_s:.6g} s ({lower.kind} x {slack})")
        ok = ok and mean_s >= limit_s
    return Check("lower bound", ", ".join(values), f"at least {', '.join(limits)}", ok, meaning)


def _steady(plan: Plan, edges_s: Sequence[Float64], windows: Sequence[MeasuredIterations]) -> Check:
    """The measured iterations of no job have a trend."""
    made = [
        steady_check(np.diff(edges)[: window.end], window.warmup, None)
        for edges, window in zip(edges_s, windows, strict=True)
    ]
    values = [f"{job.name}: {check.value}" for job, check in zip(plan.jobs, made, strict=True)]
    first = made[0]
    return Check(first.name, "; ".join(values), first.limit, all(check.ok for check in made), first.meaning)

"""The plan of a point with several jobs: each is compiled by itself, repeated as often as it is faster than the others,
and combined with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwire.analysis.fluid.delays import own_delays
from gradwire.analysis.fluid.estimate import MOST_ITERATIONS, FluidTimes, SendEnds, estimate
from gradwire.analysis.job_times import fluid_edges_s, measured_jobs
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.plan_of_job import plan_of_job
from gradwire.faults import InputFault
from gradwire.inside.point_protocol import built_fabric
from gradwire.network.fabric import Fabric
from gradwire.runs.compiling.ideal_times import rule_of
from gradwire.runs.stored.spines import Spines
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_plans
from gradwire.scenario.schema import PointSection
from gradwire.workloads.combined_plans import PlacedJob, combined, relative_times
from gradwire.workloads.trace_replay.recorded_job import trace_of

LABEL = "jobs"
"""Label of the one candidate of a point with several jobs."""
IN_STEP = 0.05
"""Jobs whose iterations, so many of each, differ by a smaller share than this are near enough: what of one runs alone is not measured."""
MOST_OF_SLOWEST = 4
"""Iterations of the slowest job in one of the plan."""
MOST_REPEATS = 100
"""Iterations of any job in one of the plan."""
MOST_TRIED = 6
"""Iterations of a plan that is a guess: one of warm-up, and enough to see all jobs run."""
LARGEST_TRIED_OPS = 400_000
"""Ops of a guess: some seconds."""
MOST_LOGGED = 8_000_000
"""Times of ops that an estimate keeps, 128 MB."""


def plans_of_jobs(point: ResolvedPoint) -> dict[str, Plan]:
    """The plan of all jobs of a point. Raises InputFault, with the key, for jobs that cannot be compiled, and for a
    start that is too late."""
    jobs = [_placed(point, name) for name in point.jobs]
    fabric, rule = point.fabric, rule_of(point.unsent_bytes)
    repeats = iterations_of_jobs(jobs, fabric, rule)
    for name, number in zip(point.jobs, repeats, strict=True):
        if number > MOST_REPEATS:
            raise InputFault(
                f"job.{name}: iterates about {number} times while the slowest job does once; must be at most {MOST_REPEATS}, for all are "
                "measured while all run: use jobs whose iterations are closer in length"
            )
    late = [
        replace(job, iterations=number, start_ns=round(point.section.job[job.name].start * 1e9))
        for job, number in zip(jobs, repeats, strict=True)
    ]
    plan = combined(late)
    _refuse_late_starts(plan, late, fabric, rule)
    return {LABEL: plan}


def traces_of_jobs(section: PointSection) -> list[str]:
    """Digests of the traces of several jobs."""
    return [trace_of(job.model.trace).digest() for job in section.job.values() if job.model.trace]


def relative_times_of(point: ResolvedPoint, plan: Plan) -> tuple[float, ...]:
    """Each worker's factor on the plan's compute time; none stand for 1."""
    if not plan.jobs:
        return point.job.relative_times
    return relative_times(plan, [job.job.relative_times for job in point.jobs.values()])


def _placed(point: ResolvedPoint, name: str) -> PlacedJob:
    own, place = point.jobs[name], point.section.job[name]
    try:
        plans = compile_plans(own, replace(own.job, fabric=point.fabric), point.fabric)
    except InputFault as fault:
        raise InputFault(f"job.{name}: {fault}") from fault
    if len(plans) > 1:
        raise InputFault(
            f"job.{name}.strategy: '{own.strategy.name}' gives {len(plans)} plans, of which a run would keep the fastest; of several "
            "jobs each has one: set the options that it searches for"
        )
    return PlacedJob(name, next(iter(plans.values())), point.hosts_of_jobs[name], class_offset=place.priority)


def iterations_of_jobs(jobs: Sequence[PlacedJob], fabric: Fabric, rule: SendEnds) -> list[int]:
    """Number of iterations of each job within one of the plan, so that all jobs take about as long: by their times on
    the ideal network.

    If one job ends before all have ended their warm-up, because it leaves others little, twice as many of its
    iterations are tried.
    """
    numbers = [1] * len(jobs)
    while True:
        plan = combined([replace(job, iterations=each, start_ns=0) for job, each in zip(jobs, numbers, strict=True)])
        tries = MOST_ITERATIONS if max(numbers) == 1 else MOST_TRIED
        found = job_times(plan, fabric, rule, warmup=1, iterations=tries)
        earliest = min(range(len(jobs)), key=lambda number: found[number].ended_s)
        if all(math.isfinite(each.shared_s) for each in found):
            break
        if 2 * numbers[earliest] > MOST_REPEATS or 2 * len(plan.ops) > LARGEST_TRIED_OPS:
            break
        numbers[earliest] *= 2
    times_s = [each.shared_s if math.isfinite(each.shared_s) else each.alone_s for each in found]
    return near_ratio([max(times_s) / time_s for time_s in times_s])


def near_ratio(speeds: Sequence[float]) -> list[int]:
    """Whole numbers in the ratio of these speeds, the slowest of which is 1: the smallest that are near enough, or else the nearest."""
    candidates = []
    for slowest in range(1, MOST_OF_SLOWEST + 1):
        numbers = [max(1, round(slowest * speed)) for speed in speeds]
        off = max(abs(number / (slowest * speed) - 1) for number, speed in zip(numbers, speeds, strict=True))
        if off <= IN_STEP:
            return numbers
        candidates.append((off, numbers))
    return min(candidates)[1]


@dataclass(frozen=True)
class JobTimes:
    """Mean times of a job's iterations on the ideal network."""

    #: While all jobs run and none is in its warm-up; nan if no iteration lies there.
    shared_s: float
    #: With the network for itself.
    alone_s: float
    #: Time at which its last iteration ends.
    ended_s: float = math.nan


def job_times(
    plan: Plan,
    fabric: Fabric,
    rule: SendEnds,
    *,
    warmup: int,
    iterations: int = MOST_ITERATIONS,
    window_bytes: float = math.inf,
) -> tuple[JobTimes, ...]:
    """Times of the jobs of a plan, over its iterations up to `iterations`, the first `warmup` of which are dropped.

    window_bytes: payload that a connection keeps under way; infinite where it fills every way.
    """
    built = built_fabric(fabric, [plan])
    delays = replace(own_delays(built), window_bytes=window_bytes)
    spine_of = Spines(built).spine_of
    most = max(warmup + 2, min(iterations, MOST_LOGGED // len(plan.ops)))
    times: FluidTimes = estimate(
        plan, built, spine_of, send_ends=rule, delays=delays, most_iterations=most, with_ops=True
    )
    edges_s = fluid_edges_s(plan, times, iterations)
    found = []
    for job, edges, measured in zip(plan.jobs, edges_s, measured_jobs(plan, edges_s, warmup), strict=True):
        alone = estimate(plan_of_job(plan, job), built, spine_of, send_ends=rule, delays=delays)
        found.append(JobTimes(measured.mean_s, alone.iteration_s / job.iterations, float(edges[-1])))
    return tuple(found)


def _refuse_late_starts(plan: Plan, jobs: Sequence[PlacedJob], fabric: Fabric, rule: SendEnds) -> None:
    """Raises InputFault for a job whose start delays its first iteration beyond the time at which its next one could
    begin."""
    built = built_fabric(fabric, [plan])
    lines = []
    for entry, job in zip(plan.jobs, jobs, strict=True):
        if not job.start_ns:
            continue
        alone = estimate(plan_of_job(plan, entry), built, Spines(built).spine_of, send_ends=rule)
        first = plan.begin_op[(plan.begin_op >= entry.first_op) & (plan.begin_op < entry.end_op)]
        most_s = alone.iteration_s - float(plan.ops.duration_ns[first].max()) / 1e9
        if job.start_ns > most_s * 1e9:
            lines.append(
                f"job.{entry.name}.start = {job.start_ns / 1e9:g} s: must be at most {most_s:.4g} s, within its first iteration: after "
                "a whole one its phase is as it was"
            )
    if lines:
        raise InputFault("\n".join(lines))

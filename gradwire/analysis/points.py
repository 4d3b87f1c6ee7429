"""One row per point: its parameters, its measurements and its verdict.
analysis/point_frames.py writes them to points.csv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from gradwire.analysis.agreement.causes import Cause
from gradwire.analysis.bounds import bounds
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.job_times import MeasuredJob
from gradwire.analysis.statistics import summarise
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.plan_of_job import moments_of_job, plan_of_job
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.network.fabric import Fabric

VALID, INVALID = "valid", "invalid"


@dataclass(frozen=True)
class PointResult:
    """The results of one point. The numbers of an invalid point are kept but are not results."""

    #: Every swept parameter and its value, as text.
    parameters: dict[str, str]
    #: Mean over measured iterations (or over seeds).
    iteration_time_s: float
    #: Sample standard deviation; None with a single value.
    iteration_time_std_s: float | None
    #: Half of the 95 % confidence interval of the mean; None with a single value.
    ci95_s: float | None
    #: Samples per second of all workers.
    throughput_per_s: float
    #: Compute time over iteration time; 1 is perfect.
    scaling_efficiency: float
    #: Payload and framing that crossed the network in the whole run.
    bytes_sent: int
    #: Wall time that the point took.
    wall_s: float
    #: The greatest closed-form lower bound.
    lower_bound_s: float
    #: Name of that bound.
    lower_bound_kind: str
    #: Mean of the same iterations on an ideal fluid network; None if they have not been estimated.
    fluid_time_s: float | None = field(default=None, kw_only=True)
    #: Cause of the difference between the two times (a Cause); "" if they agree.
    fluid_cause: str = field(default="", kw_only=True)
    #: Mean iteration of one of several jobs on an ideal network that it has for itself; None for a point of one job.
    alone_time_s: float | None = field(default=None, kw_only=True)
    #: Number of seeds that are pooled in it.
    seeds: int = field(default=1, kw_only=True)
    #: Digest of the plan.
    plan_digest: str
    #: "valid", or "invalid: " and the reasons.
    verdict: str

    @property
    def valid(self) -> bool:
        """Whether the numbers are results."""
        return self.verdict == VALID

    @property
    def summary(self) -> str:
        """The result in a few words."""
        return f"{self.iteration_time_s:.4f} s per iteration"

    @property
    def state(self) -> str:
        """State of the point in tables and conclusions, in one word.

        INVALID: its numbers are not results. "unexplained": all checks passed, and its time is off an ideal network's
        without a known cause, so that the report warns of it. VALID: neither.
        """
        if not self.valid:
            return INVALID
        causes = self.fluid_cause.split(", ")
        return str(Cause.UNEXPLAINED) if Cause.UNEXPLAINED in causes else VALID

    @property
    def alone_ratio(self) -> float | None:
        """Iteration time of one of several jobs over that with the network for itself; None for an invalid point, and
        for a point of one job."""
        return self.iteration_time_s / self.alone_time_s if self.valid and self.alone_time_s else None

    @property
    def fluid_ratio(self) -> float | None:
        """Measured iteration time over that on an ideal network; None for an
        invalid point, and where there is no estimate."""
        return self.iteration_time_s / self.fluid_time_s if self.valid and self.fluid_time_s else None


OF_JOBS = ("alone_time_s",)
"""Columns that only points with several jobs have."""
NO_RESULTS = ("parameters", "seeds")
"""Fields that are no columns of results."""
RESULT_COLUMNS = tuple(field.name for field in fields(PointResult) if field.name not in (*NO_RESULTS, *OF_JOBS))


def result_columns(rows: Sequence[PointResult]) -> tuple[str, ...]:
    """RESULT_COLUMNS, and the columns of jobs if any row is one of a job."""
    of_jobs = any(row.alone_time_s is not None for row in rows)
    return tuple(
        field.name
        for field in fields(PointResult)
        if field.name in RESULT_COLUMNS or (of_jobs and field.name in OF_JOBS)
    )


def point_result(
    parameters: dict[str, str],
    plan: Plan,
    fabric: Fabric,
    log: OpLog,
    record: PointRecord,
    verdict: Verdict,
    wall_s: float,
) -> PointResult:
    """The row of a run that ended normally. Raises InternalFault if the log lacks a worker's begin or end."""
    times = summarise(iteration_times_s(plan, log, record.iterations)[record.warmup :])
    lower = bounds(plan, fabric)
    return PointResult(
        parameters=dict(parameters),
        iteration_time_s=times.mean,
        iteration_time_std_s=times.std,
        ci95_s=times.ci,
        throughput_per_s=plan.samples / times.mean,
        scaling_efficiency=scaling_efficiency(plan.compute_s, times.mean, serves=len(plan.moments) > 0),
        bytes_sent=sum(agent.bytes_sent for agent in record.agents),
        wall_s=wall_s,
        lower_bound_s=lower.lower_bound_s,
        lower_bound_kind=lower.kind,
        plan_digest=plan.digest(),
        verdict=verdict.summary,
    )


def scaling_efficiency(compute_s: float, iteration_time_s: float, *, serves: bool) -> float:
    """Returns the share of an iteration that a worker computes, undisturbed. serves: whether the iteration is one of requests, which
    lasts until the last of them has arrived and is answered, so that the share says nothing: nan."""
    return math.nan if serves else compute_s / iteration_time_s


def job_results(
    whole: PointResult,
    plan: Plan,
    fabric: Fabric,
    measured: Sequence[MeasuredJob],
    of_jobs: Sequence[dict[str, str]],
) -> tuple[PointResult, ...]:
    """The rows of the jobs of a plan that has several.

    whole: of all of them, whose verdict is theirs. measured: what is measured of each job. of_jobs: the parameters in
    which each job differs from the point.
    """
    rows = []
    for job, found, own in zip(plan.jobs, measured, of_jobs, strict=True):
        lower = bounds(plan_of_job(plan, job), fabric)
        row = replace(
            whole,
            parameters={"job": job.name, **whole.parameters, **own},
            iteration_time_s=math.nan,
            iteration_time_std_s=None,
            ci95_s=None,
            throughput_per_s=math.nan,
            scaling_efficiency=math.nan,
            lower_bound_s=lower.lower_bound_s / job.iterations,
            lower_bound_kind=lower.kind,
        )
        if found.whole:
            times = summarise(found.times_s, shares=found.shares)
            row = replace(
                row,
                iteration_time_s=times.mean,
                iteration_time_std_s=times.std,
                ci95_s=times.ci,
                throughput_per_s=job.samples / times.mean,
                scaling_efficiency=scaling_efficiency(
                    job.compute_s, times.mean, serves=len(moments_of_job(plan, job)) > 0
                ),
            )
        rows.append(row)
    return tuple(rows)


def failed_point(
    parameters: dict[str, str], plan: Plan, fabric: Fabric, verdict: Verdict, wall_s: float
) -> PointResult:
    """The row of a run without measurements: it has bounds, but its times are nan."""
    lower = bounds(plan, fabric)
    return PointResult(
        parameters=dict(parameters),
        iteration_time_s=math.nan,
        iteration_time_std_s=None,
        ci95_s=None,
        throughput_per_s=math.nan,
        scaling_efficiency=math.nan,
        bytes_sent=0,
        wall_s=wall_s,
        lower_bound_s=lower.lower_bound_s,
        lower_bound_kind=lower.kind,
        plan_digest=plan.digest(),
        verdict=verdict.summary,
    )


def pool_seeds(rows: Sequence[PointResult], seed_key: str = "seed") -> list[PointResult]:
    """Pools rows that differ only in their seed: means over seeds, with spread and interval over the seeds' means.

    A row without a sibling loses its seed but keeps its spread over iterations. One invalid seed makes the pooled row
    invalid: the remaining seeds would be a selection.
    """
    groups: dict[tuple[tuple[str, str], ...], list[PointResult]] = {}
    for row in rows:
        rest = {key: value for key, value in row.parameters.items() if key != seed_key}
        groups.setdefault(tuple(sorted(rest.items())), []).append(replace(row, parameters=rest))
    return [group[0] if len(group) == 1 else _pool_seeds(group) for group in groups.values()]


def _pool_seeds(group: list[PointResult]) -> PointResult:
    times = summarise([row.iteration_time_s for row in group])
    first = group[0]
    invalid = [row.verdict for row in group if not row.valid]
    fluid_s = [row.fluid_time_s for row in group if row.fluid_time_s is not None]
    return replace(
        first,
        iteration_time_s=times.mean,
        iteration_time_std_s=times.std,
        ci95_s=times.ci,
        # Samples and compute time are the same for all seeds, so both scale with the mean time.
        throughput_per_s=first.throughput_per_s * first.iteration_time_s / times.mean,
        scaling_efficiency=first.scaling_efficiency * first.iteration_time_s / times.mean,
        bytes_sent=sum(row.bytes_sent for row in group),
        wall_s=sum(row.wall_s for row in group),
        lower_bound_s=min(row.lower_bound_s for row in group),
        fluid_time_s=sum(fluid_s) / len(group) if len(fluid_s) == len(group) else None,
        fluid_cause=", ".join(dict.fromkeys(row.fluid_cause for row in group if row.fluid_cause)),
        verdict=f"invalid: {len(invalid)} of {len(group)} seeds; {invalid[0]}" if invalid else VALID,
        seeds=len(group),
    )


def interval(row: PointResult, metric: str) -> tuple[float, float]:
    """Ends of the 95 % interval of a metric, derived from that of the mean iteration time; both are the value itself
    if that is unknown.

    Throughput and efficiency are a constant divided by the time, so their ends are that constant divided by the ends
    of the time.
    """
    value = float(getattr(row, metric))
    if not row.ci95_s or row.ci95_s >= row.iteration_time_s:
        return value, value
    if metric == "iteration_time_s":
        return value - row.ci95_s, value + row.ci95_s
    constant = value * row.iteration_time_s
    return constant / (row.iteration_time_s + row.ci95_s), constant / (row.iteration_time_s - row.ci95_s)


def half_interval(row: PointResult, metric: str) -> float | None:
    """Half of the 95 % interval of a metric; None where it is unknown."""
    low, high = interval(row, metric)
    return (high - low) / 2 if high > low else None


def parameter_names(rows: Sequence[PointResult]) -> list[str]:
    """Parameters that take more than one value over the rows, in order of appearance; all if none does."""
    keys = list(dict.fromkeys(key for row in rows for key in row.parameters if key not in RESULT_COLUMNS))
    varied = [key for key in keys if len({row.parameters.get(key) for row in rows}) > 1]
    return varied or keys

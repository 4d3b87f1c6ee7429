"""Iterations of the jobs of a plan that has several: each job's own, and what is measured of them while all others
run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.analysis.fluid.estimate import FluidTimes
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.iterations import times_of_ops_ns
from gradwire.datatypes.plan import Int64, Plan, PlanJob
from gradwire.datatypes.records import OpLog

Float64 = npt.NDArray[np.float64]
OUTSIDE = 0.01
"""Share of a job's shortest iteration that may lie outside the time in which all jobs run: what a tie is elsewhere. Jobs
that keep in step do not end at the same moment to the last packet. Of the shortest one, for a job that others leave little
may end an iteration of a minute in a tenth of a second once they are gone."""


def logged_edges_s(plan: Plan, log: OpLog, iterations: int) -> list[Float64]:
    """Times at which the first iteration of each job begins and each of its iterations ends, in seconds of the run's
    clock.

    Raises InternalFault if the log lacks a worker's begin or end.
    """
    edges = []
    for job in plan.jobs:
        begins, ends = _begins(plan, job), _ends(plan, job)
        begun_ns = times_of_ops_ns(log, log.start_ns, begins, 1)
        ended_ns = times_of_ops_ns(log, log.end_ns, ends.reshape(-1), iterations)
        ended_s = ended_ns.reshape(-1, ends.shape[1]).max(axis=1) / 1e9
        edges.append(np.concatenate([[begun_ns.min() / 1e9], ended_s]))
    return edges


def fluid_edges_s(plan: Plan, times: FluidTimes, iterations: int) -> list[Float64]:
    """Times at which the first iteration of each job begins and each of its iterations ends, in seconds, from an
    estimate that kept the times of ops. iterations: number of the plan's iterations.

    Those that were not computed repeat the last period; without one there are no more than were computed.
    """
    assert times.op_start_s is not None
    assert times.op_end_s is not None
    edges = []
    for job in plan.jobs:
        ends = _ends(plan, job)
        ended_s = [row.max(axis=1) for row in times.op_end_s[:iterations, ends]]
        while times.period and len(ended_s) < iterations:
            ended_s.append(ended_s[-times.period] + times.period * times.iteration_s)
        begun_s = times.op_start_s[0, _begins(plan, job)].min()
        edges.append(np.concatenate([[begun_s], *ended_s]))
    return edges


@dataclass(frozen=True)
class MeasuredJob:
    """The iterations of a job in the time in which all jobs run and none is in its warm-up.

    A job is measured as throughput is defined, by its work over that time: an iteration that lies there in part counts
    by that part. Without the parts, a job that others leave the network in bursts would seem faster than it is, for its
    long iterations are those that begin or end outside.
    """

    #: The iterations that lie there as a whole or in part.
    window: MeasuredIterations
    #: Their times in seconds, shape (iterations,).
    times_s: Float64
    #: Share of each that lies there, shape (iterations,).
    shares: Float64
    #: Begin and end of that time, in seconds of the run's clock.
    interval_s: tuple[float, float]

    @property
    def whole(self) -> int:
        """Number of iterations that lie there as a whole."""
        return int((self.shares == 1.0).sum())

    @property
    def mean_s(self) -> float:
        """The measured time over the iterations in it, in seconds; nan if no iteration lies there as a whole."""
        return float(self.shares @ self.times_s / self.shares.sum()) if self.whole else math.nan


def measured_jobs(plan: Plan, edges_s: Sequence[Float64], warmup: int) -> list[MeasuredJob]:
    """Returns what is measured of each job. warmup: iterations of the plan that are dropped.

    The time begins and ends with iterations of the slowest job: where others follow its rhythm, the work that they do
    in it does not depend on where in that rhythm it begins.
    """
    begin_s, end_s = _common_time_s(plan, edges_s, warmup)
    measured = []
    for edges in edges_s:
        times_s = np.diff(edges)
        inside_s = np.minimum(edges[1:], end_s) - np.maximum(edges[:-1], begin_s)
        shares = np.clip(inside_s / times_s, 0.0, 1.0)
        tolerance = OUTSIDE * times_s.min() / times_s
        shares = np.where(shares > 1.0 - tolerance, 1.0, np.where(shares < tolerance, 0.0, shares))
        found = np.flatnonzero(shares)
        window = MeasuredIterations(int(found[0]) if len(found) else 0, len(found))
        kept = slice(window.warmup, window.end)
        measured.append(MeasuredJob(window, times_s[kept], shares[kept], (begin_s, end_s)))
    return measured


def _common_time_s(plan: Plan, edges_s: Sequence[Float64], warmup: int) -> tuple[float, float]:
    """Begin and end of the time in which all jobs run and none is in its warm-up, in whole iterations of the slowest
    job if there is one."""
    begin_s = max(float(edges[warmup * job.iterations]) for job, edges in zip(plan.jobs, edges_s, strict=True))
    end_s = min(float(edges[-1]) for edges in edges_s)
    slowest = max(edges_s, key=lambda edges: float(np.diff(edges).mean()))
    tolerance_s = OUTSIDE * float(np.diff(slowest).min())
    own = slowest[(slowest >= begin_s - tolerance_s) & (slowest <= end_s + tolerance_s)]
    return (float(own[0]), float(own[-1])) if len(own) > 1 else (begin_s, end_s)


def _begins(plan: Plan, job: PlanJob) -> Int64:
    return plan.begin_op[(plan.begin_op >= job.first_op) & (plan.begin_op < job.end_op)]


def _ends(plan: Plan, job: PlanJob) -> Int64:
    """Ops that conclude each of the job's iterations within one iteration of the plan, shape (iterations,
    workers)."""
    last = plan.end_op[(plan.end_op >= job.first_op) & (plan.end_op < job.end_op)]
    earlier = np.arange(job.iterations - 1, -1, -1, dtype=np.int64) * job.ops
    return last[None, :] - earlier[:, None]

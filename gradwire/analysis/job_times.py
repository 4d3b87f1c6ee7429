"""Iterations of the jobs of a plan that has several: each job's own, and which of them are measured while all others
run."""

from __future__ import annotations

from collections.abc import Sequence

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


def measured_windows(plan: Plan, edges_s: Sequence[Float64], warmup: int) -> list[MeasuredIterations]:
    """Iterations of each job that lie where all jobs run and none is in its warm-up; maybe none.

    warmup: iterations of the plan that are dropped.
    """
    first_s = max(float(edges[warmup * job.iterations]) for job, edges in zip(plan.jobs, edges_s, strict=True))
    last_s = min(float(edges[-1]) for edges in edges_s)
    windows = []
    for edges in edges_s:
        tolerance_s = OUTSIDE * float(np.diff(edges).min())
        inside = np.flatnonzero((edges[:-1] >= first_s - tolerance_s) & (edges[1:] <= last_s + tolerance_s))
        windows.append(MeasuredIterations(int(inside[0]) if len(inside) else 0, len(inside)))
    return windows


def measured_times_s(edges_s: Float64, window: MeasuredIterations) -> Float64:
    """Times of the iterations of a job that are measured."""
    times_s: Float64 = np.diff(edges_s)[window.warmup : window.end]
    return times_s


def _begins(plan: Plan, job: PlanJob) -> Int64:
    return plan.begin_op[(plan.begin_op >= job.first_op) & (plan.begin_op < job.end_op)]


def _ends(plan: Plan, job: PlanJob) -> Int64:
    """Ops that conclude each of the job's iterations within one iteration of the plan, shape (iterations,
    workers)."""
    last = plan.end_op[(plan.end_op >= job.first_op) & (plan.end_op < job.end_op)]
    earlier = np.arange(job.iterations - 1, -1, -1, dtype=np.int64) * job.ops
    return last[None, :] - earlier[:, None]

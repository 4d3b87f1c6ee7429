"""Explains why one of several jobs takes another time than on an ideal network. Selects the iterations of it that
count, and tries the effect that only several jobs have: the phases in which they meet.

Jobs iterate independently, so the moments at which they begin decide which messages of one meet which of another, and
what they lose to each other decides when they begin next. Such loops settle where both lose little or where one loses
much, or never, and delays as short as a burst decide where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.agreement.causes import Cause, Trial, rough
from gradwire.analysis.fluid.estimate import Buffered, FluidTimes, Jitter
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.job_times import Float64, fluid_edges_s, measured_jobs
from gradwire.analysis.quantities import quantity
from gradwire.datatypes.plan import Plan

DRAWS = 4
"""Number of random draws of delays, for each amount that connections hold. Where phases decide, most jobs come out
beyond the measured time with the first or the second."""


@dataclass(frozen=True)
class IterationsOfJob:
    """The iterations of a job that count: those while all jobs run."""

    #: Its place among the jobs of the plan.
    number: int
    #: Whether the longest iteration counts if none begins and ends while all run. It would have taken longer.
    at_least: bool = False

    def __call__(self, plan: Plan, times: FluidTimes, window: MeasuredIterations) -> float:
        """Their mean in seconds on an ideal network; nan if there are none. window: iterations of the plan."""
        edges_s = fluid_edges_s(plan, times, window.end)
        own = measured_jobs(plan, edges_s, window.warmup)[self.number]
        return own.mean_s if own.whole or not self.at_least else float(np.diff(edges_s[self.number]).max())


def phases_s(plan: Plan, edges_s: Sequence[Float64], warmup: int) -> tuple[float, ...]:
    """Seconds by which each worker's job began its next iteration later than the first job did, once all jobs had ended
    their warm-up. edges_s: for each job, the times at which its iterations began and ended."""
    first_s = max(float(edges[warmup * job.iterations]) for job, edges in zip(plan.jobs, edges_s, strict=True))
    after = [min(int(np.searchsorted(edges, first_s)), len(edges) - 1) for edges in edges_s]
    next_s = [float(edges[at]) - first_s for edges, at in zip(edges_s, after, strict=True)]
    job_of_worker = np.searchsorted([job.end_op for job in plan.jobs], plan.begin_op, side="right")
    return tuple(next_s[job] - min(next_s) for job in job_of_worker.tolist())


def with_phases(
    run: IdealRun, phases: Sequence[float], held_sizes: Sequence[int], turn_bytes: int, turn_s: float
) -> Iterator[Trial]:
    """Yields the job's time if jobs begin as far apart as in the run; and its times if messages are late at random by
    up to a turn of another flow, which bound the effect of the jobs' phases.

    held_sizes: what connections hold. turn_s: how long turn_bytes take.
    """
    if len(set(phases)) > 1:
        apart = rough(max(phases), "s")
        for held_bytes in held_sizes:
            effect = f"When all jobs had ended their warm-up, they began their next iterations up to {apart} apart{_holding(held_bytes)}"
            yield Trial(Cause.PHASES, _holds(run, held_bytes).time_apart_s(phases), effect)
    late = f"messages that arrive up to {rough(turn_s, 's')} late, behind {quantity(turn_bytes, 'bytes')} of others, change it"
    for held_bytes in held_sizes:
        for seed in range(DRAWS):
            drawn_s = _holds(run, held_bytes).time_s(jitter=Jitter(turn_s, seed), whole_bytes=turn_bytes)
            effect = f"In which phases jobs meet is chance: {late}{_holding(held_bytes)}"
            yield Trial(Cause.PHASES, drawn_s, effect, is_bound=True)


def _holds(run: IdealRun, held_bytes: int) -> IdealRun:
    return run.of(Buffered(held_bytes)) if held_bytes else run


def _holding(held_bytes: int) -> str:
    return (
        f", while senders move on with up to {rough(held_bytes, 'bytes')} per connection still in flight"
        if held_bytes
        else ""
    )

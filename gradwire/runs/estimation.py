"""Estimates of a scenario's points by the fluid engine: nothing is booted, and nothing is run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from gradwire.analysis.bounds import Bounds, bounds
from gradwire.analysis.fluid.estimate import FluidTimes, SendEnds
from gradwire.analysis.points import scaling_efficiency
from gradwire.analysis.request_times import RequestTimes, computed_request_times, plans_of_requests
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.plan_of_job import plan_of_job
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.runs.compiling.by_class import classes_or_plans
from gradwire.runs.compiling.ideal_times import (
    HELD_S,
    fluid_times,
    held_rule,
    request_times,
    rule_of,
    short_window_bytes,
)
from gradwire.runs.compiling.job_plans import job_times
from gradwire.runs.compiling.many_points import SharedPlans, sharing_key, side_by_side
from gradwire.runs.plan_warnings import plan_warnings
from gradwire.runs.stored.stored_run import in_words
from gradwire.scenario.loading import Point, origin_named
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.transport_fit import buffer_bytes, congestion_keys
from gradwire.scenario.schema import PointSection

JOBS_WARMUP = 2
"""Iterations of several jobs that are not counted: starts and the first meeting on the network are behind them."""
RULES = ("departure", "buffered")
"""Rules for the end of SENDs, by the names of `transport.send_ends` and `--send-ends`: see Departure and
Buffered."""
MODEL_NOT_RUN = (
    "A model, not a run: iteration times on a fluid network, without packets, losses or a verdict. "
    "x bound: estimate over the greatest closed-form lower bound."
)
RANKED_WITHIN = 0.02
"""Share of an estimate that may depend on how much queues hold: as far as estimates are trusted (docs/estimate.md). If
more does, an estimate does not rank a point."""


def without_effect(points: Sequence[Point]) -> list[str]:
    """Settings of scenarios that have no effect on estimates, a sentence each, to be read before the estimates are
    trusted."""
    sentences = []
    if any(point.section.program for point in points):
        sentences.append("an ideal network has no programs: estimates are of the strategies alone")
    if any(point.section.fabric.controller for point in points):
        sentences.append(
            "which ways a user's controller chooses is known once it has run: estimates with fabric.controller are "
            "as with fabric.routing = 'balanced'"
        )
    notes = (point.section.fabric.routing.policy.estimate_note for point in points)
    sentences += dict.fromkeys(note for note in notes if note)
    hosts = (point.section.fabric.hosts for point in points)
    if stock := dict.fromkeys(each for each in hosts if each.is_stock):
        sentences.append(
            "estimates do not know how TCP starts slowly and grows its windows, which hosts do with fabric.hosts = "
            f"{' or '.join(map(repr, map(str, stock)))}: where links have a delay, runs take longer"
        )
    if any(point.section.part for point in points):
        sentences.append("estimates are of whole jobs: [part] says which hosts run by packets")
    if faults := list(dict.fromkeys(name for point in points for name in point.section.fault)):
        of = sum(bool(point.section.fault) for point in points)
        which = "the point" if len(points) == 1 else f"{of} of {len(points)} points"
        sentences.append(
            f"an ideal network has no faults: estimates of {which} are as if "
            f"{', '.join(f'[fault.{name}]' for name in faults)} "
            "never happened"
        )
    if keys := sorted({key for point in points for key in _lossy_keys(point.section)}):
        sentences.append(
            "an ideal network drops, marks and pauses nothing and has no congestion control: estimates are as if "
            f"{', '.join(keys)} {'was' if len(keys) == 1 else 'were'} not set"
        )
    if any(link.jitter for point in points for link in point.section.fabric.link.values()):
        sentences.append("an ideal network has no jitter: estimates have the mean delay of each link")
    return sentences


def _lossy_keys(section: PointSection) -> list[str]:
    """Keys that make a network drop or mark frames, or connections react to it."""
    keys = [key.partition(" = ")[0] for key in congestion_keys(section)]
    keys += ["fabric.loss"] if section.fabric.loss else []
    said = ("loss", "buffer", "ecn")
    return keys + [
        f'fabric.link."{name}".{key}'
        for name, link in section.fabric.link.items()
        for key in said
        if getattr(link, key)
    ]


def copies_late(plan: Plan, fabric: Fabric) -> str:
    """Sentence on an effect that an estimate of multicast copies over links of different delays leaves out; "" if there
    are none."""
    delays_s = {round(link.delay_s + link.jitter_s / 2, 9) for link in fabric.links()}
    if len(delays_s) < 2 or not plan.multicasts():
        return ""
    return (
        "copies of a multicast pass all links at once, and arrive when the last one does: where links have different "
        "delays, other flows meet them earlier or later than in a run"
    )


@dataclass(frozen=True)
class PointEstimate:
    """The fluid engine's estimate of a point."""

    #: Every swept parameter and its value, as text.
    parameters: Mapping[str, str]
    #: Label of the plan: of several candidates, the fastest.
    plan: str
    iteration_time_s: float
    #: The greatest closed-form lower bound.
    lower_bound_s: float
    #: Name of that bound.
    lower_bound_kind: str
    #: Iterations until the schedule repeated, and after how many it repeats; 0: it did not.
    iterations: int
    period: int
    #: Wall time that compiling and estimating took, on one core.
    took_s: float
    #: Samples per second of all workers.
    throughput_per_s: float = math.nan
    #: Compute time over iteration time.
    scaling_efficiency: float = math.nan
    #: Share by which the time differs if ports and switches hold half as much; 0 if send_ends were given.
    by_queues: float = 0.0
    #: Ranks that were followed: one of each class, where ranks fare alike (docs/thousands.md); 0: all.
    classes: int = 0
    #: Time of one of several jobs with the network for itself; None for a point of one job.
    alone_time_s: float | None = None
    #: Effects of the network or the plan that the estimate lacks, a sentence without its full stop; "" if there are
    #: none.
    left_out: str = ""
    #: Times of its requests, with the network and by computation alone; None for a point that serves none.
    requests: tuple[RequestTimes, RequestTimes] | None = None
    #: Warnings that a plan of the point gets, in words; none of a job that was estimated by classes.
    warnings: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The point's parameters in a few words."""
        return in_words(self.parameters)

    @property
    def is_ranked(self) -> bool:
        """Whether the point may be compared with others: at most RANKED_WITHIN of its estimate depends on how much
        queues hold."""
        return abs(self.by_queues) <= RANKED_WITHIN

    @property
    def x_bound(self) -> float:
        """Estimate over bound; nan if the bound is 0."""
        return self.iteration_time_s / self.lower_bound_s if self.lower_bound_s else float("nan")


RESULT_COLUMNS = tuple(
    field.name
    for field in fields(PointEstimate)
    if field.name not in ("parameters", "alone_time_s", "left_out", "requests", "warnings")
)


def result_columns(estimates: Sequence[PointEstimate]) -> tuple[str, ...]:
    """RESULT_COLUMNS, and the time alone where some row is of one of several jobs."""
    return (*RESULT_COLUMNS, *(("alone_time_s",) if any(row.alone_time_s is not None for row in estimates) else ()))


def check_send_ends(send_ends: str | None) -> None:
    """Raises InputFault for a text that is not a rule; None stands for each point's own."""
    if send_ends not in (None, *RULES):
        raise InputFault(f"send ends: '{send_ends}' is not a rule; it must be {' or '.join(RULES)}")


def estimate_points(
    points: Sequence[Point],
    jobs: int,
    send_ends: str | None = None,
    on_done: Callable[[int], None] = lambda _: None,
    before_forks: Callable[[], None] = lambda: None,
) -> list[PointEstimate]:
    """Estimates all points, in up to `jobs` processes; `on_done` hears how many are done, also when processes have been
    started, and `before_forks` is called before they are.

    send_ends: one of RULES for all points, on a network that holds nothing; None takes each point's own, on one that
    holds what a run's does. Raises the Fault of the first point that is wrong.
    """
    if not points:
        return []
    # What may be too large comes first, and points that may share a plan one after another, so that a process compiles
    # it once.
    order = sorted(range(len(points)), key=lambda index: _sooner(points[index]))
    # The first one is done here: processes that are forked afterwards have the engine's machine code.
    done = {order[0]: _estimates_of(points[order[0]], send_ends)}
    on_done(1)
    rest = order[1:]
    chunk = max(1, len(rest) // (4 * jobs))
    chunks = [rest[first : first + chunk] for first in range(0, len(rest), chunk)]
    parts = [[points[index] for index in indices] for indices in chunks]
    before_forks()
    estimate_chunk = partial(_estimate_chunk, send_ends=send_ends)
    for indices, estimates in zip(chunks, side_by_side(estimate_chunk, parts, jobs, lambda: on_done(1)), strict=True):
        done |= zip(indices, estimates, strict=True)
        on_done(len(done))
    return [row for index in range(len(points)) for row in done[index]]


def _sooner(point: Point) -> tuple[int, str]:
    return -point.section.cluster.workers, sharing_key(point)


def _estimate_chunk(points: Sequence[Point], send_ends: str | None) -> list[list[PointEstimate]]:
    return [_estimates_of(point, send_ends) for point in points]


def _estimates_of(point: Point, send_ends: str | None) -> list[PointEstimate]:
    """The estimate of a point, or one of each of its jobs."""
    return _estimate_jobs(point, send_ends) if point.section.job else [_estimate_point(point, send_ends)]


def _estimate_jobs(point: Point, send_ends: str | None) -> list[PointEstimate]:
    begun_s = time.perf_counter()
    with origin_named(point):
        resolved = ResolvedPoint(_with_rule(point.section, send_ends))
        fabric, unsent_bytes = resolved.fabric, resolved.unsent_bytes
        (label, plan), *_ = _PLANS.of(resolved, resolved.job).items()
    socket_bytes = buffer_bytes(point.section, fabric)
    rule = held_rule(unsent_bytes, fabric, socket_bytes) if send_ends is None else rule_of(unsent_bytes)
    window_bytes = short_window_bytes(fabric, socket_bytes)
    times = fluid_times(plan, fabric, rule, window_bytes)
    rows, requests = [], _requests(plan, fabric, rule, window_bytes)
    found_of_jobs = job_times(plan, fabric, rule, warmup=JOBS_WARMUP, window_bytes=window_bytes)
    for job, found in zip(plan.jobs, found_of_jobs, strict=True):
        lower = bounds(plan_of_job(plan, job), fabric)
        rows.append(
            PointEstimate(
                parameters={"job": job.name, **point.parameters, **point.parameters_of_job(job.name)},
                plan=label,
                iteration_time_s=found.shared_s,
                lower_bound_s=lower.lower_bound_s / job.iterations,
                lower_bound_kind=lower.kind,
                iterations=times.needed,
                period=times.period,
                took_s=(time.perf_counter() - begun_s) / len(plan.jobs),
                throughput_per_s=job.samples / found.shared_s,
                scaling_efficiency=scaling_efficiency(job.compute_s, found.shared_s, serves=job.name in requests),
                alone_time_s=found.alone_s,
                requests=requests.get(job.name),
                warnings=plan_warnings(point.section, fabric, [plan]),
            )
        )
    return rows


def _requests(
    plan: Plan, fabric: Fabric, rule: SendEnds, window_bytes: float
) -> dict[str, tuple[RequestTimes, RequestTimes]]:
    """Times of requests, with the network and by computation alone, by the name of each job that serves some."""
    return {
        name: (request_times(one, fabric, rule, window_bytes), computed_request_times(one))
        for name, one in plans_of_requests(plan)
    }


def _estimate_point(point: Point, send_ends: str | None) -> PointEstimate:
    begun_s = time.perf_counter()
    with origin_named(point):
        resolved = ResolvedPoint(_with_rule(point.section, send_ends))
        fabric, unsent_bytes = resolved.fabric, resolved.unsent_bytes
        classes, plans = classes_or_plans(resolved, lambda: _PLANS.of(resolved, replace(resolved.job, fabric=fabric)))
    socket_bytes = buffer_bytes(point.section, fabric)
    window_bytes = short_window_bytes(fabric, socket_bytes)

    def times(label: str, rule: SendEnds) -> FluidTimes:
        return classes.times(rule, window_bytes) if classes else fluid_times(plans[label], fabric, rule, window_bytes)

    rule = held_rule(unsent_bytes, fabric, socket_bytes) if send_ends is None else rule_of(unsent_bytes)
    estimates = {label: times(label, rule) for label in ([classes.label] if classes else plans)}
    label = min(estimates, key=lambda label: estimates[label].iteration_s)
    time_s = estimates[label].iteration_s
    half = held_rule(unsent_bytes, fabric, socket_bytes, HELD_S / 2)
    half_s = time_s if send_ends is not None else times(label, half).iteration_s
    lower: Bounds = classes.bounds() if classes else bounds(plans[label], fabric)
    work = classes.work if classes else plans[label]
    requests = None if classes else _requests(plans[label], fabric, rule, window_bytes).get("")
    return PointEstimate(
        parameters=point.parameters,
        plan=label,
        iteration_time_s=time_s,
        lower_bound_s=lower.lower_bound_s,
        lower_bound_kind=lower.kind,
        iterations=estimates[label].needed,
        period=estimates[label].period,
        took_s=time.perf_counter() - begun_s,
        throughput_per_s=work.samples / time_s,
        scaling_efficiency=scaling_efficiency(work.compute_s, time_s, serves=requests is not None),
        by_queues=half_s / time_s - 1,
        classes=classes.classes if classes else 0,
        requests=requests,
        left_out=classes.left_out if classes else copies_late(plans[label], fabric),
        warnings=() if classes else plan_warnings(point.section, fabric, list(plans.values())),
    )


def _with_rule(section: PointSection, send_ends: str | None) -> PointSection:
    """The point with another rule for the end of SENDs; with its own if none is given."""
    if send_ends is None:
        return section
    return section.model_copy(update={"transport": section.transport.model_copy(update={"send_ends": send_ends})})


_PLANS = SharedPlans()

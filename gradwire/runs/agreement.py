"""Explains why judged runs take another time than an ideal network, if the difference is large.

Findings are kept in the cache under everything that decides them: what ran, what it logged, and the code that looks for
causes.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradwire.analysis.agreement.causes import Agreement, Cause, Deviation, explanation, first_cause, no_explanation
from gradwire.analysis.agreement.held_bytes import copies_apart_s, held_bytes_of
from gradwire.analysis.agreement.phases import IterationsOfJob, phases_s
from gradwire.analysis.agreement.short_windows import all_along, short_windows
from gradwire.analysis.agreement.trials import SeenEffects, trials
from gradwire.analysis.fluid.delays import delays_of
from gradwire.analysis.fluid.ideal import LARGEST_PLAN_OPS, IdealRun
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.job_times import logged_edges_s, measured_jobs
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.points import PointResult
from gradwire.analysis.timeline.critical_path import critical_path
from gradwire.analysis.timeline.walk import TimeKind
from gradwire.analysis.verdict.checks import VIRTUAL_CLOCK
from gradwire.cache_files import keep, kept
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.inside.point_protocol import TASK_FILE, built_fabric
from gradwire.network.fabric import Fabric
from gradwire.network.path_delays import link_delays_s
from gradwire.runs.compiling.ideal_times import rule_of
from gradwire.runs.judged import JudgedRun, of_job
from gradwire.runs.stored.run_files import fitting, reading, update
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import COMPLETION_FILE, LOG_FILE, StoredRun
from gradwire.scenario.loading import Point
from gradwire.scenario.resolution.transport_fit import congestion_keys
from gradwire.scenario.schema import PointSection
from gradwire.topo.tc import QUANTUM_BYTES
from gradwire.vm.code_digest import sources_digest
from gradwire.vm.kernel import cache_folder

CODE = ("gradwire.runs.agreement",)
SPRAYED = (
    "Which bursts meet at a line is chance where they take all ways in turn (fabric.routing = 'spray'), and what comes late by one "
    "way holds up what came by others; an ideal network has neither, and how much that is was not examined"
)
FAULTY = "faults happened in the network, which the ideal network does not have"


def compared(
    runs: Sequence[JudgedRun], working: Callable[[str], AbstractContextManager[object]] = nullcontext
) -> list[JudgedRun]:
    """The runs with their agreements, which fill `fluid_cause` of their rows.

    A run that is not valid has none. working: tells, for a block, that causes are looked for. Raises what `examine`
    does.
    """
    known = [_known(run) for run in runs]
    missing = [index for index, agreement in enumerate(known) if agreement is None and runs[index].result.valid]
    with working("looking for what keeps points from an ideal network") if missing else nullcontext():
        for index in missing:
            run = runs[index]
            known[index] = examine_and_keep(run.stored, run.point, run.result.fluid_time_s or 0.0)
    return [_with_agreement(run, agreement) for run, agreement in zip(runs, known, strict=True)]


def _known(run: JudgedRun) -> Agreement | None:
    """Agreement of a run as far as it is known without an examination; None if an examination is needed."""
    result = run.result
    if run.agreement or not result.valid:
        return run.agreement
    if not result.fluid_time_s or not any(map(_is_off, run.job_results or (result,))):
        return Agreement()
    return kept_agreement(run.stored, run.point)


def _is_off(row: PointResult) -> bool:
    """Returns whether a row differs so much from its estimate that a cause is looked for."""
    return bool(row.fluid_time_s) and Deviation(row.iteration_time_s, row.fluid_time_s or 0.0).matters


def _with_agreement(run: JudgedRun, agreement: Agreement | None) -> JudgedRun:
    if agreement is None:
        return run
    result = replace(run.result, fluid_cause=str(agreement.cause))
    jobs = tuple(
        replace(row, fluid_cause=_cause_of_job(row, of_job(agreement, number) or agreement))
        for number, row in enumerate(run.job_results)
    )
    return replace(run, agreement=agreement, result=result, job_results=jobs)


def _cause_of_job(row: PointResult, agreement: Agreement) -> str:
    """Cause that was found for the job, or for all jobs together if none was examined alone."""
    if not row.valid or not _is_off(row):
        return str(Cause.NONE)
    return str(agreement.cause or Cause.UNEXPLAINED)


def kept_agreement(stored: StoredRun, point: Point) -> Agreement | None:
    """The agreement of a run as this code examined it before; None if it did not. Raises InputFault for a file of the
    run that cannot be read."""
    return kept(_path(stored, point), Agreement)


def examine_and_keep(stored: StoredRun, point: Point, ideal_s: float) -> Agreement:
    """Examines a run, whose measured iterations take `ideal_s` on an ideal network, and keeps the agreement. Raises the
    errors of `examine`."""
    agreement = examine(stored, point, ideal_s)
    keep(_path(stored, point), agreement)
    return agreement


def _path(stored: StoredRun, point: Point) -> Path:
    sha = hashlib.sha256(f"{_code_digest()} {point.section.transport!r}".encode())
    completion = stored.completion()
    plan_file = stored.task().plan_file(completion.plan) if completion else TASK_FILE
    for name in (TASK_FILE, COMPLETION_FILE, plan_file, LOG_FILE):
        with reading(stored.folder / name):
            update(sha, stored.folder / name)
    return cache_folder() / "agreement" / f"{sha.hexdigest()[:24]}.json"


@functools.cache
def _code_digest() -> str:
    return sources_digest(CODE)


def examine(stored: StoredRun, point: Point, ideal_s: float) -> Agreement:
    """Why a run takes another time than on an ideal network, where its measured iterations take `ideal_s`; no cause if
    it does not.

    Raises InputFault if the run did not come to its end, InternalFault for a plan that gets stuck. On one core 10 ms
    to a second; some minutes for a plan of LARGEST_PLAN_OPS, which may be estimated 36 times.
    """
    with fitting(stored.folder):
        return _examine(stored, point, ideal_s)


def _examine(stored: StoredRun, point: Point, ideal_s: float) -> Agreement:
    plan, fabric, log, record = stored.plan(), stored.fabric(), stored.log(), stored.record()
    times_s = iteration_times_s(plan, log, record.iterations)[record.warmup :]
    if not plan.jobs and not Deviation(float(times_s.mean()), ideal_s).matters:
        return Agreement()
    if reason := _without_looking(plan, fabric, point.section, record):
        return Agreement(Cause.NOT_EXAMINED, reason)
    built = built_fabric(fabric, [plan])
    window, rule = MeasuredIterations(record.warmup, len(times_s)), rule_of(stored.task().sockets.unsent_bytes)
    run = IdealRun(plan, built, Spines(built).spine_of, window, rule)
    if plan.jobs:
        return _farthest(list(_examined_jobs(run, log, record)))
    completion = stored.completion()
    divided_by = completion.divided_by if completion is not None else 1
    measured_s = float(times_s.mean())
    typical = record.warmup + int(np.abs(times_s - measured_s).argmin())
    logged = LoggedOps.of(plan, log)
    begun_ns = logged.start[typical][plan.begin_op]
    seen = replace(
        _seen(run, logged, record),
        iterations_s=tuple(times_s.tolist()),
        apart_s=tuple(((begun_ns - begun_ns.min()) / 1e9).tolist()),
        divided_by=divided_by,
    )
    return _found(run, Deviation(measured_s, ideal_s, _late_s(run, log, typical)), seen)


def _examined_jobs(run: IdealRun, log: OpLog, record: PointRecord) -> Iterator[tuple[float, Agreement]]:
    """Yields for each job the ratio of its measured to its estimated time, and the agreement. An iteration of the jobs'
    common plan consists of the jobs that still iterate, and says nothing where one of them has many more iterations
    than another."""
    edges_s = logged_edges_s(run.plan, log, record.iterations)
    seen = replace(_seen(run, LoggedOps.of(run.plan, log), record), apart_s=phases_s(run.plan, edges_s, record.warmup))
    for number, measured in enumerate(measured_jobs(run.plan, edges_s, record.warmup)):
        deviation = Deviation(measured.mean_s, replace(run, counted=IterationsOfJob(number)).time_s())
        if deviation.matters:
            tried = replace(run, counted=IterationsOfJob(number, at_least=True))
            yield (
                deviation.ratio,
                _found(tried, deviation, replace(seen, iterations_s=tuple(measured.times_s.tolist()))),
            )
        else:  # or one of both times is not there
            yield 1.0, Agreement()


def _farthest(of_jobs: Sequence[tuple[float, Agreement]]) -> Agreement:
    """Agreement of the job with the largest difference, with those of all jobs in it."""
    _, worst = max(of_jobs, key=lambda each: abs(each[0] - 1))
    return replace(worst, jobs=tuple(agreement for _, agreement in of_jobs))


def _without_looking(plan: Plan, fabric: Fabric, section: PointSection, record: PointRecord) -> str:
    """Why a run that is off is not examined; "" where it is."""
    if section.program:
        return "programs share the network, which the ideal network does not have"
    if section.fault and not all_along([told.fault for told in record.faults]):
        return FAULTY
    reason = _not_examined(plan, fabric, section)
    return f"no cause was looked for, because {reason}" if reason else ""


def _not_examined(plan: Plan, fabric: Fabric, section: PointSection) -> str:
    """Why no cause is looked for; "" where one is."""
    if len(plan.ops) > LARGEST_PLAN_OPS:
        return f"the plan has {len(plan.ops):,} ops and the limit is {LARGEST_PLAN_OPS:,} (LARGEST_PLAN_OPS)"
    if fabric.losses:
        key = f"fabric.loss = {fabric.loss:g}" if fabric.loss else f"fabric.link: up to {fabric.most_loss:g} at a port"
        return f"the point loses packets on purpose ({key})"
    if differs := fabric.routing.policy.unlike_ideal:
        return differs
    if keys := congestion_keys(section):
        return f"the ideal network has neither drops, marks, pauses nor congestion control ({', '.join(keys)})"
    if fabric.host_tcp.is_stock:
        return f"the ideal network does not know how stock hosts' windows grow (fabric.hosts = '{fabric.host_tcp}')"
    return "" if fabric.fair_queues else _unfair(section)


def _unfair(section: PointSection) -> str:
    key = f"transport.connections = {section.transport.connections}"
    why = "fabric.fair_queues = false" if section.fabric.fair_queues is False else key
    return f"ports serve bursts first come, first served, and its flows do not share them evenly ({why})"


def _seen(run: IdealRun, logged: LoggedOps, record: PointRecord) -> SeenEffects:
    """Effects that a run shows, without its iteration times."""
    fabric = run.fabric
    tokens_bytes = fabric.burst_bytes(fabric.rate_bps, exact_timers=record.clock == VIRTUAL_CLOCK)
    return SeenEffects(
        iterations_s=(),
        held=held_bytes_of(logged, record.warmup),
        copies_apart_s=copies_apart_s(logged, record.warmup),
        grain_bytes=tokens_bytes + fabric.gso_bytes,
        forgiven_bytes=tokens_bytes,
        turn_bytes=QUANTUM_BYTES,
        far=delays_of(fabric, link_delays_s(fabric, [told.fault for told in record.faults])),
        short_windows=short_windows(fabric, record, run.spine_of),
    )


def _found(run: IdealRun, deviation: Deviation, seen: SeenEffects) -> Agreement:
    found = first_cause(deviation, trials(run, deviation, seen))
    if found is None and run.fabric.routing.policy.splits_messages and deviation.ratio > 1:
        return Agreement(Cause.NOT_EXAMINED, no_explanation(deviation, SPRAYED))
    if found is None:
        return Agreement(Cause.UNEXPLAINED, no_explanation(deviation))
    return Agreement(found.cause, explanation(deviation, found))


def _late_s(run: IdealRun, log: OpLog, iteration: int) -> float:
    """Seconds by which agents were late on the critical path of an iteration."""
    return critical_path(run.plan, log, iteration, run.fabric).kinds_ns[TimeKind.LATENESS] / 1e9

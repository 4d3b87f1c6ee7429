"""The points of a run folder as they lie there, judged anew: what `gradwire report` shows, whatever version of gradwire ran them.

Plans and fabrics are read and not compiled, so a changed strategy, agent or kernel changes nothing in an old run's report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.analysis.points import PointResult, failed_point
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.faults import InputFault
from gradwire.run.outcome import Computation, Speed, ended, failed_outcome, judged, prepare_point
from gradwire.run.stored.files import load_plan, load_task, load_verdict
from gradwire.run.stored.point_folders import Held, held_points
from gradwire.vm.machines import Clock
from gradwire.workloads.compilation import ResolvedPoint
from gradwire.workloads.plan import Plan
from gradwire.workloads.scenario.loading import Point


@dataclass(frozen=True)
class StoredOutcome:
    """What became of a point, as its folder says. speed: None where it never ran to its end.

    by_words: its folder is another version's, found by the parameters in its name (gradwire.run.stored.point_folders.Held).
    """

    point: Point
    result: PointResult
    verdict: Verdict
    speed: Speed | None
    computation: Computation
    by_words: bool


def stored_outcomes(points: Sequence[Point], out: Path, clock: Clock) -> list[StoredOutcome]:
    """The outcomes in a run folder, valid or not, without running anything.

    Raises InputFault if a point never ran, or if its folder cannot be told or read.
    """
    return [_stored(held, clock) for held in held_points(out, points)]


def _stored(held: Held, clock: Clock) -> StoredOutcome:
    folder, point = held.folder, held.point
    found = ended(folder)
    if found is None:
        return _failed(held, clock)
    label, speed = found
    task = load_task(folder)
    plan = load_plan(folder, task, label)
    result, verdict = judged(folder, plan, task.fabric, speed, point.parameters)
    return StoredOutcome(point, result, verdict, speed, _computation(point, plan), held.by_words)


def _failed(held: Held, clock: Clock) -> StoredOutcome:
    """Of a run that did not come to its end."""
    folder, point = held.folder, held.point
    if not (folder / "verdict.json").exists():
        raise InputFault(held.absence)
    verdict = load_verdict(folder)
    if (folder / "task.json").exists():
        task = load_task(folder)
        plan = load_plan(folder, task, task.plans[0][0])
        result = failed_point(point.parameters, plan, task.fabric, verdict, 0.0)
        return StoredOutcome(point, result, verdict, None, _computation(point, plan), held.by_words)
    prepared = prepare_point(point, clock, lambda _: folder)
    failed = failed_outcome(prepared, verdict.summary.removeprefix("invalid: "), 0.0)
    return StoredOutcome(point, failed.result, failed.verdict, None, failed.computation, held.by_words)


def _computation(point: Point, plan: Plan) -> Computation:
    """What a worker computed in the run, with today's source for it where that still says the same."""
    try:
        job = ResolvedPoint(point.section).job
    except InputFault:
        return Computation(plan.compute_s, "as it was run; this version of gradwire does not know the point any more")
    now = Computation.of(job.compute)
    # The forward pass alone is what a plan for inference computes.
    if any(math.isclose(plan.compute_s, seconds) for seconds in (now.iteration_s, sum(job.compute.forward_s))):
        return now
    return Computation(plan.compute_s, f"as it was run; now it would be {now.iteration_s:.4f} s: {now.source}")

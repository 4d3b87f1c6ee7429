"""Finds the work of points, and judges stored runs of any work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from gradwire.faults import InputFault
from gradwire.runs.judged import JudgedRun
from gradwire.runs.plan_work import PlanWork
from gradwire.runs.program_work import ProgramWork
from gradwire.runs.stored.run_files import fitting
from gradwire.runs.stored.run_folder import runs_of
from gradwire.runs.stored.stored_run import COMPLETION_FILE, VERDICT_FILE, StoredRun
from gradwire.runs.work import Work
from gradwire.scenario.loading import Point, Scenario, ScenarioPoint
from gradwire.scenario.program_scenarios import ProgramPoint

WORKS: dict[type[ScenarioPoint], Work[Any, Any, Any]] = {Point: PlanWork(), ProgramPoint: ProgramWork()}
P = TypeVar("P", bound=ScenarioPoint)


def work_of(point: ScenarioPoint) -> Work[Any, Any, Any]:
    """The work of a point."""
    return WORKS[type(point)]


def work_of_scenario(scenario: Scenario[Any]) -> Work[Any, Any, Any]:
    """The work of all points of a scenario."""
    return work_of(scenario.points[0])


def judge_kept(stored: StoredRun[P], point: P, key: str) -> JudgedRun[P, Any] | None:
    """Judges the run with this key; None if none came to its end. Raises InputFault as `judge_stored` does."""
    completion = stored.completion()
    if completion is None or completion.key != key:
        return None
    with fitting(stored.folder):
        return work_of(point).judge(stored, point, completion)


def judge_stored(stored: StoredRun[P], point: P) -> JudgedRun[P, Any]:
    """Judges a stored run, with any version of the code that ran it, and whether it came to its end or not.

    Raises InputFault if the point never ran, if several folders may be its own, if a file cannot be read, or if files
    do not belong together.
    """
    completion = stored.completion()
    if completion is not None:
        with fitting(stored.folder):
            return work_of(point).judge(stored, point, completion)
    if not (stored.folder / VERDICT_FILE).exists():
        raise InputFault(stored.absence)
    verdict = stored.last_verdict()
    if verdict.valid:
        raise InputFault(
            f"{stored.folder}: has a valid verdict, but {COMPLETION_FILE} is missing; remove the folder, and the next "
            "`gradwire run` runs the point anew"
        )
    return work_of(point).judge_failure(stored, point, verdict, 0.0)


def judge_folder(folder: Path, points: Sequence[P]) -> list[JudgedRun[P, Any]]:
    """Every point of a run folder, judged as it lies. Raises InputFault as `judge_stored` does."""
    return [judge_stored(stored, point) for stored, point in zip(runs_of(folder, points), points, strict=True)]

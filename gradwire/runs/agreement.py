"""Finds for each judged run why it is as far from an ideal network as it is.

What was found is kept in the cache by what decides it: what ran, what it logged, and the code that looks for causes.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console

from gradwire.analysis.agreement.causes import Agreement, Cause, Deviation
from gradwire.analysis.points import PointResult
from gradwire.files import replacing
from gradwire.runs.agreement_examination import examine
from gradwire.runs.judged import JudgedRun
from gradwire.runs.point_protocol import TASK_FILE, read_json, write_json
from gradwire.runs.stored.files import reading, update
from gradwire.runs.stored.stored_run import COMPLETION_FILE, LOG_FILE, StoredRun
from gradwire.scenario.loading import Point
from gradwire.vm.code_digest import sources_digest
from gradwire.vm.kernel import cache_folder


def compared(runs: Sequence[JudgedRun], errors: Console | None = None) -> list[JudgedRun]:
    """The runs with their agreements, which fill `fluid_cause` of their rows.

    A run that is not valid has none. errors: where a status is shown while causes are looked for. Raises what
    `examine` does.
    """
    known = [_known(run) for run in runs]
    missing = [index for index, agreement in enumerate(known) if agreement is None and runs[index].result.valid]
    with _status(errors if missing else None):
        for index in missing:
            run = runs[index]
            known[index] = examine_and_keep(run.stored, run.point, run.result.fluid_time_s or 0.0)
    return [_with_agreement(run, agreement) for run, agreement in zip(runs, known, strict=True)]


def _known(run: JudgedRun) -> Agreement | None:
    """What is known without an examination."""
    result = run.result
    if run.agreement or not result.valid:
        return run.agreement
    if not result.fluid_time_s or not Deviation(result.iteration_time_s, result.fluid_time_s).matters:
        return Agreement()
    return kept_agreement(run.stored, run.point)


def _with_agreement(run: JudgedRun, agreement: Agreement | None) -> JudgedRun:
    if agreement is None:
        return run
    result = replace(run.result, fluid_cause=str(agreement.cause))
    jobs = tuple(replace(row, fluid_cause=_cause_of_job(row, agreement)) for row in run.job_results)
    return replace(run, agreement=agreement, result=result, job_results=jobs)


def _cause_of_job(row: PointResult, agreement: Agreement) -> str:
    """What was found for all jobs together is each one's cause; where they agree together, there is none for one that does not."""
    if not row.valid or not row.fluid_time_s or not Deviation(row.iteration_time_s, row.fluid_time_s).matters:
        return str(Cause.NONE)
    return str(agreement.cause or Cause.UNEXPLAINED)


def _status(errors: Console | None) -> AbstractContextManager[object]:
    if errors is None or not errors.is_terminal:
        return nullcontext()
    return errors.status("looking for what keeps points from an ideal network")


CODE = ("gradwire.runs.agreement_examination",)


def kept_agreement(stored: StoredRun, point: Point) -> Agreement | None:
    """The agreement of a run as this code examined it before; None if it did not. Raises InputFault for a file that
    cannot be read."""
    try:
        return read_json(_path(stored, point), Agreement)
    except (OSError, msgspec.DecodeError):
        return None


def examine_and_keep(stored: StoredRun, point: Point, ideal_s: float) -> Agreement:
    """Examines a run, whose measured iterations take `ideal_s` on an ideal network, and keeps the agreement. Raises
    what `examine` does."""
    agreement = examine(stored, point, ideal_s)
    path = _path(stored, point)
    with suppress(OSError):  # without it, the next report examines the run again
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, on_disk=False) as partial:
            write_json(partial, agreement, indent=1)
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

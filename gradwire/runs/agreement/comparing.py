"""Puts beside each judged run why it is as far from an ideal network as it is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from rich.console import Console

from gradwire.analysis.agreement.causes import Agreement, Deviation
from gradwire.runs.agreement.kept import examine_and_keep, kept_agreement
from gradwire.runs.judged import JudgedRun


def compared(runs: Sequence[JudgedRun], errors: Console | None = None) -> list[JudgedRun]:
    """The runs with their agreements, which fill `fluid_cause` of their rows.

    A run that is not valid has none. errors: where a status is shown while causes are looked for. Raises what `examine` does.
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
    return replace(run, agreement=agreement, result=replace(run.result, fluid_cause=str(agreement.cause)))


def _status(errors: Console | None) -> AbstractContextManager[object]:
    if errors is None or not errors.is_terminal:
        return nullcontext()
    return errors.status("looking for what keeps points from an ideal network")

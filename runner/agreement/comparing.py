"""Puts beside each judged run how far it is from an ideal network."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from rich.console import Console

from gradwire.analysis.agreement.causes import Agreement
from gradwire.runner.agreement.kept import examine_and_keep, kept_agreement
from gradwire.runner.judged import JudgedRun

COMPARING = "comparing with an ideal network"
FIRST_TIME = "the first time, 20 to 50 s of one core compile the engine"


def compared(runs: Sequence[JudgedRun], errors: Console | None = None) -> list[JudgedRun]:
    """The runs with their agreements, which fill `fluid_time_s` and `fluid_cause` of their rows.

    A run that is not valid has none. errors: where a status is shown while runs are examined. Raises InputFault for a file that cannot be
    read.
    """
    kept = {index: _known(run) for index, run in enumerate(runs) if run.result.valid}
    missing = [index for index, agreement in kept.items() if agreement is None]
    with _status(errors if missing else None):
        for index in missing:
            kept[index] = examine_and_keep(runs[index].stored)
    return [_with_agreement(run, kept.get(index)) for index, run in enumerate(runs)]


def _known(run: JudgedRun) -> Agreement | None:
    return run.agreement or kept_agreement(run.stored)


def _with_agreement(run: JudgedRun, agreement: Agreement | None) -> JudgedRun:
    if agreement is None:
        return run
    result = replace(run.result, fluid_time_s=agreement.fluid_time_s, fluid_cause=str(agreement.cause))
    return replace(run, agreement=agreement, result=result)


def _status(errors: Console | None) -> AbstractContextManager[object]:
    if errors is None or not errors.is_terminal:
        return nullcontext()
    return errors.status(f"{COMPARING} ({FIRST_TIME})")

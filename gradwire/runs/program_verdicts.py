"""What a stored point of programs is worth: read from its folder, and judged anew each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gradwire.analysis.programs.results import FAILED, FigureRow, ProgramResult
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.programs.execution import SUMMARY_FILE, Summary
from gradwire.programs.outputs import output_file
from gradwire.programs.reported import reported
from gradwire.programs.verdict import CARRIED, checks
from gradwire.runs.judged import JudgedRun
from gradwire.runs.stored.files import read_message, reading, refuse_changed
from gradwire.runs.stored.soundness.ranges import refuse_outside
from gradwire.runs.stored.stored_run import Completion, StoredRun
from gradwire.scenario.program_scenarios import ProgramPoint
from gradwire.workloads.values.fields import LONGEST_S

MEANING = "A program failed and the others were ended, or one never ran."
ENDED, READABLE = "programs", "figures"
IN_WORDS = (ENDED, READABLE)
"""Checks whose values are sentences about what went wrong."""


ProgramJudgedRun = JudgedRun[ProgramPoint, ProgramResult]


def judge_program_run(stored: StoredRun[ProgramPoint], point: ProgramPoint, completion: Completion) -> ProgramJudgedRun:
    """Judges a run that came to its end. Raises InputFault for a file that cannot be read."""
    folder = stored.folder
    with reading(folder / SUMMARY_FILE):
        summary = read_message(folder / SUMMARY_FILE, Summary)
        refuse_changed(folder / SUMMARY_FILE)
        _refuse_unsound(summary)
    report, fabric = summary.report, point.fabric
    rows, wrong = reported(point.programs, fabric, folder, summary.statuses, report.dropped_output_bytes)
    verdict = _verdict(_ended(point, folder, summary), checks(report, fabric), _readable(rows, wrong))
    if summary.failed:
        verdict = replace(verdict, summary=_failed(verdict))
    result = ProgramResult(point.parameters, report.duration_s, rows, summary.memory_bytes, summary.wall_s, verdict)
    return JudgedRun(point, stored, fabric, result, verdict, completion, figures=rows)


def failed_program_run(
    stored: StoredRun[ProgramPoint], point: ProgramPoint, verdict: Verdict, wall_s: float
) -> ProgramJudgedRun:
    """A run that did not come to its end."""
    return JudgedRun(
        point, stored, point.fabric, ProgramResult(point.parameters, None, (), 0, wall_s, verdict), verdict, None
    )


def _refuse_unsound(summary: Summary) -> None:
    """Raises ValueError for numbers that no run of programs has."""
    refuse_outside("wall_s", summary.wall_s, 0, LONGEST_S)
    refuse_outside("duration_s", summary.report.duration_s, 0, LONGEST_S)
    refuse_outside("memory_bytes", summary.memory_bytes, 0)
    for name in (
        "tcp_segments",
        "tcp_retransmits",
        "table_misses",
        "upcalls",
        "killed_for_memory",
        "dropped_output_bytes",
    ):
        refuse_outside(name, getattr(summary.report, name), 0)


def _verdict(ended: Check, network: list[Check], readable: Check) -> Verdict:
    made = (ended, *network, readable)
    wrong = [_in_words(check) for check in made if not check.ok]
    return Verdict(not wrong, made, "invalid: " + "; ".join(wrong) if wrong else "valid")


def _failed(verdict: Verdict) -> str:
    """What is said of a point one of whose programs failed: that, and as a fact of its own whether the network did what it should."""
    ended, *network, readable = verdict.checks
    wrong = [_in_words(check) for check in network if not check.ok]
    said = [ended.value, f"the network did not carry all: {', '.join(wrong)}" if wrong else CARRIED]
    return f"{FAILED}: {'; '.join([*said, *([] if readable.ok else [readable.value])])}"


def _in_words(check: Check) -> str:
    return check.value if check.name in IN_WORDS else f"{check.name} {check.value} (limit {check.limit})"


def _ended(point: ProgramPoint, folder: Path, summary: Summary) -> Check:
    """Every program started, every one that is to end by itself did, and none failed."""
    value = f"{len(summary.statuses)} ended"
    late = [name for name, program in point.section.program.items() if program.start > summary.report.duration_s]
    if late and not summary.failed:
        value = f"{', '.join(late)} had not started before all others had ended"
    if summary.failed:
        status = summary.exit_status
        how = f"was ended by signal {status - 128}" if status > 128 else f"ended with status {status}"
        errors = output_file(folder, summary.failed, 2)
        value = f"{summary.failed} {how}" + (f", and its errors are in {errors}" if errors.exists() else "")
        if summary.report.killed_for_memory:
            value += "; the kernel's memory was full: give more with run.memory_mb"
    return Check(ENDED, value, "status 0", not summary.failed and not late, MEANING)


def _readable(rows: tuple[FigureRow, ...], wrong: list[str]) -> Check:
    value = "; ".join(wrong) if wrong else f"{len(rows)} rows"
    return Check(
        READABLE, value, "readable", not wrong, "What a program reported could not be read, so rows are missing."
    )

"""What a stored point of programs is worth: read from its folder, and judged anew each time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gradwire.analysis.program_results import FAILED, FigureRow, ProgramResult
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.verdict import Verdict, failed_run
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.programs.execution import SUMMARY_FILE, Summary
from gradwire.programs.outputs import output_file
from gradwire.programs.reported import reported
from gradwire.programs.verdict import CARRIED, checks
from gradwire.runs.protocol import write_json
from gradwire.runs.stored.files import fitting, read_message, reading, refuse_changed
from gradwire.runs.stored.soundness.ranges import refuse_outside
from gradwire.runs.stored.stored_run import COMPLETION_FILE, VERDICT_FILE
from gradwire.scenario.program_scenarios import ProgramPoint
from gradwire.workloads.fields import LONGEST_S

MEANING = "A program failed and the others were ended, or one never ran."
ENDED, READABLE = "programs", "figures"
IN_WORDS = (ENDED, READABLE)
"""Checks whose values are sentences about what went wrong."""


@dataclass(frozen=True)
class JudgedPrograms:
    """A point's run of programs with its verdict and its figures, which are not results where the verdict is not valid."""

    folder: Path
    #: The point in a few words.
    label: str
    #: Row of points.csv, with what programs reported.
    result: ProgramResult
    #: It ran before and was not run now.
    reused: bool = False

    @property
    def verdict(self) -> Verdict:
        """What the run is worth."""
        return self.result.verdict

    @property
    def took_s(self) -> float:
        """Wall time of the run."""
        return self.result.wall_s

    @property
    def valid(self) -> bool:
        """Whether its figures are results."""
        return self.result.valid


def judge_programs(point: ProgramPoint, folder: Path) -> ProgramResult:
    """Judges a run as it lies. Raises InputFault if the point never ran, or its files cannot be read, or do not belong together."""
    with fitting(folder):
        return _judge_programs(point, folder)


def _judge_programs(point: ProgramPoint, folder: Path) -> ProgramResult:
    if not (folder / COMPLETION_FILE).exists():
        path = folder / VERDICT_FILE
        if not path.exists():
            raise InputFault(f"{folder}: this point has not run; `gradwire run` completes the folder")
        with reading(path):
            return failed(point, read_message(path, Verdict))
    with reading(folder / SUMMARY_FILE):
        summary = read_message(folder / SUMMARY_FILE, Summary)
        refuse_changed(folder / SUMMARY_FILE)
        _refuse_unsound(summary)
    rows, wrong = reported(
        point.section.program, point.fabric, folder, summary.statuses, summary.report.dropped_output_bytes
    )
    verdict = _verdict(_ended(point, folder, summary), checks(summary.report, point.fabric), _readable(rows, wrong))
    if summary.failed:
        verdict = replace(verdict, summary=_failed(verdict))
    return ProgramResult(
        point.parameters, summary.report.duration_s, rows, summary.memory_bytes, summary.wall_s, verdict
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


def failed(point: ProgramPoint, verdict: Verdict, wall_s: float = 0.0) -> ProgramResult:
    """The result of a run that did not come to its end."""
    return ProgramResult(point.parameters, None, (), 0, wall_s, verdict)


def judge_failure(point: ProgramPoint, folder: Path, reason: str, wall_s: float) -> ProgramResult:
    """The result of a run that was cut short for a reason, which is noted in its folder."""
    verdict = failed_run(reason)
    with replacing(folder / VERDICT_FILE) as partial:
        write_json(partial, verdict, indent=1)
    return failed(point, verdict, wall_s)


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

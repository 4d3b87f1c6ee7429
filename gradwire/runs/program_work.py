"""The work of points of programs alone: made ready with a key, run, judged and reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import tomli_w
from typing_extensions import override

from gradwire.analysis.busy_lines import line_uses
from gradwire.analysis.figure_frames import points_frame
from gradwire.analysis.pause_report import circle_between_hosts, circle_foreseen, pause_lines
from gradwire.analysis.point_frames import INDEX
from gradwire.analysis.port_traffic import ports_traffic
from gradwire.analysis.program_results import ProgramResult
from gradwire.analysis.report.program_charts import points_table
from gradwire.analysis.report.program_report import ProgramBackground, conclusion, write_program_report
from gradwire.analysis.report.text_table import Part, TextTable
from gradwire.analysis.verdict.program_checks import ProgramsState
from gradwire.analysis.verdict.verdict import Verdict, judge_programs
from gradwire.datatypes.records import PlannedFault
from gradwire.faults import InputFault
from gradwire.inside.program_protocol import how_it_ended, output_file, place_name
from gradwire.network.fabric import Fabric
from gradwire.programs.execution import (
    SUMMARY_FILE,
    ProgramRunSummary,
    kernel_warnings,
    root_warnings,
)
from gradwire.programs.reported import network_state, reported
from gradwire.runs.judged import JudgedRun
from gradwire.runs.network_notes import network_notes
from gradwire.runs.planned_programs import PlannedPrograms, plan_programs
from gradwire.runs.reporting import stop_notes
from gradwire.runs.screen import Screen
from gradwire.runs.stored.network_soundness import refuse_unsound_counts, refuse_unsound_state
from gradwire.runs.stored.provenance import facts, provenance
from gradwire.runs.stored.run_files import read_message, reading, refuse_changed
from gradwire.runs.stored.run_folder import stored_clock
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import Completion, StoredRun
from gradwire.runs.stored.value_limits import refuse_outside, shown
from gradwire.runs.work import Work
from gradwire.scenario.program_scenarios import ProgramPoint, ProgramScenario
from gradwire.vm.machines import Clock
from gradwire.workloads.fields import LONGEST_S
from gradwire.workloads.stand_in import capacity_warning

FAULTS = "faults"


ProgramJudgedRun = JudgedRun[ProgramPoint, ProgramResult]


def judge_program_run(stored: StoredRun[ProgramPoint], point: ProgramPoint, completion: Completion) -> ProgramJudgedRun:
    """Judges a run that came to its end. Raises InputFault for a file that cannot be read."""
    folder, summary = stored.folder, read_summary(stored, point)
    report, fabric = summary.report, point.fabric
    rows, unreadable = reported(point.programs, fabric, folder, summary.statuses, report.dropped_output_bytes)
    programs = _programs_state(point, folder, summary, len(rows), unreadable)
    state = network_state(report, fabric, point.faults)
    verdict = judge_programs(state, programs, report.faults, round(report.duration_s * 1e9))
    result = ProgramResult(
        point.parameters,
        report.duration_s,
        rows,
        summary.memory_bytes,
        summary.wall_s,
        verdict,
        tuple(pause_lines(fabric, report.pauses)),
        tuple(line_uses(fabric, ports_traffic(fabric, report.counts), report.duration_s)),
    )
    return JudgedRun(point, stored, fabric, result, verdict, completion, figures=rows)


def read_summary(stored: StoredRun[ProgramPoint], point: ProgramPoint) -> ProgramRunSummary:
    """Reads the summary of a run of programs. Raises InputFault for a file that cannot be read."""
    path = stored.folder / SUMMARY_FILE
    with reading(path):
        summary = read_message(path, ProgramRunSummary)
        refuse_changed(path)
        refuse_unsound(summary, point.faults, point.fabric)
        names = point.fabric.host_names()
        places = {place_name(name, host) for name in point.section.program for host in names}
        if others := summary.statuses.keys() - places:
            raise ValueError(f"statuses: {shown(min(others))} is not a program of the scenario on a host")
    return summary


def failed_program_run(
    stored: StoredRun[ProgramPoint], point: ProgramPoint, verdict: Verdict, wall_s: float
) -> ProgramJudgedRun:
    """A run that did not come to its end."""
    return JudgedRun(
        point, stored, point.fabric, ProgramResult(point.parameters, None, (), 0, wall_s, verdict), verdict, None
    )


def refuse_unsound(summary: ProgramRunSummary, faults: Sequence[PlannedFault], fabric: Fabric) -> None:
    """Raises ValueError for numbers that no run of programs on this network has, and for faults that its scenario does not
    have."""
    for record in summary.report.faults:
        if record.fault not in faults:
            raise ValueError(f"report.faults: {shown(record.fault.name)} is not one of the scenario")
        for name in ("due_ns", "begun_ns", "ended_ns"):
            refuse_outside(name, getattr(record, name), -1)
    if summary.failed and summary.failed not in summary.statuses:
        raise ValueError(f"failed = {shown(summary.failed)}: is not one of the statuses")
    refuse_outside("wall_s", summary.wall_s, 0, LONGEST_S)
    refuse_outside("duration_s", summary.report.duration_s, 0, LONGEST_S)
    refuse_outside("memory_bytes", summary.memory_bytes, 0)
    for name in ("killed_for_memory", "dropped_output_bytes"):
        refuse_outside(name, getattr(summary.report, name), 0)
    refuse_unsound_counts(summary.report.counts, fabric)
    if summary.report.pauses is not None:
        refuse_unsound_state(summary.report.pauses, fabric)


def _programs_state(
    point: ProgramPoint, folder: Path, summary: ProgramRunSummary, rows: int, unreadable: Sequence[str]
) -> ProgramsState:
    """How the programs ended. Every program starts, every one that is to end by itself does, and none fails."""
    late = [name for name, program in point.section.program.items() if program.start > summary.report.duration_s]
    missing = [f"{', '.join(late)} had not started before all others had ended"] if late and not summary.failed else []
    failed = [_how_one_failed(folder, summary)] if summary.failed else []
    return ProgramsState(len(summary.statuses), failed, missing, rows=rows, unreadable=unreadable)


def _how_one_failed(folder: Path, summary: ProgramRunSummary) -> str:
    """How the program failed that ended the others, where its errors are, and what may help."""
    errors = output_file(folder, summary.failed, 2)
    said = f"{summary.failed} {how_it_ended(summary.exit_status)}"
    said += f", and its errors are in {errors}" if errors.exists() else ""
    if summary.report.killed_for_memory:
        said += "; the kernel's memory was full: give more with run.memory_mb"
    return said


class ProgramWork(Work[ProgramPoint, PlannedPrograms, ProgramResult]):
    """Running programs on this machine, whose files they are."""

    taken_over = False  # what programs read besides the files that are named is not in the key
    left = (SUMMARY_FILE,)

    @override
    def clock_for(self, scenario: ProgramScenario, clock: Clock, screen: Screen) -> Clock:
        """The virtual clock, which divides nothing. Raises InputFault for the wall clock."""
        if clock.name != "virtual":
            raise InputFault("--clock wall: programs run on the virtual clock only; leave it out")
        return Clock()

    @override
    def planning(self, points: Sequence[ProgramPoint], out: Path, clock: Clock) -> Iterator[PlannedPrograms]:
        """All of them, once their commands have been looked at."""
        yield from plan_programs(points, out)

    def warnings(self, planned: Sequence[PlannedPrograms]) -> Iterator[str]:
        """Warnings about what networks' files have besides, networks that are too large, changes that programs of root may
        make, and features that the kernel lacks."""
        yield from network_notes(run.point.section for run in planned)
        yield from dict.fromkeys(filter(None, (capacity_warning(run.fabric) for run in planned)))
        yield from dict.fromkeys(each for run in planned for each in _circle_warning(run.fabric))
        yield from root_warnings()
        yield from kernel_warnings()

    def judge(self, stored: StoredRun[ProgramPoint], point: ProgramPoint, completion: Completion) -> ProgramJudgedRun:
        """Judges a run by how its programs ended, what they reported, and what the network did."""
        return judge_program_run(stored, point, completion)

    @override
    def judge_failure(
        self,
        stored: StoredRun[ProgramPoint],
        point: ProgramPoint,
        verdict: Verdict,
        wall_s: float,
        planned: PlannedPrograms | None = None,
    ) -> ProgramJudgedRun:
        """Judges a run that did not come to its end, and so has no results."""
        return failed_program_run(stored, point, verdict, wall_s)

    def write_report(
        self, scenario: ProgramScenario, runs: Sequence[ProgramJudgedRun], folder: Path, out: Path
    ) -> list[Part]:
        """Tables, a chart of a figure, and every point."""
        background = ProgramBackground(
            title=scenario.title,
            about=scenario.about,
            labels=scenario.labels,
            notes=[
                *scenario.notes,
                *network_notes(run.point.section for run in runs),
                *_fault_notes(runs),
                *_pause_notes(runs),
                *stop_notes(runs),
            ],
            metric=scenario.metric,
            over=scenario.over,
            facts=facts(provenance(folder), stored_clock(folder)),
            scenario=tomli_w.dumps(scenario.document),
        )
        folders = [f"points/{run.folder.name}" for run in runs]
        return write_program_report(out, [run.result for run in runs], folders, background)

    @override
    def conclusion(self, scenario: ProgramScenario, runs: Sequence[ProgramJudgedRun], folder: Path) -> str:
        """Sentence with the number of valid points."""
        return conclusion([run.result for run in runs])

    def points_frame(self, runs: Sequence[ProgramJudgedRun]) -> pd.DataFrame:
        """points.csv, and whether each is valid."""
        frame = points_frame([run.result for run in runs])
        return frame.assign(valid=[run.valid for run in runs]).set_index(
            pd.Index([run.folder.name for run in runs], name=INDEX)
        )

    def points_table(self, scenario: ProgramScenario, runs: Sequence[ProgramJudgedRun]) -> TextTable:
        """A row per point."""
        return points_table([run.result for run in runs], scenario.labels)


def _circle_warning(fabric: Fabric) -> Iterator[str]:
    """A circle of buffers in which programs can deadlock."""
    if circle := circle_between_hosts(fabric, Spines(fabric).spine_of):
        yield circle_foreseen("the ways between hosts", circle)


def _fault_notes(runs: Sequence[ProgramJudgedRun]) -> list[str]:
    """Notes on the faults that happened, and when."""
    return [
        f"{run.label}: faults {check.value}" for run in runs for check in run.verdict.checks if check.name == FAULTS
    ]


def _pause_notes(runs: Sequence[ProgramJudgedRun]) -> list[str]:
    """Notes on ports that were paused: how often, and for how long."""
    return [f"{run.label}: {line}" for run in runs for line in run.result.pauses]

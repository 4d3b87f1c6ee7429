"""The report of a run folder with runs of programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tomli_w
from rich.console import RenderableType

from gradwire.analysis.program_results import ProgramResult
from gradwire.analysis.report.program_report import ProgramBackground, write_program_report
from gradwire.runs.program_points.judged import judge_programs
from gradwire.runs.stored.point_folders import folder_name
from gradwire.runs.stored.provenance import facts, provenance
from gradwire.runs.stored.run_folder import stored_clock
from gradwire.scenario.program_scenarios import ProgramScenario


def judge_stored_programs(scenario: ProgramScenario, folder: Path) -> list[ProgramResult]:
    """Every point of a run folder, judged as it lies. Raises InputFault for a point that never ran."""
    return [
        judge_programs(point, folder / name) for point, name in zip(scenario.points, _folders(scenario), strict=True)
    ]


def report_programs(
    scenario: ProgramScenario, results: Sequence[ProgramResult], folder: Path, out: Path | None = None
) -> RenderableType:
    """Writes the report of a run folder into it, or into `out`; returns what a terminal shows."""
    background = ProgramBackground(
        title=scenario.title,
        about=scenario.about,
        labels=scenario.labels,
        notes=scenario.notes,
        metric=scenario.metric,
        over=scenario.over,
        facts=facts(provenance(folder), stored_clock(folder)),
        scenario=tomli_w.dumps(scenario.document),
    )
    return write_program_report(out or folder, results, _folders(scenario), background)


def _folders(scenario: ProgramScenario) -> list[str]:
    """Where points lie, relative to the run folder."""
    return [f"points/{folder_name(point)}" for point in scenario.points]

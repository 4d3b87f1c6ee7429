"""Commands that run points: `run` and `compare`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import typer

from gradwire.analysis.point_frames import typed_column
from gradwire.cli import terminal
from gradwire.console.terminal_screen import TerminalScreen
from gradwire.csv_files import read_csv
from gradwire.faults import InputFault
from gradwire.runs.comparing.questions import AnyQuestion
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.launch.scenario_run import (
    Prepared,
    carry_out,
    prepare,
    prepare_comparison,
)
from gradwire.runs.screen import Screen
from gradwire.runs.stored.provenance import typed_command
from gradwire.runs.works import work_of_scenario
from gradwire.scenario.program_scenarios import AnyScenario
from gradwire.vm.machines import MEASURED, Clock


def run(
    scenario: AnyScenario,
    where: Where,
    out: Path | None,
    clock_name: str,
    scale: int | None,
    *,
    as_json: bool = False,
    fresh: bool = False,
) -> None:
    """`gradwire run`."""
    screen = TerminalScreen(terminal.errors, terminal.errors) if as_json else terminal.screen()
    clock = chosen_clock(clock_name, scale)
    where.refuse_what_cannot_be(clock)
    with terminal.interruptible("interrupted; nothing has run"):
        where.refuse_what_cannot_be(clock, scenario.points)
        prepared = prepare(scenario, clock, out, screen)
    _run(prepared, where, screen, as_json=as_json, fresh=fresh)


def compare(
    question: AnyQuestion,
    strategies: Sequence[str],
    seeds: int,
    where: Where,
    out: Path | None,
    *,
    estimate_first: bool,
) -> None:
    """`gradwire compare`."""
    where.refuse_what_cannot_be(Clock())
    with terminal.interruptible("interrupted; nothing has run"):
        prepared = prepare_comparison(
            question, strategies, seeds, out, terminal.screen(), estimate_first=estimate_first
        )
    _run(prepared, where, terminal.screen())


def _run(prepared: Prepared, where: Where, screen: Screen, *, as_json: bool = False, fresh: bool = False) -> None:
    with terminal.interruptible(terminal.RESUMES):
        done = carry_out(prepared, where, typed_command(sys.argv), screen, fresh=fresh)
    if as_json:
        work, folder = work_of_scenario(prepared.scenario), prepared.place.folder
        shown = as_json_of(work.points_frame(done.runs), folder)
        conclusion = work.conclusion(prepared.scenario, done.runs, folder)
        print(json.dumps({**shown, "conclusion": conclusion}, indent=1, ensure_ascii=False))
    else:
        terminal.show_report(done.shown, prepared.place.folder)
    if not done.valid:
        raise typer.Exit(1)


def as_json_of(points: pd.DataFrame, folder: Path) -> dict[str, object]:
    """A run for other programs: its folder, its points, and the figures that programs reported."""
    tables = {"points": points.reset_index()}
    if (figures := folder / "figures.csv").exists():
        rows = read_csv(figures)
        tables["figures"] = pd.DataFrame(
            {key: typed_column([row[key] for row in rows]) for key in rows[0]} if rows else {}
        )
    return {"folder": str(folder)} | {
        name: json.loads(table.to_json(orient="records", double_precision=15)) for name, table in tables.items()
    }


def chosen_clock(name: str, scale: int | None) -> Clock:
    """The clock of `--clock` and `--scale`; without a scale, the wall clock's is to be measured. Raises InputFault if
    they name none."""
    if name not in ("virtual", "wall"):
        raise InputFault(f"--clock {name}: must be virtual or wall")
    if name == "virtual":
        if scale is not None:
            raise InputFault("--scale belongs to --clock wall: the virtual clock chooses its own")
        return Clock()
    return Clock(name, MEASURED if scale is None else scale)

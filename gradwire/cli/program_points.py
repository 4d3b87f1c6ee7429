"""`gradwire run`, `plan` and `report` of scenarios of programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import typer
from rich.markup import escape

from gradwire.analysis.programs.report import FIGURES_FILE, POINTS_FILE
from gradwire.cli import terminal
from gradwire.faults import InputFault
from gradwire.runs.launch.out_paths import writing
from gradwire.runs.launch.programs import carry_out_programs, place_of_programs
from gradwire.runs.program_points.planned import plan_programs
from gradwire.runs.program_points.reporting import judge_stored_programs, report_programs
from gradwire.runs.stored.provenance import typed_command
from gradwire.runs.stored.run_folder import RUNS, stored_programs
from gradwire.runs.terminal.programs import tell_ended
from gradwire.vm.machines import Clock
from gradwire.workloads.programs.loading import load_programs
from gradwire.workloads.scenario.units import rate_text

RESUMES = "interrupted; what was complete is kept, and the same command goes on from there"


def run(scenario: Path, settings: Sequence[str], jobs: int | None, out: Path | None, clock: Clock) -> None:
    """`gradwire run` of a scenario of programs."""
    if clock.name != "virtual":
        raise InputFault("--clock wall: programs run on the virtual clock only; leave it out")
    screen = terminal.screen()
    loaded = load_programs(scenario, settings)
    place = place_of_programs(loaded, out, screen)
    with terminal.interruptible(RESUMES):
        done = carry_out_programs(
            loaded, place.folder, jobs, typed_command(sys.argv), screen, partial(tell_ended, screen.results)
        )
    terminal.console.print(done.shown)
    _name_files(place.folder)
    if not all(result.valid for result in done.results):
        raise typer.Exit(1)


def plan(scenario: Path, settings: Sequence[str]) -> None:
    """`gradwire plan` of a scenario of programs: what would run where, for programs have no plan."""
    loaded = load_programs(scenario, settings)
    for planned in plan_programs(loaded.points, RUNS / loaded.name):
        fabric = planned.point.fabric
        terminal.console.print(
            f"[bold]{escape(planned.label)}[/bold]: {fabric.hosts} hosts at {rate_text(fabric.rate_bps)}",
            highlight=False,
        )
        for name, program in planned.point.section.program.items():
            hosts = ", ".join(fabric.host_names()[host] for host in planned.point.hosts_of(program))
            when = f" after {program.start:g} s" if program.start else ""
            terminal.console.print(f"  {escape(name)} on {hosts}{when}: {escape(program.command)}", highlight=False)


def report(folder: Path, out: Path | None) -> None:
    """`gradwire report` of a run folder with runs of programs."""
    loaded = stored_programs(folder)
    results = judge_stored_programs(loaded, folder)
    with writing(out or folder):
        (out or folder).mkdir(parents=True, exist_ok=True)
        shown = report_programs(loaded, results, folder, out)
    terminal.console.print(shown)
    _name_files(out or folder)


def _name_files(folder: Path) -> None:
    names = {"report": "report.html", "chart": "chart.png", "rows": POINTS_FILE, "figures": FIGURES_FILE}
    terminal.name_files({what: folder / name for what, name in names.items() if (folder / name).exists()})

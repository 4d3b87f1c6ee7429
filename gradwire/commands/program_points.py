"""`gradwire run`, `plan` and `report` of scenarios of programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import typer
from rich.markup import escape

from gradwire.analysis.programs.report import FIGURES_FILE, POINTS_FILE
from gradwire.analysis.programs.results import ProgramResult
from gradwire.commands import terminal
from gradwire.commands.programs import ROOT_WARNING, warn_of_kernel
from gradwire.faults import InputFault
from gradwire.runner.compiling.processes import cores
from gradwire.runner.launch.kernel import make_kernel_ready
from gradwire.runner.launch.out_paths import refuse_unusable, writing
from gradwire.runner.programs.points.campaign import run_programs
from gradwire.runner.programs.points.planned import PlannedPrograms, plan_programs
from gradwire.runner.programs.points.reporting import judge_stored_programs, report_programs
from gradwire.runner.programs.size import capacity_warning
from gradwire.runner.proof import trial_on
from gradwire.runner.stored.lock import locked
from gradwire.runner.stored.place import place_for
from gradwire.runner.stored.provenance import note_start, typed_command
from gradwire.runner.stored.run_folder import RUNS, stored_programs, write_run_folder
from gradwire.vm.machines import Clock
from gradwire.workloads.programs.loading import ProgramScenario, load_programs
from gradwire.workloads.scenario.units import rate_text

RESUMES = "interrupted; what was complete is kept, and the same command goes on from there"


def run(scenario: Path, settings: Sequence[str], jobs: int | None, out: Path | None, clock: Clock) -> None:
    """`gradwire run` of a scenario of programs."""
    if clock.name != "virtual":
        raise InputFault("--clock wall: programs run on the virtual clock only; leave it out")
    loaded = load_programs(scenario, settings)
    place = place_for(loaded, clock, out)
    refuse_unusable(place.folder)
    if place.others:
        held = ", ".join(map(str, place.others))
        terminal.console.print(f"{held}: other settings ran there; this goes to {place.folder}", highlight=False)
    plan_programs(loaded.points, place.folder)  # refuses what cannot run before anything is written
    with terminal.interruptible(RESUMES):
        results = _carry_out(loaded, place.folder, jobs or cores())
    if not all(result.valid for result in results):
        raise typer.Exit(1)


def _carry_out(loaded: ProgramScenario, folder: Path, jobs: int) -> list[ProgramResult]:
    clock, command = Clock(), typed_command(sys.argv)
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, command))
            place_for(loaded, clock, folder)  # which another command may have taken since
            write_run_folder(folder, loaded.document, clock)
        _warn(loaded)
        make_kernel_ready(terminal.errors)
        warn_of_kernel()
        with writing(folder):
            note_start(folder, clock, command)
        planned = plan_programs(loaded.points, folder)
        with terminal.console.status(f"{len(planned)} points"):
            results = run_programs(planned, min(jobs, len(planned)), _tell, trial_on(clock))
        with writing(folder):
            shown = report_programs(loaded, results, folder)
    terminal.console.print(shown)
    _name_files(folder)
    return results


def _warn(loaded: ProgramScenario) -> None:
    warnings = [capacity_warning(point.fabric) for point in loaded.points]
    for warning in dict.fromkeys(filter(None, [*warnings, ROOT_WARNING if os.geteuid() == 0 else ""])):
        terminal.screen().warn(warning)


def _tell(point: PlannedPrograms, result: ProgramResult, reused: bool) -> None:
    """A line for a point that has ended."""
    if not result.valid:
        first_line, _, _ = result.verdict.summary.partition("\n")
        terminal.console.print(f"[red]✗[/red] {escape(point.label)}: {escape(first_line)}", highlight=False)
        return
    how = "already there" if reused else f"{result.wall_s:.0f} s of wall time"
    rows = f"{len(result.figures)} {'row' if len(result.figures) == 1 else 'rows'} of figures"
    terminal.console.print(
        f"[green]✓[/green] {escape(point.label)}: {result.duration_s or 0.0:.6f} s of virtual time, {rows} ({how})",
        highlight=False,
    )


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

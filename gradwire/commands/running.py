"""Commands that compile and run points: `plan`, `run`, `compare` and `reproduce`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import typer
from rich.markup import escape

from gradwire.analysis.compare import check_cells
from gradwire.analysis.papers import quick_score
from gradwire.analysis.papers.score import Evaluated
from gradwire.commands import machine, terminal
from gradwire.commands.out_paths import refuse_unusable, writing
from gradwire.commands.scenarios import scenario_path
from gradwire.faults import InputFault
from gradwire.runner.campaign import Campaign
from gradwire.runner.comparison import Question, plan_comparison
from gradwire.runner.expected_cost import Expectation, announcement, warnings
from gradwire.runner.judged import JudgedRun
from gradwire.runner.planned import PlannedRun, planning, scale_warning, virtual_clock
from gradwire.runner.proof import trial_on
from gradwire.runner.reporting import printed_cells, without_foreign_values, write_report
from gradwire.runner.reproduce import Reproduction, judge_claims, wanted_scenarios, write_reproduction
from gradwire.runner.stored.lock import locked
from gradwire.runner.stored.place import Place, place_for, take_over
from gradwire.runner.stored.provenance import note_start
from gradwire.runner.stored.run_folder import RUNS, write_run_folder
from gradwire.runner.terminal.listings import plan_lines, settings_lines, shared_settings
from gradwire.runner.terminal.progress import LiveProgress
from gradwire.vm.machines import Clock
from gradwire.workloads.lineup import contenders
from gradwire.workloads.scenario.loading import Scenario, load_scenario


def plan(scenario: Path, settings: Sequence[str]) -> None:
    """`gradwire plan`."""
    loaded = load_scenario(scenario_path(scenario), settings)
    runs: list[PlannedRun] = []
    shared = shared_settings(loaded.points)
    with terminal.interruptible("interrupted"):
        for planned in planning(loaded.points, RUNS / loaded.name, Clock()):
            heading = () if runs else settings_lines(shared, len(loaded.points))
            terminal.console.print(*heading, *plan_lines(planned, shared), sep="\n", highlight=False)
            runs.append(planned)
    _warn_of(runs)
    terminal.console.print(announcement(runs, _cores()), highlight=False)


def run(
    scenario: Path, settings: Sequence[str], jobs: int | None, out: Path | None, clock_name: str, scale: int
) -> None:
    """`gradwire run`."""
    clock = machine.chosen_clock(clock_name, scale)
    path = scenario_path(scenario)
    loaded = load_scenario(path, settings)
    if settings:
        loaded = without_foreign_values(loaded, load_scenario(path))
    clock = _virtual_clock(loaded) if clock.name == "virtual" else clock
    place = _usable_place(loaded, clock, out)
    check_cells([point.parameters for point in loaded.points], printed_cells(loaded))
    with terminal.interruptible("interrupted; nothing has run"):
        planned = _compiled(loaded, place.folder, clock)
    _run(loaded, planned, place, clock, jobs)


def compare(question: Question, strategies: Sequence[str], seeds: int, jobs: int | None, out: Path | None) -> None:
    """`gradwire compare`."""
    chosen = contenders(strategies)
    refuse_unusable(out or RUNS)
    loaded, planned = plan_comparison(question, chosen, seeds, out or RUNS / question.name)
    loaded = replace(loaded, settings=question.settings)
    clock = _virtual_clock(loaded)
    place = _usable_place(loaded, clock, out)
    _run(loaded, [run.moved_to(place.folder) for run in planned], place, clock, jobs)


def _virtual_clock(loaded: Scenario) -> Clock:
    """Returns the virtual clock at the scale that the scenario's networks need, and warns if that is not 1."""
    clock = virtual_clock(loaded.points)
    if clock.scale > 1:
        terminal.errors.print(f"WARNING: {scale_warning(loaded.points, clock)}")
    return clock


def _compiled(loaded: Scenario, folder: Path, clock: Clock) -> list[PlannedRun]:
    """The points ready to run, with a line that says how far it is."""
    planned: list[PlannedRun] = []
    with terminal.errors.status("compiling") as status:
        for run in planning(loaded.points, folder, clock):
            planned.append(run)
            status.update(f"compiling: {len(planned)} of {len(loaded.points)} points")
    return planned


def _warn_of(runs: Sequence[PlannedRun]) -> None:
    for warning in warnings(runs):
        terminal.errors.print(f"WARNING: {warning}", markup=False, highlight=False)


def _usable_place(loaded: Scenario, clock: Clock, out: Path | None) -> Place:
    """The run folder of a scenario, which can be written; says if it is not the one of the scenario's name."""
    place = place_for(loaded, clock, out)
    refuse_unusable(place.folder)
    if place.others:
        held = ", ".join(map(str, place.others))
        terminal.console.print(f"{held}: other settings ran there; this goes to {place.folder}", highlight=False)
    return place


def _run(loaded: Scenario, planned: list[PlannedRun], place: Place, clock: Clock, jobs: int | None) -> None:
    folder = place.folder
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder))
            place_for(loaded, clock, folder)  # which another command may have taken since
            write_run_folder(folder, loaded, clock)
        if clock.name == "virtual" and machine.make_kernel_ready():
            planned = [run.keyed_anew() for run in planned]
        with writing(folder):
            note_start(folder, clock, sys.argv)
            take_over(planned)
        parallel = 1 if clock.name == "wall" else min(jobs or _cores(), len(planned))
        to_run = [run for run in planned if not run.stored.is_of(run.key)]
        _warn_of(to_run)
        terminal.console.print(announcement(to_run, parallel), highlight=False)
        with _watched(len(planned), Expectation(to_run, parallel)) as progress:
            runs = Campaign(planned, folder, parallel, progress, trial_on(clock)).run()
        report_on(loaded, runs, folder)
    if not all(judged.result.valid for judged in runs):
        raise typer.Exit(1)


def report_on(scenario: Scenario, runs: Sequence[JudgedRun], folder: Path) -> None:
    """Writes and prints the report of runs, and names its files."""
    with writing(folder):
        shown = write_report(scenario, runs, folder)
    terminal.console.print(shown)
    terminal.name_files(
        {"report": folder / "report.html", "chart": folder / "chart.png", "rows": folder / "points.csv"}
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def _watched(points: int, expectation: Expectation | None = None) -> Iterator[LiveProgress]:
    message = "interrupted; what was complete is kept, and the same command goes on from there"
    with terminal.interruptible(message), LiveProgress(terminal.console, points, expectation) as progress:
        yield progress


def reproduce(
    names: Sequence[str], jobs: int | None, out: Path | None, *, quick: bool, check: bool, accept: bool
) -> None:
    """`gradwire reproduce`."""
    if (check or accept) and (names or not quick):
        raise InputFault("--check and --accept compare the whole quick score: give --quick, and no names")
    scenarios = wanted_scenarios(names, quick=quick)
    folder = out or RUNS / "-".join(["reproduction", *(["quick"] if quick else []), *names])
    parallel = jobs or _cores()
    reproduction = Reproduction([scenario for _, scenario in scenarios], quick=quick)
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder))
        machine.make_kernel_ready()
        with _watched(reproduction.points) as progress:
            gathered = reproduction.gather(parallel, progress, trial_on(Clock()))
        evaluated = judge_claims(scenarios, gathered, quick=quick)
        with writing(folder):
            reproduction.write_run_folders(gathered, folder / "runs")
            shown = write_reproduction(folder, evaluated, gathered, parallel)
    terminal.console.print(shown)
    files = {"report": "report.html", "claims": "claims.csv", "table": "reproduction.md"}
    terminal.name_files({what: folder / name for what, name in files.items()})
    if gathered.failed or not _quick_score_kept(evaluated, check=check, accept=accept):
        raise typer.Exit(1)


def _quick_score_kept(evaluated: Sequence[Evaluated], *, check: bool, accept: bool) -> bool:
    """Keeps or compares the quick score, as asked. Returns False if a claim that held no longer does."""
    results = [result for scenario in evaluated for result in scenario.results]
    if accept:
        quick_score.keep(results)
    if not check:
        return True
    change = quick_score.compare(results)
    for line in change.lost:
        terminal.errors.print(f"[red]no longer holds[/red]: {escape(line)}", highlight=False)
    if change.gained:
        terminal.console.print(f"new: {', '.join(change.gained)}; `--accept` keeps them", highlight=False)
    return not change.lost

"""Commands that compile and run points: `plan`, `run`, `compare` and `reproduce`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.markup import escape

from gradwire.analysis.papers import quick_score
from gradwire.analysis.papers.pages.files import earlier_pages, write_pages
from gradwire.analysis.papers.reference import PAPERS
from gradwire.analysis.papers.score import Evaluated
from gradwire.commands import drawing, machine, program_points, terminal
from gradwire.faults import InputFault
from gradwire.runner.comparing.questions import Asked
from gradwire.runner.compiling.processes import cores
from gradwire.runner.executing.choice import Where
from gradwire.runner.expected_cost import announcement, warnings
from gradwire.runner.launch.execution import carry_out
from gradwire.runner.launch.kernel import make_kernel_ready
from gradwire.runner.launch.out_paths import writing
from gradwire.runner.launch.preparation import Prepared, loaded, prepare, prepare_comparison
from gradwire.runner.launch.programs import refuse_elsewhere
from gradwire.runner.launch.scenario_files import scenario_path
from gradwire.runner.planned import PlannedRun, planning
from gradwire.runner.proof import trial_on
from gradwire.runner.reproduce import (
    Reproduction,
    judge_claims,
    reproduced_papers,
    wanted_scenarios,
    write_reproduction,
)
from gradwire.runner.stored.lock import locked
from gradwire.runner.stored.provenance import typed_command
from gradwire.runner.stored.run_folder import RUNS
from gradwire.runner.terminal.listings import plan_lines, settings_lines, shared_settings
from gradwire.runner.terminal.progress import LiveProgress
from gradwire.vm.machines import Clock
from gradwire.workloads.compilation import ResolvedPoint
from gradwire.workloads.programs.loading import load_programs
from gradwire.workloads.scenario.loading import load_scenario
from gradwire.workloads.scenario.reading import has_programs, read_document

RESUMES = "interrupted; what was complete is kept, and the same command goes on from there"


def plan(scenario: Path, settings: Sequence[str], draw: Path | None = None) -> None:
    """`gradwire plan`."""
    file = scenario_path(scenario)
    if draw is not None:
        drawing.refuse_other_kinds(draw)
    if has_programs(read_document(file)):
        program_points.plan(file, settings)
        if draw is not None:
            drawing.draw(draw, [point.fabric for point in load_programs(file, settings).points])
        return
    found = load_scenario(file, settings)
    runs: list[PlannedRun] = []
    shared = shared_settings(found.points)
    with terminal.interruptible("interrupted"):
        for planned in planning(found.points, RUNS / found.name, Clock(), cores()):
            heading = () if runs else settings_lines(shared, len(found.points))
            terminal.console.print(*heading, *plan_lines(planned, shared), sep="\n", highlight=False)
            runs.append(planned)
    for warning in warnings(runs):
        terminal.screen().warn(warning)
    terminal.console.print(announcement(runs, cores()), highlight=False)
    if draw is not None:
        drawing.draw(draw, [ResolvedPoint(point.section).fabric for point in found.points])


def run(
    scenario: Path, settings: Sequence[str], where: Where, out: Path | None, clock_name: str, scale: int | None
) -> None:
    """`gradwire run`."""
    clock = machine.chosen_clock(clock_name, scale)
    where.refuse_what_cannot_be(clock)
    file = scenario_path(scenario)
    if has_programs(read_document(file)):
        refuse_elsewhere(where)
        program_points.run(file, settings, where.jobs, out, clock)
        return
    with terminal.interruptible("interrupted; nothing has run"):
        scenario_read = loaded(file, settings)
        where.refuse_what_cannot_be(clock, scenario_read.points)
        prepared = prepare(scenario_read, clock, out, terminal.screen())
    _run(prepared, where)


def compare(
    question: Asked,
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
    _run(prepared, where)


def _run(prepared: Prepared, where: Where) -> None:
    with terminal.interruptible(RESUMES):
        done = carry_out(prepared, where, typed_command(sys.argv), terminal.screen())
    terminal.show_report(done.shown, prepared.place.folder)
    if not all(judged.result.valid for judged in done.runs):
        raise typer.Exit(1)


@dataclass(frozen=True)
class Pages:
    """What `gradwire reproduce` writes beside its run folder; None: not asked for."""

    folder: Path | None = None
    #: Pages to tell what moved since.
    moved_from: Path | None = None


def reproduce(
    names: Sequence[str], where: Where, out: Path | None, pages: Pages, *, quick: bool, check: bool, accept: bool
) -> None:
    """`gradwire reproduce`."""
    if pages.folder and (quick or set(names) - set(PAPERS)):
        raise InputFault(
            f"--pages writes whole papers: give no names but those of papers ({', '.join(PAPERS)}), and no --quick"
        )
    if pages.moved_from and not pages.folder:
        raise InputFault("--moved-from says what the pages of --pages are compared with: give --pages as well")
    if pages.moved_from:
        for paper in names or PAPERS:
            earlier_pages(pages.moved_from, paper)
    if (check or accept) and (names or not quick):
        raise InputFault("--check and --accept compare the whole quick score: give --quick, and no names")
    scenarios = wanted_scenarios(names, quick=quick)
    folder = out or RUNS / "-".join(["reproduction", *(["quick"] if quick else []), *names])
    where.refuse_what_cannot_be(Clock())
    reproduction = Reproduction([scenario for _, scenario in scenarios], quick=quick)
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, typed_command(sys.argv)))
        make_kernel_ready(terminal.errors)
        with (
            terminal.interruptible(RESUMES),
            where.opened(Clock(), trial_on(Clock()), terminal.screen().warn, reproduction.points) as executor,
            LiveProgress(terminal.console, reproduction.points) as progress,
        ):
            gathered = reproduction.gather(executor, progress)
        evaluated = judge_claims(scenarios, gathered, quick=quick)
        with writing(folder):
            reproduction.write_run_folders(gathered, folder / "runs")
            papers = reproduced_papers(evaluated, gathered)
            shown = write_reproduction(folder, papers)
    if pages.folder:
        with writing(pages.folder):
            write_pages(pages.folder, papers, pages.moved_from)
    terminal.console.print(shown)
    files = {"report": "report.html", "claims": "claims.csv", "pages": "reproduction.md"}
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

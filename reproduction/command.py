"""`gradwire reproduce`, which gradwire/cli/reproducing.py hands over: runs, judges and reports what is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

import typer
from rich.markup import escape

from gradwire.cli import terminal
from gradwire.cli.reproducing import ReproduceOptions
from gradwire.console.live_progress import LiveProgress
from gradwire.faults import InputFault
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.machine_trial import trial_on
from gradwire.runs.launch.place import refuse_unusable, writing
from gradwire.runs.stored.provenance import typed_command
from gradwire.runs.stored.run_folder import RUNS, locked
from gradwire.vm.machines import Clock
from reproduction.gathering import (
    Reproduction,
    judge_claims,
    reproduced_papers,
    wanted_scenarios,
    write_reproduction,
)
from reproduction.pages.files import earlier_pages, write_pages
from reproduction.scoring import quick_score
from reproduction.scoring.reference import PAPERS, choose_scenarios, load_papers
from reproduction.scoring.score import Evaluated
from reproduction.world.command import WORLD, is_of_world, list_sources, reproduce_world


def list_scenarios(names: Sequence[str]) -> None:
    """`gradwire reproduce --list`: the names that can be given, with their titles. Raises InputFault for an unknown
    name."""
    of_world = [name for name in names if is_of_world(name)]
    if of_world or not names:
        list_sources(of_world or [WORLD])
    if of_world and len(of_world) == len(names):
        return
    names = [name for name in names if not is_of_world(name)]
    paper_title = ""
    for paper, scenario in choose_scenarios(load_papers(), names):
        if paper.title != paper_title:
            paper_title = paper.title
            terminal.console.print(f"{paper.paper}: {paper_title}", markup=False, highlight=False, soft_wrap=True)
        terminal.console.print(f"  {scenario.id}: {scenario.title}", markup=False, highlight=False, soft_wrap=True)


def reproduce(asked: ReproduceOptions, where: Where) -> None:
    """`gradwire reproduce`. Raises InputFault for what cannot be."""
    names, quick, pages, moved_from = asked.names, asked.quick, asked.pages, asked.moved_from
    if pages:
        refuse_unusable(pages, "--pages")
    of_world = [name for name in names if is_of_world(name)]
    if of_world:
        if len(of_world) < len(names) or quick or asked.check or asked.accept or moved_from:
            raise InputFault(
                f"{of_world[0]}: printed measurements run alone: give no papers, --quick, --check, --accept or --moved-from"
            )
        reproduce_world(of_world, where, asked.out, pages, asked.python)
        return
    if asked.python:
        raise InputFault("--python: is for printed measurements of real programs: give world, or leave it out")
    if pages and (quick or set(names) - set(PAPERS)):
        raise InputFault(
            f"--pages writes whole papers: give no names but those of papers ({', '.join(PAPERS)}), and no --quick"
        )
    if moved_from and not pages:
        raise InputFault("--moved-from says what the pages of --pages are compared with: give --pages as well")
    if moved_from:
        for paper in names or PAPERS:
            earlier_pages(moved_from, paper)
    if (asked.check or asked.accept) and (names or not quick):
        raise InputFault("--check and --accept compare the whole quick score: give --quick, and no names")
    scenarios = wanted_scenarios(names, quick=quick)
    folder = asked.out or RUNS / "-".join(["reproduction", *(["quick"] if quick else []), *names])
    where.refuse_what_cannot_be(Clock())
    reproduction = Reproduction([scenario for _, scenario in scenarios], quick=quick)
    counted = "1 scenario" if len(scenarios) == 1 else f"{len(scenarios)} scenarios"
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, typed_command(sys.argv)))
        terminal.console.print(
            f"{counted} with {reproduction.points} points; those that the store of runs has are not run again",
            highlight=False,
            soft_wrap=True,
        )
        make_kernel_ready(terminal.screen())
        with (
            terminal.interruptible(terminal.RESUMES),
            where.opened(Clock(), trial_on(Clock()), terminal.screen().warn, reproduction.points) as executor,
            LiveProgress(terminal.console, reproduction.points) as progress,
        ):
            gathered = reproduction.gather(executor, progress)
        evaluated = judge_claims(scenarios, gathered, quick=quick)
        with writing(folder):
            reproduction.write_run_folders(gathered, folder / "runs")
            papers = reproduced_papers(evaluated, gathered)
            shown = write_reproduction(folder, papers)
    if pages:
        with writing(pages):
            write_pages(pages, papers, moved_from)
    terminal.show(*shown)
    files = {"report": "report.html", "claims": "claims.csv", "pages": "reproduction.md"}
    terminal.name_files({what: folder / name for what, name in files.items()})
    if gathered.failed or not _quick_score_kept(evaluated, check=asked.check, accept=asked.accept):
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

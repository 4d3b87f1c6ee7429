"""`gradwire reproduce world`: predicts the rows of the sources asked for, scores them, and writes page, chart and
table."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer

from gradwire.cli import terminal
from gradwire.console.live_progress import LiveProgress
from gradwire.faults import InputFault
from gradwire.files import replace_text
from gradwire.nearest_names import question
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.executing.executor import Executor
from gradwire.runs.executing.executor_choice import LOCAL, Where
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.machine_trial import trial_on
from gradwire.runs.launch.place import writing
from gradwire.runs.stored.provenance import typed_command
from gradwire.runs.stored.run_folder import RUNS, locked
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import Clock
from reproduction.world.cells import By, Called, Cell, Planned, Programs, Row, Source, load_given, with_further
from reproduction.world.chart import error_chart
from reproduction.world.page import CHART, score_table, summary, world_page
from reproduction.world.predicting import Predicted, Predictions
from reproduction.world.running_programs import refuse_unfit, run_programs
from reproduction.world.scored import ScoredRow, Status, misses, read_rows, score_row, scores, write_rows
from reproduction.world.sources import SOURCES

WORLD = "world"
PROGRAMS = f"{WORLD}-programs"
"""All rows that are of real programs, and no others."""
MANY = 5
"""So many sources are counted where fewer are named."""
PAGES = "reproduction"
"""Folder of the papers' pages, below the one that --pages names."""


def names_of_world() -> list[str]:
    """What `gradwire reproduce` takes: all sources, one of them, or all rows of programs."""
    return [WORLD, *(f"{WORLD}-{source.name}" for source in SOURCES), PROGRAMS]


def is_of_world(name: str) -> bool:
    """Whether a name means printed measurements, and not a paper."""
    return name == WORLD or name.startswith(f"{WORLD}-")


def chosen_sources(names: Sequence[str]) -> list[Source]:
    """The sources that names mean, each once. Raises InputFault for an unknown name."""
    for name in names:
        if name not in names_of_world():
            meant = question(name, names_of_world())
            hint = f"; {meant}" if meant else "."
            raise InputFault(f"{name}: no such source{hint} `gradwire reproduce --list world` lists all")
    return [source for source in SOURCES if {WORLD, f"{WORLD}-{source.name}"} & set(names)]


def chosen_cells(names: Sequence[str], given: Sequence[Row]) -> dict[Row, Cell]:
    """The rows that names mean, with their cells. Raises InputFault for an unknown name."""
    whole = chosen_sources(names)
    every = [(source, row, source.cell(row)) for source in SOURCES for row in with_further(source, given)]
    return {
        row: cell
        for source, row, cell in every
        if source in whole or (PROGRAMS in names and isinstance(cell.planned, Programs) and cell.planned.needs_torch)
    }


def list_sources(names: Sequence[str]) -> None:
    """`gradwire reproduce --list world`. Raises InputFault for an unknown name."""
    given = load_given()
    terminal.console.print(f"{WORLD}: printed measurements of real hardware", markup=False, highlight=False)
    for source in chosen_sources(names):
        count = sum(row.source == source.name for row in given)
        terminal.console.print(
            f"  {WORLD}-{source.name}: {source.title} ({count} printed values)",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if {WORLD, PROGRAMS} & set(names):
        count = sum(
            isinstance(cell.planned, Programs) for row, cell in chosen_cells([PROGRAMS], given).items() if row.printed
        )
        terminal.console.print(
            f"  {PROGRAMS}: rows of real programs, with --python ({count} printed values)",
            markup=False,
            highlight=False,
        )


def reproduce_world(
    names: Sequence[str], where: Where, out: Path | None, pages: Path | None, python: Path | None = None
) -> None:
    """Predicts and scores the sources that `names` mean. With `pages`, the page keeps what it has of the others, and of
    programs that have not run now.

    python: one that has PyTorch; without it, rows of programs are not run. Raises InputFault for an unknown name, or
    another Python; typer.Exit with status 1 if a run is invalid.
    """
    cells = chosen_cells(names, load_given())
    python = refuse_unfit(python) if python else None
    if PROGRAMS in names and python is None:
        raise InputFault(f"{PROGRAMS}: runs real programs: give --python, a Python that has PyTorch")
    folder = out or RUNS / "-".join(["reproduction", *names])
    where.refuse_what_cannot_be(Clock())
    _say(f"predicting {sum(row.printed is not None for row in cells)} printed values of {_listed_sources(cells)}")
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, typed_command(sys.argv)))
        make_kernel_ready(terminal.screen())
        rows = predict(cells, where, python)
        with writing(folder):
            write_world(folder, rows, facts())
    if pages:
        with writing(pages):
            write_world(pages / PAGES, merged(pages / PAGES / f"{WORLD}.csv", rows), facts())
    terminal.show(score_table(scores(rows)))
    for line in summary(rows, SOURCES):
        terminal.console.print(line, markup=False, highlight=False, soft_wrap=True)
    terminal.name_files({"page": folder / f"{WORLD}.md", "rows": folder / f"{WORLD}.csv"})
    if any(row.status is Status.INVALID for row in rows):
        raise typer.Exit(1)


def predict(cells: Mapping[Row, Cell], where: Where, python: Path | None = None) -> list[ScoredRow]:
    """Runs what the cells need, then what may explain the errors that are left, then programs if there is a Python."""
    whole = [cell.planned for cell in cells.values()]
    of_series = [what_if.planned for cell in cells.values() for what_if in cell.what_ifs if what_if.of_series]
    first = [planned for planned in (*whole, *of_series) if isinstance(planned, Planned)]
    every: dict[Planned | Programs | Called, Predicted] = dict(_of_plans(first, cells, where).items()) if first else {}
    explaining = [what_if.planned for cell in cells.values() for what_if in cell.what_ifs]
    every |= {called: Predicted(*called.predicted()) for called in (*whole, *explaining) if isinstance(called, Called)}
    programs = [
        (row, cell.planned)
        for row, cell in cells.items()
        if isinstance(cell.planned, Programs) and (python or not cell.planned.needs_torch)
    ]
    given = [planned for row, planned in programs if row.printed is not None]
    further = [planned for row, planned in programs if row.printed is None]
    with terminal.interruptible(terminal.RESUMES):
        for wanted in (given, further):
            every |= dict(run_programs(wanted, python, where.jobs, typed_command(sys.argv), terminal.screen()).items())
    return [score_row(row, cell, every) for row, cell in cells.items()]


def _of_plans(first: Sequence[Planned], cells: Mapping[Row, Cell], where: Where) -> dict[Planned, Predicted]:
    predictions = Predictions(first)
    with (
        terminal.interruptible(terminal.RESUMES),
        where.opened(Clock(), trial_on(Clock()), terminal.screen().warn, max(1, predictions.points)) as executor,
    ):
        found = _gathered(predictions, first, executor, where)
        second = [
            what_if.planned
            for row, cell in cells.items()
            if isinstance(cell.planned, Planned) and misses(found[cell.planned].value, row.printed)
            for what_if in cell.what_ifs
            if isinstance(what_if.planned, Planned) and what_if.planned not in found
        ]
        if second:
            found |= _gathered(Predictions(second), second, executor, where, "to explain what is off: ")
    return found


def _say(text: str) -> None:
    """A line for those who wait, on a terminal or not: the first point may take minutes."""
    terminal.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _listed_sources(cells: Mapping[Row, Cell]) -> str:
    names = list(dict.fromkeys(row.source for row in cells))
    return ", ".join(names) if len(names) < MANY else f"{len(names)} sources"


def _gathered(
    predictions: Predictions, wanted: Sequence[Planned], executor: Executor, where: Where, why: str = ""
) -> dict[Planned, Predicted]:
    _say(
        f"{why}{predictions.points} scenarios by packets and {predictions.estimates} by estimate; those that the store "
        "of runs has are not run again"
    )
    # Dask's client has threads, next to which no process may be forked.
    predictions.estimate((where.jobs or cores()) if where.executor == LOCAL else 1)
    with LiveProgress(terminal.console, predictions.points) as progress:
        predictions.gather(executor, progress)
    return {planned: predictions.of(planned) for planned in wanted}


def merged(kept: Path, rows: Sequence[ScoredRow]) -> list[ScoredRow]:
    """The rows of all sources in their order: those that are new, and those of an earlier page that were not asked for,
    or are of programs that have not run now."""
    found = {(row.source, row.what, row.setting): row for row in (read_rows(kept) if kept.exists() else [])}
    for row in rows:
        name = (row.source, row.what, row.setting)
        if row.status is not Status.NOT_RUN or name not in found or found[name].by != By.PROGRAMS:
            found[name] = row
    given = load_given()
    names = [row.name for source in SOURCES for row in with_further(source, given)]
    return [found[name] for name in names if name in found]


def facts() -> list[str]:
    """Date and versions."""
    kernel = cached_kernel()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("gradwire", "numpy"))
    return [
        f"{datetime.now(UTC):%Y-%m-%d}, {kernel.name if kernel else 'no kernel'}, {versions}, "
        f"Python {platform.python_version()}"
    ]


def write_world(folder: Path, rows: Sequence[ScoredRow], told: Sequence[str]) -> None:
    """Writes world.md, world.csv, world.json and the error chart into `folder`."""
    (folder / WORLD).mkdir(parents=True, exist_ok=True)
    write_rows(folder / f"{WORLD}.csv", rows)
    # The page and the chart say what the table says, to its digits.
    rows = read_rows(folder / f"{WORLD}.csv")
    replace_text(folder / f"{WORLD}.md", world_page(rows, SOURCES, told))
    replace_text(folder / WORLD / CHART, error_chart(rows))
    document = {
        "facts": list(told),
        "scores": [asdict(score) for score in scores(rows)],
        "rows": [{**asdict(row), "error": row.error, "series_error": row.series_error} for row in rows],
    }
    replace_text(folder / f"{WORLD}.json", json.dumps(document, indent=1) + "\n")

"""`gradwire map`: estimates the fastest strategy over two keys of a scenario."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradwire.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradwire.analysis.winners.measured import MeasuredCell
    from gradwire.analysis.winners.winner_map import WinnerMap

LINES = 10
"""Number of lines that report the progress of estimates if there is no terminal."""
Source = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        readable=False,
        help="scenario file (TOML), or the name of one in scenarios/; it sweeps strategies and nothing else",
    ),
]
Over = Annotated[
    list[str],
    typer.Option(
        help="an axis, given twice: KEY=A..B, KEY=A..B:STEPS, KEY=A..B:STEPS:linear (or :log), or KEY=A,B,C; e.g. "
        "fabric.rate=1gbit..800gbit:20"
    ),
]
Strategies = Annotated[
    str | None, typer.Option(help="strategies, with commas between them; default: those that the scenario sweeps")
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="key=value of the scenario; may be given again")]
Measure = Annotated[
    int,
    typer.Option(
        min=0, help="number of cells that are also run: half of them near borders, the others drawn by --seed"
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="draws the cells to measure that are not near a border")]
Tie = Annotated[
    str, typer.Option(help="a winner that is not faster than the next by more than this share is level with it")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="processes, and runs at once; default: one per core")]
Out = Annotated[Path | None, typer.Option(readable=False, help="folder of the map; default: runs/SCENARIO-map")]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command(name="map")
    def draw_map(
        scenario: Source,
        over: Over,
        strategies: Strategies = None,
        settings: Settings = None,
        measure: Measure = 0,
        seed: Seed = 1,
        tie: Tie = "1%",
        jobs: Jobs = None,
        out: Out = None,
    ) -> None:
        """Maps which strategy wins where over two keys of a scenario, by estimates, and measures some of its cells."""
        from gradwire.analysis.winners.measured import choose_cells
        from gradwire.faults import InputFault
        from gradwire.runs.compiling.many_points import cores
        from gradwire.runs.executing.executor_choice import Where
        from gradwire.runs.launch.place import refuse_run_folder, writing
        from gradwire.runs.mapping.axes import parse_axes
        from gradwire.runs.mapping.cells import MEASURED, estimate_map, measure_cells
        from gradwire.runs.mapping.grid import grid_of
        from gradwire.runs.mapping.map_files import write_map
        from gradwire.runs.stored.provenance import typed_command
        from gradwire.runs.stored.run_folder import RUNS
        from gradwire.workloads.units import SHARE

        try:
            share = SHARE.parse(tie)
        except ValueError as error:
            raise InputFault(f"--tie {tie}: {error}") from error
        names = [name.strip() for name in (strategies or "").split(",") if name.strip()]
        grid = grid_of(scenario, parse_axes(over), settings or [], names)
        folder = out or RUNS / f"{grid.name}-map"
        refuse_run_folder(folder)
        begun_s = time.perf_counter()
        with terminal.interruptible("interrupted; nothing was written"):
            winner_map = estimate_map(grid, jobs or cores(), share, _Progress())
        took_s = time.perf_counter() - begun_s
        with writing(folder):
            files = write_map(folder, winner_map)
        _show(winner_map, took_s)
        if chosen := choose_cells(winner_map, measure, seed):
            with terminal.interruptible(terminal.RESUMES):
                where, beside = Where(jobs, "local", None), out and out / MEASURED
                cells, runs = measure_cells(grid, chosen, beside, where, typed_command(sys.argv), terminal.screen())
            with writing(folder):
                files = write_map(folder, winner_map, cells, str(runs))
            _show_measured(winner_map, cells)
            files["measured runs"] = runs
        terminal.name_files(files)


class _Progress:
    """Says how many points are estimated: on one line of a terminal, else in LINES lines. It has no thread, since
    processes are forked while it is shown."""

    def __init__(self) -> None:
        self._said = ("", -1)

    def __call__(self, what: str, done: int, of: int) -> None:
        """Reports that `done` of `of` points are done."""
        words = f"{what}: {done} of {of} points"
        if sys.stderr.isatty():
            end = "\r\x1b[K" if done == of else ""
            print(f"\r\x1b[K{words}{end}", end="", file=sys.stderr, flush=True)
        elif (said := (what, done * LINES // of)) != self._said:
            self._said = said
            print(words, file=sys.stderr, flush=True)


def _show(winner_map: WinnerMap, took_s: float) -> None:
    from gradwire.analysis.winners.words import conclusion, rows_table

    for warning in winner_map.warnings:
        terminal.screen().warn(warning)
    terminal.console.print(winner_map.title, markup=False, highlight=False)
    terminal.show(rows_table(winner_map))
    terminal.console.print(f"{conclusion(winner_map)} Estimates took {took_s:.1f} s.", markup=False, highlight=False)


def _show_measured(winner_map: WinnerMap, cells: Sequence[MeasuredCell]) -> None:
    from gradwire.analysis.winners.measured import summary
    from gradwire.analysis.winners.page import measured_table

    terminal.show(measured_table(winner_map, cells))
    terminal.console.print(summary(winner_map, cells), markup=False, highlight=False)

"""`gradwire.map`: the winner among strategies over two keys of a scenario. It is a separate module, because the fluid
engine's machine code takes a while to load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from gradwire.analysis.winners.chart import map_chart
from gradwire.analysis.winners.measured import MeasuredCell, choose_cells, summary
from gradwire.analysis.winners.winner_map import TIE, WinnerMap
from gradwire.analysis.winners.words import conclusion, crossings_table
from gradwire.api.drawing import ShownFigure
from gradwire.api.running import Scenario, Settings, own_screen, settings_of, source_of
from gradwire.faults import InputFault
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.launch.place import refuse_unusable, writing
from gradwire.runs.mapping.axes import parse_axes
from gradwire.runs.mapping.cells import MEASURED, estimate_map, measure_cells
from gradwire.runs.mapping.grid import grid_of
from gradwire.runs.mapping.map_files import cells_frame, write_map

Over = Mapping[str, str | Sequence[object]] | Sequence[str]


@dataclass(frozen=True)
class Map:
    """A map of the strategies that win each cell of a grid."""

    winner_map: WinnerMap = field(repr=False)
    measured: tuple[MeasuredCell, ...] = field(default=(), repr=False)
    #: The run folder of the measured cells; None if none was measured.
    runs: Path | None = None

    @property
    def conclusion(self) -> str:
        """Number of cells that each strategy wins and its lead, and the number of measured cells that agree."""
        return " ".join(filter(None, (conclusion(self.winner_map), summary(self.winner_map, self.measured))))

    @property
    def cells(self) -> pd.DataFrame:
        """One row per cell and strategy, with the columns of map.csv."""
        return cells_frame(self.winner_map, self.measured)

    @property
    def borders(self) -> pd.DataFrame:
        """Places where the winner changes along each axis: at, from, to, and the interpolated value (`changes
        at`)."""
        table = crossings_table(self.winner_map)
        return pd.DataFrame(table.rows, columns=list(table.headers))

    def plot(self) -> Figure:
        """The chart for papers, which a notebook shows."""
        return map_chart(self.winner_map, self.measured, ShownFigure)

    def save(self, folder: str | os.PathLike[str]) -> dict[str, Path]:
        """Writes map.html, map.png, map.svg, map.csv and map.json to a folder; their paths by what they are.

        Raises InputFault if it cannot be written.
        """
        place = Path(folder)
        refuse_unusable(place)
        with writing(place):
            return write_map(place, self.winner_map, self.measured, str(self.runs or ""))


def map(  # noqa: A001 (it is used as gradwire.map)
    scenario: Scenario,
    *,
    over: Over,
    strategies: Sequence[str] = (),
    set: Settings = (),  # noqa: A002 (the option's name on the command line)
    measure: int = 0,
    seed: int = 1,
    tie: float = TIE,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> Map:
    """Estimates a scenario's strategies over two of its keys, and runs some of the cells by packets.

    over: the two axes, as `--over` takes them: {"fabric.rate": "1gbit..100gbit:14", "cluster.workers": [2, 4, 8]}, or two
    texts. strategies: names; by default those that the scenario sweeps. measure: so many cells are also run, half of them
    near borders and the others drawn by `seed`. tie: the share by which a winner has to be ahead. out: the run folder of
    the measured cells, if it is not to be chosen in runs/. jobs: processes side by side; they are forked, which is why a
    notebook, which has threads, begins with one. progress: whether to print each measured point. Otherwise as
    `gradwire.run`. Raises InputFault for what is wrong in the scenario or an axis, and MachineFault.
    """
    if jobs < 1:
        raise InputFault(f"jobs = {jobs}: must be at least 1")
    if not 0 <= tie < 1:
        raise InputFault(f"tie = {tie}: must be a share from 0 to 1")
    grid = grid_of(source_of(scenario), parse_axes(_axes(over)), settings_of(set), list(strategies))
    found = estimate_map(grid, jobs, tie)
    if not (chosen := choose_cells(found, measure, seed)):
        return Map(found)
    folder = None if out is None else Path(out) / MEASURED
    said = f"gradwire.map({'...' if isinstance(scenario, Mapping) else repr(os.fspath(scenario))}, over={over!r}, ...)"
    cells, runs = measure_cells(grid, chosen, folder, Where(jobs, "local", None), said, own_screen(progress))
    return Map(found, tuple(cells), runs)


def _axes(over: Over) -> list[str]:
    """Axes as `--over` takes them. Raises InputFault."""
    if isinstance(over, str):
        raise InputFault(
            f"over={over!r}: give two axes, like {{'fabric.rate': '1gbit..100gbit', 'cluster.workers': [2, 4]}}"
        )
    if not isinstance(over, Mapping):
        return list(over)
    return [
        f"{key}={values if isinstance(values, str) else ','.join(str(each) for each in values)}"
        for key, values in over.items()
    ]

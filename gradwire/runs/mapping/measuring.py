"""Cells of a map that are run by packets: an ordinary run folder of the chosen cells' points."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

from gradwire.analysis.winners.measured import ChosenCell, MeasuredCell
from gradwire.runs.executing.choice import Where
from gradwire.runs.launch.execution import carry_out
from gradwire.runs.launch.preparation import prepare
from gradwire.runs.mapping.grid import Grid
from gradwire.runs.screen import Screen
from gradwire.scenario.loading import Scenario, resolve
from gradwire.vm.machines import Clock

MEASURED = "measured"
"""The run folder in a folder that `--out` names."""


def scenario_of_cells(grid: Grid, chosen: Sequence[ChosenCell]) -> Scenario:
    """The scenario of the chosen cells: a case each, with the strategies that are worth measuring there."""
    document = copy.deepcopy(dict(grid.document))
    document["title"] = f"{grid.title}: cells of a map"
    document["strategy"] = dict(grid.strategies[chosen[0].strategies[0]])
    document["cases"] = [grid.cases_at(cell.place, cell.strategies) for cell in chosen]
    return resolve(document, grid.origin, f"{grid.name}-map-cells")


def measure_cells(
    grid: Grid, chosen: Sequence[ChosenCell], out: Path | None, where: Where, command: str, screen: Screen
) -> tuple[list[MeasuredCell], Path]:
    """Runs the chosen cells' points that are not there yet, and their run folder: `out`, or one in runs/.

    Raises Fault for what concerns all points; what goes wrong with one is its verdict. After Ctrl-C, the same call
    continues from there.
    """
    prepared = prepare(scenario_of_cells(grid, chosen), Clock(), out, screen)
    runs = iter(carry_out(prepared, where, command, screen).runs)
    cells = []
    for cell in chosen:
        of_cell = {name: next(runs) for name in cell.strategies}
        times_s = {name: run.result.iteration_time_s for name, run in of_cell.items() if run.valid}
        invalid = {name: run.verdict.summary.partition("\n")[0] for name, run in of_cell.items() if not run.valid}
        cells.append(MeasuredCell(cell, times_s, invalid))
    return cells, prepared.place.folder

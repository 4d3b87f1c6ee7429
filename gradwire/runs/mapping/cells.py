"""The cells of a map: all of them estimated, side by side in processes, and the chosen ones run by packets, in an
ordinary run folder of their points."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gradwire.analysis.winners.measured import ChosenCell, MeasuredCell
from gradwire.analysis.winners.winner_map import TIE, Place, Time, WinnerMap
from gradwire.faults import InputFault
from gradwire.runs.compiling.many_points import sharing_key, side_by_side
from gradwire.runs.estimation import without_effect
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.launch.scenario_run import Prepared, carry_out, prepare, refused_points
from gradwire.runs.mapping.along_rates import MapTime, RatePoint, full_times, times_along
from gradwire.runs.mapping.closer import Row, Slot, deciding, fill_queues
from gradwire.runs.mapping.grid import Grid
from gradwire.runs.screen import Screen
from gradwire.runs.stored.run_folder import RUNS
from gradwire.scenario.loading import Point, Scenario, resolve
from gradwire.vm.machines import Clock

OnDone = Callable[[str, int, int], None]
Full = Callable[[list[RatePoint]], list[MapTime | str]]
MEASURED = "measured"
"""The run folder in a folder that `--out` names."""


def estimate_map(
    grid: Grid, jobs: int, tie: float = TIE, on_done: OnDone = lambda _what, _done, _of: None
) -> WinnerMap:
    """The map of a grid by the fluid engine, in up to `jobs` processes; `on_done` is called with the present stage, the
    number of its points that are done, and the number of all. Raises InputFault if no strategy can run anywhere."""
    slots: dict[Slot, Point] = {
        (place, name): point for place, points in grid.points.items() for name, point in points.items()
    }
    rows = _rows(slots)
    found: dict[Slot, MapTime | str] = {}
    on_done("estimating", 0, len(slots))
    # The first one is estimated here: processes that are forked afterwards have the engine's machine code.
    along = partial(times_along, origin=grid.origin)
    parts = [[slots[slot] for slot in row] for row in rows]
    for row, results in zip(rows, _first_here(along, parts, jobs), strict=True):
        found |= zip(row, results, strict=True)
        on_done("estimating", len(found), len(slots))
    if all(isinstance(result, str) for result in found.values()):
        reasons = dict.fromkeys([*map(str, found.values()), *grid.impossible.values()])
        raise InputFault(f"{grid.origin}: no strategy can run in any cell: {'; '.join(list(reasons)[:3])}")
    full = partial(full_times, origin=grid.origin)
    _look_closer(slots, deciding(rows, found, tie), found, full, jobs, on_done)
    fill_queues(rows, found)
    return _as_map(grid, slots, found, tie)


def _look_closer(
    slots: Mapping[Slot, Point],
    asked: Sequence[Row],
    found: dict[Slot, MapTime | str],
    full: Full,
    jobs: int,
    on_done: OnDone,
) -> None:
    """Estimates the requested points in full."""
    parts = [[RatePoint(slots[slot], _estimated(found[slot])) for slot in row] for row in asked]
    done, count = 0, sum(map(len, asked))
    for row, results in zip(asked, side_by_side(full, parts, jobs), strict=True):
        found |= zip(row, results, strict=True)
        done += len(row)
        on_done("looking closer", done, count)


def _estimated(time: MapTime | str) -> MapTime | None:
    return time if isinstance(time, MapTime) and not time.is_between else None


def _as_map(grid: Grid, slots: Mapping[Slot, Point], found: Mapping[Slot, MapTime | str], tie: float) -> WinnerMap:
    times: dict[Place, dict[str, Time]] = {}
    refused = {place: dict.fromkeys(grid.strategies, why) for place, why in grid.impossible.items()}
    warnings = dict.fromkeys(without_effect(list(slots.values())))
    for (place, name), result in found.items():
        if isinstance(result, str):
            refused.setdefault(place, {})[name] = result
            continue
        times.setdefault(place, {})[name] = Time(result.iteration_s, result.by_queues or 0.0, result.is_between)
        warnings |= dict.fromkeys([result.left_out] if result.left_out else [])
    return WinnerMap(grid.title, grid.axes, tuple(grid.strategies), times, refused, grid.left_out, tie, tuple(warnings))


def _first_here(
    along: Callable[[list[Point]], list[MapTime | str]], parts: Sequence[list[Point]], jobs: int
) -> Iterator[list[MapTime | str]]:
    first, *rest = parts
    yield along(first)
    yield from side_by_side(along, rest, jobs)


def _rows(slots: Mapping[Slot, Point]) -> list[Row]:
    """Rows of points that share a plan, by ascending rate; those of the fewest workers first, so that progress is seen
    at once."""
    sharing: dict[str, Row] = {}
    for slot, point in slots.items():
        sharing.setdefault(sharing_key(point), []).append(slot)
    rows = [sorted(row, key=lambda slot: slots[slot].section.fabric.rate) for row in sharing.values()]
    return sorted(rows, key=lambda row: slots[row[0]].section.cluster.workers)


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

    Raises Fault for what concerns all points; what goes wrong with one, and why one cannot be run, is its verdict.
    After Ctrl-C, the same call continues from there.
    """
    prepared, refused = prepared_cells(grid, chosen, out, screen)
    runs = iter(carry_out(prepared, where, command, screen).runs)
    cells = []
    for cell in chosen:
        not_run = {name: refused[cell.place, name] for name in cell.strategies if (cell.place, name) in refused}
        of_cell = {name: next(runs) for name in cell.strategies if name not in not_run}
        times_s = {name: run.result.iteration_time_s for name, run in of_cell.items() if run.valid}
        invalid = {name: run.verdict.summary.partition("\n")[0] for name, run in of_cell.items() if not run.valid}
        cells.append(MeasuredCell(cell, times_s, not_run | invalid))
    return cells, prepared.place.folder


def prepared_cells(
    grid: Grid, chosen: Sequence[ChosenCell], out: Path | None, screen: Screen
) -> tuple[Prepared, Mapping[Slot, str]]:
    """The chosen cells ready to run without the points that cannot be run, and why these cannot. Raises Fault, also if
    none can."""
    whole = scenario_of_cells(grid, chosen)
    try:
        return prepare(whole, Clock(), out, screen), {}
    except InputFault:
        # Such as one of more hosts than the virtual clock carries at that rate, which can be estimated.
        of_points = refused_points(whole, out or RUNS, Clock(), screen)
        slots = [(cell.place, name) for cell in chosen for name in cell.strategies]
        refused = {slots[number]: why for number, why in of_points.items()}
        if len(refused) in (0, len(whole.points)):
            raise
    left = {cell: [name for name in cell.strategies if (cell.place, name) not in refused] for cell in chosen}
    able = [replace(cell, strategies=tuple(names)) for cell, names in left.items() if names]
    return prepare(scenario_of_cells(grid, able), Clock(), out, screen), refused

"""The cells of a map: all of them estimated, side by side in processes, and the chosen ones run by packets, in an
ordinary run folder of their points."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeGuard

import numpy as np

from gradwire.analysis.winners.measured import ChosenCell, MeasuredCell
from gradwire.analysis.winners.winner_map import TIE, Place, Time, WinnerMap
from gradwire.faults import InputFault
from gradwire.runs.compiling.many_points import sharing_key, side_by_side
from gradwire.runs.estimation import without_effect
from gradwire.runs.executing.choice import Where
from gradwire.runs.launch.execution import carry_out, prepare
from gradwire.runs.mapping.along_rates import Asked, MapTime, full_times, times_along
from gradwire.runs.mapping.grid import Grid
from gradwire.runs.screen import Screen
from gradwire.scenario.loading import Point, Scenario, resolve
from gradwire.vm.machines import Clock

Slot = tuple[Place, str]
Row = list[Slot]
OnDone = Callable[[str, int, int], None]
CLOSE = 0.05
"""Where the next strategy is so near to the winner, times between two estimates are estimated after all."""
IN_REACH = 0.25
"""A strategy that is so near to the winner could be ahead of it if queues held less."""
MEASURED = "measured"
"""The run folder in a folder that `--out` names."""


def estimate_map(
    grid: Grid, jobs: int, tie: float = TIE, on_done: OnDone = lambda _what, _done, _of: None
) -> WinnerMap:
    """The map of a grid by the fluid engine, in up to `jobs` processes; `on_done` hears what is estimated, how many
    points of it are done, and of how many. Raises InputFault if no strategy can run anywhere."""
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
    _look_closer(grid, slots, rows, found, jobs, on_done)
    _fill_queues(rows, found)
    return _as_map(grid, slots, found, tie)


def _look_closer(
    grid: Grid,
    slots: Mapping[Slot, Point],
    rows: Sequence[Row],
    found: dict[Slot, MapTime | str],
    jobs: int,
    on_done: OnDone,
) -> None:
    """Estimates in full what may decide who wins: times between two estimates where a winner's lead is small, and how
    much of a time depends on queues where it is within reach of the winner's."""
    best_s: dict[Place, float] = {}
    for (place, _), time in found.items():
        if isinstance(time, MapTime):
            best_s[place] = min(best_s.get(place, math.inf), time.iteration_s)
    rivals: Counter[tuple[Place, float]] = Counter()
    for (place, _), time in found.items():
        if isinstance(time, MapTime):
            rivals.update(
                (place, reach) for reach in (CLOSE, IN_REACH) if time.iteration_s <= best_s[place] * (1 + reach)
            )

    def is_asked(slot: Slot) -> bool:
        time, (place, _) = found[slot], slot
        if not isinstance(time, MapTime):
            return False
        reach = CLOSE if time.is_between else IN_REACH
        return rivals[place, reach] > 1 and time.iteration_s <= best_s[place] * (1 + reach)

    asked = [part for row in rows if (part := [slot for slot in row if is_asked(slot)])]
    parts = [[Asked(slots[slot], _estimated(found[slot])) for slot in part] for part in asked]
    done, count = 0, sum(map(len, asked))
    for part, results in zip(asked, side_by_side(partial(full_times, origin=grid.origin), parts, jobs), strict=True):
        found |= zip(part, results, strict=True)
        done += len(part)
        on_done("looking closer", done, count)


def _estimated(time: MapTime | str) -> MapTime | None:
    return time if isinstance(time, MapTime) and not time.is_between else None


def _fill_queues(rows: Sequence[Row], found: dict[Slot, MapTime | str]) -> None:
    """What depends on queues, for times between two estimates: as for the nearest ones in its row that are known."""
    for row in rows:
        known = [(number, time.by_queues) for number, slot in enumerate(row) if _is_known(time := found[slot])]
        for number, slot in enumerate(row):
            time = found[slot]
            if isinstance(time, MapTime) and time.by_queues is None and time.is_between and known:
                by_queues = float(np.interp(number, *zip(*known, strict=True)))
                found[slot] = replace(time, by_queues=by_queues)


def _is_known(time: MapTime | str) -> TypeGuard[MapTime]:
    return isinstance(time, MapTime) and time.by_queues is not None


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
    """Points that share a plan together, by ascending rate; those of the fewest workers first, so that progress is seen
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

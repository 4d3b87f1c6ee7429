"""The cells of a map: all of them estimated, side by side in processes, and the chosen ones run by packets, in an
ordinary run folder of their points."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from gradwire.analysis.winners.measured import ChosenCell, MeasuredCell
from gradwire.analysis.winners.winner_map import TIE, Place, Time, WinnerMap
from gradwire.faults import InputFault
from gradwire.runs.compiling.many_points import sharing_key, side_by_side
from gradwire.runs.estimation import PointEstimate, estimate_or_fault, without_effect
from gradwire.runs.executing.choice import Where
from gradwire.runs.launch.execution import carry_out, prepare
from gradwire.runs.mapping.grid import Grid
from gradwire.runs.screen import Screen
from gradwire.scenario.loading import Point, Scenario, resolve
from gradwire.vm.machines import Clock

Slot = tuple[Place, str]
MEASURED = "measured"
"""The run folder in a folder that `--out` names."""


def estimate_map(
    grid: Grid, jobs: int, tie: float = TIE, on_done: Callable[[int, int], None] = lambda _done, _of: None
) -> WinnerMap:
    """The map of a grid by the fluid engine, in up to `jobs` processes; `on_done` hears how many points are done, of
    how many. Raises InputFault if no strategy can run anywhere."""
    slots: list[tuple[Slot, Point]] = [
        ((place, name), point) for place, points in grid.points.items() for name, point in points.items()
    ]
    parts = _parts(slots)
    times: dict[Place, dict[str, Time]] = {}
    refused = {place: dict.fromkeys(grid.strategies, why) for place, why in grid.impossible.items()}
    warnings = dict.fromkeys(without_effect([point for _, point in slots]))
    done = 0
    attempt = partial(_attempted, origin=grid.origin)
    on_done(0, len(slots))
    # The first one is estimated here: processes that are forked afterwards have the engine's machine code.
    for part, results in zip(parts, _first_here(attempt, parts, jobs), strict=True):
        for ((place, name), _), result in zip(part, results, strict=True):
            if isinstance(result, str):
                refused.setdefault(place, {})[name] = result
                continue
            times.setdefault(place, {})[name] = Time(result.iteration_time_s, result.by_queues)
            warnings |= dict.fromkeys([result.left_out] if result.left_out else [])
        done += len(part)
        on_done(done, len(slots))
    if not times:
        reasons = dict.fromkeys(why for whys in refused.values() for why in whys.values())
        raise InputFault(f"{grid.origin}: no strategy can run in any cell: {'; '.join(list(reasons)[:3])}")
    return WinnerMap(grid.title, grid.axes, tuple(grid.strategies), times, refused, grid.left_out, tie, tuple(warnings))


def _first_here(
    attempt: Callable[[list[Point]], list[PointEstimate | str]],
    parts: Sequence[Sequence[tuple[Slot, Point]]],
    jobs: int,
) -> Iterator[list[PointEstimate | str]]:
    first, *rest = ([point for _, point in part] for part in parts)
    yield attempt(first)
    yield from side_by_side(attempt, rest, jobs)


def _parts(slots: list[tuple[Slot, Point]]) -> list[list[tuple[Slot, Point]]]:
    """Points that share a plan together, those of the fewest workers first, so that progress is seen at once."""
    sharing: dict[str, list[tuple[Slot, Point]]] = {}
    for slot, point in slots:
        sharing.setdefault(sharing_key(point), []).append((slot, point))
    return sorted(sharing.values(), key=lambda part: part[0][1].section.cluster.workers)


def _attempted(points: list[Point], origin: str) -> list[PointEstimate | str]:
    """The estimate of each point, or why it cannot run."""
    found: list[PointEstimate | str] = []
    for point in points:
        result = estimate_or_fault(point)
        if isinstance(result, InputFault):
            found.append(str(result).removeprefix(f"{origin}: "))
        else:
            found.append(result)
    return found


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

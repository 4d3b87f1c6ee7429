"""Measured points beside the values that a paper prints: differences, order of the strategies, and a count of what was reproduced.

A cell that a constant was fitted on is compared and shown, but never counted as reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations

from gradwire.analysis.points import RESULT_COLUMNS, PointResult
from gradwire.faults import InputFault

Where = Mapping[str, str | float | int]

EFFICIENCY = "scaling_efficiency"
SPEEDUP = "speedup"
METRICS = (EFFICIENCY, "throughput_per_s", "iteration_time_s", SPEEDUP)
POINTS_TOLERANCE = 0.05
"""Of a scaling efficiency: 5 percentage points."""
RELATIVE_TOLERANCE = 0.10
"""Of any other metric, as a share of the printed value."""


@dataclass(frozen=True)
class PrintedCell:
    """A value that a paper prints.

    where: the parameters of the point that it belongs to. metric: one of METRICS. value: an efficiency as a share (0.954), a speedup as
    a ratio, else SI units. source: paper and place. fitted: whether a constant was chosen to meet it. note: what a reader should know.
    baseline: for a speedup, the parameters in which the point that it is relative to differs from `where`.
    """

    where: Where
    metric: str
    value: float
    source: str
    fitted: bool = False
    note: str = ""
    baseline: Where = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses what cannot be compared; raises InputFault."""
        place = f"printed cell {describe(self.where)}"
        if self.metric not in METRICS:
            raise InputFault(f"{place}: metric '{self.metric}' is not one of {', '.join(METRICS)}")
        if self.value <= 0:
            raise InputFault(f"{place}: value = {self.value}: must be above 0")
        if self.metric == EFFICIENCY and self.value > 2:
            raise InputFault(f"{place}: value = {self.value}: an efficiency is a share, give {self.value / 100:g}")
        if (self.metric == SPEEDUP) != bool(self.baseline):
            raise InputFault(f"{place}: a speedup, and nothing else, needs the baseline that it is relative to")


class Status(StrEnum):
    """What came of a printed cell."""

    WITHIN = "within"
    OUTSIDE = "outside"
    FITTED = "fitted"
    INVALID = "invalid"
    """The point was run, but its verdict says that its numbers are no results."""
    MISSING = "not run"


@dataclass(frozen=True)
class ComparedCell:
    """A printed cell and what was measured. difference: measured minus printed, absolute for efficiencies, else as share of printed."""

    cell: PrintedCell
    measured: float | None
    difference: float | None
    status: Status


@dataclass(frozen=True)
class OrderCheck:
    """Whether a row's strategies rank as printed; None if a value is missing or invalid. Both orders run from worst to best."""

    row: dict[str, str]
    printed: tuple[str, ...]
    measured: tuple[str, ...]
    right: bool | None


@dataclass(frozen=True)
class Comparison:
    """All cells, and the order of the strategies in each row."""

    cells: tuple[ComparedCell, ...]
    orders: tuple[OrderCheck, ...]

    @property
    def summary(self) -> str:
        """One line: how many predicted cells agree, in how many rows the order is right, and each speedup."""
        if not self.cells:
            return "nothing printed to compare with"
        parts = []
        for metric in METRICS:
            predicted = [c for c in self.cells if c.cell.metric == metric and not c.cell.fitted]
            if metric != SPEEDUP and predicted:
                within = sum(c.status is Status.WITHIN for c in predicted)
                limit = "5 points" if metric == EFFICIENCY else f"{RELATIVE_TOLERANCE:.0%} ({metric})"
                parts.append(f"{within} of {len(predicted)} predicted cells within {limit}")
        if self.orders:
            parts.append(f"order right in {sum(bool(o.right) for o in self.orders)} of {len(self.orders)} rows")
        for compared in self.cells:
            if compared.cell.metric == SPEEDUP:
                parts.append(f"headline {compared.cell.value:.2f}x {_headline(compared)}")
        return "; ".join(parts)


def _headline(compared: ComparedCell) -> str:
    if compared.measured is None or compared.difference is None:
        return compared.status.value
    return f"measured {compared.measured:.2f}x ({compared.difference:+.1%})"


def compare(rows: Sequence[PointResult], printed: Sequence[PrintedCell], series_key: str = "strategy") -> Comparison:
    """Compares each printed cell with the one row that has all its parameters; `series_key` is the parameter that is ranked.

    Rows of several seeds must be pooled first. Raises InputFault for a cell that matches several rows.
    """
    cells = tuple(_compared(rows, cell) for cell in printed)
    return Comparison(cells, tuple(_orders(cells, series_key)))


def check_cells(points: Sequence[Mapping[str, str]], printed: Sequence[PrintedCell]) -> None:
    """Before anything runs: refuses a printed cell that names a parameter which no point has, or that fits several points.

    points: the parameters of each point without its seed. A cell that fits none is allowed: part of a table may be run.
    """
    known = {key for point in points for key in point}
    for cell in printed:
        for where in (cell.where, {**cell.where, **cell.baseline}):
            unknown = [key for key in where if key not in known]
            if unknown:
                raise InputFault(
                    f"printed cell {describe(where)}: no point has a parameter '{unknown[0]}'; "
                    f"there are {', '.join(sorted(known))}"
                )
            _only(points, where)


def find_row(rows: Sequence[PointResult], where: Where) -> PointResult | None:
    """The one row with these parameters, compared as numbers where both are; None if there is none. InputFault for several."""
    index = _only([row.parameters for row in rows], where)
    return None if index is None else rows[index]


def _only(points: Sequence[Mapping[str, str]], where: Where) -> int | None:
    found = [i for i, point in enumerate(points) if all(_equal(point.get(key), value) for key, value in where.items())]
    if len(found) > 1:
        first = points[found[0]]
        differing = sorted({key for i in found for key in points[i] if points[i][key] != first.get(key)})
        raise InputFault(
            f"printed cell {describe(where)} fits {len(found)} points: say which value of {', '.join(differing)} it is for"
        )
    return found[0] if found else None


def describe(where: Where) -> str:
    """Parameters as "key=value" text."""
    return ", ".join(f"{key}={value}" for key, value in where.items())


def as_number(text: str | float | int | None) -> float | None:
    """The number that a value is or spells, else None."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _equal(held: str | None, wanted: str | float | int) -> bool:
    left, right = as_number(held), as_number(wanted)
    return left == right if left is not None and right is not None else held == str(wanted)


def _compared(rows: Sequence[PointResult], cell: PrintedCell) -> ComparedCell:
    needed = [find_row(rows, cell.where)]
    if cell.metric == SPEEDUP:
        needed.append(find_row(rows, {**cell.where, **cell.baseline}))
    present = [row for row in needed if row is not None]
    if len(present) < len(needed):
        return ComparedCell(cell, None, None, Status.MISSING)
    if not all(row.valid for row in present):
        return ComparedCell(cell, None, None, Status.INVALID)
    if cell.metric == SPEEDUP:
        measured = present[0].throughput_per_s / present[1].throughput_per_s
    else:
        measured = float(getattr(present[0], cell.metric))
    difference = measured - cell.value
    if cell.metric != EFFICIENCY:
        difference /= cell.value
    if cell.fitted:
        return ComparedCell(cell, measured, difference, Status.FITTED)
    tolerance = POINTS_TOLERANCE if cell.metric == EFFICIENCY else RELATIVE_TOLERANCE
    return ComparedCell(cell, measured, difference, Status.WITHIN if abs(difference) <= tolerance else Status.OUTSIDE)


def _orders(cells: Sequence[ComparedCell], series_key: str) -> list[OrderCheck]:
    """One check a row and metric of at least two cells that differ in `series_key` alone. Fitted cells rank with the others."""
    groups: dict[tuple[str, ...], list[ComparedCell]] = {}
    for compared in cells:
        if compared.cell.metric != SPEEDUP and series_key in compared.cell.where:
            rest = sorted(f"{key}={value}" for key, value in compared.cell.where.items() if key != series_key)
            groups.setdefault((compared.cell.metric, *rest), []).append(compared)
    return [_order(group, series_key) for group in groups.values() if len(group) > 1]


def _order(group: list[ComparedCell], series_key: str) -> OrderCheck:
    sign = -1 if group[0].cell.metric == "iteration_time_s" else 1
    row = {key: str(value) for key, value in group[0].cell.where.items() if key != series_key}
    printed = tuple(str(c.cell.where[series_key]) for c in sorted(group, key=lambda c: sign * c.cell.value))
    known = [(c, sign * c.measured) for c in group if c.measured is not None]
    ranked = tuple(str(c.cell.where[series_key]) for c, _ in sorted(known, key=lambda pair: pair[1]))
    if len(known) < len(group):
        return OrderCheck(row, printed, ranked, None)
    # Printed ties say nothing; every other pair must rank as printed, and a measured tie does not.
    right = all(
        (first.cell.value - second.cell.value) * sign * (one - other) > 0
        for (first, one), (second, other) in combinations(known, 2)
        if first.cell.value != second.cell.value
    )
    return OrderCheck(row, printed, ranked, right)


def parameter_names(rows: Sequence[PointResult]) -> list[str]:
    """Parameters that take more than one value over the rows, in order of appearance; all if none does."""
    keys = list(dict.fromkeys(key for row in rows for key in row.parameters if key not in RESULT_COLUMNS))
    varied = [key for key in keys if len({row.parameters.get(key) for row in rows}) > 1]
    return varied or keys

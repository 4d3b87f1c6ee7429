"""Measured points compared with printed values: differences, the order of the strategies, and a count of what was
reproduced.

The values are a scenario's, or named values that come with gradwire. All tolerances are here, each with its reason:
`gradwire run` judges the values that a scenario has printed with them, and `gradwire reproduce` the papers' claims
(reproduction/scoring/holds.py). A cell that a constant was fitted on is compared and shown, but never counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, groupby

from gradwire.analysis.parameters import Where, describe, fits
from gradwire.analysis.points import PointResult, half_interval
from gradwire.analysis.printed_cells import EFFICIENCY, METRICS, SPEEDUP, TIME, PrintedCell
from gradwire.faults import InputFault, InternalFault

EFFICIENCY_POINTS = 0.05
"""Absolute, for scaling and scheduling efficiencies: 5 percentage points. As a share of the printed value, the same
emulation error would count four times as much in a cell of 21 % as in one of 96 %."""
NUMBER_SHARE = 0.10
"""Share of the printed value, for other measured numbers. Papers print averages of a testbed without intervals, often
read off a figure, and the framework overhead that the emulation leaves out is about 5 % of an iteration (Geryon's own
tables imply 4 to 6 %)."""
EXACT_SHARE = 0.01
"""Tolerance of values that follow from definitions (counts, sizes, shares of parameters), for which nothing is
measured: the papers' rounding."""
APPROX_SHARE = 0.20
"""Tolerance of "about" and "around": twice that of a printed number."""
GAIN_FACTOR = 2.0
"""A speed-up must also be a gain of the printed size, within this factor:
1.00 is within 10 % of 1.09, and no gain at all."""
GAIN_POINTS = 0.02
"""A gain this close to the printed one passes whatever their ratio: twice the emulation's grain of 1 %."""
TIE_SHARE = 0.01
"""Two values closer than this are a tie, and a bound missed by less is kept: the
emulation's grain, see reproduction/scoring/shapes.py."""

EFFICIENCY_METRICS = frozenset({"scaling_efficiency", "scheduling_efficiency"})
EXACT_METRICS = frozenset({"count", "size_mib", "size_gbit", "batch"})


def number_holds(metric: str, printed: float, measured: float, *, about: bool = False) -> bool:
    """Returns whether a number is close enough to the printed one. about: whether it is printed as "about" that
    number."""
    if metric in EFFICIENCY_METRICS:
        return abs(measured - printed) <= EFFICIENCY_POINTS
    if abs(measured - printed) > number_share(metric, about=about) * abs(printed):
        return False
    return metric != SPEEDUP or about or gain_holds(printed, measured)


def number_share(metric: str, *, about: bool = False) -> float:
    """Tolerance of a number that is not an efficiency, as a share of the printed value."""
    if about:
        return APPROX_SHARE
    return EXACT_SHARE if metric in EXACT_METRICS else NUMBER_SHARE


def gain_holds(printed: float, measured: float) -> bool:
    """Returns whether a speed-up is a gain (or a loss) of about the printed size."""
    gain, printed_gain = measured - 1, printed - 1
    if abs(gain - printed_gain) <= GAIN_POINTS:
        return True
    return gain * printed_gain > 0 and 1 / GAIN_FACTOR <= gain / printed_gain <= GAIN_FACTOR


@dataclass(frozen=True)
class RankTier:
    """A place in a printed order. Names in one tier are not ranked against each other."""

    names: tuple[str, ...]
    #: The tier before it is printed as at least as good, so a tie with it is as printed.
    may_tie: bool = False


@dataclass(frozen=True)
class MeasuredOrder:
    """Scores of the ranked strategies. Higher is better."""

    scores: Mapping[str, float]
    #: Half of the 95 % interval of each score, where it is known.
    ci95: Mapping[str, float] = field(default_factory=dict)
    #: Name of the row, if there are several.
    row: str = ""

    @property
    def best_first(self) -> tuple[str, ...]:
        """Names by falling score."""
        return tuple(sorted(self.scores, key=lambda name: -self.scores[name]))


def tiers_hold(tiers: Sequence[RankTier], order: MeasuredOrder) -> bool:
    """Returns whether everything that is printed as better, best tier first, scored visibly higher: a tie shows no
    order.

    A tie is a difference within 1 %, or intervals that overlap. It is enough where every tier from the better one on,
    up to the other, may tie. Raises InternalFault for a name without a score.
    """
    places = [(tier_number, name) for tier_number, tier in enumerate(tiers) for name in tier.names]
    missing = [name for _, name in places if name not in order.scores]
    if missing:
        raise InternalFault(f"rank: '{missing[0]}' is printed but not measured; measured are {', '.join(order.scores)}")
    for (tier_number, name), (other_number, other) in combinations(places, 2):
        if tier_number == other_number:
            continue
        gap, tie = order.scores[name] - order.scores[other], _tie(order, name, other)
        strict = not all(tier.may_tie for tier in tiers[tier_number + 1 : other_number + 1])
        if gap < -tie or (strict and gap <= tie):
            return False
    return True


def _tie(order: MeasuredOrder, name: str, other: str) -> float:
    """The largest difference between two scores at which neither is taken for better."""
    return max(TIE_SHARE * abs(order.scores[other]), order.ci95.get(name, 0.0) + order.ci95.get(other, 0.0))


class CellStatus(StrEnum):
    """Outcome of a printed cell."""

    WITHIN = "within"
    OUTSIDE = "outside"
    FITTED = "fitted"
    INVALID = "invalid"
    """The point was run, but its verdict is invalid."""
    MISSING = "not run"


@dataclass(frozen=True)
class ComparedCell:
    """A printed cell and the measured value."""

    cell: PrintedCell
    measured: float | None
    #: Measured minus printed: absolute for efficiencies, else as a share of the printed value.
    difference: float | None
    status: CellStatus
    #: Half of the 95 % interval of the measured value; None if unknown.
    ci95: float | None = None


@dataclass(frozen=True)
class OrderCheck:
    """A comparison of the order of a row's strategies with the printed order."""

    row: dict[str, str]
    #: From worst to best.
    printed: tuple[str, ...]
    #: From worst to best.
    measured: tuple[str, ...]
    #: None if a value is missing or invalid.
    right: bool | None


@dataclass(frozen=True)
class Comparison:
    """All cells, and the order of the strategies in each row."""

    cells: tuple[ComparedCell, ...]
    orders: tuple[OrderCheck, ...]

    @property
    def summary(self) -> str:
        """One line: how many predicted cells agree, in how many rows the order is right, and each speed-up."""
        if not self.cells:
            return "nothing printed to compare with"
        parts = []
        for metric in METRICS:
            predicted = [c for c in self.cells if c.cell.metric == metric and not c.cell.fitted]
            if metric != SPEEDUP and predicted:
                within = sum(c.status is CellStatus.WITHIN for c in predicted)
                parts.append(f"{within} of {len(predicted)} predicted cells within {_limit(metric)}")
        if self.orders:
            parts.append(f"order right in {sum(bool(o.right) for o in self.orders)} of {len(self.orders)} rows")
        for compared in self.cells:
            if compared.cell.metric == SPEEDUP:
                parts.append(f"headline {compared.cell.value:.2f}x {_headline(compared)}")
        return "; ".join(parts)


def _limit(metric: str) -> str:
    if metric == EFFICIENCY:
        return f"{EFFICIENCY_POINTS * 100:.0f} points"
    return f"{number_share(metric):.0%} ({metric})"


def _headline(compared: ComparedCell) -> str:
    if compared.measured is None or compared.difference is None:
        return compared.status.value
    return f"measured {compared.measured:.2f}x ({compared.difference:+.1%})"


def compare(rows: Sequence[PointResult], printed: Sequence[PrintedCell], series_key: str = "strategy") -> Comparison:
    """Compares each printed cell with the one row that has all its parameters; `series_key` is the parameter that is
    ranked.

    Rows of several seeds must be pooled first. Raises InputFault for a cell that matches several rows.
    """
    cells = tuple(_compare_cell(rows, cell) for cell in printed)
    return Comparison(cells, tuple(_orders(cells, series_key)))


def check_cells(points: Sequence[Mapping[str, str]], printed: Sequence[PrintedCell]) -> None:
    """Rejects, before anything runs, a printed cell that names a parameter that no point has, or that fits several
    points.

    `points` are the parameters of each point without its seed. A cell that fits none is allowed, since part of a table
    may be run. Raises InputFault.
    """
    keys = {key for point in points for key in point}
    for cell in printed:
        for where in (cell.where, {**cell.where, **cell.baseline}):
            unknown = [key for key in where if key not in keys]
            if unknown:
                raise InputFault(
                    f"printed cell {describe(where)}: no point has a parameter '{unknown[0]}'; "
                    f"there are {', '.join(sorted(keys))}"
                )
            _only(points, where)


def find_row(rows: Sequence[PointResult], where: Where) -> PointResult | None:
    """The only row with these parameters; None if there is none. Raises InputFault for several."""
    index = _only([row.parameters for row in rows], where)
    return None if index is None else rows[index]


def _only(points: Sequence[Mapping[str, str]], where: Where) -> int | None:
    indices = [index for index, point in enumerate(points) if fits(point, where)]
    if len(indices) > 1:
        first = points[indices[0]]
        differing = sorted({key for i in indices for key in points[i] if points[i][key] != first.get(key)})
        raise InputFault(
            f"printed cell {describe(where)} fits {len(indices)} points: say which value of {', '.join(differing)} it "
            "is for"
        )
    return indices[0] if indices else None


def _compare_cell(rows: Sequence[PointResult], cell: PrintedCell) -> ComparedCell:
    needed = [find_row(rows, cell.where)]
    if cell.metric == SPEEDUP:
        needed.append(find_row(rows, {**cell.where, **cell.baseline}))
    present = [row for row in needed if row is not None]
    if len(present) < len(needed):
        return ComparedCell(cell, None, None, CellStatus.MISSING)
    if not all(row.valid for row in present):
        return ComparedCell(cell, None, None, CellStatus.INVALID)
    if cell.metric == SPEEDUP:
        measured, ci95 = present[0].throughput_per_s / present[1].throughput_per_s, None
    else:
        measured, ci95 = float(getattr(present[0], cell.metric)), half_interval(present[0], cell.metric)
    difference = measured - cell.value
    if cell.metric != EFFICIENCY:
        difference /= cell.value
    return ComparedCell(cell, measured, difference, _status(cell, measured), ci95)


def _status(cell: PrintedCell, measured: float) -> CellStatus:
    if cell.fitted:
        return CellStatus.FITTED
    return CellStatus.WITHIN if number_holds(cell.metric, cell.value, measured) else CellStatus.OUTSIDE


def _orders(cells: Sequence[ComparedCell], series_key: str) -> list[OrderCheck]:
    """One check per row and metric of at least two cells that differ in
    `series_key` alone. Fitted cells rank with the others."""
    groups: dict[tuple[str, ...], list[ComparedCell]] = {}
    for compared in cells:
        if compared.cell.metric != SPEEDUP and series_key in compared.cell.where:
            rest = sorted(f"{key}={value}" for key, value in compared.cell.where.items() if key != series_key)
            groups.setdefault((compared.cell.metric, *rest), []).append(compared)
    return [_order(group, series_key) for group in groups.values() if len(group) > 1]


def _order(group: list[ComparedCell], series_key: str) -> OrderCheck:
    sign = -1 if group[0].cell.metric == TIME else 1
    names = {id(compared): str(compared.cell.where[series_key]) for compared in group}
    row = {key: str(value) for key, value in group[0].cell.where.items() if key != series_key}
    best_first = sorted(group, key=lambda c: -sign * c.cell.value)
    printed = tuple(names[id(c)] for c in sorted(group, key=lambda c: sign * c.cell.value))
    scores = {names[id(c)]: sign * c.measured for c in group if c.measured is not None}
    measured = tuple(sorted(scores, key=scores.__getitem__))
    if len(scores) < len(group):
        return OrderCheck(row, printed, measured, None)
    # Strategies that are printed as equal share a tier.
    tiers = [RankTier(tuple(names[id(c)] for c in tied)) for _, tied in groupby(best_first, key=lambda c: c.cell.value)]
    spread = {names[id(c)]: c.ci95 for c in group if c.ci95 is not None}
    return OrderCheck(row, printed, measured, tiers_hold(tiers, MeasuredOrder(scores, spread)))

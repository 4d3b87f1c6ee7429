"""Measured points beside printed values: differences, the order of the strategies, and a count of what was reproduced.

The values are a scenario's own, or claims of a paper that it names. analysis/papers/holds.py judges both. A cell that a constant was
fitted on is compared and shown, but never counted as reproduced.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from gradwire.analysis.papers.evidence import Order
from gradwire.analysis.papers.holds import EFFICIENCY_POINTS, Tier, number_holds, number_share, tiers_hold
from gradwire.analysis.papers.lookup import of_row
from gradwire.analysis.papers.reference import NUMERIC, PAPERS, Claim, Paper, load_paper
from gradwire.analysis.parameters import Where, describe, fits
from gradwire.analysis.points import RESULT_COLUMNS, PointResult
from gradwire.faults import InputFault

EFFICIENCY = "scaling_efficiency"
SPEEDUP = "speedup"
TIME = "iteration_time_s"
METRICS = (EFFICIENCY, "throughput_per_s", TIME, SPEEDUP)


@dataclass(frozen=True)
class PrintedCell:
    """A value that a paper prints for a point."""

    #: Parameters of the point.
    where: Where
    #: One of METRICS.
    metric: str
    #: An efficiency as a share (0.954), a speed-up as a ratio, everything else in SI units.
    value: float
    #: Paper and place.
    source: str
    #: Whether a constant was chosen to meet it.
    fitted: bool = False
    #: What a reader should know about it.
    note: str = ""
    #: For a speed-up: the parameters in which the point that it is relative to differs from `where`.
    baseline: Where = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Rejects what cannot be compared; raises InputFault."""
        place = f"printed cell {describe(self.where)}"
        if self.metric not in METRICS:
            raise InputFault(f"{place}: metric '{self.metric}' is not one of {', '.join(METRICS)}")
        if self.value <= 0:
            raise InputFault(f"{place}: value = {self.value}: must be above 0")
        if self.metric == EFFICIENCY and self.value > 2:
            raise InputFault(f"{place}: value = {self.value}: an efficiency is a share, give {self.value / 100:g}")
        if (self.metric == SPEEDUP) != bool(self.baseline):
            raise InputFault(f"{place}: a speedup, and nothing else, needs the baseline that it is relative to")


def cells_of_claims(names: Sequence[str]) -> list[PrintedCell]:
    """The printed values that a scenario names: "geryon-table2" for all values of a table, "geryon-fig8/yolo-geryon" for one.

    Raises InputFault for a name that papers do not have, and for a claim that is not a value of a single point.
    """
    return [cell for name in names for cell in _cells_of(name)]


def _cells_of(name: str) -> list[PrintedCell]:
    scenario_id, _, claim_id = name.partition("/")
    paper = scenario_id.partition("-")[0]
    loaded = load_paper(paper) if paper in PAPERS else None
    scenarios = {s.id: s for s in loaded.scenario} if loaded else {}
    if loaded is None or scenario_id not in scenarios:
        candidates = [*scenarios] or [f"{paper}-..." for paper in PAPERS]
        raise InputFault(
            f"printed_claims: {name}: papers have no scenario '{scenario_id}'{_hint(scenario_id, candidates)}"
        )
    claims = {claim.id: claim for claim in scenarios[scenario_id].claim}
    if not claim_id:
        return [_cell(loaded, claim) for claim in claims.values() if _prints_a_cell(claim)]
    if claim_id not in claims:
        raise InputFault(f"printed_claims: {name}: {scenario_id} has no claim '{claim_id}'{_hint(claim_id, [*claims])}")
    if not _prints_a_cell(claims[claim_id]):
        raise InputFault(f"printed_claims: {name}: is not a printed number of a single point; name another claim")
    return [_cell(loaded, claims[claim_id])]


def _hint(name: str, candidates: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, candidates, 1)
    return f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(candidates)}"


def _prints_a_cell(claim: Claim) -> bool:
    """Whether a claim is a number of a single point, no matter which scenario file has that point."""
    number = claim.kind in NUMERIC and claim.printed is not None and claim.metric in METRICS and claim.emulable
    return number and bool(claim.where) and "run" not in claim.where


def _cell(paper: Paper, claim: Claim) -> PrintedCell:
    assert isinstance(claim.printed, float)
    source = f"{paper.name or paper.paper}, {claim.source}"
    return PrintedCell(claim.where, claim.metric, claim.printed, source, fitted=claim.fitted, baseline=claim.baseline)


class Status(StrEnum):
    """Outcome of a printed cell."""

    WITHIN = "within"
    OUTSIDE = "outside"
    FITTED = "fitted"
    INVALID = "invalid"
    """The point was run, but its verdict is invalid."""
    MISSING = "not run"


@dataclass(frozen=True)
class ComparedCell:
    """A printed cell and what was measured."""

    cell: PrintedCell
    measured: float | None
    #: Measured minus printed: absolute for efficiencies, else as a share of the printed value.
    difference: float | None
    status: Status
    #: Half of the 95 % interval of the measured value; None if unknown.
    ci95: float | None = None


@dataclass(frozen=True)
class OrderCheck:
    """Whether the strategies of a row rank as printed."""

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
                within = sum(c.status is Status.WITHIN for c in predicted)
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
    """Compares each printed cell with the one row that has all its parameters; `series_key` is the parameter that is ranked.

    Rows of several seeds must be pooled first. Raises InputFault for a cell that matches several rows.
    """
    cells = tuple(_compared(rows, cell) for cell in printed)
    return Comparison(cells, tuple(_orders(cells, series_key)))


def check_cells(points: Sequence[Mapping[str, str]], printed: Sequence[PrintedCell]) -> None:
    """Rejects, before anything runs, a printed cell that names a parameter that no point has, or that fits several points.

    `points` are the parameters of each point without its seed. A cell that fits none is allowed, since part of a table may be run.
    Raises InputFault.
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
            f"printed cell {describe(where)} fits {len(indices)} points: say which value of {', '.join(differing)} it is for"
        )
    return indices[0] if indices else None


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
        measured, ci95 = present[0].throughput_per_s / present[1].throughput_per_s, None
    else:
        evidence = of_row(present[0], cell.metric)
        assert isinstance(evidence.value, float)
        measured, ci95 = evidence.value, evidence.ci95
    difference = measured - cell.value
    if cell.metric != EFFICIENCY:
        difference /= cell.value
    return ComparedCell(cell, measured, difference, _status(cell, measured), ci95)


def _status(cell: PrintedCell, measured: float) -> Status:
    if cell.fitted:
        return Status.FITTED
    return Status.WITHIN if number_holds(cell.metric, cell.value, measured) else Status.OUTSIDE


def _orders(cells: Sequence[ComparedCell], series_key: str) -> list[OrderCheck]:
    """One check per row and metric of at least two cells that differ in `series_key` alone. Fitted cells rank with the others."""
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
    tiers = [Tier(tuple(names[id(c)] for c in tied)) for _, tied in groupby(best_first, key=lambda c: c.cell.value)]
    spread = {names[id(c)]: c.ci95 for c in group if c.ci95 is not None}
    return OrderCheck(row, printed, measured, tiers_hold(tiers, Order(scores, spread)))


def parameter_names(rows: Sequence[PointResult]) -> list[str]:
    """Parameters that take more than one value over the rows, in order of appearance; all if none does."""
    keys = list(dict.fromkeys(key for row in rows for key in row.parameters if key not in RESULT_COLUMNS))
    varied = [key for key in keys if len({row.parameters.get(key) for row in rows}) > 1]
    return varied or keys

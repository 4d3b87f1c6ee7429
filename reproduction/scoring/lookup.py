"""Evidence that needs no function of its own: a point's metric, a speed-up of one point over another, and ranks by a metric."""

from __future__ import annotations

from collections.abc import Mapping

from gradwire.analysis.points import PointResult, half_interval
from gradwire.analysis.printed import Order
from gradwire.faults import InternalFault
from reproduction.scoring.evidence import Measured, Points, ranked
from reproduction.scoring.reference import Claim, Kind, rank_names

Parameters = Mapping[str, str | int | float]
METRICS = ("scaling_efficiency", "throughput_per_s", "iteration_time_s")
SPEEDUP = "speedup"
NEVER_A_ROW = ("run", "options")
"""Parameters that differ between what is ranked: strategies have options of their own, and may be in different scenario files."""
LOWER_IS_BETTER = frozenset({"iteration_time_s"})


def can_look_up(claim: Claim) -> bool:
    """Whether `look_up` knows how: the others need a function of their own."""
    if claim.kind is Kind.RANK:
        return bool(claim.series)
    if claim.kind in (Kind.SHAPE, Kind.FORMULA, Kind.MAX):
        return False
    return bool(claim.where) and (claim.metric in METRICS or (claim.metric == SPEEDUP and bool(claim.baseline)))


def look_up(points: Points, claim: Claim) -> Measured:
    """The claim's value out of the points. Raises NoEvidence where a point is missing or invalid."""
    if claim.kind is Kind.RANK:
        return _rank(points, claim)
    if claim.metric == SPEEDUP:
        return speedup(points, claim.where, claim.baseline)
    if claim.metric not in METRICS:
        raise InternalFault(f"claim {claim.id}: a {claim.metric} cannot be looked up; bind a function to it")
    return of_row(points.row(**claim.where), claim.metric)


def of_row(row: PointResult, metric: str) -> Measured:
    """A point's metric with its interval."""
    return Measured(float(getattr(row, metric)), half_interval(row, metric))


def speedup(points: Points, where: Parameters, baseline: Parameters) -> Measured:
    """Throughput of the point over that of the one that differs from it in `baseline`; relative intervals add up."""
    row, other = points.row(**where), points.row(**{**where, **baseline})
    value = row.throughput_per_s / other.throughput_per_s
    shares = [r.ci95_s / r.iteration_time_s for r in (row, other) if r.ci95_s]
    return Measured(value, value * sum(shares) if shares else None)


def _rank(points: Points, claim: Claim) -> Measured:
    """One order per combination of the parameters that the claim leaves open, among those that have every printed name."""
    assert isinstance(claim.printed, list)
    names = [name for entry in claim.printed for name in rank_names(entry)]
    groups: dict[str, dict[str, PointResult]] = {}
    for name in names:
        # Name by name, for an invalid point that is not ranked is not a reason to have no evidence.
        for row in points.rows(**{**claim.where, claim.series: name}):
            rest = {k: v for k, v in row.parameters.items() if k not in (claim.series, *claim.where, *NEVER_A_ROW)}
            groups.setdefault(", ".join(rest.values()), {})[name] = row
    sign = -1.0 if claim.ranked_by in LOWER_IS_BETTER else 1.0
    orders = []
    for group, rows in groups.items():
        scores = {name: sign * float(getattr(row, claim.ranked_by)) for name, row in rows.items()}
        spread = {name: half_interval(row, claim.ranked_by) or 0.0 for name, row in rows.items()}
        orders.append(Order(scores, spread, group))
    if not orders:
        raise InternalFault(f"claim {claim.id}: no point's {claim.series} is one of {', '.join(names)}")
    return ranked(*orders)

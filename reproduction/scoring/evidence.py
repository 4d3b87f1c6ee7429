"""Evidence: the points that a scenario's runs gave, and the functions that read a claim's value out of them.

Claims on a point's iteration time, throughput, efficiency or speed-up, and ranks by one of them, are looked up
(`look_up`). Every other claim is bound to a function in <paper>/:

    @measures("p3-fig7", "resnet50-knee")
    def _knee(points: Points, claim: Claim) -> Measured: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gradwire.analysis.parameters import Value, describe, fits, parameter_number
from gradwire.analysis.points import PointResult, half_interval, pool_seeds
from gradwire.analysis.printed import MeasuredOrder
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.faults import InternalFault
from gradwire.network.fabric import Fabric
from reproduction.scoring.reference import Claim, Kind, rank_names

Bound = TypeVar("Bound")
_measures: dict[tuple[str, str], Measure] = {}
Parameters = Mapping[str, str | int | float]
METRICS = ("scaling_efficiency", "throughput_per_s", "iteration_time_s")
SPEEDUP = "speedup"
NEVER_A_ROW = ("run", "options")
"""Parameters that differ between what is ranked: strategies have different
options, and may be in different scenario files."""
LOWER_IS_BETTER = frozenset({"iteration_time_s"})


class NoEvidence(Exception):
    """Nothing to measure a claim with: a point is missing, or its run is invalid. The message says which and why."""


@dataclass(frozen=True)
class ModelFacts:
    """What a point computes with, by layer (in forward order) and by tensor (in creation order)."""

    name: str
    batch: int
    layer_names: tuple[str, ...]
    #: conv, fc, ...: as in workloads/models/profile.py.
    layer_kinds: tuple[str, ...]
    #: Of one sample's forward pass, a multiplication and an addition as two.
    flops: tuple[float, ...]
    #: Of one iteration.
    forward_s: tuple[float, ...]
    #: Of one iteration.
    backward_s: tuple[float, ...]
    tensor_names: tuple[str, ...]
    tensor_layer: tuple[int, ...]
    tensor_parameters: tuple[int, ...]
    compute_source: str
    #: The printed cell that the compute time was inferred from.
    fitted_on: str | None = None

    @property
    def parameters(self) -> int:
        """All of the model's."""
        return sum(self.tensor_parameters)

    def layer_parameters(self) -> tuple[int, ...]:
        """Of each layer."""
        counts = [0] * len(self.layer_names)
        for layer, parameters in zip(self.tensor_layer, self.tensor_parameters, strict=True):
            counts[layer] += parameters
        return tuple(counts)


@dataclass(frozen=True)
class PointEvidence:
    """One point of one seed. Plan, log and record are read when they are asked for."""

    #: As in points.csv, and `run`, the name of the scenario file.
    parameters: Mapping[str, str]
    #: None where the scenario is only compiled.
    result: PointResult | None
    fabric: Fabric
    model: ModelFacts
    plan: Callable[[], Plan]
    log: Callable[[], OpLog]
    record: Callable[[], PointRecord]
    #: Plans, logs and captures; None where the scenario is only compiled.
    folder: Path | None = None


class Points:
    """All points of a scenario's runs. A point is asked for by its parameters, numbers compared as numbers:
    row(model="vgg19", workers=8).

    Everything raises NoEvidence where nothing fits, and where a run that fits is invalid: what is left would be a
    choice of points.
    """

    def __init__(self, stored: Sequence[PointEvidence]) -> None:
        self._stored = tuple(stored)

    def only(self, **where: Value) -> Points:
        """The points with these parameters, of which there may be none."""
        return Points([point for point in self._stored if fits(point.parameters, where)])

    def valid(self) -> Points:
        """The points whose runs are valid: for drawing, where a gap speaks for itself."""
        return Points([p for p in self._stored if p.result is not None and p.result.valid])

    def rows(self, **where: Value) -> list[PointResult]:
        """The points with these parameters, seeds pooled."""
        return pool_seeds(self.unpooled(**where))

    def unpooled(self, **where: Value) -> list[PointResult]:
        """The points with these parameters, one per seed."""
        results = []
        for point in self.stored(**where):
            if point.result is None:
                raise NoEvidence(f"{describe(dict(point.parameters))}: was only compiled, not run")
            if not point.result.valid:
                raise NoEvidence(f"{describe(dict(point.parameters))}: {point.result.verdict}")
            results.append(point.result)
        return results

    def row(self, **where: Value) -> PointResult:
        """The one point with these parameters, seeds pooled. Raises
        InternalFault where several fit: the claim says too little."""
        rows = self.rows(**where)
        if len(rows) > 1:
            differing = sorted({k for row in rows for k, v in row.parameters.items() if v != rows[0].parameters.get(k)})
            raise InternalFault(f"{describe(where)} fits {len(rows)} points: say which {', '.join(differing)} is meant")
        return rows[0]

    def series(self, key: str, **where: Value) -> list[tuple[float, PointResult]]:
        """The points with these parameters by the number that `key` is
        (bit/s for rates), rising. One point per number."""
        pairs = []
        for row in self.rows(**where):
            number = parameter_number(row.parameters.get(key, ""))
            if number is None:
                raise InternalFault(f"{key} = '{row.parameters.get(key, '')}' of {describe(where)} is not a number")
            pairs.append((number, row))
        pairs.sort(key=lambda pair: pair[0])
        if len({number for number, _ in pairs}) < len(pairs):
            raise InternalFault(f"several points of {describe(where)} have the same {key}: say which series is meant")
        return pairs

    def stored(self, **where: Value) -> list[PointEvidence]:
        """The points with these parameters as they are kept, one per seed, valid or not, run or only compiled."""
        matching = [point for point in self._stored if fits(point.parameters, where)]
        if not matching:
            raise NoEvidence(f"no point with {describe(where) or 'any parameters'} was run")
        return matching

    def point(self, **where: Value) -> PointEvidence:
        """The one point with these parameters, the first seed of several. Raises InternalFault where several fit."""
        matching = self.stored(**where)
        if len({tuple(sorted((k, v) for k, v in p.parameters.items() if k != "seed")) for p in matching}) > 1:
            raise InternalFault(f"{describe(where)} fits {len(matching)} points: say which is meant")
        result = matching[0].result
        if result is not None and not result.valid:
            raise NoEvidence(f"{describe(where)}: {result.verdict}")
        return matching[0]

    def plan(self, **where: Value) -> Plan:
        """The plan of the one point with these parameters (the one that was kept, where candidates were searched)."""
        return self.point(**where).plan()

    def log(self, **where: Value) -> OpLog:
        """The op log of the one point with these parameters."""
        return self.point(**where).log()

    def model(self, **where: Value) -> ModelFacts:
        """The model of the first point with these parameters."""
        return self.stored(**where)[0].model

    def fitted_on(self, **where: Value) -> tuple[str, ...]:
        """The printed cells that constants of the points with these parameters
        were chosen on; those of all points if none fits."""
        matching = self.only(**where)._stored or self._stored
        return tuple(sorted({point.model.fitted_on for point in matching if point.model.fitted_on}))


@dataclass(frozen=True)
class Measured:
    """What was measured for a claim."""

    #: A number in the claim's unit, or what a shape turned out to be, in a few words.
    value: float | str
    #: Half of the 95 % confidence interval.
    ci95: float | None = None
    #: What the predicate said, for shapes and formulas; None for everything that reproduction/scoring/holds.py
    #: decides.
    holds: bool | None = None
    #: Where the value comes from, if not from a run's iteration times ("computed from the compiled plan").
    detail: str = ""
    #: For ranks (see `ranked`); the claim holds if all orders do.
    orders: tuple[MeasuredOrder, ...] = ()

    def __post_init__(self) -> None:
        """Rejects NaN and infinities; raises InternalFault."""
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise InternalFault(f"a measured value is {self.value}: raise NoEvidence where there is none")


def ranked(*orders: MeasuredOrder, detail: str = "") -> Measured:
    """What a rank claim measures: one order, or one per row."""
    shown = [" > ".join(order.best_first) for order in orders]
    if len(set(shown)) == 1:
        return Measured(shown[0], orders=orders, detail=detail)
    rows = "; ".join(f"{order.row}: {text}" for order, text in zip(orders, shown, strict=True))
    return Measured(rows, orders=orders, detail=detail)


Measure = Callable[[Points, Claim], Measured]


def measures(scenario: str, *claims: str) -> Callable[[Measure], Measure]:
    """Binds a function to claims of a scenario. Raises InternalFault where one is bound already."""
    return lambda function: bind(_measures, scenario, claims, function)


def measure_of(scenario: str, claim: str) -> Measure | None:
    """The function bound to a claim."""
    return _measures.get((scenario, claim))


def measured_claims() -> list[tuple[str, str]]:
    """Scenario and claim of every measure: each must exist in the reference data."""
    return sorted(_measures)


def bind(registry: dict[tuple[str, str], Bound], scenario: str, claims: Sequence[str], function: Bound) -> Bound:
    """Enters a function for claims of a scenario. Raises InternalFault for a claim that has one already."""
    for claim in claims:
        if (scenario, claim) in registry:
            raise InternalFault(f"claim {claim} of {scenario} is bound twice")
        registry[scenario, claim] = function
    return function


def can_look_up(claim: Claim) -> bool:
    """Whether `look_up` knows how: the others need a function."""
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
    """One order per combination of the parameters that the claim leaves
    open, among those that have every printed name."""
    assert isinstance(claim.printed, list)
    names = [name for entry in claim.printed for name in rank_names(entry)]
    groups: dict[str, dict[str, PointResult]] = {}
    for name in names:
        # One name after the other, for an invalid point that is not ranked is not a reason to have no evidence.
        for row in points.rows(**{**claim.where, claim.series: name}):
            rest = {k: v for k, v in row.parameters.items() if k not in (claim.series, *claim.where, *NEVER_A_ROW)}
            groups.setdefault(", ".join(rest.values()), {})[name] = row
    sign = -1.0 if claim.ranked_by in LOWER_IS_BETTER else 1.0
    orders = []
    for group, rows in groups.items():
        scores = {name: sign * float(getattr(row, claim.ranked_by)) for name, row in rows.items()}
        spread = {name: half_interval(row, claim.ranked_by) or 0.0 for name, row in rows.items()}
        orders.append(MeasuredOrder(scores, spread, group))
    if not orders:
        raise InternalFault(f"claim {claim.id}: no point's {claim.series} is one of {', '.join(names)}")
    return ranked(*orders)

"""How times change along a condition, and how throughput changes with workers and batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from gradwire.analysis.findings.axes import VariedAxis, Where
from gradwire.analysis.findings.observations import Observation
from gradwire.analysis.findings.standings import best_of, grouped, value_of
from gradwire.analysis.statistics import Contrast, TimeComparison, contrast


class Shape(StrEnum):
    """How times change along a condition."""

    FLAT = "flat"
    """All times are level."""
    OPEN = "open"
    """The seeds cannot tell the longest from the shortest."""
    FALLS = "falls"
    RISES = "rises"
    MIXED = "mixed"
    """It has no order, or times go up and down."""


@dataclass(frozen=True)
class CurvePoint:
    """The best of the choices at one value."""

    value: Where
    #: The values of the choices; () where there are none.
    chosen: Where
    observed: Observation


@dataclass(frozen=True)
class Curve:
    """The times at all values of a condition, at one setting of everything else that is given."""

    where: Where
    #: In the order of the axis.
    points: tuple[CurvePoint, ...]
    ordered: bool

    @cached_property
    def shortest(self) -> CurvePoint:
        """The point with the shortest iteration."""
        return min(self.points, key=lambda point: point.observed.time_s)

    @cached_property
    def longest(self) -> CurvePoint:
        """The point with the longest iteration."""
        return max(self.points, key=lambda point: point.observed.time_s)

    @property
    def ratio(self) -> float:
        """Longest over shortest time."""
        return self.longest.observed.time_s / self.shortest.observed.time_s

    @cached_property
    def ends(self) -> Contrast:
        """The longest against the shortest."""
        return _against(self.longest, self.shortest)

    @cached_property
    def shape(self) -> Shape:
        """How times change along it."""
        if self.ends.outcome is TimeComparison.LEVEL:
            return Shape.FLAT
        if self.ends.outcome is TimeComparison.UNCLEAR and self.ends.half is not None:
            return Shape.OPEN
        steps = [_direction(after, before) for before, after in zip(self.points, self.points[1:], strict=False)]
        if self.ordered and all(step <= 0 for step in steps):
            return Shape.FALLS
        return Shape.RISES if self.ordered and all(step >= 0 for step in steps) else Shape.MIXED

    @cached_property
    def flat_from(self) -> CurvePoint | None:
        """The first value from which on, to the end of two or more, nothing changes; None if there is none."""
        return _flat_end(self.points, from_end=True)

    @cached_property
    def flat_to(self) -> CurvePoint | None:
        """The last value up to which, from the beginning of two or more, nothing changes; None if there is none."""
        return _flat_end(self.points, from_end=False)


def _against(point: CurvePoint, other: CurvePoint) -> Contrast:
    return contrast(point.observed.sample, other.observed.sample)


def _direction(point: CurvePoint, before: CurvePoint) -> int:
    found = _against(point, before)
    if found.outcome is TimeComparison.LEVEL or (found.outcome is TimeComparison.UNCLEAR and found.half is not None):
        return 0
    return 1 if found.ratio > 1 else -1


def _flat_end(points: Sequence[CurvePoint], *, from_end: bool) -> CurvePoint | None:
    listed = list(reversed(points)) if from_end else list(points)
    last = listed[0]
    for point in listed[1:]:
        if _against(point, listed[0]).outcome is not TimeComparison.LEVEL:
            break
        last = point
    return None if last is listed[0] else last


def curves(
    observed: Sequence[Observation], axis: VariedAxis, given: Sequence[VariedAxis], choices: Sequence[VariedAxis]
) -> list[Curve]:
    """The curves along an axis, with the best of the choices at each value, of those that have a result at all values if
    there are any. given: the other axes that are no choices."""
    found = []
    for where, whole in grouped(observed, given).items():
        group = _with_results(whole, axis, choices)
        points = [
            CurvePoint(value, value_of(best, choices), best)
            for value, alike in grouped(group, [axis]).items()
            for best in best_of(alike)
        ]
        if len(points) > 1:
            found.append(Curve(where, tuple(points), axis.ordered))
    return found


def _with_results(group: Sequence[Observation], axis: VariedAxis, choices: Sequence[VariedAxis]) -> list[Observation]:
    """Those whose values of the choices have a result at all values of the axis; all with a result where there are
    none."""
    valid = [each for each in group if each.valid]
    at = {chosen: {axis.of(each.settings) for each in alike} for chosen, alike in grouped(valid, choices).items()}
    everywhere = {axis.of(each.settings) for each in group}
    return [each for each in valid if at[value_of(each, choices)] == everywhere] or valid

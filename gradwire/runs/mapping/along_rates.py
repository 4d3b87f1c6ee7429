"""Estimates for maps: of one strategy for one job, over all rates of a network that a map has.

A map has hundreds of points, so each is estimated no further than a map needs. An estimate ends with two iterations
that are alike within ALIKE. Points that differ only in the rate share a plan, and a time between two rates is
interpolated if a third estimate, halfway between them, lies on the line between them (in seconds over the time that a
byte takes), and no message overtakes others by priority. The share of a time that depends on what queues hold is
computed only where it could change the order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwire.datatypes.class_plans import NotByClass
from gradwire.datatypes.plan import Discipline
from gradwire.faults import InputFault
from gradwire.runs.compiling.by_class import ByClass, by_class, with_fabric
from gradwire.runs.compiling.ideal_times import HELD_S, fluid_times, held_rule, short_window_bytes
from gradwire.runs.compiling.many_points import SharedPlans, sharing_key
from gradwire.runs.estimation import copies_late
from gradwire.scenario.loading import Point, origin_named
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.transport_fit import buffer_bytes

ALIKE = 1e-3
"""A tenth of the threshold of a tie."""
ALIKE_FOR_QUEUES = 5e-3
"""Largest difference between the last two iterations of an estimate that decides whether more than 2 % of a time depend
on queues (RANKED_WITHIN)."""
ON_A_LINE = 4e-3
"""A time that is so near to a line through its neighbours has others on that line between them."""
LEAST_BY_CLASS = 8
"""Workers from which on ranks that fare alike are estimated as one. The result is the same."""
COARSEST = 2
"""A row of rates is halved so many times at least before anything is interpolated: five estimates."""

_PLANS = SharedPlans()


class _SharedClasses:
    """The job by classes that was compiled last, for the next point if it differs in its rate alone."""

    def __init__(self) -> None:
        self._key = ""
        self._found: ByClass | None = None

    def of(self, point: Point, resolved: ResolvedPoint) -> ByClass | None:
        """The job of a point by classes, shared with the last point if it differs only in the rate; None if it has no
        classes. Raises InputFault."""
        key = sharing_key(point)
        if key != self._key:
            self._key, self._found = "", by_class(resolved, LEAST_BY_CLASS)
            self._key = key
        elif self._found is not None:
            # Whether windows matter goes by the rate, and rings by class have none.
            if short_window_bytes(resolved.fabric, buffer_bytes(point.section, resolved.fabric)) < math.inf:
                return by_class(resolved, LEAST_BY_CLASS)
            try:
                return with_fabric(self._found, resolved.fabric)
            except NotByClass:
                return None
        return self._found


_CLASSES = _SharedClasses()


@dataclass(frozen=True)
class MapTime:
    """The time of a strategy in a cell of a map, and how certain it is."""

    iteration_s: float
    #: Share by which the time differs if queues hold half as much; None: it was not asked for.
    by_queues: float | None = None
    #: Whether it lies between two estimates, and is not one itself.
    is_between: bool = False
    #: Effects that the estimate lacks, a sentence; "" if there are none.
    left_out: str = ""
    #: Whether messages overtake others by priority: which ones depends on the rate, and times jump with it.
    jumps: bool = False


@dataclass(frozen=True)
class RatePoint:
    """A point whose time is to be estimated in full, with the time if it is known."""

    point: Point
    known: MapTime | None = None


def times_along(points: Sequence[Point], origin: str) -> list[MapTime | str]:
    """Times of points that differ in their rate alone, which ascends; or why one cannot run."""
    try:
        return list(_Row(points).times())
    except InputFault:
        # Of a row in which something cannot run, each point says so for itself.
        return [_time_or_reason(RatePoint(point), origin, with_queues=False) for point in points]


def full_times(asked: Sequence[RatePoint], origin: str) -> list[MapTime | str]:
    """Times with how much of them depends on queues; or why a point cannot run."""
    return [_time_or_reason(each, origin, with_queues=True) for each in asked]


def _time_or_reason(asked: RatePoint, origin: str, *, with_queues: bool) -> MapTime | str:
    try:
        return _estimate(asked, with_queues=with_queues)
    except InputFault as fault:
        return str(fault).removeprefix(f"{origin}: ")


class _Row:
    """Times of one strategy over ascending rates, found by halving the row."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = points
        self.byte_s = [8 / point.section.fabric.rate for point in points]
        self.found: dict[int, MapTime] = {}

    def times(self) -> list[MapTime]:
        """Times of all points of the row, estimated or interpolated. Raises InputFault."""
        last = len(self.points) - 1
        self._at(0)
        self._at(last)
        self._halve(0, last, 0)
        return [self.found[index] for index in range(len(self.points))]

    def _at(self, index: int) -> None:
        if index not in self.found:
            self.found[index] = _estimate(RatePoint(self.points[index]), with_queues=False)

    def _halve(self, first: int, last: int, depth: int) -> None:
        middle = (first + last) // 2
        if middle == first:
            return
        self._at(middle)
        line_s, time_s = self._between(first, last, middle).iteration_s, self.found[middle].iteration_s
        is_line = not self.found[middle].jumps and depth >= COARSEST - 1 and abs(line_s / time_s - 1) < ON_A_LINE
        for low, high in ((first, middle), (middle, last)):
            if is_line:
                self.found |= {index: self._between(low, high, index) for index in range(low + 1, high)}
            else:
                self._halve(low, high, depth + 1)

    def _between(self, low: int, high: int, index: int) -> MapTime:
        share = (self.byte_s[index] - self.byte_s[low]) / (self.byte_s[high] - self.byte_s[low])
        one, other = self.found[low], self.found[high]
        time_s = one.iteration_s + share * (other.iteration_s - one.iteration_s)
        return MapTime(time_s, is_between=True, left_out=one.left_out)


def _estimate(asked: RatePoint, *, with_queues: bool) -> MapTime:
    """The time of a point; with `with_queues`, also the share of it that depends on queues. Raises InputFault."""
    point = asked.point
    with origin_named(point):
        resolved = ResolvedPoint(point.section)
        fabric = resolved.fabric
        classes = _CLASSES.of(point, resolved)
        plans = {} if classes else _PLANS.of(resolved, replace(resolved.job, fabric=fabric))
    socket_bytes = buffer_bytes(point.section, fabric)
    window_bytes = short_window_bytes(fabric, socket_bytes)

    def time_s(label: str, held_s: float, alike: float = ALIKE) -> float:
        rule = held_rule(resolved.unsent_bytes, fabric, socket_bytes, held_s)
        if classes:
            return classes.times(rule, window_bytes).iteration_s
        return fluid_times(plans[label], fabric, rule, window_bytes, alike).iteration_s

    labels = [classes.label] if classes else list(plans)
    if asked.known is not None and len(labels) == 1:
        label, best_s = labels[0], asked.known.iteration_s
    else:
        best_s, label = min((time_s(label, HELD_S), label) for label in labels)
    by_queues = time_s(label, HELD_S / 2, ALIKE_FOR_QUEUES) / best_s - 1 if with_queues else None
    if classes:
        return MapTime(best_s, by_queues, left_out=classes.left_out)
    plan = plans[label]
    jumps = bool((plan.queue_discipline == Discipline.PRIORITY).any())
    return MapTime(best_s, by_queues, left_out=copies_late(plan, fabric), jumps=jumps)

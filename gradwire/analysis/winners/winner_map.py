"""A map of winners: times of strategies over a grid of two keys, the winner of each cell with its lead, and the borders
between winners."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

TIE = 0.01
"""A winner that is not faster than the next by more than this share is level with it. Estimates agree with runs within
1 % for 90 of 100 random points (docs/estimate.md)."""
DOUBTFUL_FROM = 0.02
"""Share of an estimate that may depend on how much queues hold. If more does, the estimate does not rank its strategy
(docs/estimate.md)."""

Place = tuple[int, int]
"""A cell, by the numbers of its values on the first axis and on the second."""


TITLES: Mapping[str, str] = {
    "cluster.workers": "Workers",
    "cluster.servers": "Parameter servers",
    "cluster.workers_per_host": "GPUs of each host",
    "fabric.rate": "Line rate of each host",
    "fabric.delay": "Delay of each link",
    "fabric.oversubscription": "Oversubscription of the leaves' uplinks",
    "fabric.core_oversubscription": "Oversubscription of the pods' uplinks",
    "model.batch": "Samples of each worker",
    "model.iteration_time": "Computation of an iteration",
    "costs.message_latency": "Software latency of a message",
    "costs.aggregation_rate": "Rate at which a server adds",
    "transport.connections": "Connections of each pair",
}
"""Keys in words; others are called by their last parts."""


@dataclass(frozen=True)
class Axis:
    """A key of a scenario, and its values along one side of a map."""

    #: Dotted, as in a scenario.
    key: str
    #: Values as a scenario would write them.
    texts: tuple[str, ...]
    #: Values as numbers, ascending, in a common unit.
    numbers: tuple[float, ...]
    #: Whether equal ratios are equally far apart; else equal differences are.
    logarithmic: bool = True

    @property
    def name(self) -> str:
        """The key's last part: "rate" for fabric.rate."""
        return self.key.rpartition(".")[2]

    @property
    def title(self) -> str:
        """The key in words, for pictures: "Line rate of each host"."""
        key = self.key.removesuffix(".value")  # of a cost, whose source is beside it
        return TITLES.get(key) or key.rpartition(".")[2].replace("_", " ").capitalize()

    def between(self, first: int, share: float) -> float:
        """The number that lies this share of the way from a value to the next one."""
        low, high = self.numbers[first], self.numbers[first + 1]
        if self.logarithmic:
            return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        return low + share * (high - low)


@dataclass(frozen=True)
class Time:
    """A strategy's estimate in one cell."""

    iteration_s: float
    #: Share by which the time differs if ports and switches hold half as much.
    by_queues: float = 0.0
    #: Whether it lies between the estimates of two other cells, and is not one itself.
    is_between: bool = False

    @property
    def doubt(self) -> float:
        """The share of the time that may be wrong; 0 where little depends on queues."""
        return abs(self.by_queues) if abs(self.by_queues) > DOUBTFUL_FROM else 0.0


@dataclass(frozen=True)
class Outcome:
    """The winner of a cell, its lead, and the order of all strategies."""

    #: Strategies with an estimate, the fastest first.
    order: tuple[str, ...]
    #: The fastest, and all that are level with it.
    level: tuple[str, ...]
    #: The next one's time over the winner's, minus 1; infinite where nothing else has a time.
    lead: float
    #: Whether the order of the first ones, also of a tie, depends on how much queues hold.
    doubtful: bool = False

    @property
    def winner(self) -> str:
        """The fastest."""
        return self.order[0]

    @property
    def is_tie(self) -> bool:
        """Whether another strategy is level with the fastest."""
        return len(self.level) > 1


@dataclass(frozen=True)
class Crossing:
    """A change of the winner along an axis, between two neighbouring cells."""

    #: The number of the axis: 0 or 1.
    along: int
    #: The cell before it.
    place: Place
    before: str
    after: str
    #: On the axis, interpolated between the cells' estimates.
    number: float


def outcome_of(times: Mapping[str, Time], tie: float = TIE) -> Outcome | None:
    """Outcome of a cell with these times; None if there are none."""
    if not times:
        return None
    order = sorted(times, key=lambda name: (times[name].iteration_s, name))
    first, *others = order
    best = times[first]
    level = [name for name in order if times[name].iteration_s <= best.iteration_s * (1 + tie)]
    lead = times[others[0]].iteration_s / best.iteration_s - 1 if others else math.inf
    latest_s = best.iteration_s * (1 + best.doubt)
    doubtful = any(
        times[name].iteration_s * (1 - times[name].doubt) <= latest_s and (times[name].doubt or best.doubt)
        for name in others
    )
    return Outcome(tuple(order), tuple(level), lead, bool(doubtful))


@dataclass(frozen=True)
class WinnerMap:
    """Estimates of strategies over a grid."""

    title: str
    #: The first axis is drawn from left to right, the second from the bottom to the top.
    axes: tuple[Axis, Axis]
    strategies: tuple[str, ...]
    times: Mapping[Place, Mapping[str, Time]]
    #: Reasons why strategies have no time in a cell.
    refused: Mapping[Place, Mapping[str, str]] = field(default_factory=dict)
    #: Strategies that take no part, and why.
    left_out: Mapping[str, str] = field(default_factory=dict)
    tie: float = TIE
    #: Effects that estimates lack, a sentence each.
    warnings: tuple[str, ...] = ()

    @property
    def places(self) -> list[Place]:
        """All cells: the second axis varies slowest, and the first one's least value comes first."""
        x, y = self.axes
        return [(i, j) for j in range(len(y.texts)) for i in range(len(x.texts))]

    @cached_property
    def outcomes(self) -> Mapping[Place, Outcome]:
        """Outcomes of the cells that have a time."""
        found = ((place, outcome_of(self.times.get(place, {}), self.tie)) for place in self.places)
        return {place: outcome for place, outcome in found if outcome is not None}

    @cached_property
    def won(self) -> Mapping[str, int]:
        """Number of cells that each strategy wins alone, those with the most first. Strategies that win none are left
        out."""
        counts = Counter(outcome.winner for outcome in self.outcomes.values() if not outcome.is_tie)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], self.strategies.index(item[0]))))

    @property
    def ties(self) -> int:
        """Number of cells with several winners."""
        return sum(outcome.is_tie for outcome in self.outcomes.values())

    def neighbours(self) -> Iterator[tuple[int, Place, Place]]:
        """Pairs of cells that share a side, with the number of the axis that leads from the one to the other."""
        x, y = self.axes
        for i, j in self.places:
            if i + 1 < len(x.texts):
                yield 0, (i, j), (i + 1, j)
            if j + 1 < len(y.texts):
                yield 1, (i, j), (i, j + 1)

    def shown(self, place: Place) -> str | None:
        """Name of a cell's winner; "" for a tie, None if no strategy has a time."""
        outcome = self.outcomes.get(place)
        if outcome is None:
            return None
        return "" if outcome.is_tie else outcome.winner

    def edges(self) -> list[tuple[Place, Place]]:
        """Pairs of neighbouring cells that are drawn as different: the borders between areas."""
        return [(one, other) for _, one, other in self.neighbours() if self.shown(one) != self.shown(other)]

    def near_border(self) -> set[Place]:
        """Cells at a border that is drawn, and in which something can run."""
        return {place for edge in self.edges() for place in edge if place in self.outcomes}

    @cached_property
    def crossings(self) -> list[Crossing]:
        """Changes of the winner from one cell to the next."""
        found = (self._crossing(along, one, other) for along, one, other in self.neighbours())
        return [crossing for crossing in found if crossing is not None]

    def _crossing(self, along: int, one: Place, other: Place) -> Crossing | None:
        if one not in self.outcomes or other not in self.outcomes:
            return None
        before, after = self.outcomes[one].winner, self.outcomes[other].winner
        if before == after:
            return None
        share = crossing_share(self.times[one], self.times[other], before, after)
        return Crossing(along, one, before, after, self.axes[along].between(one[along], share))


def crossing_share(here: Mapping[str, Time], there: Mapping[str, Time], before: str, after: str) -> float:
    """Place between two neighbouring cells at which two strategies take equally long, as a share of the distance:
    logarithms of times are interpolated. It is half the distance if one of them has a time in one cell alone."""
    if after not in here or before not in there:
        return 0.5
    ahead = math.log(here[after].iteration_s / here[before].iteration_s)
    behind = math.log(there[before].iteration_s / there[after].iteration_s)
    return ahead / (ahead + behind) if ahead + behind > 0 else 0.5


def stretches(winners: Sequence[str | None]) -> list[tuple[str | None, int, int]]:
    """Runs of equal winners along a row: who, and the first and the last of the cells."""
    runs: list[tuple[str | None, int, int]] = []
    for index, name in enumerate(winners):
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1], index)
        else:
            runs.append((name, index, index))
    return runs

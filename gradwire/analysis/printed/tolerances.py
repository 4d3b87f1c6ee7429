"""When a measured value agrees with a printed one: all tolerances, each with its reason.

`gradwire run` judges the values that a scenario has printed beside its points with them, and `gradwire reproduce` the papers' claims
(reproduction/scoring/holds.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from gradwire.faults import InternalFault

EFFICIENCY_POINTS = 0.05
"""Absolute, for scaling and scheduling efficiencies: 5 percentage points. As a share of the printed value, the same emulation error would
count four times as much in a cell of 21 % as in one of 96 %."""
NUMBER_SHARE = 0.10
"""Share of the printed value, for other measured numbers. Papers print averages of a testbed without intervals, often read off a figure,
and the framework overhead that the emulation leaves out is about 5 % of an iteration (Geryon's own tables imply 4 to 6 %)."""
EXACT_SHARE = 0.01
"""For what follows from definitions (counts, sizes, shares of parameters), where nothing is measured: the papers' rounding."""
APPROX_SHARE = 0.20
"""For "about" and "around": twice the tolerance of a printed number."""
GAIN_FACTOR = 2.0
"""A speed-up must also be a gain of the printed size, within this factor: 1.00 is within 10 % of 1.09, and no gain at all."""
GAIN_POINTS = 0.02
"""A gain this close to the printed one passes whatever their ratio: twice the emulation's grain of 1 %."""
TIE_SHARE = 0.01
"""Two values closer than this are a tie, and a bound missed by less is kept: the emulation's grain, see reproduction/scoring/shapes.py."""

EFFICIENCY_METRICS = frozenset({"scaling_efficiency", "scheduling_efficiency"})
EXACT_METRICS = frozenset({"count", "size_mib", "size_gbit", "batch"})
SPEEDUP = "speedup"


def number_holds(metric: str, printed: float, measured: float, *, about: bool = False) -> bool:
    """Whether a number is close enough to the printed one. about: it is printed as "about" that number."""
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
    """Whether a speed-up is a gain (or a loss) of about the printed size."""
    gain, printed_gain = measured - 1, printed - 1
    if abs(gain - printed_gain) <= GAIN_POINTS:
        return True
    return gain * printed_gain > 0 and 1 / GAIN_FACTOR <= gain / printed_gain <= GAIN_FACTOR


@dataclass(frozen=True)
class Tier:
    """A place in a printed order. Names in one tier are not ranked against each other."""

    names: tuple[str, ...]
    #: The tier before it is printed as at least as good, so a tie with it is as printed.
    may_tie: bool = False


@dataclass(frozen=True)
class Order:
    """Scores of what is ranked. Higher is better."""

    scores: Mapping[str, float]
    #: Half of the 95 % interval of each score, where it is known.
    ci95: Mapping[str, float] = field(default_factory=dict)
    #: Which row of several.
    row: str = ""

    @property
    def best_first(self) -> tuple[str, ...]:
        """Names by falling score."""
        return tuple(sorted(self.scores, key=lambda name: -self.scores[name]))


def tiers_hold(tiers: Sequence[Tier], order: Order) -> bool:
    """Whether everything that is printed as better, best tier first, scored visibly higher: a tie shows no order.

    A tie is a difference within 1 %, or intervals that overlap. It is enough where every tier from the better one on, up to the other,
    may tie. Raises InternalFault for a name without a score.
    """
    places = [(place, name) for place, tier in enumerate(tiers) for name in tier.names]
    missing = [name for _, name in places if name not in order.scores]
    if missing:
        raise InternalFault(f"rank: '{missing[0]}' is printed but not measured; measured are {', '.join(order.scores)}")
    for (place, name), (other_place, other) in combinations(places, 2):
        if place == other_place:
            continue
        gap, tie = order.scores[name] - order.scores[other], _tie(order, name, other)
        strict = not all(tier.may_tie for tier in tiers[place + 1 : other_place + 1])
        if gap < -tie or (strict and gap <= tie):
            return False
    return True


def _tie(order: Order, name: str, other: str) -> float:
    """How far apart two scores may be and still not be told apart."""
    return max(TIE_SHARE * abs(order.scores[other]), order.ci95.get(name, 0.0) + order.ci95.get(other, 0.0))

"""The judge: when a measured value agrees with a printed one. All tolerances are here, each with its reason.

`gradwire reproduce` judges the papers' claims with it, and `gradwire run` the values that a scenario has printed beside its points.
Shapes and formulas carry the answer of their predicate (analysis/papers/shapes.py); everything else is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from gradwire.analysis.papers.evidence import Measured, Order
from gradwire.analysis.papers.reference import AT_LEAST, Claim, Kind, rank_names
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
"""Two values closer than this are a tie, and a bound missed by less is kept: the emulation's grain, see analysis/papers/shapes.py."""

EFFICIENCY_METRICS = frozenset({"scaling_efficiency", "scheduling_efficiency"})
EXACT_METRICS = frozenset({"count", "size_mib", "size_gbit", "batch"})
SPEEDUP = "speedup"
_BOUND = re.compile(r"(<=|>=|<|>)\s*([-+0-9.eE]+)")


def holds(claim: Claim, measured: Measured) -> bool:
    """Whether a claim with a printed value holds. Raises InternalFault where the evidence does not suit the claim's kind."""
    place = f"claim {claim.id} ({claim.kind})"
    if claim.kind in (Kind.SHAPE, Kind.FORMULA):
        if measured.holds is None:
            raise InternalFault(f"{place}: its function must say whether it holds")
        return measured.holds
    if measured.holds is not None:
        raise InternalFault(f"{place}: its function must not say whether it holds; analysis/papers/holds.py decides")
    if claim.kind is Kind.RANK:
        assert isinstance(claim.printed, list)
        if not measured.orders:
            raise InternalFault(f"{place}: its function must return ranked(...)")
        return all(rank_holds(claim.printed, order) for order in measured.orders)
    if not isinstance(measured.value, (int, float)):
        raise InternalFault(f"{place}: measured '{measured.value}' is not a number")
    if claim.kind is Kind.BOUND:
        return bound_holds(str(claim.printed), measured.value)
    assert isinstance(claim.printed, float)
    return number_holds(claim.metric, claim.printed, measured.value, claim.kind)


def number_holds(metric: str, printed: float, measured: float, kind: Kind = Kind.CELL) -> bool:
    """Whether a number is close enough to the printed one."""
    if metric in EFFICIENCY_METRICS:
        return abs(measured - printed) <= EFFICIENCY_POINTS
    if abs(measured - printed) > number_share(metric, kind) * abs(printed):
        return False
    return metric != SPEEDUP or kind is Kind.APPROX or gain_holds(printed, measured)


def number_share(metric: str, kind: Kind = Kind.CELL) -> float:
    """Tolerance of a number that is not an efficiency, as a share of the printed value."""
    if kind is Kind.APPROX:
        return APPROX_SHARE
    return EXACT_SHARE if metric in EXACT_METRICS else NUMBER_SHARE


def gain_holds(printed: float, measured: float) -> bool:
    """Whether a speed-up is a gain (or a loss) of about the printed size."""
    gain, printed_gain = measured - 1, printed - 1
    if abs(gain - printed_gain) <= GAIN_POINTS:
        return True
    return gain * printed_gain > 0 and 1 / GAIN_FACTOR <= gain / printed_gain <= GAIN_FACTOR


def bound_holds(bound: str, measured: float) -> bool:
    """Whether a number keeps a bound like "<= 0.37", up to a tie. Raises InternalFault for any other text."""
    parts = _BOUND.fullmatch(bound.strip())
    if not parts:
        raise InternalFault(f"bound '{bound}': write it like '<= 0.37'")
    limit = float(parts[2])
    slack = TIE_SHARE * abs(limit)
    return measured <= limit + slack if parts[1].startswith("<") else measured >= limit - slack


@dataclass(frozen=True)
class Tier:
    """A place in a printed order. Names in one tier are not ranked against each other."""

    names: tuple[str, ...]
    #: The tier before it is printed as at least as good, so a tie with it is as printed.
    may_tie: bool = False


def rank_holds(printed: Sequence[str], order: Order) -> bool:
    """Whether a rank as claims write it (Kind.RANK) is the measured one: see `tiers_hold`."""
    return tiers_hold([Tier(tuple(rank_names(entry)), entry.startswith(AT_LEAST)) for entry in printed], order)


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


def tolerance_text(claim: Claim) -> str:
    """The rule that decides a claim, in a few words."""
    if claim.kind in (Kind.SHAPE, Kind.FORMULA):
        return "predicate"
    if claim.kind is Kind.RANK:
        return f"order, ahead by more than {TIE_SHARE:.0%} and the intervals"
    if claim.kind is Kind.BOUND:
        return f"bound, {TIE_SHARE:.0%} slack"
    if claim.metric in EFFICIENCY_METRICS:
        return f"{EFFICIENCY_POINTS * 100:.0f} points"
    return f"{number_share(claim.metric, claim.kind):.0%}"

"""What "holds" means, by kind of claim: every tolerance of `gradwire reproduce`, with its reason.

Shapes and formulas carry the answer of their predicate (analysis/papers/shapes.py); everything else is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

from gradwire.analysis.papers.evidence import Measured, Order
from gradwire.analysis.papers.reference import AT_LEAST, Claim, Kind, rank_names
from gradwire.faults import InternalFault

EFFICIENCY_POINTS = 0.05
"""Absolute, of scaling and scheduling efficiencies: 5 percentage points. As a share of the printed value, the same emulation error would
count four times as much in a cell of 21 % as in one of 96 %."""
NUMBER_SHARE = 0.10
"""Of the printed value, for other measured numbers. Papers print averages of a testbed without intervals, often read off a figure; and the
framework overhead that the emulation leaves out is about 5 % of an iteration (Geryon's own tables imply 4 to 6 %)."""
EXACT_SHARE = 0.01
"""For what follows from definitions (counts, sizes, shares of parameters), where nothing is measured: the papers' rounding."""
APPROX_SHARE = 0.20
"""For "about" and "around": twice what a printed number gets."""
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
    """Whether a claim that has a printed value holds. Raises InternalFault where the evidence does not suit the claim's kind."""
    place = f"claim {claim.id} ({claim.kind})"
    if claim.kind in (Kind.SHAPE, Kind.FORMULA):
        if measured.holds is None:
            raise InternalFault(f"{place}: its function must say whether it holds")
        return measured.holds
    if measured.holds is not None:
        raise InternalFault(f"{place}: whether it holds is not for its function to say")
    if claim.kind is Kind.RANK:
        assert isinstance(claim.printed, list)
        if not measured.orders:
            raise InternalFault(f"{place}: its function must return ranked(...)")
        return all(rank_holds(claim.printed, order) for order in measured.orders)
    if not isinstance(measured.value, (int, float)):
        raise InternalFault(f"{place}: measured '{measured.value}' is no number")
    if claim.kind is Kind.BOUND:
        return bound_holds(str(claim.printed), measured.value)
    assert isinstance(claim.printed, float)
    return number_holds(claim, claim.printed, measured.value)


def number_holds(claim: Claim, printed: float, measured: float) -> bool:
    """Whether a number is close enough to the printed one, by the claim's kind and metric."""
    if claim.metric in EFFICIENCY_METRICS:
        return abs(measured - printed) <= EFFICIENCY_POINTS
    share = NUMBER_SHARE
    if claim.kind is Kind.APPROX:
        share = APPROX_SHARE
    elif claim.metric in EXACT_METRICS:
        share = EXACT_SHARE
    if abs(measured - printed) > share * abs(printed):
        return False
    return claim.metric != SPEEDUP or claim.kind is Kind.APPROX or gain_holds(printed, measured)


def gain_holds(printed: float, measured: float) -> bool:
    """Whether a speed-up is a gain (or a loss) of about the printed size."""
    gain, wanted = measured - 1, printed - 1
    if abs(gain - wanted) <= GAIN_POINTS:
        return True
    return gain * wanted > 0 and 1 / GAIN_FACTOR <= gain / wanted <= GAIN_FACTOR


def bound_holds(bound: str, measured: float) -> bool:
    """Whether a number keeps a bound like "<= 0.37", up to a tie. Raises InternalFault for a text that is no bound."""
    found = _BOUND.fullmatch(bound.strip())
    if not found:
        raise InternalFault(f"bound '{bound}': write it like '<= 0.37'")
    limit = float(found[2])
    slack = TIE_SHARE * abs(limit)
    return measured <= limit + slack if found[1].startswith("<") else measured >= limit - slack


def rank_holds(printed: Sequence[str], order: Order) -> bool:
    """Whether everything that is printed as better scored higher, visibly: a tie shows no order.

    A tie is a difference within 1 %, or intervals that overlap. It is enough where all from the one to the other are marked as "at least as
    good", see Kind.RANK; members of a group are not ranked against each other. Raises InternalFault for a name without a score.
    """
    places = [(place, name) for place, entry in enumerate(printed) for name in rank_names(entry)]
    missing = [name for _, name in places if name not in order.scores]
    if missing:
        raise InternalFault(f"rank: '{missing[0]}' is printed, and measured are {', '.join(order.scores)}")
    strict = [not entry.startswith(AT_LEAST) for entry in printed]
    for (place, name), (other_place, other) in combinations(places, 2):
        if place == other_place:
            continue
        gap, tie = order.scores[name] - order.scores[other], _tie(order, name, other)
        if gap < -tie or (any(strict[place + 1 : other_place + 1]) and gap <= tie):
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
    if claim.kind is Kind.APPROX:
        return f"{APPROX_SHARE:.0%}"
    return f"{EXACT_SHARE if claim.metric in EXACT_METRICS else NUMBER_SHARE:.0%}"

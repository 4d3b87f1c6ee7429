"""The judge: whether a claim holds, with the tolerances of gradwire/analysis/printed.py.

Shapes and formulas carry the answer of their predicate (reproduction/scoring/shapes.py); everything else is decided
here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradwire.analysis.printed import (
    EFFICIENCY_METRICS,
    EFFICIENCY_POINTS,
    TIE_SHARE,
    MeasuredOrder,
    RankTier,
    number_holds,
    number_share,
    tiers_hold,
)
from gradwire.faults import InternalFault
from reproduction.scoring.evidence import Measured
from reproduction.scoring.reference import AT_LEAST, Claim, Kind, rank_names

_BOUND = re.compile(r"(<=|>=|<|>)\s*([-+0-9.eE]+)")


def holds(claim: Claim, measured: Measured) -> bool:
    """Whether a claim with a printed value holds. Raises InternalFault
    where the evidence does not suit the claim's kind."""
    claim_name = f"claim {claim.id} ({claim.kind})"
    if claim.kind in (Kind.SHAPE, Kind.FORMULA):
        if measured.holds is None:
            raise InternalFault(f"{claim_name}: its function must say whether it holds")
        return measured.holds
    if measured.holds is not None:
        raise InternalFault(
            f"{claim_name}: its function must not say whether it holds; reproduction/scoring/holds.py decides"
        )
    if claim.kind is Kind.RANK:
        assert isinstance(claim.printed, list)
        if not measured.orders:
            raise InternalFault(f"{claim_name}: its function must return ranked(...)")
        return all(rank_holds(claim.printed, order) for order in measured.orders)
    if not isinstance(measured.value, (int, float)):
        raise InternalFault(f"{claim_name}: measured '{measured.value}' is not a number")
    if claim.kind is Kind.BOUND:
        return bound_holds(str(claim.printed), measured.value)
    assert isinstance(claim.printed, float)
    return number_holds(claim.metric, claim.printed, measured.value, about=claim.kind is Kind.APPROX)


def bound_holds(bound: str, measured: float) -> bool:
    """Whether a number keeps a bound like "<= 0.37", up to a tie. Raises InternalFault for any other text."""
    parts = _BOUND.fullmatch(bound.strip())
    if not parts:
        raise InternalFault(f"bound '{bound}': write it like '<= 0.37'")
    limit = float(parts[2])
    slack = TIE_SHARE * abs(limit)
    return measured <= limit + slack if parts[1].startswith("<") else measured >= limit - slack


def rank_holds(printed: Sequence[str], order: MeasuredOrder) -> bool:
    """Whether a rank as claims write it (Kind.RANK) is the measured one: see `tiers_hold`."""
    return tiers_hold([RankTier(tuple(rank_names(entry)), entry.startswith(AT_LEAST)) for entry in printed], order)


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
    return f"{number_share(claim.metric, about=claim.kind is Kind.APPROX):.0%}"

"""What moved from one reproduction to a later one: claims with another outcome, or with a visibly different value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from gradwire.analysis.difference import ClaimDifference, claim_differences
from reproduction.pages.rows import ClaimRow

VISIBLY = 0.01
"""Share of the old value from which on a number has moved: the emulation's grain, as in reproduction/scoring/shapes.py."""


def moved(before: Sequence[ClaimRow], now: Sequence[ClaimRow]) -> list[ClaimDifference]:
    """The claims whose outcome changed or whose number moved by more than VISIBLY, and those that only one side has."""
    changed = claim_differences([asdict(row) for row in before], [asdict(row) for row in now])
    return [each for each in changed if each.first_outcome != each.second_outcome or abs(change(each)) > VISIBLY]


def change(difference: ClaimDifference) -> float:
    """Second minus first as a share of the first; nan where either is not a number."""
    try:
        first, second = float(difference.first), float(difference.second)
    except ValueError:
        return math.nan
    if first == 0:
        return 0.0 if second == 0 else math.inf
    return (second - first) / abs(first)

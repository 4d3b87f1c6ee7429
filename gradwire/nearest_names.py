"""Which of the names that exist is meant by one that does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

ALIKE = 0.6
"""Least similarity of a name that is suggested, as difflib's."""
BEGUN = 3
"""Least number of letters from which the beginning of a name is a hint to it."""
MOST_MEANT = 3
"""Largest number of names that are suggested at once."""


def nearest_names(name: str, allowed: Iterable[str], cutoff: float = ALIKE) -> list[str]:
    """Returns the allowed names that `name` may be a typing error of: the nearest one, with all others that are as near.

    As near are those of the same similarity (one that has the same letters is nearer), and, if the nearest one begins
    with `name`, all that begin with it: how much is missing says nothing of which is meant. Empty if none is as similar
    as `cutoff`, or if more than MOST_MEANT are as near.
    """
    by_nearness: dict[tuple[float, bool], list[str]] = {}
    matcher = SequenceMatcher()
    matcher.set_seq2(name)
    for one in dict.fromkeys(allowed):
        matcher.set_seq1(one)
        if matcher.quick_ratio() >= cutoff and (similarity := matcher.ratio()) >= cutoff:
            by_nearness.setdefault((similarity, sorted(one) == sorted(name)), []).append(one)
    if not by_nearness:
        return []
    nearest = by_nearness[max(by_nearness)]
    if len(name) >= BEGUN and any(one.startswith(name) for one in nearest):
        begun = [one for one in dict.fromkeys(allowed) if one.startswith(name)]
        nearest = begun if len(begun) <= MOST_MEANT else nearest
    return nearest if len(nearest) <= MOST_MEANT else []


def did_you_mean(names: Sequence[str]) -> str:
    """Returns the question whether one of these names is meant; empty for none."""
    return f"did you mean {' or '.join(map(repr, names))}?" if names else ""


def question(name: str, allowed: Iterable[str]) -> str:
    """Returns the question whether an allowed name is meant by `name`; empty if none is near."""
    return did_you_mean(nearest_names(name, allowed))

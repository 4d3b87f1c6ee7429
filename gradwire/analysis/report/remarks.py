"""What is said below a table of points that take another time than on an ideal network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.agreement.causes import Agreement, Cause
from gradwire.analysis.points import PointResult

MOST_NAMED = 3
"""Points of one cause that are named beside the one that it is told of."""


@dataclass(frozen=True)
class Remark:
    """A line about one cause."""

    text: str
    #: Whether it should be read before the results are trusted.
    is_warning: bool


def remarks(labels: Sequence[str], rows: Sequence[PointResult], agreements: Sequence[Agreement | None]) -> list[Remark]:
    """One line per cause, told of the first point that has it; warnings first. All arguments have one element per point."""
    by_cause: dict[Cause, list[int]] = {}
    for index, agreement in enumerate(agreements):
        if agreement and agreement.sentence:
            by_cause.setdefault(agreement.cause, []).append(index)
    ordered = sorted(by_cause, key=lambda cause: (cause is not Cause.UNEXPLAINED, list(Cause).index(cause)))
    return [Remark(_told(by_cause[cause], labels, rows, agreements), cause is Cause.UNEXPLAINED) for cause in ordered]


def _told(
    points: Sequence[int], labels: Sequence[str], rows: Sequence[PointResult], agreements: Sequence[Agreement | None]
) -> str:
    """Of the first of these points all that is known, and of the others their names."""
    first, *others = points
    agreement, ratio = agreements[first], rows[first].fluid_ratio
    assert agreement is not None
    whose = f" of {labels[first]}" if len(rows) > 1 else ""
    text = f"x fluid{whose}{f' is {ratio:.3f}' if ratio else ''}: {agreement.sentence}."
    if not others:
        return text
    named = [_named(labels[index], rows[index].fluid_ratio) for index in others[:MOST_NAMED]]
    more = len(others) - len(named)
    return f"{text} The same holds for {'; '.join(named)}{f'; and {more} more points' if more else ''}."


def _named(label: str, ratio: float | None) -> str:
    return f"{label} ({ratio:.3f})" if ratio else label

"""Printed and measured values as text, with their units."""

from __future__ import annotations

from gradwire.analysis.report.tables import ABSENT
from reproduction.scoring.reference import Claim, rank_text
from reproduction.scoring.score import Result

MOST_LETTERS = 100
"""A longer cell of a page's table is cut: the paper's CSV file has it whole."""

SHOWN_INTERVAL = 0.001
"""Share of a value: a smaller interval is below its last printed digit, and left to the CSV file."""


def printed_text(claim: Claim) -> str:
    """What the paper prints, with its unit."""
    if claim.printed is None:
        return "left out"
    if isinstance(claim.printed, list):
        return rank_text(claim.printed)
    return value_text(claim.printed, claim)


def measured_text(result: Result) -> str:
    """What was measured, with its interval and unit."""
    if result.measured is None:
        return ABSENT
    value, half = result.measured.value, result.measured.ci95
    text = value_text(value, result.claim)
    shows = half is not None and isinstance(value, (int, float)) and half > SHOWN_INTERVAL * abs(value)
    return f"{text} ± {_interval(half, result.claim)}" if shows and half is not None else text


def value_text(value: float | str, claim: Claim) -> str:
    """A value of a claim, with its unit."""
    if isinstance(value, str):
        return value
    if claim.metric == "scaling_efficiency":
        return f"{value * 100:.1f} %"
    return _number(value) + (f" {claim.unit}" if claim.unit else "x" if claim.metric == "speedup" else "")


def _interval(half: float, claim: Claim) -> str:
    return f"{half * 100:.2g}" if claim.metric == "scaling_efficiency" else f"{half:.2g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def error_text(relative_error: float | None) -> str:
    """Signed, in per cent of the printed value."""
    return ABSENT if relative_error is None else f"{relative_error:+z.1%}"


def where_text(claim: Claim) -> str:
    """The point that a claim speaks of."""
    return ", ".join(str(value) for value in claim.where.values())


def shortened(text: str, letters: int = MOST_LETTERS) -> str:
    """At most so many letters, cut between words."""
    if len(text) <= letters:
        return text
    return text[: letters - 1].rsplit(" ", 1)[0].rstrip(",;:") + " …"

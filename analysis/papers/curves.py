"""Curves that are no sweep over points, such as a CDF, a timeline or a closed form: bound to a scenario, and drawn in its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gradwire.analysis.papers.evidence import Points
from gradwire.analysis.papers.shapes import Series

Curves = Callable[[Points], Mapping[str, Series]]
"""Named series. Raises NoEvidence where there is nothing to draw."""


@dataclass(frozen=True)
class Drawing:
    """How the curves are drawn. bars: side by side. dots: a mark a point, without a line. log_x: logarithmic.

    timelines: each below the other in a panel of its own, as a staircase in which each value lasts until the next.
    """

    title: str
    x_label: str
    y_label: str
    curves: Curves
    timelines: bool = False
    bars: bool = False
    log_x: bool = False
    dots: bool = False


_drawings: dict[str, list[Drawing]] = {}


def draws(
    scenario: str,
    title: str,
    x_label: str,
    y_label: str,
    *,
    timelines: bool = False,
    bars: bool = False,
    log_x: bool = False,
    dots: bool = False,
) -> Callable[[Curves], Curves]:
    """Binds curves to a scenario's report."""

    def bind(curves: Curves) -> Curves:
        drawing = Drawing(title, x_label, y_label, curves, timelines, bars, log_x, dots)
        _drawings.setdefault(scenario, []).append(drawing)
        return curves

    return bind


def drawings_of(scenario: str) -> list[Drawing]:
    """The curves bound to a scenario."""
    return _drawings.get(scenario, [])

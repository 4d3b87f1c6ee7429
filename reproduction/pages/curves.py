"""Curves that a sweep over points does not give, such as a CDF, a timeline or a
closed form. Each is bound to a scenario's report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reproduction.scoring.evidence import Points
from reproduction.scoring.shapes import Series

Curves = Callable[[Points], Mapping[str, Series]]
"""Named series. Raises NoEvidence where there is nothing to draw."""


@dataclass(frozen=True)
class Drawing:
    """How curves are drawn."""

    title: str
    x_label: str
    y_label: str
    curves: Curves
    #: One below the other, each in one panel, as a staircase in which a value lasts until the next.
    timelines: bool = False
    #: Side by side.
    bars: bool = False
    #: Logarithmic.
    log_x: bool = False
    #: A mark per point, without a line.
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

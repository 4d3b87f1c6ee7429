"""The chart of divisions of a large model: the parts of an iteration of each, and its time at other rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure

from gradwire.analysis.report.charts import PALETTE, STYLE


@dataclass(frozen=True)
class DivisionBar:
    """A division and its times in seconds."""

    name: str
    compute_s: float
    bubble_s: float
    exposed_s: float
    half_rate_s: float
    double_rate_s: float


def division_chart(bars: Sequence[DivisionBar], title: str) -> Figure:
    """Horizontal bars, the fastest at the top."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 1.6 + 0.34 * len(bars)))
        axes = figure.subplots()
        places = range(len(bars))
        left = [0.0] * len(bars)
        parts = (
            ("computation", [bar.compute_s for bar in bars], PALETTE[0]),
            ("pipeline bubble", [bar.bubble_s for bar in bars], PALETTE[4]),
            ("exposed communication", [bar.exposed_s for bar in bars], PALETTE[1]),
        )
        for label, widths, color in parts:
            axes.barh(places, widths, left=left, height=0.7, color=color, label=label)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for place, end_s in enumerate(left):
            axes.annotate(f"{end_s:.3g} s", (0, place), (4, 0), textcoords="offset points", va="center", color="white")
        axes.plot([bar.half_rate_s for bar in bars], places, "<", color="black", label="at half the rate")
        axes.plot([bar.double_rate_s for bar in bars], places, ">", color=PALETTE[5], label="at double the rate")
        axes.set_yticks(places, [bar.name for bar in bars])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("Iteration time (s)")
        axes.set_title(title)
        axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.18), ncols=3, frameon=False)
        return figure

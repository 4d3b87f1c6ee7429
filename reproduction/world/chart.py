"""The error chart: predicted over printed, a panel for each source, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from gradwire.analysis.report.charts import PALETTE, STYLE, svg_text
from reproduction.world.cells import RIGHT_WITHIN, By
from reproduction.world.scored import ScoredRow, Status

COLUMNS = 4
PANEL_INCHES = 2.35
UNIT_COLOURS = dict(zip(("time", "rate"), PALETTE, strict=False))
PROGRAM_MARK = "D"
DECADES = 30
"""Over a wider range, only powers of ten have ticks."""
MOST_TICKS = 6
LEAST_DECADES = 1.0
"""Of an axis, however close a source's values are."""


def error_chart(rows: Sequence[ScoredRow]) -> str:
    """The SVG of all rows that have a printed and a predicted value."""
    sources = list(dict.fromkeys(row.source for row in rows if _is_drawn(row)))
    lines = max(1, -(-len(sources) // COLUMNS))
    with mpl.rc_context({**STYLE, "font.size": 8, "axes.titlesize": 9, "axes.titleweight": "normal"}):
        figure = Figure(figsize=(PANEL_INCHES * COLUMNS, PANEL_INCHES * lines + 0.5), layout="constrained")
        for number, source in enumerate(sources, 1):
            axes = figure.add_subplot(lines, COLUMNS, number)
            _panel(axes, source, [row for row in rows if row.source == source and _is_drawn(row)])
        figure.supylabel("predicted", fontsize=9)
        handles = _handles()
        figure.legend(
            handles=handles, loc="outside lower center", ncols=5, frameon=False, title="printed", title_fontsize=9
        )
        text = svg_text(figure)
    return text[text.index("<svg") :]


def _is_drawn(row: ScoredRow) -> bool:
    return bool(row.printed) and bool(row.predicted)


def _is_rate(row: ScoredRow) -> bool:
    return any(mark in row.unit for mark in ("/s", "FLOP", "bit")) or row.unit == "x"


def _panel(axes: Axes, source: str, rows: Sequence[ScoredRow]) -> None:
    values = [value for row in rows for value in (row.printed, row.predicted) if value]
    first, last = math.log10(min(values)), math.log10(max(values))
    margin = max(0.15, (LEAST_DECADES - (last - first)) / 2)
    low, high = 10 ** (first - margin), 10 ** (last + margin)
    line = [low, high]
    axes.fill_between(
        line,
        [x * (1 - RIGHT_WITHIN) for x in line],
        [x * (1 + RIGHT_WITHIN) for x in line],
        color="#E4E4E4",
        linewidth=0,
    )
    axes.plot(line, line, color="#888888", linewidth=0.7)
    for row in rows:
        fitted = row.status is Status.FITTED
        colour = UNIT_COLOURS["rate" if _is_rate(row) else "time"]
        axes.plot(
            [row.printed or 0],
            [row.predicted or 0],
            marker=PROGRAM_MARK if row.by == By.PROGRAMS else "o",
            markersize=3.6 if row.by == By.PROGRAMS else 4.2,
            linestyle="none",
            markerfacecolor="white" if fitted else colour,
            markeredgecolor=colour,
        )
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("log")
        few = (1.0,) if high / low > DECADES else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=few, numticks=MOST_TICKS))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    axes.set_title(source)
    axes.tick_params(labelsize=7)


def _handles() -> list[Line2D]:
    style = {"linestyle": "none", "marker": "o", "markersize": 5}
    shown = [
        Line2D([], [], color=colour, label=f"a {name}", **style)  # type: ignore[arg-type]
        for name, colour in UNIT_COLOURS.items()
    ]
    programs = Line2D([], [], color="#555555", label="real programs", **{**style, "marker": PROGRAM_MARK})  # type: ignore[arg-type]
    fitted = Line2D([], [], color="#555555", fillstyle="none", label="fitted, not counted", **style)  # type: ignore[arg-type]
    band = Line2D([], [], color="#D0D0D0", linewidth=6, label=f"within {RIGHT_WITHIN:.0%}")
    return [*shown, programs, fitted, band]

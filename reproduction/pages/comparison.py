"""Printed and measured numbers of a scenario without a figure: a pair of bars per claim, one panel per metric."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from gradwire.analysis.printed_cells import EFFICIENCY
from gradwire.analysis.report.charts import PALETTE, STYLE, svg_text
from reproduction.pages.tables import value_text
from reproduction.scoring.score import Result, Status

FEWEST = 3
"""A table of fewer numbers is read faster than a figure of it."""
ROW_HEIGHT, MARGIN_HEIGHT, WIDTH = 0.3, 0.75, 7.2
"""Inches."""
COLORS = {Status.HOLDS: PALETTE[0], Status.DIFFERS: PALETTE[5], Status.FITTED: "#999999"}
GRID = "#DDDDDD"
MOST_TICKS = 7
UNITS = {"s": "s", "ms": "ms", "us": "us", "min": "min", "mb": "MB", "mib": "MiB", "gbit": "Gbit"}
"""Units at the end of a metric's name, as an axis writes them."""


def comparable(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results with a printed and a measured number that counts or was fitted, by metric with its unit."""
    by_metric: dict[str, list[Result]] = {}
    for result in results:
        claim, measured = result.claim, result.measured
        number = measured is not None and isinstance(measured.value, (int, float))
        if number and isinstance(claim.printed, float) and result.status in COLORS:
            by_metric.setdefault(axis_name(result), []).append(result)
    return by_metric


def axis_name(result: Result) -> str:
    """What a panel's axis says."""
    name, _, suffix = result.claim.metric.removesuffix("_per_s").rpartition("_")
    if suffix not in UNITS:
        name, suffix = "_".join(filter(None, (name, suffix))), ""
    unit = result.claim.unit or UNITS.get(suffix, "")
    return name.replace("_", " ") + (f" ({unit})" if unit else "")


def comparison_svg(results: Sequence[Result]) -> str | None:
    """The figure as SVG; None where there are too few numbers."""
    by_metric = comparable(results)
    rows = [len(shown) for shown in by_metric.values()]
    if sum(rows) < FEWEST:
        return None
    with mpl.rc_context(STYLE):
        height = sum(rows) * ROW_HEIGHT + len(rows) * MARGIN_HEIGHT + 0.3
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        ratios = [count * ROW_HEIGHT + MARGIN_HEIGHT for count in rows]
        panels = figure.subplots(len(rows), 1, squeeze=False, height_ratios=ratios)[:, 0]
        for axes, (name, shown) in zip(panels, by_metric.items(), strict=True):
            _pairs(axes, shown)
            axes.set_xlabel(name)
        _legend(figure, {result.status for shown in by_metric.values() for result in shown})
    text = svg_text(figure)
    return text[text.index("<svg") :]


def _pairs(axes: Axes, shown: Sequence[Result]) -> None:
    """A measured bar above a printed one for each claim, the first claim
    at the top, with both numbers at their ends."""
    longest = 0.0
    for row, result in enumerate(shown):
        assert result.measured is not None
        measured, printed = float(result.measured.value), result.claim.printed
        assert isinstance(printed, float)
        color = COLORS[result.status]
        longest = max(longest, abs(measured), abs(printed))
        axes.barh(row - 0.2, measured, 0.36, color=color, edgecolor=color, linewidth=0.8)
        axes.barh(row + 0.2, printed, 0.36, facecolor="white", edgecolor=color, hatch="////", linewidth=0.8)
        for y, value in ((row - 0.2, measured), (row + 0.2, printed)):
            text = value_text(value, result.claim)
            axes.annotate(text, (max(value, 0.0), y), (3, 0), textcoords="offset points", va="center", fontsize=6.5)
    low = min(0.0, axes.get_xlim()[0])
    axes.set_xlim(low, 1.16 * longest)
    axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS))
    percent = shown[0].claim.metric == EFFICIENCY
    axes.xaxis.set_major_formatter(PercentFormatter(1) if percent else FuncFormatter(tick_text))
    axes.set_yticks(range(len(shown)), [result.claim.id for result in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x", color=GRID, linewidth=0.6)


def tick_text(value: float, _: int = 0) -> str:
    """A number on an axis: millions as M, thousands of millions as G."""
    for unit, name in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:,.10g}"


def _legend(figure: Figure, statuses: set[Status]) -> None:
    handles = [Patch(color=color, label=status.value) for status, color in COLORS.items() if status in statuses]
    handles.append(Patch(facecolor="white", edgecolor="#777777", hatch="////", label="printed"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)

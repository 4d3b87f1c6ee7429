"""One metric of a run in axes that are given: lines over a number, or bars by word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from gradwire.analysis.parameters import parameter_number
from gradwire.analysis.points import PointResult, parameter_names
from gradwire.analysis.report.charts import METRIC_AXES, Labels, draw_bar, draw_line, finish_lines, series_color
from gradwire.faults import InputFault

GROUP_WIDTH = 0.84
"""Of the distance between two groups of bars."""
LETTERS_PT = 8.0


def draw_metric(
    axes: Axes, rows: Sequence[PointResult], x_key: str, metric: str, series_key: str, write: Labels
) -> None:
    """Draws a metric over the parameter `x_key`, a series for each value of `series_key`, with 95 % intervals and a legend.

    rows: pooled over seeds. Invalid points are not drawn: they break a line, and have the word in place of a bar. Raises InputFault for a
    metric or parameter that there is not, and for points that differ in anything else, which one panel cannot tell apart.
    """
    _check(rows, x_key, metric, series_key)
    names = list(dict.fromkeys(row.parameters.get(series_key, "") for row in rows))
    if series_key == x_key:
        _draw_bars(axes, rows, x_key, metric, None, names, write)
    elif all(parameter_number(row.parameters[x_key]) is not None for row in rows):
        for index, name in enumerate(names):
            of_series = [row for row in rows if row.parameters.get(series_key, "") == name]
            draw_line(axes, of_series, x_key, metric, index, write(name) if name else "")
        finish_lines(axes, rows, x_key, metric, write)
        axes.margins(y=0.06)
        axes.set_ylim(bottom=0)
        if any(names):
            axes.legend(frameon=False)
    else:
        _draw_bars(axes, rows, x_key, metric, series_key, names, write)


def _check(rows: Sequence[PointResult], x_key: str, metric: str, series_key: str) -> None:
    if metric not in METRIC_AXES:
        raise InputFault(f"y = '{metric}': cannot be drawn over points; there are {', '.join(METRIC_AXES)}")
    keys = list(dict.fromkeys(key for row in rows for key in row.parameters))
    for argument, key in (("x", x_key), ("by", series_key)):
        if not rows or any(key not in row.parameters for row in rows):
            raise InputFault(f"{argument} = '{key}': no parameter that all points have; there are {', '.join(keys)}")
    counts = Counter((row.parameters[x_key], row.parameters[series_key]) for row in rows)
    if max(counts.values()) > 1:
        others = [key for key in parameter_names(rows) if key not in (x_key, series_key)]
        example = f"{others[0]}={next(row.parameters.get(others[0], '') for row in rows)!r}" if others else ""
        raise InputFault(
            f"points also differ in {', '.join(others)}: one panel shows one value of each, so choose one, as with {example}, and draw "
            "the others into axes of their own"
        )


def _draw_bars(
    axes: Axes,
    rows: Sequence[PointResult],
    x_key: str,
    metric: str,
    series_key: str | None,
    names: Sequence[str],
    write: Labels,
) -> None:
    groups = list(dict.fromkeys(row.parameters[x_key] for row in rows))
    slots = len(names) if series_key else 1
    width = min(GROUP_WIDTH / slots, 0.5)
    for row in rows:
        index = names.index(row.parameters[series_key]) if series_key else 0
        middle = groups.index(row.parameters[x_key]) + width * (index + 0.5 - slots / 2)
        draw_bar(axes, middle, width, row, metric, False, series_color(index), LETTERS_PT)
    if series_key:
        keys = [Patch(color=series_color(index), label=write(name)) for index, name in enumerate(names)]
        axes.legend(handles=keys, frameon=False)
    axes.set_xticks(range(len(groups)), [write(group) for group in groups])
    axes.set_xlim(-0.55, len(groups) - 0.45)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(write(x_key).capitalize())
    axes.set_ylabel(METRIC_AXES[metric].label)
    axes.yaxis.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.margins(y=0.14)

"""Charts in axes that are given: one metric of a run as lines over a
number or as bars by word, and the bars of a ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gradwire.analysis.parameters import parameter_number
from gradwire.analysis.points import PointResult, parameter_names
from gradwire.analysis.report.charts import (
    METRIC_AXES,
    STYLE,
    Bar,
    Labels,
    draw_bar,
    draw_line,
    entitle,
    finish_lines,
)
from gradwire.analysis.report.ranking import Entry, Ranking
from gradwire.analysis.report.series_colours import colour_of_strategy, colours_of_series
from gradwire.faults import InputFault

GROUP_WIDTH = 0.84
"""Width of a group of bars, as a share of the distance between two groups."""
LETTERS_PT = 8.0
BAR_INCHES = 0.27
HEIGHT = 0.68


def draw_metric(
    axes: Axes, rows: Sequence[PointResult], x_key: str, metric: str, series_key: str, write: Labels
) -> None:
    """Draws a metric over the parameter `x_key`, a series for each value of `series_key`, with 95 % intervals and a
    legend.

    rows: pooled over seeds. Invalid points are not drawn: they break a line, and have the word in place of a bar.
    Raises InputFault for a metric or parameter that there is not, and for points that differ in anything else, which
    one panel cannot tell apart.
    """
    _check(rows, x_key, metric, series_key)
    names = list(dict.fromkeys(row.parameters.get(series_key, "") for row in rows))
    colours = colours_of_series(names)
    if series_key == x_key:
        _draw_bars(axes, rows, x_key, metric, None, names, write)
    elif all(parameter_number(row.parameters[x_key]) is not None for row in rows):
        for index, name in enumerate(names):
            of_series = [row for row in rows if row.parameters.get(series_key, "") == name]
            draw_line(axes, of_series, x_key, metric, index, colours[name], write(name) if name else "")
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
            f"points also differ in {', '.join(others)}: one panel shows one value of each, so choose one, as with "
            f"{example}, and draw the others into separate axes"
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
    slots, colours = len(names) if series_key else 1, colours_of_series(names)
    width = min(GROUP_WIDTH / slots, 0.5)
    for row in rows:
        index = names.index(row.parameters[series_key]) if series_key else 0
        middle = groups.index(row.parameters[x_key]) + width * (index + 0.5 - slots / 2)
        draw_bar(axes, Bar(middle, width, colours[names[index]], LETTERS_PT), row, metric)
    if series_key:
        keys = [Patch(color=colours[name], label=write(name)) for name in names]
        axes.legend(handles=keys, frameon=False)
    axes.set_xticks(range(len(groups)), [write(group) for group in groups])
    axes.set_xlim(-0.55, len(groups) - 0.45)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(write(x_key).capitalize())
    axes.set_ylabel(METRIC_AXES[metric].label)
    axes.yaxis.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.margins(y=0.14)


def ranking_chart(ranking: Ranking, title: str) -> Figure:
    """Draws the valid strategies. Invalid ones and those that are left out are only named, below."""
    with mpl.rc_context(STYLE):
        count = max(len(ranking.valid), 1)
        figure = Figure(figsize=(7.6, 1.3 + BAR_INCHES * count), layout="constrained")
        axes = figure.add_subplot()
        for row, entry in enumerate(ranking.valid):
            _bar(axes, row, entry, colour_of_strategy(entry.row.parameters.get("strategy", entry.name)))
        longest = max((entry.time_s + entry.ci_s for entry in ranking.valid), default=1.0)
        for row, entry in enumerate(ranking.valid):
            _value(axes, row, entry, ranking, longest)
        if ranking.valid:
            axes.axvline(ranking.compute_s, color="black", linestyle="--", linewidth=0.9)
        axes.set_yticks(range(len(ranking.valid)), _names(ranking))
        axes.set_ylim(count - 0.4, -0.6)
        axes.set_xlim(0, longest * 1.22)
        axes.tick_params(axis="y", length=0)
        faster = f"; x: times as fast as {ranking.baseline.name}" if ranking.baseline else ""
        whose = " of the whole model" if ranking.scaled else ""
        what = f"Time of {ranking.samples:,} samples" if ranking.samples else "Iteration time"
        axes.set_xlabel(f"{what}{whose} (s){faster}")
        axes.xaxis.grid(visible=True, color="#DDDDDD", linewidth=0.6)
        entitle(figure, title)
        _legend(figure, ranking)
    return figure


def _names(ranking: Ranking) -> list[str]:
    """The names of the bars, with their families where there are several."""
    several = len({entry.family for entry in ranking.valid}) > 1
    marked = [f"{entry.name}*" if entry.partial else entry.name for entry in ranking.valid]
    families = [f"  ({entry.family})" if several else "" for entry in ranking.valid]
    return [f"{name}{family}" for name, family in zip(marked, families, strict=True)]


def _bar(axes: Axes, row: int, entry: Entry, color: str) -> None:
    hatch = "////" if entry.partial else None
    face = "white" if entry.partial else color
    axes.barh(row, entry.time_s, HEIGHT, facecolor=face, edgecolor=color, hatch=hatch, linewidth=0.8)
    if entry.ci_s:
        axes.errorbar(entry.time_s, row, xerr=entry.ci_s, color="black", capsize=2.2, linewidth=0.9)
    bound = [entry.row.lower_bound_s] * 2
    axes.plot(bound, [row - HEIGHT / 2, row + HEIGHT / 2], color="white", linewidth=3.0, solid_capstyle="butt")
    axes.plot(bound, [row - HEIGHT / 2, row + HEIGHT / 2], color="black", linewidth=1.4, solid_capstyle="butt")


def _value(axes: Axes, row: int, entry: Entry, ranking: Ranking, longest: float) -> None:
    text = f"{entry.time_s:.3g} s"
    if ranking.baseline is not None and entry is not ranking.baseline:
        text += f", {ranking.speedup(entry):.2f}x"
    axes.text(entry.time_s + entry.ci_s + longest * 0.012, row, text, va="center", fontsize=7.5)


def _legend(figure: Figure, ranking: Ranking) -> None:
    keys: list[Patch | Line2D] = [Line2D([], [], color="black", linestyle="--", linewidth=0.9, label="compute bound")]
    keys.append(Line2D([], [], linestyle="none", marker="|", markersize=9, color="black", label="own lower bound"))
    if any(entry.ci_s for entry in ranking.valid):
        keys.append(Line2D([], [], color="black", marker="|", markersize=5, linewidth=0.9, label="95 % over seeds"))
    if any(entry.partial for entry in ranking.valid):
        keys.append(Patch(facecolor="white", edgecolor="#777777", hatch="////", label="* sends less than all"))
    row = 0.22 / figure.get_figheight()
    figure.legend(handles=keys, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False, fontsize=8)
    lines = -(-len(keys) // 3)
    notes = []
    if ranking.invalid:
        notes.append("Not drawn, as their verdicts are invalid: " + ", ".join(e.name for e in ranking.invalid) + ".")
    if ranking.absent:
        notes.append("Cannot run here: " + ", ".join(ranking.absent) + ".")
    for number, note in enumerate(notes):
        style = {"fontsize": 8, "color": "#666666", "style": "italic"}
        figure.text(0.5, -row * (lines + 0.5 + number), note, ha="center", va="top", **style)  # type: ignore[arg-type]

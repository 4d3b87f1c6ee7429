"""Charts of a run: bars of measured and printed values, or lines over a swept
number. They need no display and no global state of pyplot."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from gradwire.analysis.parameters import parameter_number
from gradwire.analysis.points import PointResult, interval, parameter_names
from gradwire.analysis.printed import Comparison, find_row
from gradwire.analysis.printed_cells import EFFICIENCY, SPEEDUP
from gradwire.analysis.report.series_colours import PALETTE as PALETTE  # noqa: PLC0414 (drawings have it from here)
from gradwire.analysis.report.series_colours import colours_of_series
from gradwire.files import replace_text, replacing
from gradwire.terminal_text import visible

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "hatch.linewidth": 0.7,
    "svg.fonttype": "path",
    "svg.hashsalt": "gradwire",
    # Titles and labels come from scenarios, and a dollar sign in them is a dollar sign: an unfinished formula would
    # end the drawing.
    "text.parse_math": False,
}
DPI = 200


DOTTED_KEY = re.compile(r"[a-z_]+(\.[a-z_]+)+")
"""A key of a scenario, of which the last part is shown: "2.5gbit" is none."""
SPEAKING = ("model", "strategy", "device", "options")
"""Parameters whose values are shown without their names."""


@dataclass(frozen=True)
class Metric:
    """The way in which a metric is drawn: its label and its unit."""

    #: Label of the axis.
    label: str
    #: Factor from the stored unit to the drawn one.
    factor: float = 1.0


METRIC_AXES = {
    EFFICIENCY: Metric("Scaling efficiency (%)", 100),
    "throughput_per_s": Metric("Throughput (samples/s)"),
    "iteration_time_s": Metric("Iteration time (s)"),
}


def chart(
    rows: Sequence[PointResult],
    comparison: Comparison,
    title: str,
    series_key: str = "strategy",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """The chart that suits the points: bars of measured and printed values if there are any, lines over a swept
    number, or else bars.

    rows: pooled over seeds; invalid points are not drawn, and a note says how many there are. labels: what to write
    for a value or key.
    """
    write = Labels(labels or {})
    with mpl.rc_context(STYLE):
        printed = [c for c in comparison.cells if c.cell.metric != SPEEDUP]
        numeric = numeric_axis(rows, series_key)
        if printed:
            figure = _bars(rows, comparison, printed[0].cell.metric, series_key, write)
        elif numeric is not None:
            figure = _lines(rows, numeric, series_key, write)
        else:
            figure = _bars(rows, comparison, "throughput_per_s", series_key, write)
        _finish(figure, rows, title)
    return figure


TITLE_LETTER_INCHES = 0.105
"""About the width of a letter of a title."""


def entitle(figure: Figure, title: str) -> None:
    """Writes a title above a figure, in as many lines as its width takes: a longer line would make the picture wider, and
    everything in it smaller."""
    lines = textwrap.wrap(title, max(20, int(figure.get_figwidth() / TITLE_LETTER_INCHES)))
    figure.suptitle("\n".join(lines), fontsize=11, fontweight="bold")


def save_chart(figure: Figure, folder: Path, name: str = "chart", dpi: int = DPI) -> None:
    """Writes `name`.png and `name`.svg."""
    _show_control_characters(figure)
    with mpl.rc_context(STYLE):
        with replacing(folder / f"{name}.png") as partial:
            figure.savefig(partial, format="png", dpi=dpi, bbox_inches="tight", facecolor="white")
        replace_text(folder / f"{name}.svg", svg_text(figure))


def _show_control_characters(figure: Figure) -> None:
    """Writes characters that are not printed as in messages: fonts lack them, and XML may not have them."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if (shown := visible(text.get_text())) != text.get_text():
            text.set_text(shown)


def svg_text(figure: Figure) -> str:
    """The figure as SVG, without a date, so that equal figures give equal texts."""
    _show_control_characters(figure)
    buffer = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return buffer.getvalue()


PAGE_INCHES = 12.0
"""Width of a chart in a report, whose page is 76 rem wide: letters of 9 points are as large there as the page's."""


def page_svg(figure: Figure) -> str:
    """The figure as SVG for a page of its title: without it, and as wide as the page. Changes the figure."""
    figure.suptitle("")
    figure.set_figwidth(max(PAGE_INCHES, figure.get_figwidth()))
    return svg_text(figure)


@dataclass(frozen=True)
class Labels:
    """Labels of parameters' keys and values."""

    given: Mapping[str, str]

    def __call__(self, text: str) -> str:
        """The given label, else the last part of the key with its dashes and underscores as spaces."""
        if text in ("True", "False"):
            return text.lower()
        short = text.rpartition(".")[2] if DOTTED_KEY.fullmatch(text) else text
        return self.given.get(text) or short.replace("_", " ")

    def pair(self, key: str, value: str) -> str:
        """A parameter with its name where its value alone would not say what it
        is: "overlap = true", but "alexnet" and "10gbit"."""
        speaks = value in self.given or key in SPEAKING or value.lower().endswith("bit")
        return self(value) if speaks else f"{self(key)} = {self(value)}"


def _series(rows: Sequence[PointResult], series_key: str) -> list[str]:
    return list(dict.fromkeys(row.parameters[series_key] for row in rows if series_key in row.parameters))


LETTER_INCHES = 0.068
"""About the width of a letter below a group of bars, as drawn."""
WIDEST_INCHES = 16.0
"""Largest width of a chart; names of groups that need more stand upright."""


def series_color(index: int) -> str:
    """Colour of the series with this number, where series are no strategies."""
    return PALETTE[index % len(PALETTE)]


def _bars(rows: Sequence[PointResult], comparison: Comparison, metric: str, series_key: str, write: Labels) -> Figure:
    """Groups of bars, one group per combination of the other parameters: each series has its measured bar and, to the
    right of it, the printed one."""
    axis = METRIC_AXES[metric]
    keys = [key for key in parameter_names(rows) if key != series_key]
    groups = list(dict.fromkeys(tuple(row.parameters.get(key, "") for key in keys) for row in rows))
    series: list[str | None] = [*_series(rows, series_key)] or [None]
    printed = {id(find_row(rows, c.cell.where)): c.cell for c in comparison.cells if c.cell.metric == metric}
    printed.pop(id(None), None)
    colours = _colours(series)
    slots = len(series) * (2 if printed else 1)
    width = min(0.84 / slots, 0.28)
    named = [[write.pair(key, value) for key, value in zip(keys, group, strict=True) if value] for group in groups]
    longest = max((len(words) for group in named for words in group), default=0)
    wanted_inches = max(5.5, 1.6 + 0.30 * slots * len(groups), 1.2 + len(groups) * (0.1 + LETTER_INCHES * longest))
    figure = Figure(figsize=(min(WIDEST_INCHES, wanted_inches), 3.8), layout="constrained")
    axes = figure.add_subplot()
    small = 6.5 if slots * len(groups) > 16 else 8
    for number, group in enumerate(groups):
        for index, name in enumerate(series):
            row = next((r for r in rows if _is_in(r, keys, group, series_key, name)), None)
            if row is None:
                continue
            left = number + width * (index * (2 if printed else 1) + 0.5 - slots / 2)
            cell = printed.get(id(row))
            fitted = cell is not None and cell.fitted
            bar = Bar(left, width, colours[index], small, fitted)
            draw_bar(axes, bar, row, metric)
            if cell is not None:
                _printed_bar(axes, replace(bar, middle=left + width), cell.value * axis.factor)
    rest = "all" if len(groups) > 1 else ""  # a group alone needs no name
    axes.set_xticks(range(len(groups)), ["\n".join(words) or rest for words in named])
    if wanted_inches > WIDEST_INCHES:
        axes.tick_params(axis="x", labelrotation=90)
    axes.set_xlim(-0.55, len(groups) - 0.45)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(", ".join(write(key).capitalize() for key in keys))
    axes.set_ylabel(axis.label)
    axes.yaxis.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    if metric == EFFICIENCY:
        axes.set_ylim(0, 108)
        axes.set_yticks(range(0, 101, 20))
    else:
        axes.margins(y=0.14)
    patches = [Patch(color=colours[i], label=write(name)) for i, name in enumerate(series) if name is not None]
    _bar_legend(figure, patches, comparison, metric, bool(printed))
    return figure


def _is_in(row: PointResult, keys: list[str], group: tuple[str, ...], series_key: str, name: str | None) -> bool:
    return tuple(row.parameters.get(key, "") for key in keys) == group and row.parameters.get(series_key) == name


@dataclass(frozen=True)
class Bar:
    """The place and the look of a bar."""

    #: Its middle, in the units of the axis.
    middle: float
    width: float
    color: str
    #: Size of the letters of its value, in points.
    letters_pt: float
    #: Whether what it shows was fitted to what is printed.
    fitted: bool = False


def draw_bar(axes: Axes, bar: Bar, row: PointResult, metric: str) -> None:
    """Draws a measured bar with its interval and its value; for an invalid point, the word."""
    left, size = bar.middle, bar.letters_pt
    if not row.valid:
        axes.annotate(
            "invalid", (left, 0), (0, 2), textcoords="offset points", rotation=90, ha="center", va="bottom",
            fontsize=size + 0.5, color="#777777", style="italic",
        )  # fmt: skip
        return
    value = float(getattr(row, metric)) * METRIC_AXES[metric].factor
    axes.bar(left, value, bar.width * 0.94, color=bar.color, edgecolor=bar.color, linewidth=0.8)
    low, high = interval(row, metric)
    factor = METRIC_AXES[metric].factor
    if high > low:
        axes.errorbar(
            left,
            value,
            yerr=[[value - low * factor], [high * factor - value]],
            color="black",
            capsize=1.6,
            linewidth=0.9,
        )
    _value_label(axes, left, max(value, high * factor), value, size, "normal", "*" if bar.fitted else "")


def _printed_bar(axes: Axes, bar: Bar, value: float) -> None:
    axes.bar(bar.middle, value, bar.width * 0.94, facecolor="white", edgecolor=bar.color, hatch="////", linewidth=0.8)
    _value_label(axes, bar.middle, value, value, bar.letters_pt, "italic", "*" if bar.fitted else "")


def _value_label(axes: Axes, left: float, top: float, value: float, size: float, style: str, mark: str = "") -> None:
    text = f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"
    axes.annotate(
        text + mark,
        (left, top),
        (0, 1.5),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=size,
        style=style,
    )


def _colours(series: Sequence[str | None]) -> list[str]:
    """The colour of each series; the first where there is only one, without a name."""
    by_name = colours_of_series([name for name in series if name is not None])
    return [PALETTE[0] if name is None else by_name[name] for name in series]


def _bar_legend(figure: Figure, keys: Sequence[Patch], comparison: Comparison, metric: str, printed: bool) -> None:
    _legend(figure, keys, 0)
    kinds: list[Patch | Line2D] = []
    if printed:
        kinds.append(Patch(facecolor="#777777", edgecolor="#777777", label="measured"))
        kinds.append(Patch(facecolor="white", edgecolor="#777777", hatch="////", label="printed"))
    if any(c.cell.fitted for c in comparison.cells if c.cell.metric == metric):
        kinds.append(
            Line2D(
                [], [], linestyle="none", marker=(6, 2, 0), markersize=6, color="black", label="fitted, no prediction"
            )
        )
    _legend(figure, kinds, 1)


def _legend(figure: Figure, handles: Sequence[Patch | Line2D], row: int) -> None:
    """A row of keys below the axes, where it never covers data."""
    if handles:
        figure.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, _below(figure, row)),
            ncols=min(len(handles), 4),
            frameon=False,
        )


def _below(figure: Figure, row: float) -> float:
    """Height of a row of text below the figure, as a share of the figure's; rows are 0.22 inches high."""
    return -0.22 * row / figure.get_figheight()


def numeric_axis(rows: Sequence[PointResult], series_key: str) -> str | None:
    """The numeric parameter with the most values, the first of several; None
    if every parameter is a word or has one value."""
    best, most = None, 1
    for key in parameter_names(rows):
        values = {row.parameters.get(key, "") for row in rows}
        if key != series_key and len(values) > most and all(parameter_number(value) is not None for value in values):
            best, most = key, len(values)
    return best


def _lines(rows: Sequence[PointResult], x_key: str, series_key: str, write: Labels) -> Figure:
    """Throughput over a swept number: one line per series, one panel per combination of the other parameters."""
    others = [key for key in parameter_names(rows) if key not in (x_key, series_key)]
    panels = list(dict.fromkeys(tuple(row.parameters.get(key, "") for key in others) for row in rows))
    names: list[str | None] = [*_series(rows, series_key)] or [None]
    colours = _colours(names)
    columns = min(len(panels), 3)
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(max(4.8, 3.4 * columns), 3.2 * lines + 0.4), layout="constrained")
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(lines, columns, number + 1)
        inside = [row for row in rows if tuple(row.parameters.get(key, "") for key in others) == panel]
        for index, name in enumerate(names):
            of_series = [row for row in inside if row.parameters.get(series_key) == name]
            draw_line(axes, of_series, x_key, "throughput_per_s", index, colours[index])
        if any(panel):
            named = [write.pair(key, value) for key, value in zip(others, panel, strict=True) if value]
            axes.set_title(", ".join(named), fontsize=9, fontweight="normal")
        axes.set_ylim(0, 1.06 * _highest(rows, inside))
        finish_lines(axes, inside, x_key, "throughput_per_s", write)
    handles = [
        Line2D([], [], color=colours[index], marker=MARKERS[index % len(MARKERS)], markersize=5, label=write(name))
        for index, name in enumerate(names)
        if name is not None
    ]
    _legend(figure, handles, 0)
    return figure


def _highest(rows: Sequence[PointResult], inside: Sequence[PointResult]) -> float:
    """The highest end of a panel's scale: panels are compared, so they share
    one, except across models, whose samples differ."""
    models = {row.parameters.get("model") for row in inside}
    compared = [row for row in rows if row.valid and row.parameters.get("model") in models]
    return max((interval(row, "throughput_per_s")[1] for row in compared), default=1.0) or 1.0


def _x_unit(rows: Sequence[PointResult], x_key: str) -> float:
    """Number by which values of a parameter are divided before they are drawn: line rates are in Gbit/s."""
    is_rate = any(row.parameters.get(x_key, "").strip().lower().endswith(("bit", "bit/s")) for row in rows)
    return 1e9 if is_rate else 1.0


def draw_line(
    axes: Axes, rows: Sequence[PointResult], x_key: str, metric: str, index: int, color: str, label: str = ""
) -> None:
    """One series over a number. An invalid point breaks the line, which would
    otherwise claim a value there. index: of its marker."""
    unit, factor = _x_unit(rows, x_key), METRIC_AXES[metric].factor
    points = sorted(
        ((parameter_number(row.parameters[x_key]) or 0.0) / unit, number) for number, row in enumerate(rows)
    )
    x = [position for position, _ in points]
    ordered = [rows[number] for _, number in points]
    y = [factor * float(getattr(row, metric)) if row.valid else math.nan for row in ordered]
    ends = [interval(row, metric) for row in ordered]
    spread = [
        [v - low * factor for v, (low, _) in zip(y, ends, strict=True)],
        [high * factor - v for v, (_, high) in zip(y, ends, strict=True)],
    ]
    if any(row.valid for row in rows):
        style: Any = {"marker": MARKERS[index % len(MARKERS)], "markersize": 4.5, "linewidth": 1.4, "capsize": 2}
        axes.errorbar(x, y, yerr=spread, color=color, label=label or None, **style)


def finish_lines(axes: Axes, rows: Sequence[PointResult], x_key: str, metric: str, write: Labels) -> None:
    """Names the axes of a panel of lines; ticks at the swept values, and a
    logarithmic axis where they span more than a factor of 8."""
    unit = _x_unit(rows, x_key)
    axes.set_xlabel(write(x_key).capitalize() + (" (Gbit/s)" if unit > 1 else ""))
    axes.set_ylabel(METRIC_AXES[metric].label)
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    values = sorted({(parameter_number(row.parameters[x_key]) or 0.0) / unit for row in rows})
    if values and values[0] > 0 and values[-1] / values[0] > 8:
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(values, [f"{value:g}" for value in values])


def _finish(figure: Figure, rows: Sequence[PointResult], title: str) -> None:
    entitle(figure, title)
    invalid = sum(not row.valid for row in rows)
    if invalid:
        note = f"Not drawn, as their verdicts are invalid: {invalid} of {len(rows)} points."
        style: Any = {"fontsize": 8, "color": "#666666", "style": "italic"}
        figure.text(0.5, _below(figure, len(figure.legends) + 0.4), note, ha="center", va="top", **style)

"""Tables and the chart of a scenario of programs: a row per point, the medians of reported figures, and one figure over
another.

The chart has a series for each program and setting, over a swept parameter or another figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradwire.analysis.figure_frames import figure_names, figures_frame
from gradwire.analysis.parameters import parameter_number
from gradwire.analysis.program_results import PROGRAM, ProgramResult, is_number, varied_parameters
from gradwire.analysis.report.charts import MARKERS, STYLE, Labels, entitle, series_color
from gradwire.analysis.report.text_table import TextTable
from gradwire.faults import InputFault

GIB = 1 << 30
ABSENT = ""
DIGITS = 5
MOST_PLACES = 1_000
"""Values along an axis, each with its tick."""
WIDE_SPAN = 8.0
"""Values that span more than this factor get a logarithmic axis."""
UNITS = {
    "_bps": (" (Gbit/s)", 1e9),
    "_bytes": (" (MB)", 1e6),
    "_s": (" (s)", 1.0),
    "_us": (" (us)", 1.0),
    "_ms": (" (ms)", 1.0),
}
"""Units of figures by the endings of their names: the unit as it is drawn, and the number that values are divided by
for it."""


def points_table(results: Sequence[ProgramResult], labels: Mapping[str, str]) -> TextTable:
    """One row per point: the time that its programs took, the cost of the run, and its verdict."""
    write, keys = Labels(labels), varied_parameters(results)
    headers = (*(write(key) for key in keys), "virtual (s)", "wall (s)", "memory (GiB)", "rows", "verdict")
    body, tones = [], []
    for result in results:
        duration = ABSENT if result.duration_s is None else f"{result.duration_s:.6f}"
        words = (write(result.parameters.get(key, "")) for key in keys)
        cost = f"{result.wall_s:.1f}", f"{result.memory_bytes / GIB:.2f}" if result.memory_bytes else ABSENT
        body.append((*words, duration, *cost, str(len(result.figures)), result.state))
        tones.append("good" if result.valid else "bad")
    gives_way = ("rows", "memory (GiB)", "wall (s)")
    return TextTable("Points", headers, tuple(body), len(keys), tuple(tones), _everywhere(results, keys), gives_way)


def _everywhere(results: Sequence[ProgramResult], keys: Sequence[str]) -> str:
    fixed = {key: value for result in results for key, value in result.parameters.items() if key not in keys}
    said = [f"{key} = {value}" for key, value in fixed.items() if value]
    return f"Everywhere: {', '.join(said)}." if said else ""


def figures_table(results: Sequence[ProgramResult], over: str, labels: Mapping[str, str]) -> TextTable | None:
    """Medians of all numbers that the programs of valid points reported, for each point, program, and value of the
    figure `over`.

    None where there are no numbers. figures.csv has every row.
    """
    write, keys = Labels(labels), varied_parameters(results)
    frame = figures_frame(results, valid_only=True)
    names = [name for name in figure_names(frame, _parameters(results)) if name != over]
    if frame.empty or not names:
        return None
    groups = [*keys, PROGRAM, *([over] if over in frame.columns and over not in keys else [])]
    body = []
    for values, rows in frame.groupby(groups, sort=False, observed=True, dropna=False):
        numbers = [_number(median_of(rows[name])) for name in names]
        body.append((*(write(_text(value)) for value in values), *numbers, str(len(rows))))
    headers = (*(write(key) for key in groups), *names, "median of")
    return TextTable("Figures", headers, tuple(body), len(groups), ("quiet",) * len(body), "figures.csv has every row.")


def _parameters(results: Sequence[ProgramResult]) -> list[str]:
    return list(dict.fromkeys(key for result in results for key in result.parameters))


def median_of(column: pd.Series[Any]) -> float:
    """The median of the known values; nan if there is none."""
    known = pd.to_numeric(column, errors="coerce").dropna().to_numpy(dtype=np.float64)
    return float(np.median(known)) if known.size else float("nan")


def _number(value: float) -> str:
    if np.isnan(value):
        return ABSENT
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 10**DIGITS else f"{value:.{DIGITS}g}"


def _text(value: object) -> str:
    return _number(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class ChartMetrics:
    """The figures that a chart shows."""

    #: Figure on the vertical axis.
    metric: str
    #: Parameter or figure on the other one; "" for a bar per setting.
    over: str


def choice(results: Sequence[ProgramResult], metric: str, over: str) -> ChartMetrics | None:
    """Chooses what to draw, given the scenario's choice ("" for none); None if no valid point reported a number.

    Raises InputFault for a figure that no program reported, with those that were.
    """
    frame = figures_frame(results, valid_only=True)
    names = figure_names(frame, list(results[0].parameters) if results else [])
    if not names:
        return None
    columns = [*names, *(results[0].parameters if results else ())]
    for key, wanted, known in (("metric", metric, names), ("over", over, columns)):
        if wanted and wanted not in known:
            raise InputFault(f"{key} = '{wanted}': no figure of that name was reported; there are {', '.join(known)}")
    if over and (values := frame[over].nunique()) > MOST_PLACES:
        raise InputFault(
            f"over = '{over}': has {values:,} values; a chart and a table have room for {MOST_PLACES:,}: choose another, or leave it out"
        )
    numbers = [
        key for key in varied_parameters(results) if is_number([result.parameters.get(key, "") for result in results])
    ]
    return ChartMetrics(
        metric or next((name for name in names if name != over), names[0]), over or (numbers[0] if numbers else "")
    )


def chart(results: Sequence[ProgramResult], chosen: ChartMetrics, title: str, labels: Mapping[str, str]) -> Figure:
    """Draws medians, with the least and the most as whiskers. Invalid points are left out, which a note says."""
    write = Labels(labels)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = figure.add_subplot()
        frame = figures_frame(results, valid_only=True)
        keys = [
            key for key in (*varied_parameters(results), PROGRAM) if key != chosen.over and frame[key].nunique() > 1
        ]
        if chosen.over:
            _lines(axes, frame, chosen, keys, write)
        else:
            _bars(axes, frame, chosen, keys, write)
        axes.set_ylabel(_in_units(chosen.metric, write))
        entitle(figure, title)
        invalid = sum(not result.valid for result in results)
        if invalid:
            note = f"Not drawn, as they are not valid: {invalid} of {len(results)} points."
            figure.supxlabel(note, fontsize=8, color="#666666", style="italic")
    return figure


def _unit(figure: str) -> tuple[str, str, float]:
    """The ending of a figure's name, its unit, and its divisor."""
    return next(((end, *UNITS[end]) for end in UNITS if figure.endswith(end)), ("", "", 1.0))


def _in_units(figure: str, write: Labels) -> str:
    """A figure's name on an axis: "goodput (Gbit/s)" for goodput_bps, unless the scenario labels it."""
    end, unit, _ = _unit(figure)
    return write(figure) if figure in write.given else f"{write(figure.removesuffix(end))}{unit}"


def _group_by(frame: pd.DataFrame, keys: Sequence[str], write: Labels) -> list[tuple[str, pd.DataFrame]]:
    if not keys:
        return [("", frame)]
    return [
        (
            ", ".join(
                write.pair(key, str(value)) if key != PROGRAM else write(str(value))
                for key, value in zip(keys, values, strict=True)
            ),
            rows,
        )
        for values, rows in frame.groupby(list(keys), sort=False, observed=True, dropna=False)
    ]


def _spread(values: Sequence[pd.Series[Any]]) -> tuple[list[float], list[list[float]]]:
    """Medians, and how far below and above them values lie."""
    middles = [median_of(measured) for measured in values]
    below = [middle - float(measured.min()) for middle, measured in zip(middles, values, strict=True)]
    above = [float(measured.max()) - middle for middle, measured in zip(middles, values, strict=True)]
    return middles, [below, above]


def _lines(axes: Axes, frame: pd.DataFrame, chosen: ChartMetrics, keys: Sequence[str], write: Labels) -> None:
    named = _group_by(frame, keys, write)
    divisor = _unit(chosen.metric)[2]
    position_of = _Places(frame[chosen.over].dropna().tolist(), chosen.over)
    for index, (name, rows) in enumerate(named):
        known = rows.dropna(subset=[chosen.over, chosen.metric])
        at = [position_of(value) for value in known[chosen.over]]
        by_x: dict[Any, pd.Series[Any]] = {
            x: rows_there / divisor for x, rows_there in known[chosen.metric].groupby(at)
        }
        middles, spread = _spread(list(by_x.values()))
        style: Any = {"marker": MARKERS[index % len(MARKERS)], "markersize": 4.5, "linewidth": 1.4, "capsize": 2}
        axes.errorbar(list(by_x), middles, yerr=spread, color=series_color(index), label=name or None, **style)
    position_of.draw(axes)
    axes.set_xlabel(f"{write(chosen.over)} (Gbit/s)" if position_of.is_rate else _in_units(chosen.over, write))
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.set_ylim(bottom=0)
    if any(name for name, _ in named):
        axes.legend(frameon=False)


class _Places:
    """Places of values on an axis: numbers at their size, rates in Gbit/s, and words, such as "10M", side by
    side."""

    def __init__(self, values: Sequence[object], name: str) -> None:
        texts = list(dict.fromkeys(str(value) for value in values))
        numbers = {text: parameter_number(text) for text in texts}
        self.is_rate = any(text.endswith("bit") for text in texts)
        self._are_words = any(number is None for number in numbers.values())
        divisor = 1e9 if self.is_rate else _unit(name)[2]
        self._places = {
            text: float(position) if self._are_words else (numbers[text] or 0.0) / divisor
            for position, text in enumerate(texts)
        }

    def __call__(self, value: object) -> float:
        return self._places[str(value)]

    def draw(self, axes: Axes) -> None:
        """The axis's scale and ticks."""
        places = sorted(self._places.items(), key=lambda item: item[1])
        if self._are_words:
            axes.set_xticks([position for _, position in places], [text for text, _ in places])
        elif places and places[0][1] > 0 and places[-1][1] / places[0][1] > WIDE_SPAN:
            axes.set_xscale("log")
            axes.minorticks_off()
            axes.set_xticks([position for _, position in places], [f"{position:g}" for _, position in places])


def _bars(axes: Axes, frame: pd.DataFrame, chosen: ChartMetrics, keys: Sequence[str], write: Labels) -> None:
    named = [
        (name, rows[chosen.metric].dropna() / _unit(chosen.metric)[2]) for name, rows in _group_by(frame, keys, write)
    ]
    named = [(name, values) for name, values in named if not values.empty]
    middles, spread = _spread([values for _, values in named])
    axes.bar(range(len(named)), middles, 0.6, yerr=spread, color=series_color(0), capsize=3)
    axes.set_xticks(range(len(named)), [name.replace(", ", "\n") or "all" for name, _ in named])
    axes.tick_params(axis="x", length=0)
    axes.yaxis.grid(visible=True, color="#DDDDDD", linewidth=0.6)

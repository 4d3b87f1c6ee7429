"""Draws a scenario's figures like the paper's, with printed and measured
values: from a short description, or from bound curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gradwire.analysis.parameters import fits, parameter_number
from gradwire.analysis.points import PointResult, interval
from gradwire.analysis.printed_cells import EFFICIENCY, SPEEDUP
from gradwire.analysis.report.charts import MARKERS, METRIC_AXES, PALETTE, STYLE, svg_text
from reproduction.pages.curves import Drawing, drawings_of
from reproduction.scoring.evidence import NoEvidence, Points, speedup
from reproduction.scoring.reference import Claim, FigureReference, ScenarioReference, Where
from reproduction.scoring.shapes import Series

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 3.5, 2.9, 3
WIDE_PANEL_BARS = 18
GBIT = 1e9


@dataclass(frozen=True)
class Mark:
    """One value of a figure."""

    x: str
    value: float
    #: Half of its 95 % interval; 0 if unknown.
    half: float = 0.0
    #: What the paper prints for it.
    printed: float | None = None
    fitted: bool = False


@dataclass(frozen=True)
class Panel:
    """Marks by series name."""

    title: str
    series: dict[str, list[Mark]]


def figures(scenario: ScenarioReference, points: Points) -> list[tuple[str, str]]:
    """Title and SVG of every figure of a scenario for which there is evidence."""
    drawn = []
    for wanted in scenario.figure:
        panels = panels_of(wanted, scenario.claim, points)
        if any(panel.series for panel in panels):
            drawn.append((wanted.title, _svg(_draw(wanted, panels))))
    for drawing in drawings_of(scenario.id):
        try:
            drawn.append((drawing.title, _svg(_draw_curves(drawing, points))))
        except NoEvidence:  # its claims say so already, each with the reason
            continue
    return drawn


def _svg(figure: Figure) -> str:
    text = svg_text(figure)
    # The XML prologue and document type stand before the element and are not allowed inside a page.
    return text[text.index("<svg") :]


def panels_of(wanted: FigureReference, claims: Sequence[Claim], points: Points) -> list[Panel]:
    """The marks of a figure: every valid point that its description takes in, seeds pooled."""
    by_title: dict[str, Panel] = {}
    try:
        rows = points.only(**wanted.where).valid().rows()
    except NoEvidence:
        return []
    for row in rows:
        title = row.parameters.get(wanted.panel, "") if wanted.panel else ""
        mark = _mark(wanted, claims, points, row)
        if mark is not None and wanted.x in row.parameters:
            panel = by_title.setdefault(title, Panel(title, {}))
            panel.series.setdefault(row.parameters.get(wanted.series, ""), []).append(mark)
    return _with_short_options(list(by_title.values())) if wanted.x == OPTIONS else list(by_title.values())


OPTIONS = "options"
"""The parameter that holds a strategy's options, as "key=value, key=value"."""


def _with_short_options(panels: list[Panel]) -> list[Panel]:
    """Options as places on an axis: only the values of those that vary, and a multiple of 1024 as so many K."""
    places = {mark.x for panel in panels for marks in panel.series.values() for mark in marks}
    options = {text: dict(part.split("=", 1) for part in text.split(", ") if part) for text in places}
    values: dict[str, set[str]] = {}
    for given in options.values():
        for key, value in given.items():
            values.setdefault(key, set()).add(value)
    short = {
        text: " ".join(_in_k(value) for key, value in given.items() if len(values[key]) > 1) or "none"
        for text, given in options.items()
    }
    return [
        Panel(panel.title, {name: [replace(m, x=short[m.x]) for m in marks] for name, marks in panel.series.items()})
        for panel in panels
    ]


def _in_k(value: str) -> str:
    number = int(value) if value.isdecimal() else 0
    return f"{number // 1024}K" if number and number % 1024 == 0 else value


def _mark(wanted: FigureReference, claims: Sequence[Claim], points: Points, row: PointResult) -> Mark | None:
    """A row's mark; None for a speed-up whose baseline has no evidence."""
    x = row.parameters.get(wanted.x, "")
    claim = next((c for c in claims if _prints(c, wanted, row.parameters)), None)
    printed = claim.printed if claim and isinstance(claim.printed, float) else None
    fitted = claim is not None and claim.fitted
    if wanted.metric == SPEEDUP:
        where: Where = dict(row.parameters)
        try:
            measured = speedup(points, where, wanted.baseline)
        except NoEvidence:
            return None
        assert isinstance(measured.value, float)
        return Mark(x, measured.value, measured.ci95 or 0.0, printed, fitted)
    low, high = interval(row, wanted.metric)
    return Mark(x, float(getattr(row, wanted.metric)), (high - low) / 2, printed, fitted)


def _prints(claim: Claim, wanted: FigureReference, parameters: dict[str, str]) -> bool:
    """Whether a claim is the printed value of a point in this figure."""
    right = claim.metric == wanted.metric and claim.baseline == wanted.baseline and isinstance(claim.printed, float)
    return right and bool(claim.where) and fits(parameters, claim.where)


def _draw(wanted: FigureReference, panels: list[Panel]) -> Figure:
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    most_bars = max(sum(len(marks) for marks in panel.series.values()) for panel in panels)
    columns = 1 if wanted.kind == "bar" and most_bars > WIDE_PANEL_BARS else _columns_for(len(panels))
    lines = -(-len(panels) // columns)
    width = 10.0 if columns == 1 and most_bars > WIDE_PANEL_BARS else max(4.6, PANEL_WIDTH * columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, PANEL_HEIGHT * lines + 0.3), layout="constrained")
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(lines, columns, number + 1)
            (_bars if wanted.kind == "bar" else _lines)(axes, panel, names, wanted.metric)
            axes.set_title(panel.title, fontsize=9, fontweight="normal")
            axes.set_xlabel(_axis_name(wanted.x, panel))
            axes.set_ylabel(METRIC_AXES[wanted.metric].label if wanted.metric in METRIC_AXES else "Speed-up")
            axes.grid(visible=True, axis="y" if wanted.kind == "bar" else "both", color="#DDDDDD", linewidth=0.6)
        _legend(
            figure, wanted, names, any(m.printed is not None for p in panels for ms in p.series.values() for m in ms)
        )
    return figure


def _columns_for(panels: int) -> int:
    """Panels side by side, so that no line of them is nearly empty."""
    return 2 if panels == 4 else min(panels, COLUMNS)


def _axis_name(key: str, panel: Panel) -> str:
    values = [mark.x for marks in panel.series.values() for mark in marks]
    rates = bool(values) and all(value.endswith("bit") for value in values)
    return key.rpartition(".")[2].replace("_", " ") + (" (Gbit/s)" if rates else "")


def _number(text: str) -> float:
    """A swept value on an axis: rates in Gbit/s."""
    number = parameter_number(text)
    if number is None:
        raise NoEvidence(f"'{text}' is not a number to draw a line over")
    return number / GBIT if text.endswith("bit") else number


def _factor(metric: str) -> float:
    return METRIC_AXES[metric].factor if metric in METRIC_AXES else 1.0


def _lines(axes: Axes, panel: Panel, names: list[str], metric: str) -> None:
    factor = _factor(metric)
    swept = sorted({_number(mark.x) for marks in panel.series.values() for mark in marks})
    for index, name in enumerate(names):
        marks = sorted(panel.series.get(name, []), key=lambda mark: _number(mark.x))
        if not marks:
            continue
        color, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
        x = [_number(mark.x) for mark in marks]
        values, halves = [mark.value * factor for mark in marks], [mark.half * factor for mark in marks]
        axes.errorbar(x, values, yerr=halves, color=color, marker=marker, markersize=4.5, linewidth=1.4, capsize=2)
        with_printed = [mark for mark in marks if mark.printed is not None]
        printed = [mark.printed * factor for mark in with_printed if mark.printed is not None]
        style: Any = {"linestyle": "none", "marker": marker, "markersize": 8, "fillstyle": "none", "color": color}
        axes.plot([_number(mark.x) for mark in with_printed], printed, **style)
    _from_zero(axes)
    if swept[0] > 0 and swept[-1] / swept[0] > 8:
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(swept, [f"{value:g}" for value in swept])


def _bars(axes: Axes, panel: Panel, names: list[str], metric: str) -> None:
    factor = _factor(metric)
    groups = list(dict.fromkeys(mark.x for marks in panel.series.values() for mark in marks))
    shown = [name for name in names if panel.series.get(name)]
    printed = any(mark.printed is not None for marks in panel.series.values() for mark in marks)
    slots = len(shown) * (2 if printed else 1)
    width = min(0.84 / slots, 0.28)
    for index, name in enumerate(shown):
        color = PALETTE[names.index(name) % len(PALETTE)]
        for mark in panel.series[name]:
            left = groups.index(mark.x) + width * (index * (2 if printed else 1) + 0.5 - slots / 2)
            bar: Any = {"width": width * 0.94, "edgecolor": color, "linewidth": 0.8}
            axes.bar(left, mark.value * factor, color=color, **bar)
            if mark.half:
                axes.errorbar(
                    left, mark.value * factor, yerr=mark.half * factor, color="black", capsize=1.6, linewidth=0.9
                )
            if mark.printed is not None:
                axes.bar(left + width, mark.printed * factor, facecolor="white", hatch="////", **bar)
                if mark.fitted:
                    axes.annotate("*", (left + width, mark.printed * factor), ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0)
    if metric == EFFICIENCY:
        axes.set_ylim(0, 108)


def _legend(figure: Figure, wanted: FigureReference, names: list[str], printed: bool) -> None:
    handles: list[Patch | Line2D] = []
    for index, name in enumerate(names):
        color, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
        bar = wanted.kind == "bar"
        handles.append(
            Patch(color=color, label=name) if bar else Line2D([], [], color=color, marker=marker, label=name)
        )
    if printed and wanted.kind == "bar":
        handles.append(Patch(facecolor="white", edgecolor="#777777", hatch="////", label="printed (* fitted)"))
    elif printed:
        handles.append(
            Line2D(
                [], [], linestyle="none", marker="o", fillstyle="none", markersize=8, color="#777777", label="printed"
            )
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), frameon=False)


def _draw_curves(drawing: Drawing, points: Points) -> Figure:
    curves = {name: series for name, series in drawing.curves(points).items() if series}
    if not curves:
        raise NoEvidence(f"{drawing.title}: no curve has a point")
    with mpl.rc_context(STYLE):
        return _timelines(drawing, curves) if drawing.timelines else _together(drawing, curves)


def _timelines(drawing: Drawing, curves: Mapping[str, Series]) -> Figure:
    figure = Figure(figsize=(6.4, 0.7 + 1.15 * len(curves)), layout="constrained")
    panels = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    for index, (axes, (name, series)) in enumerate(zip(panels, curves.items(), strict=True)):
        x, y = _columns(series)
        axes.fill_between(x, y, step="post", color=PALETTE[index], alpha=0.3, linewidth=0)
        axes.plot(x, y, color=PALETTE[index], linewidth=1.0, drawstyle="steps-post")
        axes.set_ylabel(f"{name}\n({drawing.y_label})")
        axes.set_ylim(0, 1.08 * max(y, default=1.0))
        axes.set_xlim(x[0], x[-1])
        axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    panels[-1].set_xlabel(drawing.x_label)
    return figure


FEW_TICKS = 10
"""So many numbers fit under an axis."""


def _together(drawing: Drawing, curves: Mapping[str, Series]) -> Figure:
    figure = Figure(figsize=(6.4, 3.3), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(curves)
    colors = _colors(curves)
    for index, (name, series) in enumerate(curves.items()):
        x, y = _columns(series)
        color = colors[name]
        if drawing.bars:
            axes.bar([at + width * (index + 0.5) - 0.4 for at in x], y, width * 0.94, color=color, label=name)
        elif drawing.dots:
            axes.plot(
                x, y, color=color, linestyle="none", marker=MARKERS[index % len(MARKERS)], markersize=3, label=name
            )
        else:
            marker = MARKERS[index // len(PALETTE) % len(MARKERS)] if len(x) <= FEW_TICKS else ""
            style: Any = {"linestyle": "--", "fillstyle": "none"} if name.endswith(PRINTED) else {}
            axes.plot(x, y, color=color, linewidth=1.3, marker=marker, markersize=4, label=name, **style)
    if drawing.log_x:
        axes.set_xscale("log")
        swept = sorted({x for series in curves.values() for x, _ in series})
        if len(swept) <= FEW_TICKS:
            axes.minorticks_off()
            axes.set_xticks(swept, [f"{x:g}" for x in swept])
        else:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    if drawing.bars:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(drawing.x_label)
    axes.set_ylabel(drawing.y_label)
    _from_zero(axes)
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=min(len(curves), 4), frameon=False)
    return figure


PRINTED, MEASURED = ", printed", ", measured"
"""How the names of two curves end that are the same thing, as printed and as measured."""


def _colors(curves: Mapping[str, Series]) -> dict[str, str]:
    """A colour for each curve, the same for what is printed and what is measured of it."""
    things = list(dict.fromkeys(name.removesuffix(PRINTED).removesuffix(MEASURED) for name in curves))
    return {
        name: PALETTE[things.index(name.removesuffix(PRINTED).removesuffix(MEASURED)) % len(PALETTE)] for name in curves
    }


def _from_zero(axes: Axes) -> None:
    """The vertical axis from 0 to a little above the highest mark, so that none is cut."""
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])


def _columns(series: Series) -> tuple[list[float], list[float]]:
    return [x for x, _ in series], [y for _, y in series]

"""The chart of a ranking: one bar per strategy, the fastest on top, with its interval and its closed-form bound."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gradwire.analysis.report.charts import PALETTE, STYLE
from gradwire.analysis.report.ranking import Entry, Ranking

BAR_INCHES = 0.27
HEIGHT = 0.68


def ranking_chart(ranking: Ranking, title: str) -> Figure:
    """Draws the valid strategies. Invalid ones and those that are left out are only named, below."""
    with mpl.rc_context(STYLE):
        count = max(len(ranking.valid), 1)
        figure = Figure(figsize=(7.6, 1.3 + BAR_INCHES * count), layout="constrained")
        axes = figure.add_subplot()
        families = list(dict.fromkeys(entry.family for entry in ranking.valid))
        for place, entry in enumerate(ranking.valid):
            _bar(axes, place, entry, PALETTE[families.index(entry.family)])
        longest = max((entry.time_s + entry.ci_s for entry in ranking.valid), default=1.0)
        for place, entry in enumerate(ranking.valid):
            _value(axes, place, entry, ranking, longest)
        if ranking.valid:
            axes.axvline(ranking.compute_s, color="black", linestyle="--", linewidth=0.9)
        axes.set_yticks(range(len(ranking.valid)), [f"{e.name}*" if e.partial else e.name for e in ranking.valid])
        axes.set_ylim(count - 0.4, -0.6)
        axes.set_xlim(0, longest * 1.22)
        axes.tick_params(axis="y", length=0)
        faster = f"; x: times as fast as {ranking.baseline.name}" if ranking.baseline else ""
        whose = " of the whole model" if ranking.scaled else ""
        axes.set_xlabel(f"Iteration time{whose} (s){faster}")
        axes.xaxis.grid(visible=True, color="#DDDDDD", linewidth=0.6)
        figure.suptitle(title, fontsize=11, fontweight="bold")
        _legend(figure, families, ranking)
    return figure


def _bar(axes: Axes, place: int, entry: Entry, color: str) -> None:
    hatch = "////" if entry.partial else None
    face = "white" if entry.partial else color
    axes.barh(place, entry.time_s, HEIGHT, facecolor=face, edgecolor=color, hatch=hatch, linewidth=0.8)
    if entry.ci_s:
        axes.errorbar(entry.time_s, place, xerr=entry.ci_s, color="black", capsize=2.2, linewidth=0.9)
    bound = [entry.row.lower_bound_s] * 2
    axes.plot(bound, [place - HEIGHT / 2, place + HEIGHT / 2], color="white", linewidth=3.0, solid_capstyle="butt")
    axes.plot(bound, [place - HEIGHT / 2, place + HEIGHT / 2], color="black", linewidth=1.4, solid_capstyle="butt")


def _value(axes: Axes, place: int, entry: Entry, ranking: Ranking, longest: float) -> None:
    text = f"{entry.time_s:.3g} s"
    if ranking.baseline is not None and entry is not ranking.baseline:
        text += f", {ranking.speedup(entry):.2f}x"
    axes.text(entry.time_s + entry.ci_s + longest * 0.012, place, text, va="center", fontsize=7.5)


def _legend(figure: Figure, families: list[str], ranking: Ranking) -> None:
    keys: list[Patch | Line2D] = [Patch(color=PALETTE[i], label=family) for i, family in enumerate(families)]
    keys.append(Line2D([], [], color="black", linestyle="--", linewidth=0.9, label="compute bound"))
    keys.append(Line2D([], [], linestyle="none", marker="|", markersize=9, color="black", label="own lower bound"))
    if any(entry.ci_s for entry in ranking.valid):
        keys.append(Line2D([], [], color="black", marker="|", markersize=5, linewidth=0.9, label="95 % over seeds"))
    if any(entry.partial for entry in ranking.valid):
        keys.append(Patch(facecolor="white", edgecolor="#777777", hatch="////", label="* sends a part only"))
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

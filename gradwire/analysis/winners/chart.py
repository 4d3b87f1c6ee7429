"""A map of winners as a chart for papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from gradwire.analysis.report.charts import STYLE
from gradwire.analysis.winners.colours import NOTHING_COLOUR, TIE_COLOUR, colour_of, colours_of, letters_on
from gradwire.analysis.winners.measured import AGREES, DISAGREES, NOTHING_VALID, MeasuredCell, judge_cell
from gradwire.analysis.winners.winner_map import Axis, Place, WinnerMap
from gradwire.analysis.winners.words import cell_text, cells_in_words

WIDTH_IN = 8.0
ROW_IN = 0.34
MOST_WRITTEN = 24
"""Cells along the first axis that have room for a number."""
MOST_TICKS = 20
MARKS: Mapping[str, tuple[str, str, str]] = {
    AGREES: ("o", "#000000", "measured by packets, agrees"),
    DISAGREES: ("X", "#b3003b", "measured, and another is faster"),
    NOTHING_VALID: ("s", "#777777", "measured without a valid result"),
}
"""Marker, colour and words of measured cells."""


def map_chart(winner_map: WinnerMap, measured: Sequence[MeasuredCell] = (), kind: type[Figure] = Figure) -> Figure:
    """The map: areas of winners with how much longer the next takes, borders, and marks on measured cells. kind: of the
    figure."""
    x, y = winner_map.axes
    with mpl.rc_context(STYLE):
        figure = kind(figsize=(WIDTH_IN, 1.7 + ROW_IN * len(y.texts)), layout="constrained")
        axes = figure.subplots()
        colours = colours_of(winner_map)
        for place in winner_map.places:
            _cell(axes, winner_map, place, colours, is_marked=any(cell.chosen.place == place for cell in measured))
        _borders(axes, winner_map)
        outcomes = {cell.chosen.place: judge_cell(winner_map, cell).outcome for cell in measured}
        for (i, j), outcome in outcomes.items():
            marker, colour, _ = MARKS[outcome]
            axes.plot(i, j - 0.22, marker=marker, ms=5, mfc=colour, mec="white", mew=0.8, zorder=5)
        axes.set_xlim(-0.5, len(x.texts) - 0.5)
        axes.set_ylim(-0.5, len(y.texts) - 0.5)
        _ticks(axes, x, y)
        axes.set_title(winner_map.title, loc="left", wrap=True)
        figure.legend(
            handles=_legend(winner_map, colours, outcomes),
            loc="outside lower left",
            ncols=4,
            frameon=False,
            fontsize=8,
        )
    return figure


def _cell(axes: Axes, found: WinnerMap, place: Place, colours: Mapping[str, str], *, is_marked: bool) -> None:
    i, j = place
    outcome = found.outcomes.get(place)
    colour = colour_of(outcome, colours)
    axes.add_patch(
        Rectangle(
            (i - 0.5, j - 0.5),
            1,
            1,
            facecolor=colour,
            edgecolor="#999999" if outcome is None else "white",
            linewidth=0.4,
            hatch="xxx" if outcome is None else "///" if outcome.is_tie else None,
        )
    )
    if outcome is None or len(found.axes[0].texts) > MOST_WRITTEN:
        return
    axes.text(
        i,
        j + (0.14 if is_marked else 0),
        cell_text(outcome),
        ha="center",
        va="center",
        fontsize=6,
        color=letters_on(colour),
    )


def _borders(axes: Axes, found: WinnerMap) -> None:
    for (i, j), (other, _) in found.edges():
        if other == i:
            axes.plot([i - 0.5, i + 0.5], [j + 0.5, j + 0.5], color="black", lw=1.6, zorder=4, solid_capstyle="round")
        else:
            axes.plot([i + 0.5, i + 0.5], [j - 0.5, j + 0.5], color="black", lw=1.6, zorder=4, solid_capstyle="round")


def _ticks(axes: Axes, x: Axis, y: Axis) -> None:
    every = -(-len(x.texts) // MOST_TICKS)
    axes.set_xticks(range(0, len(x.texts), every), x.texts[::every], rotation=45, ha="right", rotation_mode="anchor")
    upwards = -(-len(y.texts) // MOST_TICKS)
    axes.set_yticks(range(0, len(y.texts), upwards), y.texts[::upwards])
    axes.tick_params(length=0)
    axes.set_xlabel(x.title)
    axes.set_ylabel(y.title, wrap=True)


def _legend(winner_map: WinnerMap, colours: Mapping[str, str], measured: Mapping[Place, str]) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = [
        Patch(facecolor=colours[name], label=f"{name} ({cells_in_words(count)})")
        for name, count in winner_map.won.items()
    ]
    if winner_map.ties:
        words = f"level within {winner_map.tie * 100:.3g} % ({winner_map.ties})"
        handles.append(Patch(facecolor=TIE_COLOUR, edgecolor="white", hatch="///", label=words))
    if len(winner_map.outcomes) < len(winner_map.places):
        handles.append(Patch(facecolor=NOTHING_COLOUR, edgecolor="#999999", hatch="xxx", label="nothing can run"))
    if any(not each.is_tie and len(each.order) > 1 for each in winner_map.outcomes.values()):
        handles.append(Line2D([], [], ls="", label="1.20: the next takes 1.20 times as long"))
    if any(each.doubtful for each in winner_map.outcomes.values()):
        handles.append(Line2D([], [], ls="", label="?: depends on what queues hold"))
    for outcome in dict.fromkeys(measured.values()):
        marker, colour, words = MARKS[outcome]
        handles.append(Line2D([], [], ls="", marker=marker, mfc=colour, mec="white", ms=6, label=words))
    return handles

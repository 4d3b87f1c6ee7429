"""Colours of a map of winners, the same in its chart and on its page."""

from __future__ import annotations

from collections.abc import Mapping

from gradwire.analysis.report.series_colours import colours_of_series
from gradwire.analysis.winners.winner_map import Outcome, WinnerMap

PALEST = 0.4
"""Share of its colour that a cell has whose winner leads by least; the rest is white."""
FULL_LEAD = 1.0
"""A cell has its whole colour where the next strategy takes twice as long, or longer."""
TIE_COLOUR, NOTHING_COLOUR = "#e2e2e2", "#ffffff"
LIGHT = 0.45
"""Colours with a greater luminance have black letters on them."""


def colours_of(found: WinnerMap) -> Mapping[str, str]:
    """A colour for each strategy: of two that share one, the strategy that wins more cells has it."""
    return colours_of_series(list(dict.fromkeys([*found.won, *found.strategies])))


def colour_of(outcome: Outcome | None, colours: Mapping[str, str]) -> str:
    """Colour of a cell: that of its winner, paler the smaller the winner's lead is."""
    if outcome is None:
        return NOTHING_COLOUR
    if outcome.is_tie:
        return TIE_COLOUR
    strength = PALEST + (1 - PALEST) * min(outcome.lead / FULL_LEAD, 1) ** 0.5
    return _mixed(colours[outcome.winner], strength)


def letters_on(colour: str) -> str:
    """Black or white, whichever can be read on a colour."""
    red, green, blue = _parts(colour)
    return "#000000" if (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255 > LIGHT else "#ffffff"


def _parts(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _mixed(colour: str, strength: float) -> str:
    return "#" + "".join(f"{round(255 + (part - 255) * strength):02x}" for part in _parts(colour))

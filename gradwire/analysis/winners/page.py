"""A map of winners as one HTML page that loads nothing, to point at and to click."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from gradwire.analysis.report.pages import html_table, page
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.winners.colours import TIE_COLOUR, colour_of, colours_of, letters_on
from gradwire.analysis.winners.measured import DISAGREES, MeasuredCell, judge_cell, summary
from gradwire.analysis.winners.winner_map import Place, WinnerMap
from gradwire.analysis.winners.words import (
    cell_text,
    cells_in_words,
    conclusion,
    crossings_table,
    lead_text,
    rows_table,
)

TEMPLATES = Path(__file__).with_name("templates")
CELL, CELL_HEIGHT = 38, 34
LETTER = 6.2
"""About the width of a letter of an axis's title."""
LEFT, TOP, RIGHT, BELOW = 90, 6, 12, 84
"""Room around the cells, in units of the drawing, for the values of the axes."""


@dataclass(frozen=True)
class DrawnCell:
    """A cell as the template takes it."""

    place: str
    x: float
    y: float
    fill: str
    letters: str
    text: str
    label: str
    #: Outcome of its measurement; "" if there is none.
    mark: str

    @property
    def middle(self) -> float:
        """x of the cell's middle."""
        return self.x + CELL / 2

    @property
    def text_y(self) -> float:
        """y of the cell's number: above the mark, if there is one."""
        return self.y + CELL_HEIGHT / 2 + (-2 if self.mark else 4)

    @property
    def mark_y(self) -> float:
        """y of the cell's mark."""
        return self.y + CELL_HEIGHT - 9


def map_page(winner_map: WinnerMap, measured: Sequence[MeasuredCell] = (), run_folder: str = "") -> str:
    """The page. run_folder: name of the measured cells' run folder on the page; "" if none was measured."""
    by_place = {cell.chosen.place: cell for cell in measured}
    marks = {place: judge_cell(winner_map, cell).outcome for place, cell in by_place.items()}
    x, y = winner_map.axes
    colours = colours_of(winner_map)
    legend = [
        {"fill": colours[name], "text": f"{name} ({cells_in_words(count)})"} for name, count in winner_map.won.items()
    ]
    if winner_map.ties:
        legend.append({"fill": "url(#tie)", "text": f"level within {winner_map.tie * 100:.3g} % ({winner_map.ties})"})
    if len(winner_map.outcomes) < len(winner_map.places):
        legend.append({"fill": "url(#nothing)", "text": "nothing can run"})
    tables = [rows_table(winner_map), *([crossings_table(winner_map)] if winner_map.crossings else [])]
    if measured:
        tables.insert(0, measured_table(winner_map, measured))
    return page(
        "map.html",
        templates=TEMPLATES,
        title=winner_map.title,
        conclusion=conclusion(winner_map),
        measured=summary(winner_map, measured),
        doubtful=DISAGREES in marks.values(),
        warnings=winner_map.warnings,
        x=x,
        y=y,
        tie_colour=TIE_COLOUR,
        drawing=_drawing(winner_map, colours, marks),
        legend=legend,
        marks=set(marks.values()),
        tables=[html_table(table) for table in tables],
        run_folder=run_folder,
        data=_data(winner_map, by_place),
    )


def measured_table(winner_map: WinnerMap, measured: Sequence[MeasuredCell]) -> TextTable:
    """One row per measured cell: its place, the reason for its choice, the map's winner and the results of the
    runs."""
    x, y = winner_map.axes
    tones = {"agrees": "good", DISAGREES: "bad"}
    rows, tone = [], []
    for cell in measured:
        (i, j), judged = cell.chosen.place, judge_cell(winner_map, cell)
        outcome = winner_map.outcomes[i, j]
        rows.append((x.texts[i], y.texts[j], cell.chosen.why, outcome.winner, judged.fastest, judged.text))
        tone.append(tones.get(judged.outcome, "doubtful"))
    headers = (x.title, y.title, "chosen", "fastest by estimate", "measured", "against the map")
    return TextTable("Measured cells", headers, tuple(rows), len(headers), tuple(tone))


def _drawing(winner_map: WinnerMap, colours: Mapping[str, str], marks: Mapping[Place, str]) -> dict[str, object]:
    x, y = winner_map.axes
    columns, rows = len(x.texts), len(y.texts)
    bottom, right = TOP + rows * CELL_HEIGHT, LEFT + columns * CELL
    return {
        "width": right + RIGHT,
        "height": bottom + BELOW,
        "above": max(0.0, LETTER * len(y.title) / 2 - (TOP + bottom) / 2),
        "cell": CELL,
        "cell_height": CELL_HEIGHT,
        "cells": [_drawn(winner_map, place, colours, marks.get(place, "")) for place in winner_map.places],
        "borders": [_border(rows, *edge) for edge in winner_map.edges()],
        "x_ticks": [{"x": LEFT + (i + 0.6) * CELL, "y": bottom + 14, "text": text} for i, text in enumerate(x.texts)],
        "y_ticks": [
            {"x": LEFT - 6, "y": _top(rows, j) + CELL_HEIGHT / 2 + 4, "text": text} for j, text in enumerate(y.texts)
        ],
        "x_label": {"x": (LEFT + right) / 2, "y": bottom + BELOW - 6},
        "y_label": {"x": 14, "y": (TOP + bottom) / 2},
    }


def _top(rows: int, row: int) -> float:
    return TOP + (rows - 1 - row) * CELL_HEIGHT


def _border(rows: int, one: Place, other: Place) -> str:
    (i, j), (k, _) = one, other
    left, top = LEFT + i * CELL, _top(rows, j)
    return f"M{left} {top}h{CELL}" if k == i else f"M{left + CELL} {top}v{CELL_HEIGHT}"


def _drawn(found: WinnerMap, place: Place, colours: Mapping[str, str], mark: str) -> DrawnCell:
    i, j = place
    x, y = found.axes
    outcome = found.outcomes.get(place)
    colour = colour_of(outcome, colours)
    text = cell_text(outcome) if outcome else ""
    fill = "url(#nothing)" if outcome is None else "url(#tie)" if outcome.is_tie else colour
    label = f"{x.title} {x.texts[i]}, {y.title} {y.texts[j]}: {_words(found, place)}"
    return DrawnCell(f"{i},{j}", LEFT + i * CELL, _top(len(y.texts), j), fill, letters_on(colour), text, label, mark)


def _words(found: WinnerMap, place: Place) -> str:
    outcome = found.outcomes.get(place)
    return "nothing can run" if outcome is None else f"{outcome.winner}, {lead_text(outcome)}"


def _data(winner_map: WinnerMap, by_place: Mapping[Place, MeasuredCell]) -> Markup:
    """Data that the page's script shows, as JSON that cannot end the element that it is in."""
    cells: dict[str, object] = {}
    for place in winner_map.places:
        outcome, cell = winner_map.outcomes.get(place), by_place.get(place)
        times = winner_map.times.get(place, {})
        row: dict[str, object] = {
            "words": f"{_words(winner_map, place)}.",
            "doubtful": bool(outcome and outcome.doubtful),
            "times": [[name, times[name].iteration_s, times[name].is_between] for name in outcome.order]
            if outcome
            else [],
            "refused": list(winner_map.refused.get(place, {}).items()),
        }
        if cell is not None:
            judged = judge_cell(winner_map, cell)
            row["measured"] = {
                "why": cell.chosen.why,
                "times": dict(cell.times_s),
                "invalid": dict(cell.invalid),
                "outcome": judged.outcome,
                "text": judged.text,
            }
        cells[f"{place[0]},{place[1]}"] = row
    document = {
        "strategies": list(winner_map.strategies),
        "axes": [{"key": axis.title, "values": list(axis.texts)} for axis in winner_map.axes],
        "cells": cells,
    }
    return Markup(json.dumps(document, allow_nan=False).replace("<", "\\u003c"))

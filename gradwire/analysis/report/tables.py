"""The tables of a report as text, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.analysis.agreement.causes import Cause
from gradwire.analysis.points import INVALID, VALID, PointResult, parameter_names
from gradwire.analysis.printed import CellStatus, Comparison, find_row
from gradwire.analysis.printed_cells import EFFICIENCY, SPEEDUP
from gradwire.analysis.quantities import quantity
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.point_columns import (
    ABSENT,
    GIVES_WAY,
    POINT_COLUMNS,
    ShownPoints,
    columns_of,
    difference_text,
    plain,
)
from gradwire.analysis.report.text_table import TextTable

MEANINGS = {
    **{column.header: column.meaning for column in POINT_COLUMNS},
    "slower by": "How much longer an iteration takes than the fastest's, in per cent, with the 95 % interval where "
    "seeds decide it",
    "compute %": "Computing time of an iteration over its time; 100 means that the network costs nothing",
    "set by": "scenario: the scenario or --set says so; default: it is left open there",
}
"""Explanations of columns, by their headers."""
STATE_TONE = {VALID: "good", str(Cause.UNEXPLAINED): "doubtful", INVALID: "bad"}
"""Tones of PointResult.state."""


@dataclass(frozen=True)
class Constant:
    """A constant that results rest on, and where it comes from."""

    name: str
    value: float | int | str
    unit: str
    source: str


def points_table(rows: Sequence[PointResult], comparison: Comparison, labels: Mapping[str, str]) -> TextTable:
    """One row per point, with printed and measured values. An invalid point shows no number."""
    write = Labels(labels)
    keys = parameter_names(rows)
    # Only one printed metric has room here; the table of printed values has all of them.
    shown = next((c.cell.metric for c in comparison.cells if c.cell.metric != SPEEDUP), "")
    printed = [c for c in comparison.cells if c.cell.metric == shown]
    by_row = {id(find_row(rows, c.cell.where)): c for c in printed}
    by_row.pop(id(None), None)
    columns = columns_of(ShownPoints(rows, shown if printed else ""))
    headers = (*(write(key) for key in keys), *(column.header for column in columns))
    body = tuple(
        (
            *(write(row.parameters.get(key, "")) for key in keys),
            *(column.text(row, by_row.get(id(row))) for column in columns),
        )
        for row in rows
    )
    tones = tuple(STATE_TONE[row.state] for row in rows)
    return TextTable("Points", headers, body, len(keys), tones, _points_foot(rows, comparison), GIVES_WAY)


def _points_foot(rows: Sequence[PointResult], comparison: Comparison) -> str:
    varied = parameter_names(rows)
    fixed = {key: value for row in rows for key, value in row.parameters.items() if key not in varied}
    sentences = [
        "x bound: iteration time over its closed-form lower bound; x fluid: over its time on an ideal network."
    ]
    sentences += _interval_over(rows)
    if any(row.alone_time_s is not None for row in rows):
        sentences.append("x alone: over the job's time on an ideal network that it has for itself.")
    if any(c.cell.metric == EFFICIENCY for c in comparison.cells):
        sentences.append("diff.: measured minus printed, in percentage points.")
    if any(row.valid and row.ci95_s is None for row in rows):
        sentences.append(f"{ABSENT} under ± 95 %: one measurement, spread unknown.")
    if any(c.cell.fitted for c in comparison.cells):
        sentences.append("* fitted: a constant was chosen to meet this cell, so it is not a prediction.")
    said = [f"{key} = {value}" for key, value in fixed.items() if value]
    if said:
        sentences.append(f"Everywhere: {', '.join(said)}.")
    return " ".join(sentences)


def _interval_over(rows: Sequence[PointResult]) -> list[str]:
    """Sentence on what the intervals are over; none where no row has one."""
    counts = sorted({row.seeds for row in rows if row.valid and row.ci95_s is not None})
    if not counts:
        return []
    seeds = [f"{' or '.join(map(str, counts[counts[0] == 1 :]))} seeds"] if counts[-1] > 1 else []
    iterations = ["the iterations of one run where there is one seed" if seeds else "the iterations of one run"]
    return [f"± 95 %: over {', and over '.join((*seeds, *(iterations if counts[0] == 1 else ())))}."]


def comparison_table(comparison: Comparison, labels: Mapping[str, str]) -> TextTable:
    """One row per printed cell: its source, the printed and measured values, their difference, and the outcome."""
    write = Labels(labels)
    body, tones = [], []
    for c in comparison.cells:
        where = ", ".join(write(str(value)) for value in c.cell.where.values())
        measured = ABSENT if c.measured is None else _value_text(c.cell.metric, c.measured)
        source = c.cell.source + (f"; {c.cell.note}" if c.cell.note else "")
        unit = "" if c.difference is None else " points" if c.cell.metric == EFFICIENCY else " %"
        values = (_value_text(c.cell.metric, c.cell.value), measured, difference_text(c) + unit)
        body.append((where, c.cell.metric, source, *values, c.status.value))
        tones.append({CellStatus.WITHIN: "good", CellStatus.FITTED: "quiet"}.get(c.status, "bad"))
    headers = ("point", "metric", "source", "printed", "measured", "difference", "outcome")
    return TextTable("Printed values", headers, tuple(body), 3, tuple(tones))


def _value_text(metric: str, value: float) -> str:
    if metric == EFFICIENCY:
        return f"{value * 100:.1f} %"
    return f"{value:.2f}x" if metric == SPEEDUP else plain(value, 4)


def order_table(comparison: Comparison, labels: Mapping[str, str]) -> TextTable:
    """One row per row of the printed table: whether its strategies rank as printed."""
    write = Labels(labels)
    answers = {True: ("right", "good"), False: ("wrong", "bad"), None: ("undecided", "bad")}
    body, tones = [], []
    for order in comparison.orders:
        answer, tone = answers[order.right]
        printed, measured = (" < ".join(write(name) for name in names) for names in (order.printed, order.measured))
        body.append((", ".join(write(value) for value in order.row.values()), printed, measured, answer))
        tones.append(tone)
    return TextTable("Order of the strategies", ("row", "printed", "measured", "order"), tuple(body), 4, tuple(tones))


def constants_table(constants: Sequence[Constant]) -> TextTable:
    """One row per constant."""
    body = tuple(
        (c.name, c.source, c.value if isinstance(c.value, str) else quantity(c.value, c.unit)) for c in constants
    )
    return TextTable("Constants", ("constant", "source", "value"), body, 2, ("",) * len(body))


def markdown_table(table: TextTable) -> str:
    """A table as Markdown, its foot as a paragraph below."""
    last = len(table.headers) - 1
    marks = ["---" if index < table.left or index == last else "---:" for index in range(last + 1)]
    lines = [[_cell(cell) for cell in table.headers], marks, *([_cell(cell) for cell in row] for row in table.rows)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return text + ("\n\n" + paragraph(table.foot) if table.foot else "") + "\n"


class MarkdownLink(str):
    """A cell's text that is a link in Markdown already, to a page of this documentation."""

    __slots__ = ()


def _cell(cell: str) -> str:
    return cell if isinstance(cell, MarkdownLink) else escaped(cell)


MARKDOWN_MARKS = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown takes for marks wherever they stand; an underscore between two letters is none of them."""
MARKDOWN_START = re.compile(r"[#+=>-](?=[#=-]*(?:\s|$))|>|\d{1,9}(?=[.)](?:\s|$))")
"""Beginnings that make a paragraph a heading, a list, a quotation or a rule."""
HTML_START = re.compile(r"<(?=[A-Za-z/!?])|&(?=[#\w])")
"""Beginnings of an element or an entity of HTML, which Markdown passes on."""
INVISIBLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def escaped(text: str) -> str:
    """A text within a line of Markdown that renders as exactly this text: none of it is a mark, HTML, a formula or the
    end of a table's cell."""
    line = MARKDOWN_MARKS.sub(r"\\\g<0>", INVISIBLE.sub(" ", text).strip())
    return HTML_START.sub(lambda mark: "&lt;" if mark[0] == "<" else "&amp;", line)


def paragraph(text: str) -> str:
    """A text as a paragraph of Markdown, or an item of a list, which is nothing but this text however it begins."""
    line = escaped(text)
    start = MARKDOWN_START.match(line)
    if start is None:
        return line
    # A digit cannot be escaped, the full stop behind it can.
    return f"{start[0]}\\{line[start.end() :]}" if start[0].isdigit() else f"\\{line}"

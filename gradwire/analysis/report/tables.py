"""The tables of a report as text, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.analysis.agreement.causes import Cause
from gradwire.analysis.points import INVALID, VALID, PointResult, parameter_names
from gradwire.analysis.printed import CellStatus, ComparedCell, Comparison, find_row
from gradwire.analysis.printed_cells import EFFICIENCY, SPEEDUP
from gradwire.analysis.quantities import quantity
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.text_table import TextTable

ABSENT = "–"
MEANINGS = {
    "time (s)": "Iteration time: from the slowest worker's end of one iteration to that of the next, mean of the "
    "measured ones",
    "± 95 %": "Half of the 95 % confidence interval of the mean, over seeds, or over iterations where there is one "
    "seed",
    "samples/s": "Samples that all workers process per second",
    "eff. %": "Scaling efficiency: computing time of an iteration over its time; 100 means that the network costs "
    "nothing",
    "printed": "What the paper prints; * marks values that a constant was fitted on",
    "diff.": "Measured minus printed, in percentage points",
    "diff. %": "Measured minus printed, in per cent of the printed value",
    "slower by": "How much longer an iteration takes than the fastest's, in per cent, with the 95 % interval where "
    "seeds decide it",
    "x bound": "Iteration time over its closed-form lower bound: 1 is the best that the plan permits",
    "x fluid": "Iteration time over that of the same iterations on an ideal network, by the fluid engine: 1 says that "
    "both agree",
    "compute %": "Computing time of an iteration over its time; 100 means that the network costs nothing",
    "verdict": "valid: all checks passed, as listed below for each point; unexplained: they passed, and no known "
    "cause explains how far the time is from an ideal network's, so check the point before you trust it; invalid: "
    "the numbers are not results",
    "set by": "scenario: the scenario or --set says so; default: it is left open there",
}
"""Explanations of columns, by their headers."""
GIVES_WAY = ("± 95 %", "x fluid", "samples/s", "eff. %", "x bound", "x alone", "printed", "diff.", "diff. %")
"""Columns of a table of points that a narrow terminal leaves out, in this order. Swept parameters, the time and the
verdict always stay."""
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
    extra = ("printed", "diff." if shown == EFFICIENCY else "diff. %") if printed else ()
    headers = (
        *(write(key) for key in keys),
        "time (s)",
        "± 95 %",
        "samples/s",
        "eff. %",
        *extra,
        "x bound",
        "x fluid",
        *(("x alone",) if any(row.alone_time_s is not None for row in rows) else ()),
        "verdict",
    )
    body, tones = [], []
    for row in rows:
        compared = by_row.get(id(row))
        numbers = _numbers(row) if row.valid else (INVALID, ABSENT, ABSENT, ABSENT)
        beside = _beside(compared) if printed else ()
        bound = _plain(row.iteration_time_s / row.lower_bound_s, 3) if row.valid and row.lower_bound_s else ABSENT
        fluid = ABSENT if row.fluid_ratio is None else f"{row.fluid_ratio:.3f}"
        alone = () if "x alone" not in headers else (ABSENT if row.alone_ratio is None else f"{row.alone_ratio:.3f}",)
        words = (write(row.parameters.get(key, "")) for key in keys)
        body.append((*words, *numbers, *beside, bound, fluid, *alone, row.state))
        tones.append(STATE_TONE[row.state])
    return TextTable("Points", headers, tuple(body), len(keys), tuple(tones), _points_foot(rows, comparison), GIVES_WAY)


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


def _numbers(row: PointResult) -> tuple[str, str, str, str]:
    time = _plain(row.iteration_time_s, 4)
    return (
        time,
        ABSENT if row.ci95_s is None else spread_beside(time, row.ci95_s),
        _plain(row.throughput_per_s, 4),
        f"{row.scaling_efficiency * 100:.1f}",
    )


def spread_beside(time: str, half_s: float) -> str:
    """Half of an interval, with as many decimals as the time that it belongs to. If it is too small for them, the text
    says that it is less than one of the last decimal."""
    decimals = len(time.partition(".")[2])
    last = 10.0**-decimals
    return f"<{last:.{decimals}f}" if 0 < half_s < last / 2 else f"{half_s:.{decimals}f}"


def _plain(value: float, digits: int) -> str:
    """A number with so many significant digits, without a power of ten."""
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:#.{digits}g}".rstrip(".")


def _beside(compared: ComparedCell | None) -> tuple[str, str]:
    if compared is None:
        return "", ""
    value, mark = compared.cell.value, "*" if compared.cell.fitted else ""
    scaled = f"{value * 100:.1f}" if compared.cell.metric == EFFICIENCY else _plain(value, 4)
    return scaled + mark, difference_text(compared)


def difference_text(compared: ComparedCell) -> str:
    """Measured minus printed: percentage points for an efficiency, per cent of the printed value for other metrics."""
    if compared.difference is None:
        return compared.status.value
    return f"{compared.difference * 100:+z.1f}"  # z: no "-0.0"


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
    return f"{value:.2f}x" if metric == SPEEDUP else _plain(value, 4)


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

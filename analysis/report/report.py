"""Writes the report of a run folder: one HTML file that needs no network, a Markdown table, and the chart as PNG and SVG."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from gradwire.analysis.compare import Comparison, PrintedCell, compare
from gradwire.analysis.parameters import describe
from gradwire.analysis.points import PointResult, pool_seeds
from gradwire.analysis.report.charts import DPI, chart, save_chart, svg_text
from gradwire.analysis.report.ranking import Ranking, ranking_table, reasons
from gradwire.analysis.report.ranking_chart import ranking_chart
from gradwire.analysis.report.tables import (
    Constant,
    TextTable,
    comparison_table,
    constants_table,
    html_table,
    markdown_table,
    order_table,
    points_table,
    rich_table,
)
from gradwire.analysis.verdict.verdict import Verdict

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:70rem;margin:2rem auto;padding:0 1.5rem}
h1{font-size:1.5rem;margin-bottom:.3rem}h2{font-size:1.15rem;margin-top:2.2rem}
table{border-collapse:collapse;font-size:.87rem}th,td{padding:.25rem .7rem;text-align:left;vertical-align:top}
thead{border-bottom:2px solid #444}tbody tr{border-bottom:1px solid #ddd}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.words{min-width:11rem}.paragraph{min-width:24rem}
.wide{overflow-x:auto}
.good{color:#00664b}.bad{color:#b3003b;font-weight:600}.quiet{color:#666}.foot{color:#666;font-size:.82rem}
details{margin:.4rem 0}summary{cursor:pointer}svg{max-width:100%;height:auto}
"""


def report(
    run_dir: Path,
    rows: Sequence[PointResult],
    printed: Sequence[PrintedCell],
    title: str,
    constants: Sequence[Constant],
    verdicts: Sequence[Verdict | None],
    *,
    series_key: str = "strategy",
    labels: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    ranking: Ranking | None = None,
    dpi: int = DPI,
) -> RenderableType:
    """Writes report.html, table.md, chart.png and chart.svg into `run_dir` and returns what a terminal shows (it fits 100 columns).

    rows: one a point and seed, as in points.csv; seeds are pooled here. verdicts: one a row, None where its run left none.
    series_key: the parameter that is compared and coloured. labels: what to write for a parameter's key or value.
    notes: lines for the end of the report, such as the run's speed. ranking: of the rows, to be told and drawn first.
    Raises InputFault for a printed cell that fits no or many points.
    """
    written = dict(labels or {})
    pooled = pool_seeds(rows)
    comparison = compare(pooled, printed, series_key)
    tables = [points_table(pooled, comparison, written)]
    if printed:
        tables += [comparison_table(comparison, written), order_table(comparison, written)]
    if constants:
        tables.append(constants_table(constants))
    summary = comparison.summary if comparison.cells else ""
    if ranking is not None:
        tables, summary = [ranking_table(ranking), *tables], ranking.sentence()
        notes = [*reasons(ranking), *notes]
        figure = ranking_chart(ranking, title)
    else:
        figure = chart(pooled, comparison, title, series_key, written)
    save_chart(figure, run_dir, dpi=dpi)
    page = _page(title, summary, svg_text(figure), tables, list(zip(rows, verdicts, strict=True)), notes)
    (run_dir / "report.html").write_text(page, encoding="utf-8")
    (run_dir / "table.md").write_text(_markdown(title, summary, tables, notes), encoding="utf-8")
    if ranking is not None:
        shown = rich_table(tables[0], without=("options",))
        return Group(Text(title, style="bold"), shown, *_dim(notes), Text(summary, style="bold"))
    return terminal(title, comparison, tables[0], rows, notes)


def terminal(
    title: str, comparison: Comparison, table: TextTable, rows: Sequence[PointResult], notes: Sequence[str] = ()
) -> RenderableType:
    """The table of points, the summary of the comparison, and why each invalid point is invalid."""
    # With printed values beside it, the table is wider than 100 columns; throughput says what efficiency says already.
    narrow = ("samples/s",) if comparison.cells else ()
    parts: list[RenderableType] = [Text(title, style="bold"), rich_table(table, narrow)]
    if comparison.cells:
        parts.append(Text(comparison.summary, style="bold"))
    for row in rows:
        if not row.valid:
            parts.append(Text(f"{describe(row.parameters)}: {row.verdict}", style="red"))
    return Group(*parts, *_dim(notes))


def _dim(notes: Sequence[str]) -> list[Text]:
    return [Text(note, style="dim") for note in notes]


def _markdown(title: str, summary: str, tables: Sequence[TextTable], notes: Sequence[str]) -> str:
    parts = [f"# {title}\n", f"{summary}\n" if summary else ""]
    parts += [f"## {table.title}\n\n{markdown_table(table)}" for table in tables]
    parts += [f"- {note}" for note in notes]
    return "\n".join(part for part in parts if part) + "\n"


def _page(
    title: str,
    summary: str,
    svg: str,
    tables: Sequence[TextTable],
    judged: Sequence[tuple[PointResult, Verdict | None]],
    notes: Sequence[str],
) -> str:
    safe = html.escape(title)
    # The XML prologue and document type stand before the element and are not allowed inside a page.
    drawing = svg[svg.index("<svg") :]
    told = f"<p><strong>{html.escape(summary)}</strong></p>" if summary else ""
    sections = "\n".join(f"<h2>{html.escape(table.title)}</h2>\n{html_table(table)}" for table in tables)
    verdicts = "\n".join(_verdict_section(row, verdict) for row, verdict in judged)
    lines = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{safe}</title><style>{STYLE}</style></head>\n'
        f"<body>\n<h1>{safe}</h1>\n{told}\n<figure>{drawing}</figure>\n{sections}\n"
        f"<h2>Verdicts</h2>\n<p>A point whose run fails any check is invalid: it is no result and is in no chart.</p>\n{verdicts}\n"
        + (f"<h2>Notes</h2><ul>{lines}</ul>\n" if lines else "")
        + "</body>\n</html>\n"
    )


def _verdict_section(row: PointResult, verdict: Verdict | None) -> str:
    tone = "good" if row.valid else "bad"
    head = f'{html.escape(describe(row.parameters))}: <span class="{tone}">{html.escape(row.verdict)}</span>'
    details = f"<p class=foot>plan {html.escape(row.plan_digest)}, lower bound {row.lower_bound_s:.6g} s "
    details += (
        f"({html.escape(row.lower_bound_kind)}), {row.bytes_sent:,} bytes sent, {row.wall_s:.1f} s of wall time</p>"
    )
    checks = "<p class=foot>No list of checks was kept.</p>" if verdict is None else html_table(checks_table(verdict))
    opened = "" if row.valid else " open"
    return f"<details{opened}><summary>{head}</summary>{details}{checks}</details>"


def checks_table(verdict: Verdict) -> TextTable:
    """One row a check: what it measured, its limit, whether it passed, and for a failed one what that means."""
    body = tuple((c.name, c.value, c.limit, c.meaning, "passed" if c.ok else "FAILED") for c in verdict.checks)
    tone = tuple("good" if check.ok else "bad" for check in verdict.checks)
    return TextTable("Checks", ("check", "value", "limit", "if it fails", "outcome"), body, 4, tone)

"""Writes the report of a run folder: one HTML file that needs no network, a Markdown table, and the chart as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from gradwire.analysis.compare import Comparison, PrintedCell, compare
from gradwire.analysis.parameters import describe
from gradwire.analysis.points import PointResult, pool_seeds
from gradwire.analysis.report.charts import DPI, chart, save_chart, svg_text
from gradwire.analysis.report.pages import HtmlTable, drawing, html_table, page
from gradwire.analysis.report.ranking import Ranking, ranking_table, reasons
from gradwire.analysis.report.ranking_chart import ranking_chart
from gradwire.analysis.report.tables import (
    Constant,
    TextTable,
    comparison_table,
    constants_table,
    markdown_table,
    order_table,
    points_table,
    rich_table,
)
from gradwire.analysis.verdict.verdict import Verdict


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
    """Writes report.html, table.md, chart.png and chart.svg into `run_dir`; returns what a terminal shows, in 100 columns at most.

    rows: one per point and seed, as in points.csv; seeds are pooled here. verdicts: one per row, None where a run left none.
    series_key: the parameter that is compared and coloured. labels: what to write for a parameter's key or value.
    notes: lines for the end of the report, such as the run's speed. ranking: of the rows; it comes first and is the chart.
    Raises InputFault for a printed cell that fits no point or several.
    """
    texts = dict(labels or {})
    pooled = pool_seeds(rows)
    comparison = compare(pooled, printed, series_key)
    tables = [points_table(pooled, comparison, texts)]
    if printed:
        tables += [comparison_table(comparison, texts), order_table(comparison, texts)]
    if constants:
        tables.append(constants_table(constants))
    summary = comparison.summary if comparison.cells else ""
    if ranking is not None:
        tables, summary = [ranking_table(ranking), *tables], ranking.sentence()
        notes = [*reasons(ranking), *notes]
        figure = ranking_chart(ranking, title)
    else:
        figure = chart(pooled, comparison, title, series_key, texts)
    save_chart(figure, run_dir, dpi=dpi)
    html = page(
        "run.html",
        title=title,
        summary=summary,
        chart=drawing(svg_text(figure)),
        tables=[html_table(table) for table in tables],
        points=[_shown_verdict(row, verdict) for row, verdict in zip(rows, verdicts, strict=True)],
        notes=notes,
    )
    (run_dir / "report.html").write_text(html, encoding="utf-8")
    (run_dir / "table.md").write_text(_markdown(title, summary, tables, notes), encoding="utf-8")
    if ranking is not None:
        shown = rich_table(tables[0], without=("options",))
        return Group(Text(title, style="bold"), shown, *_dim(notes), Text(summary, style="bold"))
    return terminal(title, comparison, tables[0], rows, notes)


def terminal(
    title: str, comparison: Comparison, table: TextTable, rows: Sequence[PointResult], notes: Sequence[str] = ()
) -> RenderableType:
    """The table of points, the summary of the comparison, and the reason for each invalid point."""
    # With printed values, the table would be wider than 100 columns, and efficiency says what throughput would.
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


@dataclass(frozen=True)
class ShownVerdict:
    """A point's verdict as the page shows it."""

    label: str
    valid: bool
    verdict: str
    #: What else is known of the run.
    facts: str
    #: None where no list of checks was kept.
    checks: HtmlTable | None


def _shown_verdict(row: PointResult, verdict: Verdict | None) -> ShownVerdict:
    facts = (
        f"plan {row.plan_digest}, lower bound {row.lower_bound_s:.6g} s ({row.lower_bound_kind}), "
        f"{row.bytes_sent:,} bytes sent, {row.wall_s:.1f} s of wall time"
    )
    checks = html_table(checks_table(verdict)) if verdict else None
    return ShownVerdict(describe(row.parameters), row.valid, row.verdict, facts, checks)


def checks_table(verdict: Verdict) -> TextTable:
    """One row per check: what it measured, its limit, what a failure means, and whether it passed."""
    body = tuple((c.name, c.value, c.limit, c.meaning, "passed" if c.ok else "FAILED") for c in verdict.checks)
    tone = tuple("good" if check.ok else "bad" for check in verdict.checks)
    return TextTable("Checks", ("check", "value", "limit", "if it fails", "outcome"), body, 4, tone)

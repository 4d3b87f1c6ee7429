"""Writes the report of a run folder: one HTML file that needs no network,
a Markdown table, and the chart as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from gradwire.analysis.agreement.causes import Agreement
from gradwire.analysis.findings.findings import Finding
from gradwire.analysis.parameters import describe
from gradwire.analysis.points import VALID, PointResult, parameter_names, pool_seeds
from gradwire.analysis.printed import Comparison, compare
from gradwire.analysis.printed_cells import PrintedCell
from gradwire.analysis.quantities import quantity
from gradwire.analysis.report.charts import DPI, Labels, chart, page_svg, save_chart, svg_text
from gradwire.analysis.report.conclusion import Remark, conclusion, remarks, trust
from gradwire.analysis.report.finding_charts import finding_chart
from gradwire.analysis.report.network_drawing import network_drawing, networks_by_rate, rate_lines
from gradwire.analysis.report.pages import (
    HtmlTable,
    Settings,
    drawing,
    html_table,
    in_line,
    own_settings,
    page,
    settings_tables,
)
from gradwire.analysis.report.panels import ranking_chart
from gradwire.analysis.report.ranking import Ranking, ranking_table, reasons
from gradwire.analysis.report.tables import (
    STATE_TONE,
    Constant,
    comparison_table,
    constants_table,
    escaped,
    markdown_table,
    order_table,
    paragraph,
    points_table,
)
from gradwire.analysis.report.text_table import Part, TextLine, TextTable
from gradwire.analysis.report.value_words import listed
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.files import replace_text
from gradwire.network.fabric import Fabric

MOST_NETWORKS = 4
"""A report with more different networks draws none of them: they are in the settings."""


@dataclass(frozen=True)
class PointDetails:
    """The parts of a point in a report that are neither its numbers nor its verdict."""

    #: All its settings.
    settings: Settings
    #: Its folder, relative to the report's; "" for none.
    folder: str = ""
    #: Names of the files there to which the report has links.
    files: tuple[str, ...] = ()
    #: One sentence on where an iteration's time went; "" if that is not known.
    why: str = ""
    #: Chart of a port's use as SVG, and the port; "" for none.
    drawing: str = ""
    port: str = ""
    #: Cause of the difference from an ideal network; None if it has not been looked for.
    agreement: Agreement | None = None
    #: Chart of the run over time as SVG; "" if it was not drawn.
    over_time: str = ""
    #: Mean iteration times before, during and after its faults; "" without faults.
    fault_times: str = ""


@dataclass(frozen=True)
class Background:
    """The parts of a report that tell where its results come from."""

    #: One paragraph on what is asked.
    about: str = ""
    #: Version, date, command, kernel and the like: names and values.
    facts: Sequence[tuple[str, str]] = ()
    #: Text of the scenario.
    scenario: str = ""
    #: The networks of the points; of those that are alike, one.
    networks: Sequence[Fabric] = ()


@dataclass(frozen=True)
class Results:
    """The points of a run: their measurements, and further facts about them."""

    #: One per point and seed, as in points.csv.
    rows: Sequence[PointResult]
    #: One per row; None where a run left none.
    verdicts: Sequence[Verdict | None]
    #: One per row, or none at all.
    details: Sequence[PointDetails] = ()


@dataclass(frozen=True)
class Presentation:
    """The way in which a report shows its points, and the values that it compares them with."""

    title: str
    #: Values of a paper to compare with.
    printed: Sequence[PrintedCell] = ()
    #: Constants that the results rest on.
    constants: Sequence[Constant] = ()
    #: The parameter that is compared and coloured.
    series_key: str = "strategy"
    #: Labels of parameters' keys and values.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Lines for the end of the report, such as the run's speed.
    notes: Sequence[str] = ()
    #: Ranking of the rows; it comes first and is the chart.
    ranking: Ranking | None = None
    #: What the run shows.
    findings: Sequence[Finding] = ()


def report(
    run_dir: Path,
    results: Results,
    shown: Presentation,
    background: Background | None = None,
    *,
    dpi: int = DPI,
) -> list[Part]:
    """Writes report.html, table.md, chart.png and chart.svg into `run_dir`; returns the terminal's version of the
    report. Seeds are pooled here.

    Raises InputFault for a printed cell that fits no point or several.
    """
    rows, ranking, notes, write = results.rows, shown.ranking, shown.notes, Labels(shown.labels)
    background = background or Background()
    pooled = pool_seeds(rows)
    comparison = compare(pooled, shown.printed, shown.series_key)
    tables = _tables(pooled, comparison, shown)
    concluded = conclusion(rows, shown.findings, write)
    remarked = _remarks(rows, results.details, write)
    if ranking is not None:
        notes = [*reasons(ranking), *notes]
        figure = ranking_chart(ranking, shown.title)
    else:
        figure = finding_chart(shown.findings, shown.title, write) or chart(
            pooled, comparison, shown.title, shown.series_key, dict(shown.labels)
        )
    save_chart(figure, run_dir, dpi=dpi)
    points, said = _shown_points(results, write), str(concluded)
    # One bar says less of a point with faults than its iterations do, one by one.
    over_time = points[0].over_time if len(points) == 1 and points[0].faults else ""
    summary = comparison.summary if comparison.cells else ""
    html = page(
        "run.html",
        title=shown.title,
        conclusion=concluded.lines,
        trust=trust(concluded.validity, rows, results.verdicts),
        all_valid=all(row.state == VALID for row in rows),
        summary=summary,
        warnings=[remark.text for remark in remarked if remark.is_warning],
        chart=over_time or drawing(page_svg(figure)),
        tables=[html_table(table) for table in tables],
        points=[replace(points[0], over_time=Markup())] if over_time else points,
        background=_shown_background(background, results.details),
        networks=_draw_networks(background.networks),
        remarks=[remark.text for remark in remarked if not remark.is_warning],
        notes=notes,
    )
    replace_text(run_dir / "report.html", html)
    replace_text(run_dir / "table.md", _markdown(shown.title, [said, summary], tables, remarked, notes))
    if ranking is not None:
        return [TextLine(shown.title, "strong"), tables[0], *_lines(remarked, notes), TextLine(said, "strong")]
    return terminal(shown.title, comparison, tables[0], rows, _lines(remarked, notes), said)


def _tables(pooled: Sequence[PointResult], comparison: Comparison, shown: Presentation) -> list[TextTable]:
    """All tables of a report, the most important first."""
    texts = dict(shown.labels)
    return [
        *([ranking_table(shown.ranking)] if shown.ranking is not None else []),
        points_table(pooled, comparison, texts),
        *([comparison_table(comparison, texts), order_table(comparison, texts)] if shown.printed else []),
        *([constants_table(shown.constants)] if shown.constants else []),
    ]


def terminal(
    title: str,
    comparison: Comparison,
    table: TextTable,
    rows: Sequence[PointResult],
    lines: Sequence[TextLine],
    concluded: str,
) -> list[Part]:
    """The table of points, the summary of the comparison, the reason for each
    invalid point, further lines, and the conclusion."""
    return [
        TextLine(title, "strong"),
        table,
        *([TextLine(comparison.summary, "strong")] if comparison.cells else []),
        *(TextLine(f"{describe(row.parameters)}: {row.verdict}", "bad") for row in rows if not row.valid),
        *lines,
        TextLine(concluded, "strong"),
    ]


def _remarks(rows: Sequence[PointResult], details: Sequence[PointDetails], write: Labels) -> list[Remark]:
    return remarks(_labels(rows, write), rows, [detail.agreement for detail in details]) if details else []


def _lines(remarked: Sequence[Remark], notes: Sequence[str]) -> list[TextLine]:
    """Warnings stand out, and the rest stands back."""
    texts = [
        TextLine(f"WARNING: {remark.text}", "doubtful") if remark.is_warning else TextLine(remark.text)
        for remark in remarked
    ]
    return [*texts, *(TextLine(note, "quiet") for note in notes)]


def _markdown(
    title: str, sentences: Sequence[str], tables: Sequence[TextTable], remarked: Sequence[Remark], notes: Sequence[str]
) -> str:
    parts = [f"# {escaped(title)}\n", *(f"{paragraph(sentence)}\n" for sentence in sentences if sentence)]
    parts += [f"**WARNING**: {escaped(remark.text)}\n" for remark in remarked if remark.is_warning]
    parts += [f"## {table.title}\n\n{markdown_table(table)}" for table in tables]
    parts += [
        f"- {paragraph(note)}" for note in (*(remark.text for remark in remarked if not remark.is_warning), *notes)
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True)
class ShownNetwork:
    """A network as the page shows it."""

    sentence: str
    drawing: Markup
    #: Words about the same network at other rates; "" if there are none.
    others: str


def _draw_networks(networks: Sequence[Fabric]) -> list[ShownNetwork]:
    """Draws each network once: networks that differ only in their rate share a drawing."""
    different = networks_by_rate(networks)
    if len(different) > MOST_NETWORKS:
        return []
    return [
        ShownNetwork(
            "; ".join(rate_lines(first)),
            drawing(svg_text(network_drawing(first))),
            f"The same at {listed([quantity(other.rate_bps, 'bit/s') for other in others])}." if others else "",
        )
        for first, *others in different
    ]


@dataclass(frozen=True)
class ShownPoint:
    """A point as the page shows it."""

    label: str
    #: Whether nothing is to be said against it.
    valid: bool
    #: Its state, with the reasons of an invalid one.
    verdict: str
    tone: str
    #: Further facts about the run: names and values.
    facts: tuple[tuple[str, str], ...]
    #: Names of its files and where they are.
    links: tuple[tuple[str, str], ...]
    #: Chart of the use of `port`.
    drawing: Markup
    port: str
    #: Chart of the run over time.
    over_time: Markup
    #: Whether faults are shaded in it.
    faults: bool
    #: None where no list of checks was kept.
    checks: HtmlTable | None


def _shown_points(results: Results, write: Labels) -> list[ShownPoint]:
    known = list(results.details) or [PointDetails({})] * len(results.rows)
    differing = own_settings([detail.settings for detail in known])
    return [
        _shown_point(label, row, verdict, detail, in_line(settings))
        for label, row, verdict, detail, settings in zip(
            _labels(results.rows, write), results.rows, results.verdicts, known, differing, strict=True
        )
    ]


def _labels(rows: Sequence[PointResult], write: Labels) -> list[str]:
    """Each point by the parameters that not all of them share."""
    keys = parameter_names(rows)
    return [", ".join(write.pair(key, row.parameters[key]) for key in keys if row.parameters.get(key)) for row in rows]


def _shown_point(
    label: str, row: PointResult, verdict: Verdict | None, detail: PointDetails, differing: str
) -> ShownPoint:
    facts = {
        "why": detail.why,
        "time": _distance(row),
        "faults": f"on average, an iteration took {detail.fault_times}" if detail.fault_times else "",
        "ideal network": _sentence(detail.agreement.sentence) if detail.agreement else "",
        "its own settings": differing,
        "plan": f"digest {row.plan_digest}; {row.bytes_sent:,} bytes sent; {row.wall_s:.1f} s of wall time",
    }
    links = [(name, quote(f"{detail.folder}/{name}")) for name in detail.files]
    return ShownPoint(
        label=label,
        valid=row.state == VALID,
        verdict=row.state if row.valid else row.verdict,
        tone=STATE_TONE[row.state],
        facts=tuple((name, value) for name, value in facts.items() if value),
        links=((f"{detail.folder}/", quote(f"{detail.folder}/")), *links) if detail.folder else (),
        drawing=drawing(detail.drawing) if detail.drawing else Markup(),
        port=detail.port,
        over_time=drawing(detail.over_time) if detail.over_time else Markup(),
        faults=bool(detail.fault_times),
        checks=html_table(checks_table(verdict)) if verdict else None,
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _distance(row: PointResult) -> str:
    """A point's iteration time, and how far it is from its lower bound and from an ideal network."""
    bound = f"{quantity(row.lower_bound_s, 's')} ({row.lower_bound_kind})"
    if not row.valid:
        return f"no result; its lower bound is {bound}"
    far = (
        f", {row.iteration_time_s / row.lower_bound_s:.3f} times its lower bound of {bound}"
        if row.lower_bound_s
        else ""
    )
    ideal = f", {row.fluid_ratio:.3f} times its time on an ideal network" if row.fluid_ratio else ""
    return f"{quantity(row.iteration_time_s, 's')} an iteration{far}{ideal}"


@dataclass(frozen=True)
class ShownBackground:
    """The background of a run as the page shows it."""

    about: str
    facts: Sequence[tuple[str, str]]
    scenario: str
    #: None where no point has settings.
    settings: HtmlTable | None
    #: Settings that the scenario leaves to defaults.
    defaults: HtmlTable | None


def _shown_background(background: Background, details: Sequence[PointDetails]) -> ShownBackground:
    given, defaults = settings_tables([detail.settings for detail in details]) if details else (None, None)
    return ShownBackground(
        background.about,
        background.facts,
        background.scenario,
        html_table(given) if given and given.rows else None,
        html_table(defaults) if defaults and defaults.rows else None,
    )


def checks_table(verdict: Verdict) -> TextTable:
    """One row per check: the measured value, its limit, the meaning of a failure, and whether it passed."""
    body = tuple((c.name, c.value, c.limit, c.meaning, "passed" if c.ok else "FAILED") for c in verdict.checks)
    tone = tuple("good" if check.ok else "bad" for check in verdict.checks)
    return TextTable("Checks", ("check", "value", "limit", "if it fails", "outcome"), body, 4, tone)

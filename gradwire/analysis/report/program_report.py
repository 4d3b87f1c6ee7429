"""Writes the report of a scenario of programs: one HTML file that needs no
network, a Markdown table, the chart, and its rows as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from gradwire.analysis.figure_frames import figures_frame, points_frame
from gradwire.analysis.point_frames import write_frame
from gradwire.analysis.program_results import ProgramResult, varied_parameters, words
from gradwire.analysis.report.charts import page_svg, save_chart
from gradwire.analysis.report.pages import drawing, html_table, page
from gradwire.analysis.report.program_charts import chart, choice, figures_table, points_table
from gradwire.analysis.report.report import checks_table
from gradwire.analysis.report.tables import escaped, markdown_table, paragraph
from gradwire.analysis.report.text_table import Part, TextLine, TextTable
from gradwire.analysis.verdict.verdict import FAILED
from gradwire.files import replace_text

POINTS_FILE, FIGURES_FILE = "points.csv", "figures.csv"


@dataclass(frozen=True)
class ProgramBackground:
    """The parts of a report of programs that are not about single points."""

    title: str
    about: str
    labels: Mapping[str, str]
    notes: Sequence[str]
    #: The scenario's choice for the chart; "" for none.
    metric: str
    over: str
    #: Version, date, command, kernel and the like: names and values.
    facts: Sequence[tuple[str, str]]
    #: Text of the scenario.
    scenario: str


def conclusion(results: Sequence[ProgramResult]) -> str:
    """One sentence on how many points are valid."""
    valid = sum(result.valid for result in results)
    if valid == len(results):
        return "The point is valid." if valid == 1 else f"All {valid} points are valid."
    failed = sum(result.state == FAILED for result in results)
    counted = [(failed, "failed"), (len(results) - valid - failed, "are invalid")]
    said = " and ".join(f"{count} of {len(results)} points {word}" for count, word in counted if count)
    return f"{said}, and their figures are not results."


def write_program_report(
    folder: Path, results: Sequence[ProgramResult], folders: Sequence[str], background: ProgramBackground
) -> list[Part]:
    """Writes report.html, table.md, chart.png, chart.svg, points.csv and figures.csv; returns the terminal's version of
    the report.

    folders: of the points, relative to the report. Raises InputFault for a figure to draw that no program reported.
    """
    write_frame(folder / POINTS_FILE, points_frame(results))
    write_frame(folder / FIGURES_FILE, figures_frame(results))
    for name in ("chart.png", "chart.svg"):
        (folder / name).unlink(missing_ok=True)  # of an earlier report, whose figures may be gone
    chosen = choice(results, background.metric, background.over)
    tables = [points_table(results, background.labels)]
    figures = figures_table(results, chosen.over if chosen else "", background.labels)
    tables += [figures] if figures else []
    drawn = Markup()
    if chosen:
        figure = chart(results, chosen, background.title, background.labels)
        save_chart(figure, folder)
        drawn = drawing(page_svg(figure))
    concluded = conclusion(results)
    html = page(
        "programs.html",
        title=background.title,
        about=background.about.strip(),
        conclusion=concluded,
        all_valid=all(result.valid for result in results),
        chart=drawn,
        tables=[html_table(table) for table in tables],
        points=[
            _show_point(result, name, varied_parameters(results)) for result, name in zip(results, folders, strict=True)
        ],
        facts=background.facts,
        scenario=background.scenario,
        notes=background.notes,
    )
    replace_text(folder / "report.html", html)
    replace_text(folder / "table.md", _markdown(background, concluded, tables))
    return _terminal(background.title, results, tables, background.notes, concluded)


def _show_point(result: ProgramResult, folder: str, keys: Sequence[str]) -> dict[str, object]:
    """A point as the page shows it."""
    return {
        "label": words(result.parameters, keys) or "the point",
        "valid": result.valid,
        "verdict": result.verdict.summary,
        "folder": folder,
        "line_uses": [(name, f"{use:.3f}", f"{use:.0%}") for name, use in result.line_uses],
        "href": quote(f"{folder}/"),
        "checks": html_table(checks_table(result.verdict)),
    }


def _markdown(background: ProgramBackground, concluded: str, tables: Sequence[TextTable]) -> str:
    parts = [f"# {escaped(background.title)}\n", f"{paragraph(concluded)}\n"]
    parts += [f"## {table.title}\n\n{markdown_table(table)}" for table in tables]
    return "\n".join([*parts, *(f"- {paragraph(note)}" for note in background.notes)]) + "\n"


def _terminal(
    title: str, results: Sequence[ProgramResult], tables: Sequence[TextTable], notes: Sequence[str], concluded: str
) -> list[Part]:
    varied = varied_parameters(results)
    return [
        TextLine(title, "strong"),
        *tables,
        *(
            TextLine(f"{words(result.parameters, varied) or 'the point'}: {result.verdict.summary}", "bad")
            for result in results
            if not result.valid
        ),
        *(TextLine(note, "quiet") for note in notes),
        TextLine(concluded, "strong"),
    ]

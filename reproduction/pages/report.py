"""A reproduction as one HTML page that needs no network, and as a terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from gradwire.analysis.report.pages import HtmlTable, drawing, html_table, page
from gradwire.analysis.report.text_table import Part, TextLine, TextTable
from gradwire.files import replace_text
from reproduction.pages.differences import Difference, differences, unexplained_claims
from reproduction.pages.reproduced import Reproduced, ReproducedScenario
from reproduction.pages.tables import (
    claims_table,
    headline_table,
    listed_by_reason,
    measured_text,
    predictions_table,
    printed_text,
    scoreboard,
    summary_lines,
)
from reproduction.scoring.reference import ScenarioReference
from reproduction.scoring.score import Result, Status

TEMPLATES = Path(__file__).with_name("templates")


def title_of(papers: Sequence[Reproduced]) -> str:
    """What a report is called."""
    return f"Reproduction of {', '.join(paper.paper.paper for paper in papers)}"


def _by_paper(papers: Sequence[Reproduced]) -> dict[str, list[Result]]:
    return {paper.paper.paper: paper.results for paper in papers}


def terminal(papers: Sequence[Reproduced]) -> list[Part]:
    """The scoreboard, the score in words, what differs, and the runs that failed."""
    results = [result for paper in papers for result in paper.results]
    parts: list[Part] = [TextLine(title_of(papers), "strong"), scoreboard(_by_paper(papers))]
    parts += [TextLine(line, "strong") for line in summary_lines(results)]
    for result in results:
        if result.status in (Status.DIFFERS, Status.NO_EVIDENCE):
            parts.append(TextLine(f"{result.name}: {_difference(result)}"))
    failed = {label: reason for paper in papers for label, reason in paper.facts.failed.items()}
    parts += [TextLine(f"failed: {label}: {reason}", "bad") for label, reason in failed.items()]
    return parts


def _difference(result: Result) -> str:
    if result.status is Status.NO_EVIDENCE:
        return f"no evidence: {result.reason}"
    values = f"printed {printed_text(result.claim)}, measured {measured_text(result)}"
    return f"{values}; {result.why}" if result.broken_premise else values


@dataclass(frozen=True)
class ShownDrawing:
    """A figure of a scenario."""

    title: str
    svg: Markup


@dataclass(frozen=True)
class ShownScenario:
    """A scenario as the page shows it."""

    id: str
    title: str
    #: Paragraphs: the setup, how it was run, and notes.
    texts: tuple[str, ...]
    drawings: tuple[ShownDrawing, ...]
    #: None for a scenario without claims.
    claims: HtmlTable | None


@dataclass(frozen=True)
class ShownPaper:
    """A paper as the page shows it."""

    name: str
    title: str
    facts: tuple[str, ...]
    headlines: HtmlTable | None
    scenarios: tuple[ShownScenario, ...]
    causes: tuple[Difference, ...]
    #: What differs without an explanation, and what is known.
    unexplained: tuple[tuple[str, str], ...]
    predictions: HtmlTable | None
    #: Claims that do not count, by the reason.
    listed: Mapping[str, Sequence[str]]


def write_report(path: Path, papers: Sequence[Reproduced]) -> None:
    """Writes the HTML report."""
    html = page(
        "reproduction.html",
        templates=TEMPLATES,
        title=title_of(papers),
        summary=summary_lines(result for paper in papers for result in paper.results),
        score=html_table(scoreboard(_by_paper(papers))),
        papers=list(map(_shown_paper, papers)),
    )
    replace_text(path, html)


def _shown_paper(one: Reproduced) -> ShownPaper:
    results = one.results
    return ShownPaper(
        one.paper.paper,
        one.paper.title,
        tuple(one.facts.lines()),
        _unless_empty(headline_table(results)),
        tuple(map(_show_scenario, one.scenarios)),
        tuple(differences(results)),
        tuple((result.name, known) for result, known in unexplained_claims(results)),
        _unless_empty(predictions_table(results)),
        listed_by_reason(results),
    )


def _unless_empty(table: TextTable) -> HtmlTable | None:
    return html_table(table) if table.rows else None


def _show_scenario(one: ReproducedScenario) -> ShownScenario:
    scenario = one.judged.scenario
    return ShownScenario(
        scenario.id,
        scenario.title,
        background(scenario),
        tuple(ShownDrawing(drawn.title, drawing(drawn.svg)) for drawn in one.drawn),
        _unless_empty(claims_table(one.judged)),
    )


def background(scenario: ScenarioReference) -> tuple[str, ...]:
    """Paragraphs on a scenario: the setup, how it was run, and notes."""
    how = "not emulable: " + scenario.not_emulable if scenario.not_emulable else _how(scenario)
    return tuple(text for text in (scenario.setup, how, scenario.note) if text)


def _how(scenario: ScenarioReference) -> str:
    kind = "Direct" if scenario.direct else "Scaled"
    if scenario.runs:
        return f"{kind}; runs: {', '.join(scenario.runs)}."
    return f"{kind}; no separate run: computed from compiled plans." if scenario.plans else f"{kind}; no separate run."

"""Writes what a reproduction found: one HTML page that needs no network, a Markdown page for the documentation, and a terminal's view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from gradwire.analysis.papers.figures import figures
from gradwire.analysis.papers.holds import tolerance_text
from gradwire.analysis.papers.reference import Claim, ScenarioReference, rank_text
from gradwire.analysis.papers.score import EXPLAINED_BEYOND, GROUPS, Evaluated, Result, Score, Status, Tally, score
from gradwire.analysis.report.pages import HtmlTable, drawing, html_table, page
from gradwire.analysis.report.tables import ABSENT, TextTable, markdown_table, rich_table

INTRODUCTION = """\
Written by `gradwire reproduce`, which runs every scenario of the papers' evaluations on an emulated network and judges each claim:
numbers within a tolerance, bounds, orders, and shapes by named predicates (analysis/papers/holds.py gives each tolerance with its
reason). A cell that a constant was fitted on never counts."""
TONES = {Status.HOLDS: "good", Status.DIFFERS: "bad", Status.NO_EVIDENCE: "bad", Status.PREDICTED: ""}


@dataclass(frozen=True)
class About:
    """What a report says about itself."""

    title: str
    #: Versions, dates and times, by name.
    facts: Mapping[str, str]
    #: Label and reason of each run that failed.
    failed: Sequence[tuple[str, str]] = ()


def scoreboard(evaluated: Sequence[Evaluated]) -> TextTable:
    """One row per paper, and one for all: of each group of claims, how many hold of how many that count."""
    papers = list(dict.fromkeys(judged.paper.paper for judged in evaluated))
    rows, tones = [], []
    for name in [*papers, *(["all"] if len(papers) > 1 else [])]:
        total = score([r for judged in evaluated if name in (judged.paper.paper, "all") for r in judged.results])
        rows.append((name, *_score_cells(total)))
        tones.append("bad" if total.unexplained else "good" if total.all.hold == total.all.counted else "")
    headers = (
        "paper", *GROUPS, "all", "median", "largest", "> 15 %", "unexpl.", "fitted", "pred.", "listed"
    )  # fmt: skip
    foot = (
        "Claims that hold / claims that count, by kind. Median and largest relative error are of the numeric claims that count; so are "
        "those beyond 15 %. Unexplained: of these those without an explanation, and every claim whose explanation rests on a premise that "
        "does not hold. Fitted, predicted, and listed claims (contradicted in the paper, or not emulable) never count."
    )
    return TextTable("Score", headers, tuple(rows), 1, tuple(tones), foot)


def _score_cells(total: Score) -> tuple[str, ...]:
    tallies = [total.tallies[group].text for group in GROUPS]
    errors = [_percent(total.median_error), _percent(max(total.errors, default=None))]
    counts = [total.beyond, len(total.unexplained), total.fitted, total.predicted, total.listed]
    return (*tallies, total.all.text, *errors, *(str(count) for count in counts))


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{share:.1%}"


def summary_lines(evaluated: Sequence[Evaluated]) -> list[str]:
    """The score in words."""
    total = score([result for judged in evaluated for result in judged.results])
    direct = Tally(total.all.hold - total.scaled.hold, total.all.counted - total.scaled.counted)
    lines = [
        f"{total.all.text} counted claims hold ({_percent(total.all.share)}); "
        f"of ranks, shapes and bounds {total.directional.text} ({_percent(total.directional.share)})",
        f"numbers: median relative error {_percent(total.median_error)}, {total.beyond} beyond {EXPLAINED_BEYOND:.0%}, "
        f"of which {total.explained} explained from logs",
        f"direct: {direct.text} hold; scaled: {total.scaled.text} hold",
    ]
    if total.unexplained:
        lines.append("without an explanation: " + ", ".join(total.unexplained))
    return lines


def terminal(evaluated: Sequence[Evaluated], about: About) -> RenderableType:
    """The scoreboard, the score in words, what differs, and the runs that failed."""
    parts: list[RenderableType] = [Text(about.title, style="bold"), rich_table(scoreboard(evaluated))]
    parts += [Text(line, style="bold") for line in summary_lines(evaluated)]
    for judged in evaluated:
        for result in judged.results:
            if result.status in (Status.DIFFERS, Status.NO_EVIDENCE):
                parts.append(Text(f"{judged.scenario.id}/{result.claim.id}: {_difference(result)}"))
    parts += [Text(f"failed: {label}: {reason}", style="red") for label, reason in about.failed]
    return Group(*parts)


def _difference(result: Result) -> str:
    if result.status is Status.NO_EVIDENCE:
        return f"no evidence: {result.reason}"
    values = f"printed {printed_text(result.claim)}, measured {measured_text(result)}"
    return f"{values}; {result.why}" if result.broken_premise else values


def printed_text(claim: Claim) -> str:
    """What the paper prints, with its unit."""
    if claim.printed is None:
        return "left out"
    if isinstance(claim.printed, list):
        return rank_text(claim.printed)
    return _with_unit(claim.printed, claim)


def measured_text(result: Result) -> str:
    """What was measured, with its interval and unit."""
    if result.measured is None:
        return ABSENT
    value = _with_unit(result.measured.value, result.claim)
    return value if result.measured.ci95 is None else f"{value} ± {_number(result.measured.ci95, result.claim)}"


def _with_unit(value: float | str, claim: Claim) -> str:
    if isinstance(value, str):
        return value
    if claim.metric == "scaling_efficiency":
        return f"{value * 100:.1f} %"
    return _number(value, claim) + (f" {claim.unit}" if claim.unit else "x" if claim.metric == "speedup" else "")


def _number(value: float, claim: Claim) -> str:
    if claim.metric == "scaling_efficiency":
        return f"{value * 100:.2g}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def claims_table(judged: Evaluated) -> TextTable:
    """One row per claim of a scenario."""
    rows = []
    for result in judged.results:
        claim = result.claim
        note = result.why or result.reason or (result.measured.detail if result.measured else "")
        head = (claim.id, claim.kind.value, claim.metric, claim.source, note, tolerance_text(claim))
        rows.append((*head, printed_text(claim), measured_text(result), _error(result), result.status.value))
    headers = ("claim", "kind", "metric", "source", "note", "tolerance", "printed", "measured", "error", "outcome")
    tones = tuple(TONES.get(result.status, "quiet") for result in judged.results)
    return TextTable("Claims", headers, tuple(rows), 6, tones)


def _listed(evaluated: Sequence[Evaluated], title: str, foot: str, *statuses: Status) -> TextTable:
    """A table of the claims with these statuses, and why."""
    rows, tones = [], []
    for judged in evaluated:
        for result in judged.results:
            if result.status in statuses:
                words = (judged.scenario.id, result.claim.id, _where(result.claim), result.reason)
                rows.append((*words, printed_text(result.claim), measured_text(result), result.status.value))
                tones.append("quiet")
    headers = ("scenario", "claim", "point", "reason", "printed", "measured", "outcome")
    return TextTable(title, headers, tuple(rows), 4, tuple(tones), foot)


def _where(claim: Claim) -> str:
    return ", ".join(str(value) for value in claim.where.values())


def headline_table(evaluated: Sequence[Evaluated]) -> TextTable:
    """What the papers put first, in the order of their groups."""
    headlines = sorted(
        ((judged, result) for judged in evaluated for result in judged.results if result.claim.headline),
        key=lambda pair: (pair[0].paper.paper, pair[1].claim.headline),
    )
    rows = [
        (
            judged.scenario.id,
            r.claim.id,
            r.claim.source,
            printed_text(r.claim),
            measured_text(r),
            _error(r),
            r.status.value,
        )
        for judged, r in headlines
    ]
    headers = ("scenario", "claim", "source", "printed", "measured", "error", "outcome")
    tones = tuple(TONES.get(result.status, "quiet") for _, result in headlines)
    return TextTable("Headlines", headers, tuple(rows), 3, tones)


def _error(result: Result) -> str:
    return ABSENT if result.relative_error is None else f"{result.relative_error:+.1%}"


def predictions_table(evaluated: Sequence[Evaluated]) -> TextTable:
    """The claims whose printed values are left out of the reference data: what the same constants predict."""
    rows = [
        (judged.scenario.id, r.claim.id, _where(r.claim), r.claim.metric, measured_text(r), r.reason)
        for judged in evaluated
        for r in judged.results
        if r.status is Status.PREDICTED
    ]
    headers = ("scenario", "claim", "point", "metric", "predicted", "")
    foot = "The papers' values are left out of the reference data, so none can have been fitted on; nothing here is compared or counts."
    return TextTable("Predictions", headers, tuple(rows), 4, ("",) * len(rows), foot)


def far_table(evaluated: Sequence[Evaluated]) -> TextTable:
    """The counted numbers beyond 15 % and the counted claims that do not hold, each with its explanation."""
    rows, tones = [], []
    for judged in evaluated:
        for result in judged.results:
            if result.needs_explanation or result.status in (Status.DIFFERS, Status.NO_EVIDENCE):
                why = result.why or result.reason or "not explained"
                words = (judged.scenario.id, result.claim.id, why)
                values = (printed_text(result.claim), measured_text(result), _error(result), result.status.value)
                rows.append((*words, *values))
                tones.append(TONES[result.status])
    headers = ("scenario", "claim", "why", "printed", "measured", "error", "outcome")
    foot = f"Numbers beyond {EXPLAINED_BEYOND:.0%}, and every counted claim that does not hold."
    return TextTable("Where the emulation disagrees", headers, tuple(rows), 3, tuple(tones), foot)


def not_counted_table(evaluated: Sequence[Evaluated]) -> TextTable:
    """Claims that are contradicted in the paper or are no network traffic."""
    foot = "Listed, never counted."
    return _listed(evaluated, "Not counted", foot, Status.CONTRADICTED, Status.NOT_EMULABLE)


OVERVIEW = (headline_table, far_table, predictions_table, not_counted_table)
"""The tables over all scenarios, in the order of a report."""


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
    """A paper's scenarios."""

    name: str
    title: str
    scenarios: tuple[ShownScenario, ...]


def write_page(path: Path, evaluated: Sequence[Evaluated], about: About) -> None:
    """Writes the HTML report."""
    by_paper = groupby(evaluated, key=lambda one: (one.paper.paper, one.paper.title))
    html = page(
        "reproduction.html",
        title=about.title,
        summary=summary_lines(evaluated),
        score=html_table(scoreboard(evaluated)),
        facts=about.facts,
        failed=about.failed,
        tables=[html_table(table) for table in (make(evaluated) for make in OVERVIEW) if table.rows],
        papers=[ShownPaper(name, title, tuple(map(_shown, group))) for (name, title), group in by_paper],
    )
    path.write_text(html, encoding="utf-8")


def _shown(judged: Evaluated) -> ShownScenario:
    scenario = judged.scenario
    how = "not emulable: " + scenario.not_emulable if scenario.not_emulable else _how(scenario)
    return ShownScenario(
        scenario.id,
        scenario.title,
        tuple(text for text in (scenario.setup, how, scenario.note) if text),
        tuple(ShownDrawing(title, drawing(svg)) for title, svg in figures(scenario, judged.points)),
        html_table(claims_table(judged)) if judged.results else None,
    )


def _how(scenario: ScenarioReference) -> str:
    kind = "Direct" if scenario.direct else "Scaled"
    if scenario.runs:
        return f"{kind}; runs: {', '.join(scenario.runs)}."
    return (
        f"{kind}; no run of its own: computed from compiled plans." if scenario.plans else f"{kind}; no run of its own."
    )


def markdown(evaluated: Sequence[Evaluated], about: About) -> str:
    """The documentation's page: score, versions, headlines, what disagrees, predictions, and every claim."""
    parts = [f"# {about.title}\n", INTRODUCTION, "", *(f"- {line}" for line in summary_lines(evaluated)), ""]
    parts += [*(f"- {name}: {value}" for name, value in about.facts.items()), "", markdown_table(scoreboard(evaluated))]
    for table in (make(evaluated) for make in OVERVIEW):
        if table.rows:
            parts.append(f"## {table.title}\n\n{markdown_table(table)}")
    parts.append("## All claims\n")
    for judged in evaluated:
        if judged.results:
            parts.append(
                f"### {judged.scenario.id}: {judged.scenario.title}\n\n{markdown_table(_short_claims(judged))}"
            )
    return "\n".join(parts) + "\n"


def _short_claims(judged: Evaluated) -> TextTable:
    """The claims without what the page's other tables and the HTML report say already."""
    whole = claims_table(judged)
    kept = [
        whole.headers.index(name) for name in ("claim", "kind", "source", "printed", "measured", "error", "outcome")
    ]
    rows = tuple(tuple(row[index] for index in kept) for row in whole.rows)
    return TextTable(whole.title, tuple(whole.headers[index] for index in kept), rows, 3, whole.tone)

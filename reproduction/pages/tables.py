"""The tables of a reproduction: the score, and claims with printed and measured values, each with its unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gradwire.analysis.report.point_columns import ABSENT
from gradwire.analysis.report.text_table import TextTable
from reproduction.scoring.holds import tolerance_text
from reproduction.scoring.reference import Claim, rank_text
from reproduction.scoring.score import (
    EXPLAINED_BEYOND,
    GROUPS,
    Evaluated,
    Judged,
    Result,
    Score,
    Status,
    Tally,
    score,
)

MOST_LETTERS = 100
"""A longer cell of a page's table is cut: the paper's CSV file has it whole."""

SHOWN_INTERVAL = 0.001
"""Share of a value: a smaller interval is below its last printed digit, and left to the CSV file."""
TONES = {Status.HOLDS: "good", Status.DIFFERS: "bad", Status.NO_EVIDENCE: "bad", Status.PREDICTED: ""}
LISTED = (Status.CONTRADICTED, Status.NOT_EMULABLE)
"""Statuses of claims that are only listed."""


def printed_text(claim: Claim) -> str:
    """What the paper prints, with its unit."""
    if claim.printed is None:
        return "left out"
    if isinstance(claim.printed, list):
        return rank_text(claim.printed)
    return value_text(claim.printed, claim)


def measured_text(result: Result) -> str:
    """What was measured, with its interval and unit."""
    if result.measured is None:
        return ABSENT
    value, half = result.measured.value, result.measured.ci95
    text = value_text(value, result.claim)
    shows = half is not None and isinstance(value, (int, float)) and half > SHOWN_INTERVAL * abs(value)
    return f"{text} ± {_interval(half, result.claim)}" if shows and half is not None else text


def value_text(value: float | str, claim: Claim) -> str:
    """A value of a claim, with its unit."""
    if isinstance(value, str):
        return value
    if claim.metric == "scaling_efficiency":
        return f"{value * 100:.1f} %"
    return _number(value) + (f" {claim.unit}" if claim.unit else "x" if claim.metric == "speedup" else "")


def _interval(half: float, claim: Claim) -> str:
    return f"{half * 100:.2g}" if claim.metric == "scaling_efficiency" else f"{half:.2g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def error_text(relative_error: float | None) -> str:
    """Signed, in per cent of the printed value."""
    return ABSENT if relative_error is None else f"{relative_error:+z.1%}"


def where_text(claim: Claim) -> str:
    """The point that a claim speaks of."""
    return ", ".join(str(value) for value in claim.where.values())


def shorten(text: str, letters: int = MOST_LETTERS) -> str:
    """At most so many letters, cut between words."""
    if len(text) <= letters:
        return text
    return text[: letters - 1].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def scoreboard(by_paper: Mapping[str, Sequence[Judged]]) -> TextTable:
    """One row per paper, and one for all: of each group of claims, how many hold of how many that count."""
    everything = {"all": [claim for claims in by_paper.values() for claim in claims]} if len(by_paper) > 1 else {}
    rows, tones = [], []
    for name, claims in {**by_paper, **everything}.items():
        total = score(claims)
        rows.append((name, *_score_cells(total)))
        tones.append("bad" if total.unexplained else "good" if total.all.hold == total.all.counted else "")
    headers = (
        "paper", *GROUPS, "all", "median", "largest", "> 15 %", "unexpl.", "fitted", "pred.", "listed"
    )  # fmt: skip
    foot = (
        "Claims that hold / claims that count. Median, largest and > 15 %: relative errors of numeric claims that count. "
        "Unexplained: those of more than 15 % without an explanation, and claims whose explanation rests on a premise "
        "that does not hold. Fitted, predicted, and listed claims (contradicted in the paper, or not emulable) never "
        "count."
    )
    gives_way = ("listed", "pred.", "fitted", "> 15 %", "largest", *GROUPS)
    return TextTable("Score", headers, tuple(rows), 1, tuple(tones), foot, gives_way)


def _score_cells(total: Score) -> tuple[str, ...]:
    tallies = [total.tallies[group].text for group in GROUPS]
    errors = [_percent(total.median_error), _percent(max(total.errors, default=None))]
    counts = [total.beyond, len(total.unexplained), total.fitted, total.predicted, total.listed]
    return (*tallies, total.all.text, *errors, *(str(count) for count in counts))


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{share:.1%}"


def summary_lines(claims: Iterable[Judged]) -> list[str]:
    """The score in words."""
    total = score(claims)
    direct = Tally(total.all.hold - total.scaled.hold, total.all.counted - total.scaled.counted)
    lines = [
        f"{total.all.text} counted claims hold ({_percent(total.all.share)}); of ranks, shapes and bounds "
        f"{total.directional.text} ({_percent(total.directional.share)})",
        f"numbers: median relative error {_percent(total.median_error)}, {total.beyond} beyond "
        f"{EXPLAINED_BEYOND:.0%}, of which {total.explained} explained from logs",
        f"direct: {direct.text} hold; scaled: {total.scaled.text} hold",
    ]
    if total.unexplained:
        lines.append("without an explanation: " + ", ".join(total.unexplained))
    return lines


def claims_table(judged: Evaluated) -> TextTable:
    """One row per claim of a scenario, with its source and tolerance; of its explanation only the cause is named."""
    rows = []
    for result in judged.results:
        claim, why = result.claim, result.explanation
        note = result.broken_premise or (why.cause if why else "") or result.reason
        note = note or (result.measured.detail if result.measured else "")
        head = (claim.id, claim.source, note, tolerance_text(claim))
        rows.append((*head, *_values(result)))
    headers = ("claim", "source", "note", "tolerance", "printed", "measured", "error", "outcome")
    tones = tuple(_tone(result) for result in judged.results)
    return TextTable("Claims", headers, tuple(rows), 4, tones)


def short_claims(judged: Evaluated) -> TextTable:
    """The claims of a scenario that have a printed value to compare with, in short cells."""
    apart = (Status.PREDICTED, *LISTED)
    shown = [result for result in judged.results if result.status not in apart]
    rows = tuple((result.claim.id, *map(shorten, _values(result))) for result in shown)
    headers = ("claim", "printed", "measured", "error", "outcome")
    return TextTable("Claims", headers, rows, 1, tuple(map(_tone, shown)))


def _tone(result: Result) -> str:
    return TONES.get(result.status, "quiet")


def _values(result: Result) -> tuple[str, str, str, str]:
    """Printed, measured, error and outcome."""
    error = error_text(result.relative_error)
    return printed_text(result.claim), measured_text(result), error, result.status.value


def headline_table(results: Iterable[Result]) -> TextTable:
    """What a paper puts first, in the order of its groups."""
    shown = sorted((r for r in results if r.claim.headline), key=lambda result: result.claim.headline)
    rows = tuple((r.scenario.id, r.claim.id, *map(shorten, (r.claim.source, *_values(r)))) for r in shown)
    headers = ("scenario", "claim", "source", "printed", "measured", "error", "outcome")
    return TextTable("Headlines", headers, rows, 3, tuple(map(_tone, shown)))


def predictions_table(results: Iterable[Result]) -> TextTable:
    """The claims whose printed values are left out of the reference data: what the same constants predict."""
    shown = [result for result in results if result.status is Status.PREDICTED]
    rows = tuple((r.name, shorten(where_text(r.claim)), r.claim.metric, measured_text(r)) for r in shown)
    foot = "The paper's values are left out of the reference data, so none can have been fitted on; nothing here is compared or counts."
    return TextTable("Predictions", ("claim", "point", "metric", "predicted"), rows, 3, ("",) * len(rows), foot)


def listed_by_reason(results: Iterable[Result]) -> dict[str, list[str]]:
    """Names of the claims that are only listed, by the reason why they do not count."""
    by_reason: dict[str, list[str]] = {}
    for result in results:
        if result.status in LISTED:
            by_reason.setdefault(result.reason, []).append(result.name)
    return by_reason

"""A paper's page: its score, its figures, its claims with what was measured, and each cause of a difference once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwire.analysis.report.tables import escaped, markdown_table
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.run_difference import ClaimDifference
from reproduction.pages.differences import Difference, Seen, differences, unexplained_claims
from reproduction.pages.report import background
from reproduction.pages.reproduced import Facts, Reproduced, ReproducedScenario
from reproduction.pages.rows import VISIBLY, change
from reproduction.pages.tables import (
    error_text,
    headline_table,
    listed_by_reason,
    predictions_table,
    scoreboard,
    short_claims,
    shorten,
    summary_lines,
)
from reproduction.scoring.reference import Paper


@dataclass(frozen=True)
class Moved:
    """What moved since an earlier reproduction."""

    since: Facts
    claims: Sequence[ClaimDifference]


def name_of(paper: Paper) -> str:
    """What a paper calls its system."""
    return paper.name or paper.paper


def paper_page(one: Reproduced, moved: Moved | None) -> str:
    """The page as Markdown. `moved`: None where nothing is there to compare with."""
    results, paper = one.results, one.paper.paper
    parts = [
        f"# {name_of(one.paper)}, reproduced",
        escaped(one.paper.title),
        f"Written by `gradwire reproduce {paper} --pages docs`. [All papers](../reproduction.md) says what a claim is "
        f"and when it holds, and [{paper}.csv]({paper}.csv) has every claim with its explanation.",
        _items([*summary_lines(results), *one.facts.lines()]),
        markdown_table(replace(scoreboard({paper: results}), foot="")),
        _section(headline_table(results)),
        "## Figures and tables",
        *map(_scenario, one.scenarios),
        *_causes(differences(results)),
        *_unexplained_lines(one),
        _predictions(predictions_table(results)),
        _list_scenarios(one),
        _moved_section(moved) if moved else "",
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def _section(table: TextTable) -> str:
    return f"## {table.title}\n\n{markdown_table(table)}" if table.rows else ""


def _predictions(table: TextTable) -> str:
    """Folded, because the figures show them as well."""
    if not table.rows:
        return ""
    folded = f"<details><summary>{len(table.rows)} predicted values</summary>\n\n{markdown_table(replace(table, foot=''))}\n</details>"
    return f"## {table.title}\n\n{escaped(table.foot)}\n\n{folded}"


def _scenario(one: ReproducedScenario) -> str:
    """Its figures and its claims; empty for one that has neither."""
    scenario, paper = one.judged.scenario, one.judged.paper.paper
    table = short_claims(one.judged)
    if not one.drawn and not table.rows:
        return ""
    parts = [f"### {scenario.id}: {escaped(scenario.title)}", *map(escaped, background(scenario))]
    parts += [f"![{escaped(drawn.title)}]({paper}/{drawn.name})\n\n{escaped(drawn.title)}" for drawn in one.drawn]
    parts += [markdown_table(table).strip("\n")] if table.rows else []
    return "\n\n".join(parts)


def _causes(differences: Sequence[Difference]) -> list[str]:
    if not differences:
        return []
    parts = ["## Where it differs, and why"]
    for difference in differences:
        parts.append(f"### {escaped(difference.cause)}")
        for argument in difference.arguments:
            parts += [escaped(argument.text), "\n".join(map(_seen_text, argument.seen))]
    return parts


def _seen_text(seen: Seen) -> str:
    """The claims for which the same was measured, and what."""
    errors = ["" if r.relative_error is None else f" ({error_text(r.relative_error)})" for r in seen.claims]
    names = ", ".join(_code(result.name) + error for result, error in zip(seen.claims, errors, strict=True))
    return f"- {names}" + (f": {escaped(seen.text)}" if seen.text else "")


def _code(name: str) -> str:
    return f"`{name}`"


def _unexplained_lines(one: Reproduced) -> list[str]:
    left = unexplained_claims(one.results)
    if not left:
        return []
    return [
        "## Where it differs, and nobody knows why",
        "\n".join(f"- {_code(result.name)}: {result.status.value}; {escaped(known)}" for result, known in left),
    ]


def _list_scenarios(one: Reproduced) -> str:
    by_reason = listed_by_reason(one.results)
    if not by_reason:
        return ""
    lines = [f"- {', '.join(map(_code, names))}: {escaped(reason)}" for reason, names in by_reason.items()]
    return "## What is not counted\n\n" + "\n".join(lines)


def _moved_section(moved: Moved) -> str:
    since = moved.since
    what = f"{since.date} (kernel {since.kernel}, code {since.code})"
    if not moved.claims:
        return (
            f"## What moved\n\nNothing since {what}: every outcome is the same, and no number moved by more than "
            f"{VISIBLY:.0%}."
        )
    rows = tuple(_moved_row(claim) for claim in moved.claims)
    foot = (
        f"Since {what}: outcomes that changed, and numbers that moved by more than {VISIBLY:.0%}, in the claims' units."
    )
    table = TextTable("What moved", ("claim", "before", "now", "change", "outcome"), rows, 1, ("",) * len(rows), foot)
    return _section(table)


def _moved_row(claim: ClaimDifference) -> tuple[str, ...]:
    share = change(claim)
    outcomes = dict.fromkeys((claim.first_outcome, claim.second_outcome))
    return (
        f"{claim.scenario}/{claim.claim}",
        shorten(claim.first),
        shorten(claim.second),
        "" if math.isnan(share) else f"{share:+.1%}",
        " → ".join(outcomes),
    )

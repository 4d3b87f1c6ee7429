"""The overview over all papers, from what their pages keep as data: a paper that is reproduced alone changes only what is its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.printed import APPROX_SHARE, EFFICIENCY_POINTS, EXACT_SHARE, NUMBER_SHARE
from gradwire.analysis.report.tables import Link, TextTable, markdown_table
from reproduction.pages.facts import Facts
from reproduction.pages.rows import ClaimRow
from reproduction.pages.tables import scoreboard, summary_lines

INTRODUCTION = f"""\
# Reproduction of the papers

Written by `gradwire reproduce --pages docs`, which runs every scenario of the papers' evaluations on an emulated network and judges each
claim. A claim is one thing that a paper says: a number of a table, a figure or a sentence; a bound; an order ("A is faster than B"); how a
curve runs; or a formula. It holds if

- a number is within {NUMBER_SHARE:.0%} of the printed one, {APPROX_SHARE:.0%} for "about", {EXACT_SHARE:.0%} for what follows from
  definitions, and {EFFICIENCY_POINTS * 100:.0f} percentage points for efficiencies,
- a bound is kept, an order is the printed one, ties told apart from differences,
- a curve runs as its predicate says, or a formula gives what the plan or the run does.

`gradwire/analysis/printed.py` gives each tolerance with its reason. A cell that a constant was fitted on never counts. A claim
is direct if its scenario runs as large as printed, and scaled if it runs on fewer machines, as its page says. Numbers that are off by more
than 15 % are explained from plans and logs; each paper's page tells every cause once, with the claims that it explains."""


@dataclass(frozen=True)
class Record:
    """What is kept of a paper."""

    paper: str
    #: What it calls its system.
    name: str
    facts: Facts
    rows: Sequence[ClaimRow]


def overview_page(records: Sequence[Record]) -> str:
    """The page as Markdown."""
    rows = [row for record in records for row in record.rows]
    points = sum(record.facts.points for record in records)
    parts = [
        INTRODUCTION,
        "## Score",
        "\n".join(f"- {line}" for line in [*summary_lines(rows), f"points: {points} measured", _origin(records)]),
        markdown_table(scoreboard({record.paper: record.rows for record in records})),
        "## Papers",
        markdown_table(_papers(records)),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _origin(records: Sequence[Record]) -> str:
    """Whether one code and one kernel made all of it."""
    codes, kernels, versions = (
        {getattr(record.facts, field) for record in records} for field in ("code", "kernel", "versions")
    )
    if len(codes) == len(kernels) == len(versions) == 1:
        return f"all papers with the same code of the runs ({codes.pop()}) and the same versions: {kernels.pop()}, {versions.pop()}"
    return (
        f"not all papers with the same code and versions: {len(codes)} codes of the runs, {len(kernels)} kernels and "
        f"{len(versions)} sets of versions, as each page says"
    )


def _papers(records: Sequence[Record]) -> TextTable:
    headers = ("paper", "claims", "date", "kernel", "code", "points", "core time (s)")
    rows = []
    for record in records:
        page, table, facts = f"reproduction/{record.paper}.md", f"reproduction/{record.paper}.csv", record.facts
        links = (Link(f"[{record.name}]({page})"), Link(f"[CSV]({table})"))
        origin = (facts.date, facts.kernel, facts.code)
        rows.append((*links, *origin, str(facts.points), f"{facts.points_s:.0f}"))
    foot = (
        "Code: a hash of what compiles and carries out plans. Core time: how long the points took, one after the other."
    )
    return TextTable("Papers", headers, tuple(rows), 5, ("",) * len(rows), foot)

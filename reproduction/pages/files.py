"""The files of the pages: `reproduction.md` over all papers, and for each paper a page, its claims, its facts and its
figures.

The overview is made from what the pages keep as data, so reproducing one paper changes only that paper's part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.analysis.printed import APPROX_SHARE, EFFICIENCY_POINTS, EXACT_SHARE, NUMBER_SHARE
from gradwire.analysis.report.tables import MarkdownLink, markdown_table
from gradwire.analysis.report.text_table import TextTable
from gradwire.faults import InputFault
from gradwire.files import replace_text
from reproduction.pages.paper import Moved, name_of, paper_page
from reproduction.pages.reproduced import Facts, Reproduced, read_facts, write_facts
from reproduction.pages.rows import ClaimRow, moved_claims, read_rows, row_of, write_rows
from reproduction.pages.tables import scoreboard, summary_lines
from reproduction.scoring.reference import PAPERS, load_paper

PAPERS_FOLDER = "reproduction"
INTRODUCTION = f"""\
# Reproduction of the papers

`gradwire reproduce --pages docs` runs every scenario of the papers' evaluations on an emulated network, judges each claim, and writes
these pages. A claim is one thing that a paper says. It holds if

- a number is within {NUMBER_SHARE:.0%} of the printed one, {APPROX_SHARE:.0%} for "about", {EXACT_SHARE:.0%} for what follows from
  definitions, and {EFFICIENCY_POINTS * 100:.0f} percentage points for efficiencies,
- a bound is kept, an order ("A is faster than B") is the printed one, ties distinguished from differences,
- a curve runs as its predicate says, or a formula gives what the plan or the run does.

`gradwire/analysis/printed.py` has each tolerance with its reason. A cell that a constant was fitted on never counts. Direct claims run as
large as printed, scaled ones on fewer machines. Numbers that are off by more than 15 % are explained from plans and logs, each cause once.
[Real hardware]({PAPERS_FOLDER}/world.md) has what others measured."""
OVERVIEW = "reproduction.md"


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
        return (
            f"all papers with the same code of the runs ({codes.pop()}) and the same versions: {kernels.pop()}, "
            f"{versions.pop()}"
        )
    return (
        f"not all papers with the same code and versions: {len(codes)} codes of the runs, {len(kernels)} kernels and "
        f"{len(versions)} sets of versions, as each page says"
    )


def _papers(records: Sequence[Record]) -> TextTable:
    """A row for each. Kernel and code only where they differ: otherwise they are said once."""
    is_one = len({(record.facts.code, record.facts.kernel) for record in records}) == 1
    headers = ("paper", "claims", "date", *(() if is_one else ("kernel", "code")), "points", "core time (s)")
    rows = []
    for record in records:
        page, table, facts = f"reproduction/{record.paper}.md", f"reproduction/{record.paper}.csv", record.facts
        links = (MarkdownLink(f"[{record.name}]({page})"), MarkdownLink(f"[CSV]({table})"))
        origin = () if is_one else (facts.kernel, facts.code)
        rows.append((*links, facts.date, *origin, str(facts.points), f"{facts.points_s:.0f}"))
    foot = (
        "Code: a hash of what compiles and carries out plans. Core time: how long the points took, one after the other."
    )
    return TextTable("Papers", headers, tuple(rows), 3 if is_one else 5, ("",) * len(rows), foot)


def write_pages(folder: Path, papers: Sequence[Reproduced], before: Path | None = None) -> None:
    """Writes these papers' pages, and the overview over all papers that have a page in `folder`.

    before: a folder with pages to tell what moved since; by default `folder` itself, with the pages that are replaced.
    Raises InputFault where a file that an earlier reproduction wrote is not as it was written.
    """
    inside = folder / PAPERS_FOLDER
    inside.mkdir(parents=True, exist_ok=True)
    for one in papers:
        paper = one.paper.paper
        _write_paper(inside, one, earlier_pages(before, paper) if before else _read_kept(inside, paper))
    records = []
    for paper in PAPERS:
        kept = _read_kept(inside, paper)
        if kept:
            records.append(Record(paper, name_of(load_paper(paper)), *kept))
    replace_text(folder / OVERVIEW, overview_page(records))


def earlier_pages(folder: Path, paper: str) -> tuple[Facts, list[ClaimRow]]:
    """What earlier pages in `folder` keep of a paper. Raises InputFault
    where they keep nothing, or where it is damaged."""
    kept = _read_kept(folder / PAPERS_FOLDER, paper)
    if kept is None:
        path = _claims_of(folder / PAPERS_FOLDER, paper)
        raise InputFault(
            f"{path}: there is no such file; pages to compare with are written by `gradwire reproduce --pages`"
        )
    return kept


def _read_kept(inside: Path, paper: str) -> tuple[Facts, list[ClaimRow]] | None:
    """What an earlier reproduction left of a paper; None if there was none."""
    if not _claims_of(inside, paper).exists():
        return None
    return read_facts(_facts_of(inside, paper)), read_rows(_claims_of(inside, paper))


def _claims_of(inside: Path, paper: str) -> Path:
    return inside / f"{paper}.csv"


def _facts_of(inside: Path, paper: str) -> Path:
    return inside / f"{paper}.json"


def _write_paper(inside: Path, one: Reproduced, earlier: tuple[Facts, list[ClaimRow]] | None) -> None:
    paper, rows = one.paper.paper, [row_of(result) for result in one.results]
    drawn = {figure.name: figure.svg for scenario in one.scenarios for figure in scenario.drawn}
    figures = inside / paper
    figures.mkdir(exist_ok=True)
    for old in figures.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    for name, svg in drawn.items():
        replace_text(figures / name, svg)
    since = Moved(earlier[0], moved_claims(earlier[1], rows)) if earlier else None
    replace_text(inside / f"{paper}.md", paper_page(one, since))
    write_facts(_facts_of(inside, paper), one.facts)
    write_rows(_claims_of(inside, paper), rows)

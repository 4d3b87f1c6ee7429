"""The files of the pages: `reproduction.md` over all papers, and for each paper a page, its claims, its facts and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.files import replace_text
from reproduction.pages.facts import Facts, read_facts, write_facts
from reproduction.pages.moved import moved
from reproduction.pages.overview import Record, overview_page
from reproduction.pages.paper import Moved, name_of, paper_page
from reproduction.pages.reproduced import Reproduced
from reproduction.pages.rows import ClaimRow, read_rows, row_of, write_rows
from reproduction.scoring.reference import PAPERS, load_paper

OVERVIEW = "reproduction.md"
PAPERS_FOLDER = "reproduction"


def write_pages(folder: Path, papers: Sequence[Reproduced], before: Path | None = None) -> None:
    """Writes these papers' pages, and the overview over all papers that have a page in `folder`.

    before: a folder with pages to tell what moved since; by default `folder` itself, with the pages that are replaced.
    Raises InputFault where a file that an earlier reproduction wrote is not as it was written.
    """
    inside = folder / PAPERS_FOLDER
    inside.mkdir(parents=True, exist_ok=True)
    for one in papers:
        paper = one.paper.paper
        _write_paper(inside, one, earlier_pages(before, paper) if before else _kept(inside, paper))
    records = []
    for paper in PAPERS:
        kept = _kept(inside, paper)
        if kept:
            records.append(Record(paper, name_of(load_paper(paper)), *kept))
    replace_text(folder / OVERVIEW, overview_page(records))


def earlier_pages(folder: Path, paper: str) -> tuple[Facts, list[ClaimRow]]:
    """What earlier pages in `folder` keep of a paper. Raises InputFault where they keep nothing, or where it is damaged."""
    kept = _kept(folder / PAPERS_FOLDER, paper)
    if kept is None:
        path = _claims_of(folder / PAPERS_FOLDER, paper)
        raise InputFault(
            f"{path}: there is no such file; pages to compare with are written by `gradwire reproduce --pages`"
        )
    return kept


def _kept(inside: Path, paper: str) -> tuple[Facts, list[ClaimRow]] | None:
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
    drawn = {each.name: each.svg for scenario in one.scenarios for each in scenario.drawn}
    figures = inside / paper
    figures.mkdir(exist_ok=True)
    for old in figures.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    for name, svg in drawn.items():
        replace_text(figures / name, svg)
    since = Moved(earlier[0], moved(earlier[1], rows)) if earlier else None
    replace_text(inside / f"{paper}.md", paper_page(one, since))
    write_facts(_facts_of(inside, paper), one.facts)
    write_rows(_claims_of(inside, paper), rows)

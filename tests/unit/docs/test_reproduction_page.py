"""The pages that `gradwire reproduce --pages docs` writes: every claim of the reference data, short cells, each cause once, and an overview
that follows from the papers' data."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from gradwire.analysis.report.tables import escaped
from reproduction.pages.files import OVERVIEW, PAPERS_FOLDER, Record, overview_page
from reproduction.pages.paper import name_of
from reproduction.pages.reproduced import Facts, read_facts
from reproduction.pages.rows import ClaimRow, read_rows
from reproduction.pages.tables import MOST_LETTERS
from reproduction.scoring.reference import PAPERS, Paper, load_papers
from tests.shared.snippets import ROOT

FOLDER = ROOT / "docs" / PAPERS_FOLDER
OVERVIEW_PAGE = ROOT / "docs" / OVERVIEW
MOST_LINES = 120
"""Of the overview."""
MOST_CELL_LETTERS = MOST_LETTERS + 20
"""A cell with its marks for Markdown, or a name and a number that are never cut."""
papers = pytest.mark.parametrize("paper", load_papers(), ids=lambda paper: paper.paper)


@cache
def rows_of(paper: str) -> list[ClaimRow]:
    return read_rows(FOLDER / f"{paper}.csv")


def facts_of(paper: str) -> Facts:
    return read_facts(FOLDER / f"{paper}.json")


def page_of(paper: str) -> str:
    return (FOLDER / f"{paper}.md").read_text()


def test_the_overview_is_short_and_follows_from_the_papers_data() -> None:
    records = [Record(p.paper, name_of(p), facts_of(p.paper), rows_of(p.paper)) for p in load_papers()]
    assert OVERVIEW_PAGE.read_text() == overview_page(records)
    assert len(OVERVIEW_PAGE.read_text().splitlines()) <= MOST_LINES
    assert [record.paper for record in records] == list(PAPERS)


@papers
def test_the_data_has_every_claim(paper: Paper) -> None:
    wanted = [(scenario.id, claim.id) for scenario in paper.scenario for claim in scenario.claim]
    assert [(row.scenario, row.claim) for row in rows_of(paper.paper)] == wanted


@papers
def test_the_page_names_every_claim_with_its_outcome(paper: Paper) -> None:
    text = page_of(paper.paper)
    sections = {found[1]: found[0] for found in re.finditer(r"^### ([\w-]+): .*?(?=^##|\Z)", text, re.M | re.S)}
    for row in rows_of(paper.paper):
        name = f"{row.scenario}/{row.claim}"
        if row.verdict in ("predicted", "contradicted in the paper", "not emulable"):
            assert name in text, name
        else:
            assert re.search(rf"^\| {re.escape(row.claim)} \|.* \| {row.verdict} \|$", sections[row.scenario], re.M), (
                name
            )


@papers
def test_the_page_says_when_and_with_what(paper: Paper) -> None:
    facts = facts_of(paper.paper)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts.date)
    for line in facts.lines():
        assert f"\n- {line}\n" in page_of(paper.paper)


@papers
def test_cells_are_short(paper: Paper) -> None:
    lines = [line for line in page_of(paper.paper).splitlines() if line.startswith("| ")]
    long = [cell for line in lines for cell in line.strip("| ").split(" | ") if len(cell) > MOST_CELL_LETTERS]
    assert lines
    assert long == []


@papers
def test_the_page_tells_each_argument_once(paper: Paper) -> None:
    text = page_of(paper.paper)
    told = Counter(
        {escaped(row.argument): text.count(escaped(row.argument)) for row in rows_of(paper.paper) if row.argument}
    )
    assert {argument for argument, times in told.items() if times != 1} == set()
    for cause in {row.cause for row in rows_of(paper.paper) if row.cause}:
        assert text.count(f"\n### {escaped(cause)}\n") == 1


@papers
def test_its_figures_are_there_and_no_other(paper: Paper) -> None:
    shown = set(re.findall(rf"\]\({paper.paper}/([\w-]+\.svg)\)", page_of(paper.paper)))
    assert shown == {path.name for path in (FOLDER / paper.paper).iterdir()}
    assert shown

"""The pages' files: what a paper's page says, and an overview that is made from all papers' data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from reproduction.pages.files import OVERVIEW, PAPERS_FOLDER, write_pages
from reproduction.pages.reproduced import Reproduced
from tests.shared.parts import tells
from tests.unit.reproduction.small_paper import BAR, FACTS, LINE, because, small_reproduction


def p3() -> Reproduced:
    return small_reproduction(LINE, because)


def geryon() -> Reproduced:
    facts = replace(FACTS, date="2025-02-02", kernel="kernel-6.13", points=7, failed={})
    return Reproduced(p3().paper.model_copy(update={"paper": "geryon", "name": "Geryon"}), facts, p3().scenarios)


def page(folder: Path, paper: str = "p3") -> str:
    return (folder / PAPERS_FOLDER / f"{paper}.md").read_text()


def test_a_papers_page_has_figures_claims_and_each_cause_once(tmp_path: Path) -> None:
    write_pages(tmp_path, [p3()])
    text = page(tmp_path)
    assert "![lines](p3/test9.svg)" in text
    assert (tmp_path / PAPERS_FOLDER / "p3" / "test9.svg").read_text().startswith("<svg")
    assert "| wrong | 2 | 0.3333 | -83.3% | differs |" in text
    assert text.count("1 Gbit/s.") == 1
    assert "`p3-test9/wrong` (-83.3%)" in text
    assert "| p3-test9/hidden | p3, 10gbit |".replace("p3, ", "fifo, ") in text
    assert "`p3-test9/odd`: Sec. 2" in text
    assert tells(text, "failed: p3-test9 100gbit:", "drops")
    assert "What moved" not in text
    assert max(map(len, text.split(" | "))) < 1000


def test_what_nobody_explains_is_told_as_that(tmp_path: Path) -> None:
    write_pages(tmp_path, [small_reproduction(LINE)])
    assert tells(page(tmp_path), "nobody knows why", "`p3-test9/wrong`:")
    assert "and why" not in page(tmp_path)


def test_the_overview_is_of_all_papers_that_have_a_page(tmp_path: Path) -> None:
    write_pages(tmp_path, [p3()])
    alone = (tmp_path / OVERVIEW).read_text()
    assert tells(alone, "same code", "(abc-def)", "kernel-6.12", "gradwire 1")
    assert "\n| all |" not in alone
    write_pages(tmp_path, [geryon()])
    both = (tmp_path / OVERVIEW).read_text()
    assert "points: 11 measured" in both
    assert tells(both, "not all papers", "1 codes", "2 kernels")
    assert [line.split(" | ")[6] for line in both.splitlines() if line.startswith(("| p3 ", "| all "))] == [
        "2 / 3",
        "4 / 6",
    ]
    assert tells(both, "(reproduction/geryon.md)", "(reproduction/geryon.csv)", "2025-02-02", "kernel-6.13")


def test_a_page_tells_what_moved_since_the_one_that_it_replaces(tmp_path: Path) -> None:
    write_pages(tmp_path, [small_reproduction(LINE)])
    write_pages(tmp_path, [small_reproduction(LINE)])
    assert tells(page(tmp_path), "Nothing since 2025-01-01", "kernel-6.12", "abc-def")
    table = tmp_path / PAPERS_FOLDER / "p3.csv"
    table.write_text(table.read_text().replace(",0.333333,", ",0.3,"))
    write_pages(tmp_path, [small_reproduction(LINE)])
    assert "| p3-test9/wrong | 0.3 | 0.333333 | +11.1% | differs |" in page(tmp_path)


def test_it_can_be_compared_with_pages_in_another_folder(tmp_path: Path) -> None:
    write_pages(tmp_path / "old", [p3()])
    write_pages(tmp_path / "new", [p3()], before=tmp_path / "old")
    assert "## What moved" in page(tmp_path / "new")


def test_a_figure_that_is_drawn_no_more_is_removed(tmp_path: Path) -> None:
    write_pages(tmp_path, [p3()])
    old = tmp_path / PAPERS_FOLDER / "p3" / "gone.svg"
    old.write_text("<svg/>")
    write_pages(tmp_path, [small_reproduction(BAR)])
    assert not old.exists()


def test_facts_that_nobody_wrote_are_refused(tmp_path: Path) -> None:
    write_pages(tmp_path, [p3()])
    (tmp_path / PAPERS_FOLDER / "p3.json").write_text('{"date": "2025-01-01"}')
    with pytest.raises(InputFault, match=r"p3\.json: no facts"):
        write_pages(tmp_path, [p3()])

"""The report: one page that needs no network, each paper with its figures, claims and causes; and a terminal's view."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rich.console import Console

from gradwire.analysis.report.pages import html_table, page
from gradwire.analysis.report.report import ShownBackground
from gradwire.analysis.report.text_table import TextTable
from gradwire.console.parts import print_parts
from reproduction.pages.report import terminal, write_report
from tests.shared.parts import tells
from tests.unit.reproduction.small_paper import LINE, because, small_reproduction


def test_the_page_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", [small_reproduction(LINE)])
    page = (tmp_path / "report.html").read_text()
    for text in (
        "A &amp; B",
        "Fig. &lt;9&gt;",
        "Predictions",
        "nobody knows why",
        "What is not counted",
        "invalid: drops",
    ):
        assert text in page, text
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert not re.search(r"<(link|iframe)|<script ", page)


def test_the_page_tells_a_cause_once_after_the_figures(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", [small_reproduction(LINE, because)])
    page = (tmp_path / "report.html").read_text()
    assert page.count("1 Gbit/s.") == 1
    assert page.index("<figure>") < page.index("network is slow</h3>")
    assert page.count("p3-test9/wrong (-83.3%)") == page.count("<li>p3-test9/wrong (-83.3%): ") == 1


def test_the_terminal_says_the_score() -> None:
    console = Console(width=120, record=True, file=None)
    with console.capture() as shown:
        print_parts(console, terminal([small_reproduction(LINE)]))
    assert tells(shown.get(), "p3-test9/wrong:", "printed 2", "measured 0.3333")
    assert "explanation: p3-test9/wrong" in shown.get()
    assert tells(shown.get(), "failed: p3-test9 100gbit:", "drops")
    assert re.search(r"^ *p3 ", shown.get(), re.MULTILINE)


def rendered(table: TextTable) -> str:
    """A table on a page of its own."""
    nothing: dict[str, Any] = dict.fromkeys(("conclusion", "trust", "summary", "chart"), "") | dict.fromkeys(
        ("warnings", "remarks", "points", "notes", "networks"), ()
    )
    background = ShownBackground("", (), "", None, None)
    return page("run.html", title="", all_valid=True, tables=[html_table(table)], background=background, **nothing)


def test_sentences_fold_in_columns_of_numbers() -> None:
    """A measured shape is a sentence: unfolded, it would push what stands right of it out of the page."""
    sentence = "idle for 90 ms of an iteration, and used for 74 % of the rest"
    html = rendered(
        TextTable("t", ("claim", "measured", "outcome"), (("a", sentence, "ok"), ("b", "1.5", "ok")), 1, ("", ""))
    )
    assert f"<td class=words>{sentence}</td>" in html
    assert "<td class=number>1.5</td>" in html


def test_a_paragraph_has_a_wide_column() -> None:
    why = "the log shows that a parameter came late. " * 6
    html = rendered(TextTable("t", ("claim", "why", "outcome"), (("a", why, "ok"),), 2, ("",)))
    assert f"<td class=paragraph>{why}</td>" in html

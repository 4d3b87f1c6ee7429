"""The report: one page that needs no network, with figures, predictions, and what disagrees; and the kept quick score."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gradwire.analysis.papers import quick_score
from gradwire.analysis.papers.curves import draws
from gradwire.analysis.papers.evidence import NoEvidence, Points
from gradwire.analysis.papers.figures import figures, panels_of
from gradwire.analysis.papers.reference import Paper
from gradwire.analysis.papers.report import About, markdown, terminal, write_page
from gradwire.analysis.papers.score import Evaluated, evaluate
from gradwire.analysis.report.pages import html_table, page
from gradwire.analysis.report.report import ShownBackground
from gradwire.analysis.report.tables import TextTable
from gradwire.faults import InputFault
from tests.shared.stored_points import stored

POINTS = Points(
    [
        stored(4.0, strategy="fifo", rate="1gbit", model="vgg19"),
        stored(2.0, strategy="fifo", rate="10gbit", model="vgg19", ci95_s=0.1),
        stored(3.0, strategy="p3", rate="1gbit", model="vgg19"),
        stored(1.0, strategy="p3", rate="10gbit", model="vgg19"),
        stored(9.0, "invalid: drops", strategy="p3", rate="100gbit", model="vgg19"),
    ]
)
AT_10 = {"strategy": "p3", "rate": "10gbit"}


def scenario(figure: dict[str, Any]) -> Evaluated:
    common = {"metric": "throughput_per_s", "source": "Fig. <9>"}
    claims = [
        {**common, "id": "right", "kind": "cell", "printed": 1.02, "where": AT_10},
        {**common, "id": "wrong", "kind": "cell", "printed": 2.0, "where": {**AT_10, "rate": "1gbit"}},
        {**common, "id": "hidden", "kind": "cell", "where": {**AT_10, "strategy": "fifo"}},
        {**common, "id": "odd", "kind": "contradicted", "printed": 3, "reason": "Sec. 2 says 4"},
        {**common, "id": "faster", "kind": "cell", "metric": "speedup", "printed": 2, "where": AT_10, "baseline": {"strategy": "fifo"}},
    ]  # fmt: skip
    one = {"id": "p3-test9", "title": "A & B", "runs": ["p3-test9"], "claim": claims, "figure": [figure]}
    paper = Paper.model_validate({"paper": "p3", "title": "P3 paper", "scenario": [one]})
    return evaluate(paper, paper.scenario[0], POINTS)


LINE = {"title": "lines", "kind": "line", "x": "rate"}
BAR = {"title": "bars", "kind": "bar", "x": "rate", "panel": "model"}


def test_a_figure_has_measured_and_printed_values() -> None:
    one = scenario(LINE)
    (panel,) = panels_of(one.scenario.figure[0], one.scenario.claim, POINTS)
    assert [(mark.x, mark.value, mark.printed) for mark in panel.series["p3"]] == [
        ("1gbit", 1 / 3, 2.0),
        ("10gbit", 1.0, 1.02),
    ]
    assert panel.series["fifo"][1].half > 0
    speedup = scenario({**LINE, "metric": "speedup", "where": {"strategy": "p3"}, "baseline": {"strategy": "fifo"}})
    (panel,) = panels_of(speedup.scenario.figure[0], speedup.scenario.claim, POINTS)
    assert [(mark.value, mark.printed) for mark in panel.series["p3"]] == [(pytest.approx(4 / 3), None), (2.0, 2.0)]


@pytest.mark.parametrize("figure", [LINE, BAR, {**BAR, "metric": "scaling_efficiency"}])
def test_figures_are_drawn(figure: dict[str, Any]) -> None:
    one = scenario(figure)
    ((title, svg),) = figures(one.scenario, one.points)
    assert title == figure["title"]
    assert svg.startswith("<svg")
    assert figures(one.scenario, Points([])) == []


def test_bound_curves_are_drawn_where_there_is_evidence() -> None:
    curve = [(1.0, 0.0), (2.0, 1.0)]
    draws("p3-test9", "a CDF", "ms", "share", log_x=True)(lambda _: {"p3": curve})
    draws("p3-test9", "a timeline", "s", "Gbit/s", timelines=True)(lambda _: {"in": curve, "out": curve})

    @draws("p3-test9", "nothing", "ms", "share")
    def _nothing(_: Points) -> Any:
        raise NoEvidence("no runs")

    one = scenario(LINE)
    assert [title for title, _ in figures(one.scenario, one.points)] == ["lines", "a CDF", "a timeline"]


def test_the_page_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    about = About("Reproduction of p3", {"date": "2025-01-01"}, [("p3-test9 100gbit", "invalid: drops")])
    write_page(tmp_path / "report.html", [scenario(LINE)], about)
    page = (tmp_path / "report.html").read_text()
    for text in (
        "A &amp; B",
        "Fig. &lt;9&gt;",
        "Predictions",
        "Where the emulation disagrees",
        "Not counted",
        "invalid: drops",
    ):
        assert text in page, text
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert not re.search(r"<(link|iframe)|<script ", page)


def test_markdown_and_terminal_say_the_score() -> None:
    about = About("Reproduction of p3", {"versions": "gradwire 1"})
    text = markdown([scenario(LINE)], about)
    assert "2 / 3" in text
    assert "| right | cell | Fig. \\<9> |" in text or "| right | cell | Fig. <9> |" in text
    assert "gradwire 1" in text
    console = Console(width=120, record=True, file=None)
    with console.capture() as shown:
        console.print(terminal([scenario(LINE)], about))
    assert "p3-test9/wrong: printed 2, measured 0.3333" in shown.get()
    assert "without an explanation: p3-test9/wrong" in shown.get()
    assert re.search(r"^ *p3 ", shown.get(), re.MULTILINE), "the paper's name has its column"


def test_the_kept_score_finds_what_is_lost_and_what_is_gained(tmp_path: Path) -> None:
    path, results = tmp_path / "score.toml", scenario(LINE).results
    with pytest.raises(InputFault, match="--accept"):
        quick_score.compare(results, path)
    quick_score.keep(results, path)
    assert quick_score.compare(results, path) == quick_score.Change((), ())
    path.write_text('held = ["p3-test9/wrong", "p3-test9/right", "p3-fig1/gone"]\n')
    change = quick_score.compare(results, path)
    assert change.gained == ("p3-test9/faster",)
    assert change.lost[0] == "p3-fig1/gone: there is no such claim any more"
    assert change.lost[1].startswith("p3-test9/wrong: differs, printed 2.0, measured 0.33")


def rendered(table: TextTable) -> str:
    """A table on a page of its own."""
    nothing: dict[str, Any] = dict.fromkeys(("conclusion", "summary", "chart"), "") | dict.fromkeys(
        ("warnings", "remarks", "points", "notes"), ()
    )
    background = ShownBackground("", (), "", None)
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

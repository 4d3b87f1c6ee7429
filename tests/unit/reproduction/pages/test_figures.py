"""Figures of papers: printed values beside measured ones, from descriptions and from bound curves."""

from __future__ import annotations

from typing import Any

import pytest

from reproduction.pages import curves
from reproduction.pages.curves import draws
from reproduction.pages.figures import figures, panels_of
from reproduction.scoring.evidence import NoEvidence, Points
from tests.shared.stored_points import stored
from tests.unit.reproduction.small_paper import BAR, LINE, POINTS, small_paper


def test_a_figure_has_measured_and_printed_values() -> None:
    one = small_paper(LINE)
    (panel,) = panels_of(one.scenario.figure[0], one.scenario.claim, POINTS)
    assert [(mark.x, mark.value, mark.printed) for mark in panel.series["p3"]] == [
        ("1gbit", 1 / 3, 2.0),
        ("10gbit", 1.0, 1.02),
    ]
    assert panel.series["fifo"][1].half > 0
    speedup = small_paper({**LINE, "metric": "speedup", "where": {"strategy": "p3"}, "baseline": {"strategy": "fifo"}})
    (panel,) = panels_of(speedup.scenario.figure[0], speedup.scenario.claim, POINTS)
    assert [(mark.value, mark.printed) for mark in panel.series["p3"]] == [(pytest.approx(4 / 3), None), (2.0, 2.0)]


@pytest.mark.parametrize("figure", [LINE, BAR, {**BAR, "metric": "scaling_efficiency"}])
def test_figures_are_drawn(figure: dict[str, Any]) -> None:
    one = small_paper(figure)
    ((title, svg),) = figures(one.scenario, one.points)
    assert title == figure["title"]
    assert svg.startswith("<svg")
    assert figures(one.scenario, Points([])) == []


def test_bound_curves_are_drawn_where_there_is_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "_drawings", {})
    curve = [(1.0, 0.0), (2.0, 1.0)]
    draws("p3-test9", "a CDF", "ms", "share", log_x=True)(lambda _: {"p3": curve})
    draws("p3-test9", "a timeline", "s", "Gbit/s", timelines=True)(lambda _: {"in": curve, "out": curve})

    @draws("p3-test9", "nothing", "ms", "share")
    def _nothing(_: Points) -> Any:
        raise NoEvidence("no runs")

    draws("p3-test9", "no curves", "ms", "share")(lambda _: {})
    draws("p3-test9", "an empty curve", "ms", "share")(lambda _: {"p3": []})
    one = small_paper(LINE)
    assert [title for title, _ in figures(one.scenario, one.points)] == ["lines", "a CDF", "a timeline"]


def test_options_on_an_axis_are_what_differs_between_them() -> None:
    points = Points(
        [
            stored(1.0, strategy="vanilla", options=""),
            stored(2.0, strategy="geryon", options="slice_parameters=1048576"),
            stored(3.0, strategy="geryon", options="slice_parameters=1000"),
            stored(4.0, strategy="tictac", options="slice_parameters=1048576, cost=9ms"),
        ]
    )
    wanted = small_paper({**BAR, "x": "options", "panel": ""}).scenario.figure[0]
    (panel,) = panels_of(wanted, [], points)
    assert {name: [mark.x for mark in marks] for name, marks in panel.series.items()} == {
        "vanilla": ["none"],
        "geryon": ["1024K", "1000"],
        "tictac": ["1024K"],
    }

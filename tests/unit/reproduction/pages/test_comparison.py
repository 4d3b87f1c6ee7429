"""Printed and measured numbers of a scenario, as a figure: which claims it has, and when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reproduction.pages.comparison import comparable, comparison_svg, tick_text
from reproduction.scoring.score import Status
from tests.unit.reproduction.small_paper import BAR, small_reproduction, small_results

RESULTS = small_results()


def test_numbers_that_count_or_were_fitted_are_shown_by_metric() -> None:
    shown = {name: [result.claim.id for result in results] for name, results in comparable(RESULTS).items()}
    assert shown == {"throughput": ["right", "wrong"], "speedup": ["faster"]}
    fitted = [replace(result, status=Status.FITTED) for result in RESULTS]
    assert len(comparable(fitted)["throughput"]) == 3 - 1, "what is left out in print has nothing to stand beside"


@pytest.mark.parametrize(
    ("value", "text"), [(0.25, "0.25"), (75000.0, "75,000"), (1.5e6, "1.5M"), (2e10, "20G"), (0.0, "0")]
)
def test_numbers_on_an_axis_are_short(value: float, text: str) -> None:
    assert tick_text(value) == text


def test_few_numbers_need_no_figure() -> None:
    svg = comparison_svg(RESULTS)
    assert svg is not None
    assert svg.startswith("<svg")
    assert comparison_svg(RESULTS[:2]) is None
    assert comparison_svg([]) is None


@pytest.mark.parametrize(
    ("figure", "titles"),
    [
        (BAR, ["bars"]),
        ({**BAR, "metric": "iteration_time_s"}, ["bars", "Printed and measured"]),
    ],
)
def test_a_scenario_gets_it_where_no_figure_of_its_own_has_printed_values(
    figure: dict[str, str], titles: list[str]
) -> None:
    (scenario,) = small_reproduction(figure).scenarios
    assert [drawn.title for drawn in scenario.drawn] == titles

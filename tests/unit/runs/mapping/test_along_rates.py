"""Times over many rates: near those of full estimates, with fewer of them; and what is asked again."""

from __future__ import annotations

import pytest

from gradwire.analysis.winners.winner_map import Place
from gradwire.faults import InputFault
from gradwire.runs.estimation import estimate_points
from gradwire.runs.mapping import along_rates
from gradwire.runs.mapping.along_rates import ALIKE, ON_A_LINE, MapTime, RatePoint, full_times, times_along
from gradwire.runs.mapping.axes import parse_axes
from gradwire.runs.mapping.closer import Slot, deciding, fill_queues
from gradwire.runs.mapping.grid import grid_of
from gradwire.scenario.loading import Point
from tests.unit.runs.mapping.test_mapping import question


def points_of(strategy: str, workers: int = 4) -> list[Point]:
    axes = parse_axes(["fabric.rate=1gbit..100gbit:17", f"cluster.workers={workers},16"])
    grid = grid_of(question(), axes, [], [strategy, "vanilla"])
    return [grid.points[number, 0][strategy] for number in range(17)]


@pytest.mark.parametrize("strategy", ["kvstore", "p3", "ring", "ddp"])
def test_times_are_near_full_estimates_and_some_are_saved(strategy: str) -> None:
    points = points_of(strategy)
    times = times_along(points, "here")
    full = estimate_points(points, 1)
    for time, estimate in zip(times, full, strict=True):
        assert isinstance(time, MapTime)
        within = ON_A_LINE if time.is_between else ALIKE
        assert time.iteration_s == pytest.approx(estimate.iteration_time_s, rel=within)
    estimated = sum(isinstance(time, MapTime) and not time.is_between for time in times)
    assert estimated == 17 if strategy == "p3" else 5 <= estimated < 17


def test_a_time_that_is_known_is_kept_and_queues_are_as_in_full_estimates() -> None:
    point = points_of("kvstore")[8]
    (full,) = estimate_points([point], 1)
    known = MapTime(full.iteration_time_s)
    (time,) = full_times([RatePoint(point, known)], "here")
    assert isinstance(time, MapTime)
    assert time.iteration_s == known.iteration_s
    assert time.by_queues == pytest.approx(full.by_queues, abs=2 * along_rates.ALIKE_FOR_QUEUES)


def test_what_cannot_run_says_why_in_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(asked: RatePoint, *, with_queues: bool) -> MapTime:
        raise InputFault(f"here: {asked.point.section.fabric.rate:g} ({with_queues})")

    monkeypatch.setattr(along_rates, "_estimate", refuse)
    assert times_along(points_of("ring")[:2], "here")[0] == "1e+09 (False)"


PLACES: list[Place] = [(number, 0) for number in range(4)]
ROWS: list[list[Slot]] = [[(place, name) for place in PLACES] for name in ("a", "b", "c")]


def test_ties_that_a_line_may_be_wrong_about_are_estimated_and_clear_leads_are_not() -> None:
    b_s = (1.012, 1.2, 1.001, 2.0)  # near the threshold of a tie, within reach, clearly a tie, out of reach
    found: dict[Slot, MapTime | str] = {}
    for number, place in enumerate(PLACES):
        found[place, "a"] = MapTime(1.0, is_between=True)
        found[place, "b"] = MapTime(b_s[number], is_between=number != 1)
        found[place, "c"] = "cannot run"
    assert deciding(ROWS, found, 0.01) == [[(PLACES[0], "a")], [(PLACES[0], "b"), (PLACES[1], "b")]]


def test_queues_between_known_ones_are_interpolated() -> None:
    found: dict[Slot, MapTime | str] = {
        (place, name): MapTime(1.0, 0.01 * place[0] if place[0] in (0, 2) else None)
        for place in PLACES
        for name in ("a", "b", "c")
    }
    found[PLACES[3], "a"] = "cannot run"
    fill_queues(ROWS, found)
    assert [found[place, "b"].by_queues for place in PLACES] == [0.0, 0.01, 0.02, 0.02]  # type: ignore[union-attr]
    assert found[PLACES[3], "a"] == "cannot run"

"""Who wins a cell, ties, borders between cells, and which cells are measured."""

from __future__ import annotations

import math

import pytest

from gradwire.analysis.winners.measured import (
    AGREES,
    AT_BORDER,
    AT_RANDOM,
    DISAGREES,
    NOTHING_VALID,
    ChosenCell,
    MeasuredCell,
    choose_cells,
    judge_cell,
    summary,
)
from gradwire.analysis.winners.winner_map import Axis, Time, WinnerMap, outcome_of, stretches
from gradwire.analysis.winners.words import conclusion, number_text, rows_table
from tests.shared.parts import tells

RATES = Axis("fabric.rate", ("1gbit", "10gbit", "100gbit", "1000gbit"), (1e9, 1e10, 1e11, 1e12))
WORKERS = Axis("cluster.workers", ("2", "4", "8"), (2.0, 4.0, 8.0))


def small_map() -> WinnerMap:
    """`a` takes 1 s everywhere; `b` takes half of that at the lowest rate and 4 times as long at the highest: they
    cross at 10 Gbit/s; with 8 workers `c` alone can run."""
    times = {
        (i, j): {"a": Time(1.0), "b": Time(0.5 * 2.0**i)} if j < 2 else {"c": Time(2.0)}
        for i in range(4)
        for j in range(3)
    }
    return WinnerMap("small", (RATES, WORKERS), ("a", "b", "c"), times, left_out={"csc": "trains something else"})


def test_a_winner_leads_by_the_time_of_the_next() -> None:
    outcome = outcome_of({"x": Time(1.2), "y": Time(1.0), "z": Time(3.0)})
    assert outcome is not None
    assert (outcome.order, outcome.level, outcome.is_tie) == (("y", "x", "z"), ("y",), False)
    assert outcome.lead == pytest.approx(0.2)
    assert outcome_of({}) is None
    alone = outcome_of({"x": Time(1.0)})
    assert alone is not None
    assert math.isinf(alone.lead)
    assert not alone.is_tie


def test_no_more_than_the_threshold_is_a_tie() -> None:
    times = {"x": Time(1.0), "y": Time(1.009), "z": Time(1.02)}
    outcome = outcome_of(times)
    assert outcome is not None
    assert outcome.level == ("x", "y")
    wider, narrower = outcome_of(times, 0.02), outcome_of(times, 0.005)
    assert wider is not None
    assert wider.level == ("x", "y", "z")
    assert narrower is not None
    assert narrower.level == ("x",)


def test_an_order_that_queues_decide_is_doubtful() -> None:
    doubtful = outcome_of({"x": Time(1.0, by_queues=0.1), "y": Time(1.05)})
    far = outcome_of({"x": Time(1.0, by_queues=0.1), "y": Time(1.5)})
    little = outcome_of({"x": Time(1.0, by_queues=0.015), "y": Time(1.012)})
    tie = outcome_of({"x": Time(1.0), "y": Time(1.001, by_queues=-0.05)})
    assert [outcome is not None and outcome.doubtful for outcome in (doubtful, tie, far, little)] == [
        *(True, True),
        *(False, False),
    ]


def test_borders_are_where_neighbours_differ_and_crossings_where_times_are_equal() -> None:
    found = small_map()
    assert [found.shown((i, 0)) for i in range(4)] == ["b", "", "a", "a"]
    assert ((0, 0), (1, 0)) in found.edges()
    assert ((2, 0), (3, 0)) not in found.edges()
    assert ((2, 1), (2, 2)) in found.edges()
    along = [each for each in found.crossings if each.along == 0]
    assert {(each.place, each.before, each.after) for each in along} == {((0, 0), "b", "a"), ((0, 1), "b", "a")}
    assert all(each.number == pytest.approx(1e10) for each in along)
    upwards = [each for each in found.crossings if each.along == 1]
    assert {each.after for each in upwards} == {"c"}
    assert upwards[0].number == pytest.approx(math.sqrt(4 * 8)), "half the way where one cannot run in both cells"


def test_a_crossing_on_a_linear_axis_is_interpolated_in_it() -> None:
    axis = Axis("fabric.oversubscription", ("1", "2"), (1.0, 2.0), logarithmic=False)
    times = {(0, 0): {"a": Time(1), "b": Time(math.e)}, (1, 0): {"a": Time(math.e**3), "b": Time(1)}}
    found = WinnerMap("", (axis, Axis("x.y", ("1",), (1.0,))), ("a", "b"), times)
    (crossing,) = found.crossings
    assert crossing.number == pytest.approx(1.25)
    assert number_text(axis, crossing.number) == "1.25"


def test_a_row_in_words_has_stretches_of_equal_winners() -> None:
    assert stretches(["b", "", "a", "a", None]) == [("b", 0, 0), ("", 1, 1), ("a", 2, 3), (None, 4, 4)]
    rows = {row[0]: row[1] for row in rows_table(small_map()).rows}
    assert tells(rows["2"], "b 1gbit", "a, b 10gbit", "a 100gbit", "1000gbit")
    text = conclusion(small_map())
    assert tells(text, "a in 4", "4x")
    assert "csc trains" in text


def test_half_of_the_measured_cells_are_near_borders_and_the_rest_is_drawn_by_the_seed() -> None:
    found = small_map()
    chosen = choose_cells(found, 4, seed=1)
    assert [cell.why for cell in chosen] == [AT_BORDER, AT_BORDER, AT_RANDOM, AT_RANDOM]
    assert {cell.place for cell in chosen[:2]} == {(1, 0), (1, 1)}, "where the lead is nearest to that of a tie"
    assert len({cell.place for cell in chosen}) == 4
    assert all(cell.place[1] < 2 for cell in chosen), "where one strategy alone can run nothing is compared"
    assert choose_cells(found, 4, seed=1) == chosen
    assert any(choose_cells(found, 4, seed) != chosen for seed in range(2, 9))
    assert len(choose_cells(found, 99, seed=1)) == 8
    assert choose_cells(found, 0, seed=1) == []


def judged(times_s: dict[str, float], place: tuple[int, int] = (0, 0)) -> tuple[str, float]:
    cell = MeasuredCell(ChosenCell(place, AT_BORDER, tuple(times_s)), times_s, {} if times_s else {"b": "dropped"})
    judgement = judge_cell(small_map(), cell)
    return judgement.outcome, judgement.off


def test_a_measured_cell_agrees_where_the_maps_winner_is_fastest_or_level() -> None:
    assert judged({"b": 0.5, "a": 1.0}) == (AGREES, 0.0)
    assert judged({"b": 1.005, "a": 1.0})[0] == AGREES
    outcome, off = judged({"b": 1.5, "a": 1.0})
    assert outcome == DISAGREES
    assert off == pytest.approx(0.5)
    assert judged({})[0] == NOTHING_VALID
    assert judged({"a": 1.0})[0] == NOTHING_VALID
    assert judged({"a": 1.01, "b": 1.0}, (1, 0))[0] == AGREES, "both are level on the map"
    assert judged({"a": 1.2, "b": 1.0}, (1, 0))[0] == DISAGREES, "the map has a tie, and one is faster"


def test_the_summary_counts_what_disagrees() -> None:
    cells = [
        MeasuredCell(ChosenCell((0, 0), AT_BORDER, ("b", "a")), {"b": 0.75, "a": 0.5}),
        MeasuredCell(ChosenCell((2, 0), AT_RANDOM, ("a", "b")), {"a": 1.0, "b": 2.0}),
        MeasuredCell(ChosenCell((3, 0), AT_RANDOM, ("a", "b")), {}, {"a": "x"}),
    ]
    text = summary(small_map(), cells)
    assert tells(text, "3 cells", "1 agree", "1 do not", "50.0%")
    assert "1 gave no" in text
    assert summary(small_map(), []) == ""

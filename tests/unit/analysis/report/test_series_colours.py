"""Every strategy has one colour in all figures, and no two series of a figure share one while there are others."""

from __future__ import annotations

import itertools

from gradwire.analysis.report.series_colours import PALETTE, STRATEGIES, colours_of_series
from gradwire.scenario.contenders import CONTENDERS


def test_every_strategy_has_a_colour_that_is_not_black() -> None:
    assert {contender.strategy for contender in CONTENDERS} <= STRATEGIES.keys()
    assert set(STRATEGIES.values()) <= set(PALETTE[:-1])


def test_a_strategy_alone_or_among_others_of_other_colours_has_its_own() -> None:
    for names in (["ring"], ["p3", "ring"], ["vanilla", "partition-slicing", "p3", "tictac", "geryon", "ring"]):
        assert colours_of_series(names) == {name: STRATEGIES[name] for name in names}


def test_series_of_a_figure_differ_as_long_as_there_are_colours() -> None:
    for names in itertools.combinations(list(STRATEGIES)[:12], 4):
        assert len(set(colours_of_series(names).values())) == 4
    others = colours_of_series(["ring", "a", "b", "geryon", "c"])
    assert (others["ring"], others["geryon"]) == (STRATEGIES["ring"], STRATEGIES["geryon"])
    assert len(set(others.values())) == 5
    many = [f"series {number}" for number in range(20)]
    assert list(colours_of_series(many)) == many
    assert [colours_of_series(many)[name] for name in many[:8]] == list(PALETTE)

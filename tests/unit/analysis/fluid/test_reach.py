from __future__ import annotations

import pytest

from gradwire.analysis.fluid.reach import within_reach

ESTIMATES_S = {"ring": 1.0, "p3": 1.05, "vanilla": 2.0, "tictac": 0.99}


def test_what_cannot_win_even_if_both_estimates_are_wrong_is_left_out() -> None:
    assert within_reach(ESTIMATES_S, 0.03) == ["tictac", "ring", "p3"]
    assert within_reach(ESTIMATES_S, 0.01) == ["tictac", "ring"]
    assert within_reach(ESTIMATES_S, 0.5) == ["tictac", "ring", "p3", "vanilla"]


def test_without_a_margin_only_the_fastest_is_left() -> None:
    assert within_reach(ESTIMATES_S, 0.0) == ["tictac"]
    assert within_reach({}) == []


@pytest.mark.parametrize("margin", [-0.1, 1.0])
def test_a_margin_is_a_share(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        within_reach(ESTIMATES_S, margin)

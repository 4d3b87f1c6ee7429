"""What moved: other outcomes, and numbers that are visibly different."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reproduction.pages.rows import change, moved_claims, row_of
from tests.unit.reproduction.small_paper import small_results

ROWS = [row_of(result) for result in small_results()]
RIGHT = ROWS[0]


def test_nothing_moves_between_equals() -> None:
    assert moved_claims(ROWS, ROWS) == []


@pytest.mark.parametrize(("measured", "moves"), [("1.009", False), ("1.011", True), ("0.98", True), ("", False)])
def test_a_number_moves_by_more_than_the_grain(measured: str, moves: bool) -> None:
    found = moved_claims(ROWS, [replace(RIGHT, measured=measured), *ROWS[1:]])
    assert [each.claim for each in found] == (["right"] if moves else [])


def test_another_outcome_and_another_set_of_claims_are_told() -> None:
    (one,) = moved_claims(ROWS, [replace(RIGHT, verdict="differs"), *ROWS[1:]])
    assert (one.first_outcome, one.second_outcome, change(one)) == ("holds", "differs", 0.0)
    (gone,) = moved_claims(ROWS, ROWS[1:])
    assert (gone.claim, gone.second_outcome) == ("right", "absent")

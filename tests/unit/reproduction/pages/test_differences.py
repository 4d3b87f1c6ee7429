"""Differences by cause: each cause once, and what nobody explains."""

from __future__ import annotations

from dataclasses import replace

from reproduction.pages.differences import differences, unexplained_claims
from reproduction.scoring.explanations import Explanation
from tests.unit.reproduction.small_paper import because, small_results

(WRONG,) = (r for r in small_results(because) if r.claim.id == "wrong")


def test_claims_of_a_cause_are_told_together() -> None:
    results = [
        replace(WRONG, explanation=Explanation(*texts))
        for texts in (
            ("rare", "c", ""),
            ("often", "a", "1"),
            ("often", "a", "1"),
            ("often", "b", "2"),
            ("often", "a", "3"),
        )
    ]
    often, rare = differences(results)
    assert (often.cause, often.claims, rare.cause, rare.claims) == ("often", 4, "rare", 1)
    assert [(each.text, [seen.text for seen in each.seen]) for each in often.arguments] == [
        ("a", ["1", "3"]),
        ("b", ["2"]),
    ]
    assert often.arguments[0].seen[0].names == ["p3-test9/wrong (-83.3%)"] * 2


def test_a_broken_premise_is_no_cause() -> None:
    broken = replace(WRONG, broken_premise="seen: 100 Gbit/s")
    assert differences([broken]) == []
    assert unexplained_claims([broken]) == [(broken, broken.broken_premise)]
    alone = replace(WRONG, explanation=None)
    assert [claim for claim, _ in unexplained_claims([alone])] == [alone]
    assert unexplained_claims([WRONG]) == []

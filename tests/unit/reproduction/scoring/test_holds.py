"""What holds: each tolerance from both sides."""

from __future__ import annotations

import pytest

from gradwire.analysis.printed import MeasuredOrder
from gradwire.faults import InternalFault
from reproduction.scoring.evidence import Measured, ranked
from reproduction.scoring.holds import holds, rank_holds, tolerance_text
from reproduction.scoring.reference import Claim, Kind


def claim(kind: Kind, printed: object, metric: str = "time_s") -> Claim:
    return Claim.model_validate({"id": "a", "kind": kind, "metric": metric, "printed": printed, "source": "Fig. 1"})


@pytest.mark.parametrize(
    ("kind", "metric", "printed", "measured", "answer"),
    [
        (Kind.CELL, "scaling_efficiency", 0.209, 0.258, True),
        (Kind.CELL, "scaling_efficiency", 0.209, 0.260, False),
        (Kind.CELL, "iteration_time_s", 2.0, 2.19, True),
        (Kind.CELL, "iteration_time_s", 2.0, 2.21, False),
        (Kind.PROSE, "iteration_time_delta", -3.0, -2.8, True),
        (Kind.PROSE, "count", 320, 321, True),
        (Kind.PROSE, "count", 320, 330, False),
        (Kind.APPROX, "time_s", 400, 330, True),
        (Kind.APPROX, "time_s", 400, 310, False),
        (Kind.MAX, "speedup", 1.25, 1.14, True),
        (Kind.MAX, "speedup", 1.25, 1.11, False),
        (Kind.PROSE, "speedup", 1.09, 1.00, False),
        (Kind.PROSE, "speedup", 1.01, 0.995, True),
        (Kind.PROSE, "speedup", 1.04, 1.10, False),
        (Kind.CELL, "speedup", 0.958, 0.97, True),
        (Kind.APPROX, "speedup", 1.0, 1.1, True),
        (Kind.BOUND, "share", "<= 0.37", 0.372, True),
        (Kind.BOUND, "share", "<= 0.37", 0.38, False),
        (Kind.BOUND, "rate", "> 100", 101.0, True),
        (Kind.BOUND, "rate", "> 100", 90.0, False),
    ],
)
def test_numbers_and_bounds(kind: Kind, metric: str, printed: object, measured: float, answer: bool) -> None:
    assert holds(claim(kind, printed, metric), Measured(measured)) is answer


def test_a_rank_asks_for_visible_differences() -> None:
    printed = ["best", "middle", "worst"]
    assert rank_holds(printed, MeasuredOrder({"best": 3, "middle": 2, "worst": 1}))
    assert not rank_holds(printed, MeasuredOrder({"best": 3.01, "middle": 3, "worst": 1}))
    assert not rank_holds(printed, MeasuredOrder({"best": 3, "middle": 2.8, "worst": 1}, {"best": 0.15, "middle": 0.1}))
    assert not rank_holds(printed, MeasuredOrder({"best": 2.8, "middle": 3, "worst": 1}))
    assert not rank_holds(printed, MeasuredOrder({"best": 3, "middle": 1, "worst": 2}))
    assert rank_holds(["best", "middle, worst"], MeasuredOrder({"best": 3, "middle": 1, "worst": 2}))
    with pytest.raises(InternalFault, match="'worst' is printed"):
        rank_holds(printed, MeasuredOrder({"best": 3, "middle": 1}))


def test_what_is_at_least_as_good_may_tie() -> None:
    printed = ["best", ">= middle", "worst"]
    assert rank_holds(printed, MeasuredOrder({"best": 2.99, "middle": 3, "worst": 1}))
    assert rank_holds(printed, MeasuredOrder({"best": 2.8, "middle": 3, "worst": 1}, {"best": 0.15, "middle": 0.1}))
    assert not rank_holds(printed, MeasuredOrder({"best": 2.8, "middle": 3, "worst": 1}))
    assert not rank_holds(printed, MeasuredOrder({"best": 3, "middle": 3, "worst": 3}))
    assert not rank_holds(printed, MeasuredOrder({"best": 3, "middle": 2, "worst": 2}))


def test_a_rank_holds_in_every_row() -> None:
    right, wrong = MeasuredOrder({"a": 2, "b": 1}), MeasuredOrder({"a": 1, "b": 2})
    assert holds(claim(Kind.RANK, ["a", "b"]), ranked(right, right))
    assert not holds(claim(Kind.RANK, ["a", "b"]), ranked(right, wrong))


@pytest.mark.parametrize("kind", [Kind.SHAPE, Kind.FORMULA])
def test_predicates_answer_for_themselves(kind: Kind) -> None:
    assert holds(claim(kind, "rises"), Measured("rises", holds=True))
    assert not holds(claim(kind, "rises"), Measured("falls", holds=False))


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        (claim(Kind.SHAPE, "rises"), Measured("rises")),
        (claim(Kind.CELL, 1.0), Measured(1.0, holds=True)),
        (claim(Kind.CELL, 1.0), Measured("one")),
        (claim(Kind.BOUND, "below 1"), Measured(1.0)),
        (claim(Kind.RANK, ["a", "b"]), Measured("a > b")),
    ],
)
def test_evidence_of_the_wrong_sort_is_a_bug(asked: Claim, measured: Measured) -> None:
    with pytest.raises(InternalFault):
        holds(asked, measured)


def test_every_kind_can_say_its_tolerance() -> None:
    printed = {Kind.RANK: ["a"], Kind.SHAPE: "rises", Kind.BOUND: "< 1"}
    kinds = [kind for kind in Kind if kind is not Kind.CONTRADICTED]
    assert all(tolerance_text(claim(kind, printed.get(kind, 1.0))) for kind in kinds)

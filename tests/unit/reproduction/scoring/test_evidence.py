"""Points are found by their parameters, and nothing is measured with runs that are missing or invalid."""

from __future__ import annotations

import math

import pytest

from gradwire.analysis.printed import MeasuredOrder
from gradwire.faults import InternalFault
from reproduction.scoring.evidence import (
    Measured,
    NoEvidence,
    Points,
    can_look_up,
    look_up,
    measured_claims,
    measures,
    ranked,
)
from reproduction.scoring.explanations import Explanation, explained_claims, explains
from reproduction.scoring.reference import Claim, Kind
from tests.shared.stored_points import stored

RATES = Points(
    [
        stored(4.0, strategy="fifo", rate="1gbit", seed=1),
        stored(2.0, strategy="fifo", rate="10gbit", seed=1),
        stored(3.0, strategy="p3", rate="1gbit", seed=1),
        stored(1.0, strategy="p3", rate="10gbit", seed=1),
        stored(1.2, strategy="p3", rate="10gbit", seed=2),
    ]
)


def test_a_row_pools_its_seeds() -> None:
    row = RATES.row(strategy="p3", rate="10gbit")
    assert row.iteration_time_s == pytest.approx(1.1)
    assert row.ci95_s is not None
    assert len(RATES.unpooled(strategy="p3", rate="10gbit")) == 2
    assert RATES.point(strategy="p3", rate="10gbit").parameters["seed"] == "1"


def test_a_series_rises_in_its_key() -> None:
    assert [(x, row.iteration_time_s) for x, row in RATES.series("rate", strategy="fifo")] == [(1e9, 4.0), (1e10, 2.0)]


def test_too_little_said_is_a_fault() -> None:
    with pytest.raises(InternalFault, match="say which rate"):
        RATES.row(strategy="fifo")
    with pytest.raises(InternalFault, match="which series"):
        RATES.series("rate")


@pytest.mark.parametrize(
    ("points", "why"),
    [
        (Points([]), "no point with strategy=p3"),
        (Points([stored(1.0, "invalid: drops", strategy="p3")]), "invalid: drops"),
        (Points([stored(1.0, strategy="p3"), stored(1.0, "invalid: drops", strategy="p3", seed=2)]), "invalid"),
        (Points([stored(math.nan, strategy="p3")]), "only compiled"),
    ],
)
def test_no_evidence(points: Points, why: str) -> None:
    with pytest.raises(NoEvidence, match=why):
        points.row(strategy="p3")


def claim(kind: Kind = Kind.CELL, metric: str = "throughput_per_s", **others: object) -> Claim:
    return Claim.model_validate({"id": "a", "kind": kind, "metric": metric, "source": "Fig. 1", **others})


def test_looks_up_metrics_speedups_and_ranks() -> None:
    where = {"strategy": "p3", "rate": "1gbit"}
    assert look_up(RATES, claim(printed=0.3, where=where)).value == pytest.approx(1 / 3)
    faster = claim(metric="speedup", printed=1.3, where=where, baseline={"strategy": "fifo"})
    assert look_up(RATES, faster).value == pytest.approx(4 / 3)
    order = claim(Kind.RANK, "rank", printed=["p3", "fifo"], series="strategy")
    found = look_up(RATES, order)
    assert found.value == "p3 > fifo"
    assert [one.row for one in found.orders] == ["1gbit", "10gbit"]
    timed = look_up(
        RATES, claim(Kind.RANK, "rank", printed=["p3", "fifo"], series="strategy", ranked_by="iteration_time_s")
    )
    assert timed.value == "p3 > fifo"


def test_what_needs_a_function_is_not_looked_up() -> None:
    assert not can_look_up(claim(Kind.SHAPE, "shape", printed="rises"))
    assert not can_look_up(
        claim(Kind.MAX, "speedup", printed=1.2, where={"strategy": "p3"}, baseline={"strategy": "fifo"})
    )
    assert not can_look_up(claim(metric="count", printed=3, where={"strategy": "p3"}))
    assert not can_look_up(claim(printed=3))


def test_orders_that_differ_are_told_apart() -> None:
    two = ranked(MeasuredOrder({"a": 2, "b": 1}, row="10gbit"), MeasuredOrder({"a": 1, "b": 2}, row="1gbit"))
    assert two.value == "10gbit: a > b; 1gbit: b > a"


def test_a_claim_is_bound_once() -> None:
    @measures("test-scenario", "one", "two")
    def _first(_points: Points, _: Claim) -> Measured:
        return Measured(1.0)

    explains("test-scenario", "one")(lambda _points, _: Explanation("cause", "because"))
    assert ("test-scenario", "two") in measured_claims()
    assert ("test-scenario", "one") in explained_claims()
    with pytest.raises(InternalFault, match="bound twice"):
        measures("test-scenario", "two")(_first)


def test_a_measured_value_is_a_number() -> None:
    with pytest.raises(InternalFault, match="NoEvidence"):
        Measured(math.nan)

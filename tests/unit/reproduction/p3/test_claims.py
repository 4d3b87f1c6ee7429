"""P3's claims: what follows from the models alone holds, and the functions behind the others see what they should see."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

from gradwire.console.live_progress import LiveProgress
from gradwire.runs.executing.executor import LocalPool
from reproduction.gathering import Reproduction
from reproduction.p3.traffic import Traffic
from reproduction.scoring.evidence import Measured, PointEvidence, Points, measure_of
from reproduction.scoring.reference import Claim, load_paper
from reproduction.scoring.score import Status, evaluate, load_bindings
from tests.shared.parts import tells
from tests.shared.stored_points import stored

PAPER = load_paper("p3")
RATES = (1, 2, 4, 8)


@pytest.fixture(scope="module", autouse=True)
def bound() -> None:
    load_bindings()


def measured(scenario: str, claim_id: str, points: list[PointEvidence]) -> Measured:
    (claim,) = (c for s in PAPER.scenario if s.id == scenario for c in s.claim if c.id == claim_id)
    measure = measure_of(scenario, claim_id)
    assert measure is not None
    return measure(Points(points), Claim.model_validate(claim.model_dump()))


def test_parameters_by_layer_are_the_papers() -> None:
    (scenario,) = (s for s in PAPER.scenario if s.id == "p3-fig5")
    gathered = Reproduction([scenario]).gather(LocalPool(1), LiveProgress(Console(quiet=True), 0))
    results = evaluate(PAPER, scenario, gathered.points(scenario)).results
    assert [result.status for result in results] == [Status.HOLDS] * len(scenario.claim)


def curve(model: str, strategy: str, times_s: tuple[float, ...]) -> list[PointEvidence]:
    return [stored(t, model=model, strategy=strategy, rate=f"{r}gbit") for r, t in zip(RATES, times_s, strict=True)]


BASELINE = (4.0, 2.0, 1.3, 1.0)
P3 = (3.9, 1.6, 1.0, 1.0)
MODELS = ("resnet50", "inception-v3-mxnet", "vgg19", "sockeye")


def sweep(p3: tuple[float, ...], slicing: tuple[float, ...] = BASELINE) -> list[PointEvidence]:
    return [
        point
        for model in MODELS
        for strategy, times_s in (("kvstore", BASELINE), ("p3", p3), ("p3-slicing", slicing))
        for point in curve(model, strategy, times_s)
    ]


def test_gains_and_knees_over_bandwidth() -> None:
    points = sweep(P3, slicing=(4.0, 1.8, 1.2, 1.0))
    assert measured("p3-abstract", "resnet50", points).value == pytest.approx(1.3)
    assert tells(measured("p3-fig7", "sockeye-max", points).detail, "maximum", "4 Gbit/s")
    assert measured("p3-fig7", "resnet50-p3-knee", points).value == pytest.approx(2 + 2 * (0.95 - 0.625) / 0.375)
    assert measured("p3-fig7", "resnet-incep-slicing-none", points).value == pytest.approx(2 / 1.8)
    for claim in ("always-better", "vanishes-low-bw", "slicing-helps-big-layers"):
        assert measured("p3-fig7", claim, points).holds


def test_gains_that_are_not_the_papers_do_not_hold() -> None:
    assert not measured("p3-fig7", "always-better", sweep((3.9, 2.1, 1.0, 1.0))).holds
    assert not measured("p3-fig7", "always-better", sweep((3.9, 1.6, 1.0, 0.9))).holds
    assert not measured("p3-fig7", "vanishes-low-bw", sweep((2.0, 1.2, 1.0, 1.0))).holds
    assert not measured("p3-fig7", "slicing-helps-big-layers", sweep(P3)).holds


def slices(resnet: tuple[float, ...], vgg: tuple[float, ...]) -> list[PointEvidence]:
    sizes = (5_000, 50_000, 500_000)
    return [
        stored(t, model=model, slice_parameters=size)
        for model, times_s in (("resnet50", resnet), ("vgg19", vgg))
        for size, t in zip(sizes, times_s, strict=True)
    ]


def test_the_slice_size_that_is_reported_is_the_measured_peak() -> None:
    assert measured("p3-fig12", "peak-50000", slices((2.0, 1.0, 2.0), (2.0, 1.0, 1.01))).value == 50_000
    assert measured("p3-fig12", "peak-50000", slices((2.0, 1.0, 2.0), (2.0, 1.01, 1.0))).value == 500_000


def test_a_peak_is_where_the_paper_has_it_and_drops_visibly_at_both_ends() -> None:
    assert measured("p3-fig12", "unimodal", slices((2.0, 1.0, 2.0), (1.1, 1.0, 1.5))).holds
    assert not measured("p3-fig12", "unimodal", slices((2.0, 1.0, 2.0), (1.01, 1.0, 1.5))).holds
    assert not measured("p3-fig12", "unimodal", slices((2.0, 1.0, 2.0), (1.5, 1.1, 1.0))).holds


def test_what_traffic_shows() -> None:
    seen = Traffic(
        outbound=np.array([0.9, 0.9, 0.0, 0.0]),
        inbound=np.array([0.9, 0.0, 0.0, 0.6]),
        iteration=np.array([1, 1, 1, 2]),
    )
    assert seen.idle.tolist() == [False, False, True, False]
    assert seen.overlap == pytest.approx(1 / 3)
    assert seen.by_iteration(seen.idle) == pytest.approx([1 / 3, 0])
    assert seen.idle_ms == pytest.approx(5)
    assert seen.roughness == pytest.approx(1.0)

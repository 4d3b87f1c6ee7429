"""GradientFlow's claims: what follows from compiled plans alone holds or differs as it must, and points are chosen as claims mean them."""

from __future__ import annotations

import pytest
from rich.console import Console
from stored_points import stored

from analysis.papers.evidence import Points, explanation_of, measure_of
from analysis.papers.gradientflow_points import FUSED, by_size, chosen, workers_of
from analysis.papers.reference import ScenarioReference, load_paper
from analysis.papers.score import Result, Status, evaluate, load_bindings
from vm.progress import LiveProgress
from vm.reproduce import Reproduction

PAPER = load_paper("gradientflow")
COMPILED = [scenario for scenario in PAPER.scenario if scenario.plans and not scenario.runs]


@pytest.fixture(scope="module", autouse=True)
def bound() -> None:
    load_bindings()


def results_of(scenario: ScenarioReference) -> dict[str, Result]:
    """What comes of the claims of a scenario that needs no run."""
    gathered = Reproduction([scenario]).gather(1, LiveProgress(Console(quiet=True), 0))
    return {result.claim.id: result for result in evaluate(PAPER, scenario, gathered.points(scenario)).results}


DIFFERS = {"hier-message", "resnet50-time", "alexnet-time"}
"""Why: gradientflow_reasons.py."""


@pytest.mark.parametrize("scenario", COMPILED, ids=lambda scenario: scenario.id)
def test_what_follows_from_plans_alone(scenario: ScenarioReference) -> None:
    results = results_of(scenario)
    assert len(results) == len(scenario.claim)
    for name, result in results.items():
        assert result.status == (Status.DIFFERS if name in DIFFERS else Status.HOLDS), result
        assert bool(result.explanation) == (name in DIFFERS)


def test_every_claim_that_counts_has_a_measure() -> None:
    for scenario in PAPER.scenario:
        for claim in scenario.claim:
            if claim.emulable and not scenario.not_emulable and claim.kind != "contradicted":
                assert measure_of(scenario.id, claim.id), f"{scenario.id} {claim.id}"


POINTS = Points(
    [
        stored(1.5, strategy="lazy-allreduce", options="wire=fp16, threshold_bytes=4", workers=8, stands_for=512),
        stored(1.2, strategy="lazy-allreduce", options="wire=fp16, threshold_bytes=16", workers=8, stands_for=512),
        stored(1.1, strategy="lazy-allreduce", options=FUSED, workers=8, stands_for=512),
        stored(1.0, strategy="layer-allreduce", options="overlap=False", workers=8),
    ]
)


def test_a_claim_that_leaves_the_threshold_open_means_the_best_that_overlaps() -> None:
    assert chosen(POINTS, {"strategy": "lazy-allreduce"}).iteration_time_s == 1.2
    assert chosen(POINTS, {"strategy": "lazy-allreduce", "options": FUSED}).iteration_time_s == 1.1


def test_where_nothing_overlaps_there_is_only_one_choice() -> None:
    row = chosen(POINTS, {"strategy": "layer-allreduce"})
    assert (row.iteration_time_s, workers_of(row)) == (1.0, 8)
    assert workers_of(chosen(POINTS, {"strategy": "lazy-allreduce"})) == 512


def test_libraries_are_compared_by_size_with_the_better_slices() -> None:
    rows = [
        stored(3.0, run="r", strategy="hierarchical-ring", model="tensor-64KiB", options=""),
        stored(2.0, run="r", strategy="hierarchical-ring", model="tensor-64KiB", options="segments=8"),
        stored(1.0, run="r", strategy="layer-allreduce", model="tensor-4MiB", options=""),
    ]
    sizes = by_size(Points(rows), "r")
    assert {size: {name: row.iteration_time_s for name, row in at.items()} for size, at in sizes.items()} == {
        0.0625: {"nccl-h": 2.0},
        4.0: {"nccl": 1.0},
    }


def test_explanations_are_for_claims_that_exist() -> None:
    claims = {(scenario.id, claim.id) for scenario in PAPER.scenario for claim in scenario.claim}
    assert ("gradientflow-table1", "v-mpi-throughput") in claims
    assert explanation_of("gradientflow-table1", "v-mpi-throughput")

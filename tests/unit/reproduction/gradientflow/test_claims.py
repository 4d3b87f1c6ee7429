"""GradientFlow's claims: what follows from compiled plans alone holds or differs as it must, and points are chosen as claims mean them."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

from gradwire.console.live_progress import LiveProgress
from gradwire.runs.executing.executor import LocalPool
from gradwire.scenario.loading import load_scenario
from gradwire.workloads.models import model
from reproduction.gathering import SCENARIOS, Reproduction
from reproduction.gradientflow.mpi import asked, printed_beyond_ms
from reproduction.gradientflow.points import ALEXNET, FUSED, RESNET, best_row, by_size, workers_of
from reproduction.scoring.evidence import Points, measure_of
from reproduction.scoring.explanations import explanation_of
from reproduction.scoring.reference import ScenarioReference, load_paper
from reproduction.scoring.score import Result, Status, evaluate, load_bindings
from tests.shared.stored_points import stored

PAPER = load_paper("gradientflow")
COMPILED = [scenario for scenario in PAPER.scenario if scenario.plans and not scenario.runs]


@pytest.fixture(scope="module", autouse=True)
def bound() -> None:
    load_bindings()


def results_of(scenario: ScenarioReference) -> dict[str, Result]:
    """What comes of the claims of a scenario that needs no run."""
    gathered = Reproduction([scenario]).gather(LocalPool(1), LiveProgress(Console(quiet=True), 0))
    return {result.claim.id: result for result in evaluate(PAPER, scenario, gathered.points(scenario)).results}


DIFFERS = {"hier-message", "resnet50-time", "alexnet-time"}
"""Why: reproduction/gradientflow/explanations.py."""


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
    assert best_row(POINTS, {"strategy": "lazy-allreduce"}).iteration_time_s == 1.2
    assert best_row(POINTS, {"strategy": "lazy-allreduce", "options": FUSED}).iteration_time_s == 1.1


def test_where_nothing_overlaps_there_is_only_one_choice() -> None:
    row = best_row(POINTS, {"strategy": "layer-allreduce"})
    assert (row.iteration_time_s, workers_of(row)) == (1.0, 8)
    assert workers_of(best_row(POINTS, {"strategy": "lazy-allreduce"})) == 512


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


BEYOND_MS = {
    "p": {ALEXNET: 128 * 128 / 22.3 - 128e3 / 1670, RESNET: 128 * 64 / 13.9 - 64e3 / 172},
    "v": {ALEXNET: 512 * 128 / 56.2 - 128e3 / 2900, RESNET: 512 * 128 / 30.2 - 128e3 / 301},
    "gloo": {ALEXNET: 64 * 128 / 3.6 - 128e3 / 1475, RESNET: 64 * 64e3 / (15.5 * 167) - 64e3 / 167},
}
"""Images of an iteration over images per ms, less the computation of one GPU (sections 2.3.3 and 2.5; Tables 1 and 2)."""


@pytest.mark.parametrize("where", BEYOND_MS)
def test_what_the_printed_cells_of_openmpi_and_gloo_ask_for(where: str) -> None:
    """Costs of a call and of a MB that leave both models what they take beyond computation, by the profiles' own sizes."""
    for name, beyond_ms in BEYOND_MS[where].items():
        assert printed_beyond_ms(where, name) == pytest.approx(beyond_ms, abs=0.01)
    profiles = [model(name) for name in (ALEXNET, RESNET)]
    asks = [[len(profile.tensors), profile.parameters * 4 / 1e6] for profile in profiles]
    call_ms, mb_ms = np.linalg.solve(asks, [BEYOND_MS[where][name] for name in (ALEXNET, RESNET)])
    assert (asked(where).call_ms, asked(where).mb_ms) == pytest.approx((call_ms, mb_ms), abs=0.02)


PRINTED = {(s.id, c.id): c.printed for s in PAPER.scenario for c in s.claim if isinstance(c.printed, float)}


def test_one_constant_is_fitted_for_all_clusters_and_one_for_pascal() -> None:
    costs = [
        (field, cost)
        for path in SCENARIOS.glob("gradientflow-*.toml")
        for point in load_scenario(path).points
        for field, cost in vars(point.section.costs).items()
        if cost is not None and cost.source.startswith("fitted")
    ]
    assert {(field, cost.value) for field, cost in costs} == {
        ("message_latency", 4.55e-6),
        ("compute_while_communicating", 0.6),
    }


CONTRADICTED = {
    "resnet50-v512": ("gradientflow-table2", "v-nccl+mp+overlap-throughput", "v-nccl+mp-throughput"),
    "sec27-alexnet": ("gradientflow-table1", "v-nccl+mp+overlap-throughput", "v-mpi-throughput"),
    "sec27-resnet50": ("gradientflow-table2", "v-nccl+mp+overlap-throughput", "v-mpi-throughput"),
}
"""Speed-ups in the text of section 2, and the cells of the tables that they are of."""


def test_what_is_called_contradicted_disagrees_with_the_papers_own_tables() -> None:
    called = [(s, c) for s in PAPER.scenario for c in s.claim if c.kind == "contradicted"]
    assert {claim.id for _, claim in called} == set(CONTRADICTED)
    for scenario, claim in called:
        table, ahead, behind = CONTRADICTED[claim.id]
        ratio = PRINTED[table, ahead] / PRINTED[table, behind]
        assert abs(ratio - PRINTED[scenario.id, claim.id]) > 0.05 * ratio

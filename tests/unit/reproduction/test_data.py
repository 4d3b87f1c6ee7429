"""The papers' reference data as it is shipped: every claim can be measured, with points that its scenario files have."""

from __future__ import annotations

from functools import cache

import pytest

from gradwire.analysis.parameters import fits
from gradwire.runs.planned import virtual_clock
from gradwire.scenario.loading import Scenario, load_scenario
from reproduction.gathering import SCENARIOS, Reproduction
from reproduction.scoring.evidence import can_look_up, measure_of, measured_claims
from reproduction.scoring.explanations import explained_claims
from reproduction.scoring.reference import Kind, ScenarioReference, load_papers
from reproduction.scoring.score import load_bindings

load_bindings()
EVERY = [(paper, scenario) for paper in load_papers() for scenario in paper.scenario]
CLAIMS = [(scenario, claim) for _, scenario in EVERY for claim in scenario.claim]


@cache
def loaded(name: str) -> Scenario:
    return load_scenario(SCENARIOS / f"{name}.toml")


@cache
def parameters_of(name: str) -> tuple[dict[str, str], ...]:
    return tuple({"run": name, **point.parameters} for point in loaded(name).points)


@cache
def scale_of(name: str) -> float:
    return virtual_clock(loaded(name).points).scale


def test_every_claim_can_be_measured() -> None:
    for scenario, claim in CLAIMS:
        special = claim.kind is Kind.CONTRADICTED or not claim.emulable or scenario.not_emulable
        assert special or measure_of(scenario.id, claim.id) or can_look_up(claim), (scenario.id, claim.id)


LOOKED_UP = [
    (scenario, claim)
    for scenario, claim in CLAIMS
    if not measure_of(scenario.id, claim.id) and can_look_up(claim) and claim.emulable and not scenario.not_emulable
]


def test_some_claims_are_looked_up() -> None:
    assert len(LOOKED_UP) >= 100


@pytest.mark.parametrize(
    "scenario", {scenario.id: scenario for scenario, _ in LOOKED_UP}.values(), ids=lambda it: it.id
)
def test_what_is_looked_up_is_one_point(scenario: ScenarioReference) -> None:
    points = [point for name in scenario.runs for point in parameters_of(name)]
    for claim in (claim for other, claim in LOOKED_UP if other is scenario):
        if claim.kind is Kind.RANK:
            assert any(fits(point, claim.where) and claim.series in point for point in points), claim.id
            continue
        for where in (claim.where, {**claim.where, **claim.baseline}):
            found = {tuple((k, v) for k, v in point.items() if k != "seed") for point in points if fits(point, where)}
            assert len(found) == 1, f"{claim.id}: {where} fits {len(found)} points"


def test_every_binding_names_a_claim() -> None:
    known = {(scenario.id, claim.id) for scenario, claim in CLAIMS}
    bound = {*measured_claims(), *explained_claims()}
    assert {names for names in bound - known if not any(name.startswith("test-") for name in names)} == set()


def test_every_quick_scenario_has_points() -> None:
    for _, scenario in EVERY:
        if scenario.quick:
            assert Reproduction([scenario], quick=True).points > 0, scenario.id


def test_a_scenario_that_runs_fewer_workers_than_it_speaks_of_says_so() -> None:
    for _, scenario in EVERY:
        scaled = [name for name in scenario.runs if any("stands_for" in point for point in parameters_of(name))]
        assert not (scaled and scenario.direct), f"{scenario.id}: {', '.join(scaled)} stand for larger clusters"


def test_a_scenario_with_a_network_that_has_to_be_scaled_down_says_so() -> None:
    for _, scenario in EVERY:
        for name in scenario.runs:
            assert scale_of(name) == 1 or not scenario.direct, f"{scenario.id}: {name} runs scaled down"

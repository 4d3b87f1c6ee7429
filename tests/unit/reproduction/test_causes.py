"""Explanations from a point's critical path, on a plan that is replayed without a network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradwire.datatypes.network_counts import NetworkCounts
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import AgentSummary, OpLog, PointRecord
from gradwire.network.fabric import Fabric
from reproduction.measuring import from_critical_path
from reproduction.scoring.evidence import NoEvidence, PointEvidence, Points
from reproduction.scoring.reference import Claim
from tests.shared.parts import tells
from tests.shared.stored_points import NO_MODEL, result
from tests.unit.reproduction.test_timelines import small_plan

SECOND_NS = 1_000_000_000


def log_of(plan: Plan) -> OpLog:
    """Two iterations: 2 s of computation, then 1 s for the push and 1 s for the pull."""
    kinds = {0: (0, 0), 1: (0, 2), 2: (2, 2), 3: (2, 3), 4: (3, 3), 5: (3, 4)}
    start = np.array([kinds[op][0] for op in range(len(plan.ops))]) * SECOND_NS
    end = np.array([kinds[op][1] for op in range(len(plan.ops))]) * SECOND_NS
    ops = np.tile(np.arange(len(plan.ops)), 2)
    shift = np.repeat([0, 4 * SECOND_NS], len(plan.ops))
    starts = np.tile(start, 2) + shift
    return OpLog(np.repeat([0, 1], len(plan.ops)), ops, starts, starts, np.tile(end, 2) + shift)


def point(**parameters: str) -> PointEvidence:
    plan = small_plan()
    counts = NetworkCounts((), 0, 0, 0, 0)
    agent = AgentSummary((0, 1), 1, 1, 0, 0, 0, 0)
    record = PointRecord("virtual", 2, 1, (agent,), counts, 1.0, 0.0, "prio")
    row = replace(result(parameters, 4.0))
    return PointEvidence(parameters, row, Fabric(2, 1e9), NO_MODEL, lambda: plan, lambda: log_of(plan), lambda: record)


def claim(**fields: object) -> Claim:
    return Claim.model_validate(
        {"id": "a", "kind": "cell", "metric": "speedup", "printed": 2, "source": "Fig. 1", **fields}
    )


def test_says_what_is_on_the_critical_path_of_both_points() -> None:
    points = Points([point(strategy="p3", model="toy"), point(strategy="fifo", model="toy")])
    text = from_critical_path(points, claim(where={"strategy": "p3"}, baseline={"strategy": "fifo"})).seen
    assert tells(text, "p3: 50%", "iteration 1", "compute", "fifo: 50%", "iteration 1", "compute")
    assert "network" in text


def test_a_claim_about_several_points_has_no_single_path() -> None:
    points = Points([point(strategy="p3", model="toy"), point(strategy="fifo", model="toy")])
    for where in ({}, {"model": "toy"}):
        with pytest.raises(NoEvidence, match="several points"):
            from_critical_path(points, claim(where=where))

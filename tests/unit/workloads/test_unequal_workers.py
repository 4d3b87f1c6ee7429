"""Workers whose compute times vary: what is drawn, that every strategy's plan has it, and that the checker knows it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.scenario.loading import resolve
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_point
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.small_jobs import compiled, job_of, profile_of, training_strategies

SHARE = 0.3


def point_document(variation: float | None, seed: int = 1, workers: int = 16, name: str = "vanilla") -> dict[str, Any]:
    document: dict[str, Any] = {
        "title": "Unequal workers",
        "cluster": {"workers": workers},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "alexnet", "device": "k40"},
        "strategy": {"name": name},
        "run": {"seed": seed},
    }
    if variation is not None:
        document["costs"] = {"compute_variation": {"value": variation, "source": "made up"}}
    return document


def job_with(variation: float | None, seed: int = 1, workers: int = 16, name: str = "vanilla") -> Job:
    (point,) = resolve(point_document(variation, seed, workers, name), "test.toml", "test").points
    return ResolvedPoint(point.section).job


def computed_s(plan: Plan) -> list[float]:
    """What each worker computes in an iteration, layer by layer or, where a plan has no layers, in whole steps."""
    ops = plan.ops
    computes = ops.kind == OpKind.COMPUTE
    passes = computes & (ops.layer >= 0)
    passes = passes if passes.any() else computes
    seconds: list[float] = (np.bincount(ops.rank[passes], ops.duration_ns[passes])[plan.workers] / 1e9).tolist()
    return seconds


def test_draws_have_the_mean_and_the_variation_that_are_asked_for() -> None:
    drawn = np.array([job_with(SHARE, seed).relative_times for seed in range(400)]).ravel()
    error = SHARE / math.sqrt(len(drawn))
    assert abs(drawn.mean() - 1) < 4 * error
    assert abs(drawn.std() - SHARE) < 6 * error
    assert drawn.min() > 0


def test_a_draw_depends_on_the_seed_and_the_worker_alone() -> None:
    first = job_with(SHARE).relative_times
    assert len(set(first)) == len(first)
    assert job_with(SHARE, seed=2).relative_times != first
    assert job_with(SHARE, name="ring").relative_times == first
    assert job_with(SHARE, workers=4).relative_times == first[:4]


@pytest.mark.parametrize("variation", [None, 0.0])
def test_workers_are_equal_unless_told_otherwise(variation: float | None) -> None:
    assert job_with(variation).relative_times == ()


@pytest.mark.parametrize("name", training_strategies())
def test_every_strategys_workers_take_what_was_drawn(name: str) -> None:
    times = (0.5, 2.0, 1.25, 0.25)
    plain = job_of(profile_of([(LayerKind.CONV, [40, 8]), (LayerKind.FC, [120])]), Cluster(4, 2))
    job = replace(plain, relative_times=times)
    for plan in compiled(job, name, {}).values():
        assert computed_s(plan) == pytest.approx([time * (plan.compute_s or job.compute_s) for time in times])
        check(plan, times)
        if plan.compute_s:
            with pytest.raises(PlanError, match="rank 0 computes"):
                check(plan)


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan, 11.0])
def test_no_variation_without_sense_is_taken(value: float) -> None:
    with pytest.raises(InputFault, match=r"costs\.compute_variation\.value"):
        job_with(value)


def test_a_cluster_that_stands_for_a_larger_one_has_no_stragglers() -> None:
    document = point_document(0.1, name="ring")
    document["cluster"] = {"workers": 4, "stands_for": 64}
    with pytest.raises(InputFault, match=r"costs\.compute_variation: .*cluster\.stands_for"):
        compile_point(resolve(document, "test.toml", "test").points[0].section)


def test_a_variation_without_a_source_is_refused() -> None:
    document = point_document(0.1)
    del document["costs"]["compute_variation"]["source"]
    with pytest.raises(InputFault, match=r"costs\.compute_variation\.source"):
        compile_point(resolve(document, "test.toml", "test").points[0].section)

"""Estimates of thousands of ranks, from scenario to row; and what they are not for."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.analysis.bounds import bounds
from gradwire.faults import InputFault
from gradwire.runs.compiling import by_class as module
from gradwire.runs.compiling.by_class import by_class
from gradwire.runs.estimation import estimate_points
from gradwire.scenario.loading import scenario_of
from gradwire.scenario.resolution.compilation import compile_plans
from tests.shared.parts import in_order
from tests.unit.analysis.by_class.points import resolved_point, whole_plan

TRANSFORMER = {"name": "vit-l16", "device": "v100", "blocks": 4}
LEAVES = {"topology": "leaf-spine", "leaves": 8, "spines": 4}


def scenario(strategy: str, workers: int, **tables: Any) -> Any:
    content = {
        "title": "thousands",
        "cluster": {"workers": workers},
        "fabric": {"rate": "10gbit"},
        "model": TRANSFORMER,
        "strategy": {"name": strategy},
    }
    return scenario_of({**content, **tables})


@pytest.mark.parametrize("strategy", ["fsdp", "ddp"])
def test_the_same_row_by_class_and_of_all_ranks(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = scenario(strategy, module.LEAST_WORKERS).points
    (by_classes,) = estimate_points(points, 1)
    monkeypatch.setattr(module, "LEAST_WORKERS", 10**6)
    (of_all,) = estimate_points(points, 1)
    assert by_classes.classes > 0
    assert of_all.classes == 0
    assert by_classes.iteration_time_s == pytest.approx(of_all.iteration_time_s, rel=1e-9)
    assert by_classes.by_queues == pytest.approx(of_all.by_queues, abs=1e-9)
    assert by_classes.lower_bound_kind == of_all.lower_bound_kind
    assert by_classes.lower_bound_s == pytest.approx(of_all.lower_bound_s, rel=1e-3)


@pytest.mark.parametrize("strategy", ["fsdp", "zero2", "ddp", "megatron"])
@pytest.mark.parametrize("fabric", [{}, LEAVES], ids=str)
def test_bounds_are_those_of_all_ranks_or_lower(strategy: str, fabric: dict[str, Any]) -> None:
    point = resolved_point(strategy, module.LEAST_WORKERS, model=TRANSFORMER, fabric=dict(fabric))
    found = by_class(point)
    assert found is not None
    lower, whole = found.bounds(), bounds(whole_plan(point), point.fabric)
    assert lower.compute_s == pytest.approx(whole.compute_s)
    assert lower.bandwidth_s == pytest.approx(whole.bandwidth_s)
    assert 0.99 * whole.critical_path_s <= lower.critical_path_s <= whole.critical_path_s * (1 + 1e-9)


def test_sixteen_thousand_ranks() -> None:
    (row,) = estimate_points(scenario("fsdp", 16_384).points, 1)
    assert row.classes == 1
    assert row.x_bound >= 1 - 1e-9


def test_a_plan_of_thousands_names_the_estimate() -> None:
    point = scenario("fsdp", 2048).points[0].resolved
    with pytest.raises(InputFault, match=in_order("cluster.workers = 2048:", "1,024 workers", "`gradwire estimate`")):
        compile_plans(point, point.job)


@pytest.mark.parametrize(
    ("strategy", "reason"), [("kvstore", "strategy 'kvstore' has none"), ("ring", "strategy.options.concurrent")]
)
def test_thousands_without_classes_say_why(strategy: str, reason: str) -> None:
    with pytest.raises(InputFault, match=reason):
        by_class(scenario(strategy, 2048).points[0].resolved)


def test_messages_that_are_divided_have_no_classes() -> None:
    connections = {"transport": {"connections": 2}}
    assert by_class(scenario("fsdp", 64, **connections).points[0].resolved) is None
    with pytest.raises(InputFault, match=r"transport\.connections"):
        by_class(scenario("fsdp", 2048, **connections).points[0].resolved)


def test_fewer_ranks_without_classes_are_estimated_whole() -> None:
    assert by_class(scenario("kvstore", 64).points[0].resolved) is None

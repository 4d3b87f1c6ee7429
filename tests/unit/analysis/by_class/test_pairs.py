"""Exchanges of pairs: by classes of ranks, iterations are those of all ranks."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.analysis.fluid.estimate import Buffered, Departure
from gradwire.datatypes.class_plans import ClassPlan, NotByClass
from tests.shared.parts import tells
from tests.unit.analysis.by_class.points import compiled_classes, resolved_point, times_by_class, times_of_all
from tests.unit.analysis.by_class.test_same_times import (
    FAR,
    LATENCY,
    LEAVES,
    MACHINES,
    NARROW,
    RAILS,
    TRANSFORMER,
    assert_same,
)

EVEN = {
    "name": "even",
    "batch": 1,
    "layers": [
        {"name": f"layer{number}", "size": [f"{4096 * (number + 1)}B"], "forward": "1ms", "backward": "2ms"}
        for number in range(4)
    ],
}


@pytest.mark.parametrize("rule", [Departure(), Buffered(20_000)], ids=str)
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("halving-doubling", {}),
        ("halving-doubling", {"concurrent": True, "forward_waits": "layer", "wire": "fp16"}),
        ("butterfly", {}),
        ("butterfly-mixing", {"forward_waits": "all"}),
        ("ddp", {"algorithm": "halving-doubling", "bucket_cap": "20KB", "first_bucket_cap": "5KB"}),
        ("fsdp", {"algorithm": "halving-doubling"}),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("tables", "neighbours"),
    [
        ({}, 1),
        ({}, 4),
        ({"fabric": NARROW}, 1),
        ({"fabric": FAR}, 1),
        (LATENCY, 1),
        (MACHINES, 4),
        (RAILS, 4),
    ],
    ids=str,
)
def test_exchanges(strategy: str, options: Any, tables: dict[str, Any], neighbours: int, rule: Any) -> None:
    tables = {key: dict(value) for key, value in tables.items()}
    model = TRANSFORMER if strategy == "fsdp" else EVEN
    point = resolved_point(strategy, 16, model=model, options=options, **tables)
    assert_same(times_by_class(point, rule, neighbours), times_of_all(point, rule))


def test_a_step_is_one_op_of_each_class() -> None:
    few, many = (compiled_classes(resolved_point("halving-doubling", workers, model=EVEN), 1) for workers in (16, 1024))
    assert isinstance(few, ClassPlan)
    assert isinstance(many, ClassPlan)
    # Four steps twice, and six more of either.
    assert len(many.plan.ops) - len(few.plan.ops) == 4 * 2 * 2 * 6


@pytest.mark.parametrize(
    ("strategy", "workers", "tables", "reason"),
    [
        ("halving-doubling", 16, {}, "do not divide evenly"),
        ("halving-doubling", 16, {"model": EVEN, "options": {"segments": 2}}, "segments"),
        ("butterfly", 12, {}, "power of two"),
        ("butterfly-mixing", 8, {}, "barrier"),
        ("butterfly", 16, {"fabric": LEAVES}, "share ports"),
        ("butterfly", 8, {"costs": {"aggregation_rate": {"value": "1GB/s", "source": "made up"}}}, "aggregation_rate"),
    ],
)
def test_what_differs_says_why(strategy: str, workers: int, tables: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotByClass, match=reason):
        times_by_class(resolved_point(strategy, workers, **tables), Departure())


def test_uneven_parts_of_jobs_that_are_too_large_for_all_ranks_are_said() -> None:
    compiled = compiled_classes(resolved_point("halving-doubling", 2048), 1)
    assert isinstance(compiled, ClassPlan)
    assert tells(compiled.left_out, "5 of 5 buckets", "evenly", "2048 ranks")

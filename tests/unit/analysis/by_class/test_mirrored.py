"""Double trees: with one of two mirrored ranks, iterations are those of all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import Buffered, Departure
from gradwire.datatypes.class_plans import ClassPlan, NotByClass
from gradwire.workloads.classes.mirrored import mirrored_half
from gradwire.workloads.engines.collectives.allreduces import double_tree
from tests.shared.parts import tells
from tests.unit.analysis.by_class.points import compiled_classes, resolved_point, times_by_class, times_of_all
from tests.unit.analysis.by_class.test_same_times import FAR, LATENCY, assert_same

SIZES = (280_000, 48, 1_000_000, 136, 3_000_000)
EVEN = {
    "name": "even",
    "batch": 1,
    "layers": [
        {"name": f"layer{number}", "size": [f"{size}B"], "forward": "1ms", "backward": "2ms"}
        for number, size in enumerate(SIZES)
    ],
}
NARROW = {"topology": "leaf-spine", "leaves": 2, "spines": 1, "oversubscription": 2}


@pytest.mark.parametrize("rule", [Departure(), Buffered(20_000)], ids=str)
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("double-tree", {}),
        ("double-tree", {"concurrent": True, "segments": 2}),
        ("double-tree", {"forward_waits": "layer", "wire": "fp16"}),
        ("ddp", {"algorithm": "double-tree", "bucket_cap": "300KB", "first_bucket_cap": "5KB"}),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("workers", "tables"), [(8, {}), (16, {"fabric": NARROW}), (16, LATENCY), (24, {"fabric": FAR})], ids=str
)
def test_double_trees(strategy: str, options: Any, workers: int, tables: dict[str, Any], rule: Any) -> None:
    tables = {key: dict(value) for key, value in tables.items()}
    point = resolved_point(strategy, workers, model=EVEN, options=options, **tables)
    assert_same(times_by_class(point, rule), times_of_all(point, rule))


def test_half_of_the_ranks_are_compiled() -> None:
    compiled = compiled_classes(resolved_point("ddp", 64, model=EVEN, options={"algorithm": "double-tree"}), 1)
    assert isinstance(compiled, ClassPlan)
    assert compiled.members.shape == (32, 2)
    assert compiled.members.sum(axis=1).tolist() == [63] * 32


def test_of_two_mirrored_transfers_one_is_left() -> None:
    whole = double_tree([[rank] for rank in range(16)]).segmented(3)
    half = mirrored_half(whole)
    assert len(half.rows) * 2 == len(whole.rows)
    # Each rank of the lower half has received and sent, and what comes last to each of its six parts.
    assert np.unique(half.rows[:, :2]).tolist() == list(range(8))
    assert np.bincount(half.last_rank).min() >= 6


@pytest.mark.parametrize(
    ("workers", "tables", "reason"),
    [
        (8, {}, "odd number of values"),
        (9, {"model": EVEN}, "9 ranks"),
        (12, {"model": EVEN}, "child of its mirror image"),
        (8, {"model": EVEN, "options": {"forward_waits": "barrier"}}, "barrier"),
        (
            8,
            {"model": EVEN, "costs": {"aggregation_rate": {"value": "1GB/s", "source": "made up"}}},
            "aggregation_rate",
        ),
        (16, {"model": EVEN, "fabric": {**NARROW, "spines": 4}}, "share ports"),
    ],
)
def test_what_differs_says_why(workers: int, tables: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotByClass, match=reason):
        times_by_class(resolved_point("double-tree", workers, **tables), Departure())


def test_odd_numbers_of_values_are_said_of_jobs_that_are_too_large_for_all_ranks() -> None:
    compiled = compiled_classes(resolved_point("double-tree", 2048), 1)
    assert isinstance(compiled, ClassPlan)
    assert tells(compiled.left_out, "2 of 5 buckets", "odd number")

"""Experts and contexts that neighbouring replicas divide: by classes of ranks, iterations are those of all ranks."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.analysis.fluid.estimate import Buffered, Departure
from gradwire.datatypes.class_plans import ClassPlan, NotByClass
from tests.unit.analysis.by_class.points import compiled_classes, resolved_point, times_by_class, times_of_all
from tests.unit.analysis.by_class.test_same_times import FAR, LATENCY, MACHINES, RAILS, assert_same

MIXTURE = {"name": "mixtral-8x7b", "device": "h100", "blocks": 2}
ATTENDING = {"name": "llama3-8b", "device": "h100", "blocks": 2}
SHARDED = {"sharded_optimizer": True, "overlap_gradients": True}


@pytest.mark.parametrize("rule", [Departure(), Buffered(1 << 20)], ids=str)
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (MIXTURE, {"experts": 4}),
        (MIXTURE, {"experts": 8, "stages": 2, "microbatches": 4, "replica_batch": 4, **SHARDED}),
        (
            MIXTURE,
            {
                "experts": 4,
                "tensor": 4,
                "microbatches": 2,
                "replica_batch": 4,
                "sequence_parallel": True,
                "priorities": True,
            },
        ),
        (MIXTURE, {"experts": 2, "tensor": 2, "recompute": "full", **SHARDED}),
        (ATTENDING, {"context": 4, **SHARDED}),
        (ATTENDING, {"context": 2, "tensor": 2, "stages": 2, "microbatches": 4, "replica_batch": 4}),
        (ATTENDING, {"context": 4, "tensor": 4, "sequence_parallel": True, "recompute": "full"}),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "tables",
    [{}, LATENCY, {"fabric": FAR}, MACHINES, RAILS],
    ids=["plain", "latency", "far", "machines", "rails"],
)
def test_what_replicas_exchange(tables: dict[str, Any], model: Any, options: dict[str, Any], rule: Any) -> None:
    tables = {key: dict(value) for key, value in tables.items()}
    per_host = tables.get("cluster", {}).get("workers_per_host", 1)
    point = resolved_point("megatron", 16, model=model, options=options, **tables)
    assert_same(times_by_class(point, rule, neighbours=per_host), times_of_all(point, rule))


def test_messages_to_copies_of_one_class_are_one_op() -> None:
    few, many = (
        compiled_classes(resolved_point("megatron", 64, model=MIXTURE, options={"experts": experts}), 1)
        for experts in (2, 8)
    )
    assert isinstance(few, ClassPlan)
    assert isinstance(many, ClassPlan)
    assert len(few.plan.ops) == len(many.plan.ops)
    assert max(peers.messages for peers in many.peers) == 7


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"experts": 4, "token_skew": 0.5}, "token_skew"),
        ({"experts": 2, "tensor": 1}, "multiples"),
    ],
)
def test_what_differs_says_why(options: dict[str, Any], reason: str) -> None:
    cluster = {"workers_per_host": 3} if reason == "multiples" else {}
    costs = {"local_rate": {"value": "2GB/s", "source": "made up"}}
    point = resolved_point("megatron", 24, model=MIXTURE, options=options, cluster=cluster, costs=costs)
    with pytest.raises(NotByClass, match=reason):
        times_by_class(point, Departure(), neighbours=cluster.get("workers_per_host", 1))

"""Estimates by classes of ranks are those of all ranks: same iterations, wherever both can be had."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import Buffered, Departure, FluidTimes
from gradwire.datatypes.class_plans import ClassPlan, NotByClass, RingSequence
from tests.shared.parts import in_order
from tests.unit.analysis.by_class.points import (
    compiled_classes,
    resolved_point,
    times_by_class,
    times_of_all,
)

RULES = (Departure(), Buffered(20_000), Buffered(1 << 20))
TRANSFORMER = {"name": "vit-l16", "device": "v100", "blocks": 4}
LATENCY = {"costs": {"message_latency": {"value": "20us", "source": "made up"}}}
LEAVES = {"topology": "leaf-spine", "leaves": 4, "spines": 2}
NARROW = {**LEAVES, "spines": 1, "oversubscription": 8}
FAR = {"delay": "150us"}
ONE_BY_ONE = {"concurrent": False, "forward_waits": "all"}
MACHINES: dict[str, Any] = {
    "cluster": {"workers_per_host": 4},
    "costs": {"local_rate": {"value": "2GB/s", "source": "made up"}},
}
NVLINK = {"value": "300GB/s", "source": "data sheet"}
THREE_NICS: dict[str, Any] = {"cluster": {"workers_per_host": 3, "nics_per_host": 3}}
RAILS: dict[str, Any] = {
    "cluster": {"workers_per_host": 4, "nics_per_host": 4},
    "costs": {
        "local_rate": {"value": "2GB/s", "source": "made up"},
        "local_latency": {"value": "3us", "source": "made up"},
        "message_latency": {"value": "7us", "source": "made up"},
    },
}


def with_each_rule(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Tries all combinations of the axes with all rules; `make test` tries each with one of them, in turn."""
    tried = []
    for number, values in enumerate(itertools.product(*axes.values())):
        for place, rule in enumerate(RULES):
            marks = [] if (number + place) % len(RULES) == 0 else [pytest.mark.long]
            tried.append(pytest.param(*values, rule, marks=marks, id="-".join(map(str, (*values, rule)))))
    return pytest.mark.parametrize((*axes, "rule"), tried)


def assert_same(by_class: FluidTimes, of_all: FluidTimes, within: float = 1e-9) -> None:
    """As far as both were computed, and in the steady state."""
    both = min(by_class.needed, of_all.needed)
    np.testing.assert_allclose(by_class.iterations_s[:both], of_all.iterations_s[:both], rtol=within)
    assert by_class.iteration_s == pytest.approx(of_all.iteration_s, rel=within)


@with_each_rule(workers=[2, 3, 5, 8, 13], strategy=["ddp", "ring", "layer-allreduce", "lazy-allreduce"])
def test_rings_one_after_the_other(strategy: str, workers: int, rule: Any) -> None:
    options = ONE_BY_ONE if strategy == "ring" else {"bucket_cap": "300KB"} if strategy == "ddp" else {}
    point = resolved_point(strategy, workers, options=options)
    assert_same(times_by_class(point, rule), times_of_all(point, rule))


@with_each_rule(
    tables=[
        {"fabric": LEAVES},
        {"fabric": NARROW},
        {"fabric": {"flow_rate": "300mbit"}},
        LATENCY,
        MACHINES,
        RAILS,
        {"fabric": FAR},
        {"fabric": {**FAR, **LEAVES}},
        {"options": {"overlap": False, "wire": "fp16"}},
        {"costs": {"compute_variation": {"value": 0.2, "source": "made up"}}},
    ],
)
def test_rings_on_other_networks_and_at_other_costs(tables: dict[str, Any], rule: Any) -> None:
    point = resolved_point("layer-allreduce", 16, **tables)
    assert_same(times_by_class(point, rule), times_of_all(point, rule))


@with_each_rule(
    work=[
        ("fsdp", {}),
        ("fsdp", {"prefetch": 0, "gradients": "bf16"}),
        ("fsdp", {"prefetch": 3, "reshard_after_forward": False}),
        ("fsdp", {"microbatches": 2, "recompute": "full"}),
        ("zero1", {"bucket_parameters": 5_000_000}),
        ("zero1", {"bucket_parameters": 5_000_000, "sum_by": "all-reduce", "overlap_gather": True}),
        ("zero2", {"bucket_parameters": 5_000_000}),
    ],
    network=[
        ({}, 1),
        ({}, 2),
        ({"fabric": LEAVES}, 1),
        ({"fabric": NARROW}, 4),
        ({"fabric": FAR}, 1),
        ({"fabric": {**FAR, **NARROW}}, 4),
        (LATENCY, 1),
        ({"costs": {"aggregation_rate": {"value": "1GB/s", "source": "made up"}}}, 1),
        (MACHINES, 4),
        (RAILS, 8),
        (RAILS, 4),
        (THREE_NICS, 3),
    ],
)
def test_divided_state(work: tuple[str, Any], network: tuple[dict[str, Any], int], rule: Any) -> None:
    (strategy, options), (tables, neighbours) = work, network
    # All steps of one of several rings are one message, whose latencies buffered messages would not wait for.
    within = 1e-9 if tables not in (RAILS, THREE_NICS) else 1e-2 if isinstance(rule, Buffered) else 2e-3
    tables = {key: dict(value) for key, value in tables.items()}
    workers = 18 if neighbours == 3 else 16
    point = resolved_point(strategy, workers, model=TRANSFORMER, options=options, **tables)
    assert_same(times_by_class(point, rule, neighbours), times_of_all(point, rule), within)


@with_each_rule(
    shard=[2, 4, 8],
    options=[{}, {"microbatches": 2, "prefetch": 0}],
    network=[({}, 1), ({"fabric": NARROW}, 4), ({"fabric": FAR}, 2), (MACHINES, 4), (RAILS, 4)],
)
def test_hybrid_sharding(shard: int, options: dict[str, Any], network: tuple[dict[str, Any], int], rule: Any) -> None:
    """Classes hand on whole shards, and all ranks the parts of them that groups sum, which overlap where links have delays."""
    tables, neighbours = network
    tables = {key: dict(value) for key, value in tables.items()}
    point = resolved_point("fsdp", 16, model=TRANSFORMER, options={"shard": shard, **options}, **tables)
    within = 2e-3 if tables.get("fabric") == FAR else 5e-4
    assert times_by_class(point, rule, neighbours).iteration_s == pytest.approx(
        times_of_all(point, rule).iteration_s, rel=within
    )


@pytest.mark.parametrize(("nics", "within"), [(8, 1e-6), (4, 1e-6), (2, 5e-3)])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_ring_for_each_nic(strategy: str, nics: int, within: float) -> None:
    tables = {"cluster": {"workers_per_host": 8, "nics_per_host": nics}, "costs": {"local_rate": NVLINK}}
    network = {"rate": "100gbit", "topology": "leaf-spine", "leaves": nics, "spines": 2, "rails": True}
    options = {"bucket_cap": "64MiB"} if strategy == "ddp" else {}
    point = resolved_point(strategy, 32, model={**TRANSFORMER, "blocks": 2}, options=options, fabric=network, **tables)
    assert_same(times_by_class(point, Departure(), 8), times_of_all(point, Departure()), within)


def test_one_rank_without_latency_has_one_message_for_each_collective() -> None:
    few, many = (compiled_classes(resolved_point("fsdp", workers, model=TRANSFORMER), 1) for workers in (16, 1024))
    assert isinstance(few, ClassPlan)
    assert isinstance(many, ClassPlan)
    assert len(few.plan.ops) == len(many.plan.ops)


def test_leaves_that_bind_are_not_overlooked() -> None:
    point = resolved_point("fsdp", 16, model=TRANSFORMER, fabric=NARROW)
    with pytest.raises(NotByClass, match="share ports"):
        times_by_class(point, Departure(), neighbours=1)


@pytest.mark.parametrize(
    ("strategy", "tables", "reason"),
    [
        ("ring", {}, "concurrent"),
        ("ddp", {"options": {"algorithm": "double-tree"}}, "odd number of values"),
        ("ddp", {"options": {"algorithm": "two-level"}}, "two-level"),
        ("ddp", {"options": {"segments": 2}}, "segments"),
        ("ddp", {"costs": {"aggregation_rate": {"value": "1GB/s", "source": "made up"}}}, "aggregation_rate"),
        ("fsdp", {"model": TRANSFORMER, "options": {"shard": 4, "algorithm": "halving-doubling"}}, "hybrid"),
        (
            "fsdp",
            {"model": TRANSFORMER, "costs": {"compute_variation": {"value": 0.2, "source": "made up"}}},
            "compute_variation",
        ),
        (
            "fsdp",
            {"model": TRANSFORMER, "fabric": {"link": {"h1": {"delay": "1ms"}}}},
            "delays",
        ),
        ("ddp", {"fabric": {**LEAVES, "routing": "ecmp"}}, "ecmp"),
        ("fsdp", {"model": TRANSFORMER, "fabric": {**LEAVES, "routing": "ecmp"}}, "ecmp"),
    ],
)
def test_what_has_no_classes_says_why(strategy: str, tables: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotByClass, match=reason):
        times_by_class(resolved_point(strategy, 8, **tables), Departure())


def test_all_options_that_stand_against_classes_are_said_at_once() -> None:
    with pytest.raises(
        NotByClass, match=in_order("concurrent is True", "False", "forward_waits is 'barrier'", "'all'")
    ):
        times_by_class(resolved_point("ring", 8), Departure())


def test_small_tensors_leave_parts_without_bytes() -> None:
    compiled = compiled_classes(resolved_point("layer-allreduce", 64), 1)
    assert isinstance(compiled, RingSequence)
    assert any((call.part_bytes == 0).any() for call in compiled.calls)


@with_each_rule(
    options=[
        {"tensor": 1, "stages": 2, "microbatches": 4},
        {"tensor": 4, "stages": 2, "microbatches": 4, "sequence_parallel": True},
        {"tensor": 4, "stages": 2, "microbatches": 4, "schedule": "gpipe", "recompute": "full"},
        {"tensor": 4, "stages": 2, "microbatches": 4, "chunks": 2, "sharded_optimizer": True},
        {
            "tensor": 4,
            "stages": 1,
            "overlap_gradients": True,
            "bucket_parameters": 4_000_000,
            "sharded_optimizer": True,
            "priorities": True,
        },
        {"tensor": 4, "stages": 4, "microbatches": 8, "overlap_gradients": True},
        {"tensor": 2, "stages": 2, "microbatches": 4, "overlap_gradients": True, "sharded_optimizer": True},
        {"tensor": 2, "stages": 4, "microbatches": 8, "sequence_parallel": True},
        {"tensor": 2, "stages": 1, "microbatches": 2, "recompute": "full"},
        {"tensor": 4, "stages": 2, "microbatches": 4, "chunks": 2, "first_blocks": 0, "last_blocks": 2},
    ],
    tables=[{}, LATENCY, {"fabric": {**LEAVES, "oversubscription": 2}}, MACHINES, RAILS],
)
def test_replicas_of_a_divided_model(tables: dict[str, Any], options: dict[str, Any], rule: Any) -> None:
    per_host = tables.get("cluster", {}).get("workers_per_host", 1)
    point = resolved_point(
        "megatron", 32, model=TRANSFORMER, options=options, **{k: dict(v) for k, v in tables.items()}
    )
    try:
        by_class = times_by_class(point, rule, neighbours=per_host)
    except NotByClass:
        assert tables.get("fabric")
        return
    assert_same(by_class, times_of_all(point, rule))

"""Megatron's jobs on several switches whose uplinks bind: neighbouring replicas are classes, and times are those of all
ranks."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.analysis.fluid.estimate import Buffered, Departure
from gradwire.datatypes.class_plans import NotByClass
from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.runs.compiling.by_class import by_class, classes_of, classes_or_plans
from gradwire.workloads.plan_size import TooManyOps
from tests.shared.parts import in_order
from tests.unit.analysis.by_class.points import resolved_point, times_by_class, times_of_all
from tests.unit.analysis.by_class.test_neighbouring_replicas import ATTENDING, MIXTURE, SHARDED
from tests.unit.analysis.by_class.test_same_times import MACHINES, RAILS, TRANSFORMER, assert_same

LEAVES = {"topology": "leaf-spine", "leaves": 4, "spines": 1, "oversubscription": 4}
FAT_TREE = {"topology": "fat-tree", "pods": 2, "leaves": 2, "spines": 1, "cores": 1, "oversubscription": 2}
DIVIDED = {"tensor": 2, "stages": 2, "microbatches": 4, "replica_batch": 4}


@pytest.mark.parametrize(
    ("model", "options", "tables", "neighbours", "rule"),
    [
        (TRANSFORMER, {**DIVIDED, "tensor": 4, "sequence_parallel": True}, RAILS, 8, Departure()),
        (TRANSFORMER, {**DIVIDED, **SHARDED, "tensor": 4}, MACHINES, 8, Buffered(20_000)),
        (TRANSFORMER, DIVIDED, {}, 8, Departure()),
        (MIXTURE, {**DIVIDED, **SHARDED, "experts": 4}, RAILS, 8, Departure()),
        (MIXTURE, {**DIVIDED, "experts": 8}, RAILS, 8, Buffered(20_000)),
        (ATTENDING, {**DIVIDED, "context": 8}, RAILS, 8, Departure()),
    ],
    ids=["shares", "shares of one NIC", "one worker per host", "experts", "experts of two copies", "context"],
)
@pytest.mark.parametrize("fabric", [LEAVES, FAT_TREE], ids=["leaf-spine", "fat-tree"])
def test_neighbours_under_a_switch(
    fabric: dict[str, Any], model: Any, options: dict[str, Any], tables: dict[str, Any], neighbours: int, rule: Any
) -> None:
    tables = {"fabric": fabric, **{key: dict(value) for key, value in tables.items()}}
    point = resolved_point("megatron", 32, model=model, options=options, **tables)
    assert_same(times_by_class(point, rule, neighbours), times_of_all(point, rule))


def test_as_many_neighbours_as_needed_are_found() -> None:
    tables = {key: dict(value) for key, value in RAILS.items()}
    options = {**DIVIDED, "tensor": 4}
    point = resolved_point("megatron", 64, model=TRANSFORMER, options=options, fabric=LEAVES, **tables)
    with pytest.raises(NotByClass, match="share ports"):
        times_by_class(point, Departure(), neighbours=4)
    # Two stages of the four replicas that each leaf of 16 hosts holds.
    assert classes_of(point).classes == 8


def test_neighbours_are_whole_tensor_groups() -> None:
    point = resolved_point("megatron", 32, model=TRANSFORMER, options={**DIVIDED, "tensor": 4})
    with pytest.raises(NotByClass, match="several tensor groups"):
        times_by_class(point, Departure(), neighbours=2)


def test_colliding_spines_are_refused_with_what_to_change() -> None:
    """Rules send some replicas of a leaf up one uplink. One spine has all of their rate, and ranks are classes."""
    tables = {key: dict(value) for key, value in RAILS.items()}
    options = {**DIVIDED, "tensor": 4}
    told = {"several": {**LEAVES, "spines": 4}, "one": LEAVES}
    points = {
        name: resolved_point("megatron", 64, model=TRANSFORMER, options=options, fabric=fabric, **tables)
        for name, fabric in told.items()
    }
    with pytest.raises(NotByClass, match=in_order("share ports", "fabric.spines = 1")):
        classes_of(points["several"])
    assert classes_of(points["one"]).classes == 8
    assert by_class(points["several"]) is None

    def too_large() -> dict[str, Plan]:
        raise TooManyOps("star", "more than 8,000,000 ops")

    with pytest.raises(InputFault, match=in_order("8,000,000 ops", "Classes of ranks", "fabric.spines = 1")):
        classes_or_plans(points["several"], too_large)

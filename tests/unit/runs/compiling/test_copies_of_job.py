"""A few copies of each class of ranks take as long as all, carry as much per rank, and hold each other up as all do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.runs.compiling.copies_of_job import fewest_copies_of
from gradwire.runs.compiling.ideal_times import rule_of
from gradwire.runs.compiling.part_of_job import CompiledPart, compiled_part
from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.resolution.compilation import Compiled, compile_point
from gradwire.scenario.sections.part import PartSection
from gradwire.workloads.checker import check
from tests.shared.parts import in_order, tells

MACHINES = {"workers": 32, "workers_per_host": 4, "nics_per_host": 4}
MORE = {**MACHINES, "workers": 64}
EXPERTS = {"tensor": 1, "stages": 1, "microbatches": 1, "experts": 8}
DIVIDED = {"tensor": 2, "stages": 2, "microbatches": 2}
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "shares, replicas and stages": (2, {"options": {**DIVIDED, "overlap_gradients": True, "sharded_optimizer": True}}),
    "context": (2, {"options": {**DIVIDED, "context": 4}, "cluster": MORE}),
    "tensor groups over two machines": (2, {"options": {**DIVIDED, "tensor": 8}, "cluster": MORE}),
    "experts": (4, {"options": EXPERTS, "model": "mixtral-8x7b", "cluster": MORE}),
    "one port for a machine": (3, {"options": DIVIDED, "cluster": {**MACHINES, "nics_per_host": 1}}),
    "one ring of all": (2, {"strategy": "fsdp", "cluster": {"workers": 8}}),
    "one ring of machines": (3, {"strategy": "zero2"}),
}


def point(copies: int, strategy: str = "megatron", model: str = "bert-large", **tables: Any) -> Point:
    document: dict[str, Any] = {
        "title": "copies",
        "cluster": tables.get("cluster", MACHINES),
        "fabric": {"rate": "100gbit", **tables.get("fabric", {})},
        "model": {"name": model, "device": "h100", "blocks": 4},
        "strategy": {"name": strategy, "options": tables.get("options", {})},
        "part": {"copies": copies},
    }
    if document["cluster"].get("workers_per_host"):
        document["costs"] = {"local_rate": {"value": "450GB/s", "source": "data sheet"}}
    (found,) = resolve(document, "test", "test").points
    return found


def pair(copies: int, **given: Any) -> tuple[CompiledPart, Compiled]:
    found = point(copies, **given)
    return compiled_part(found.resolved), compile_point(found.section.model_copy(update={"part": None}))


def time_s(compiled: Compiled, plan: Plan | None = None) -> float:
    (own,) = compiled.plans.values()
    return estimate(plan or own, compiled.fabric, send_ends=rule_of(compiled.unsent_bytes)).iteration_s


def sent_bytes(compiled: Compiled) -> set[int]:
    """What crosses the network from each rank: the amounts that there are."""
    (plan,) = compiled.plans.values()
    remote = plan.is_remote()
    return set(
        np.bincount(plan.ops.rank[remote], plan.ops.size_bytes[remote], len(plan.rank_role)).astype(int).tolist()
    )


@pytest.mark.parametrize(("copies", "given"), CASES.values(), ids=CASES)
def test_copies_take_as_long_as_all_and_send_as_much(copies: int, given: dict[str, Any]) -> None:
    part, whole = pair(copies, **given)
    ((plan,), (all_of_it,)) = part.plans.values(), whole.plans.values()
    assert len(plan.rank_role) < len(all_of_it.rank_role)
    assert time_s(part) == pytest.approx(time_s(whole), rel=1e-9)
    assert sent_bytes(part) == sent_bytes(whole)
    assert plan.samples == all_of_it.samples
    check(plan, part.relative_times)


def test_a_slow_rank_holds_up_the_others_as_it_would_hold_up_all() -> None:
    part, whole = pair(2, options={**DIVIDED, "tensor": 4})
    ((plan,), (all_of_it,)) = part.plans.values(), whole.plans.values()
    longer_s = time_s(whole, _slower(all_of_it, [0, 1, 2, 3])) - time_s(whole)
    assert longer_s > 1e-4
    assert time_s(part, _slower(plan, [0])) - time_s(part) == pytest.approx(longer_s, rel=0.02)


def _slower(plan: Plan, ranks: list[int]) -> Plan:
    """These ranks compute for a tenth longer."""
    is_theirs = (plan.ops.kind == OpKind.COMPUTE) & np.isin(plan.ops.rank, ranks) & (plan.ops.lane < 64)
    longer = np.where(is_theirs, plan.ops.duration_ns * 11 // 10, plan.ops.duration_ns)
    return replace(plan, ops=replace(plan.ops, duration_ns=longer))


def test_the_plan_says_what_it_has() -> None:
    part, _ = pair(2, options=DIVIDED)
    (plan,) = part.plans.values()
    assert tells(plan.notes[-1], "in part:", "8 of 32 workers", "4 classes", "2 of 4 copies", "2 shares", "one")
    assert part.fabric.hosts == len(plan.rank_role) == 8


@pytest.mark.parametrize(
    ("copies", "given", "reason"),
    [
        (2, CASES["experts"][1], r"some copies would send to themselves.*; take 4"),
        (3, CASES["context"][1], r"groups of 2 copies exchange messages, and it is not a multiple of that; take 2"),
        (8, {"options": DIVIDED}, r"there are 4 copies of each class; take 2, or leave out \[part\]"),
        (
            2,
            {"strategy": "double-tree", "cluster": {"workers": 32}},
            r"2 copies of each class; no number can stand for all: name hosts \(part.hosts\), or leave out",
        ),
        (1_000, {"strategy": "fsdp", "cluster": {"workers": 1024}}, r"would have [0-9,]+ ops, .*: take fewer copies"),
        (2, {"strategy": "kvstore", "cluster": {"workers": 2048}}, r"name hosts .*, of a job of at most 1,024 workers"),
        (2, {"strategy": "ddp", "options": {"channels": 1}}, r"are not copies of one another; name hosts instead"),
        (2, {"strategy": "kvstore"}, r"this one has none, because strategy 'kvstore' has none; name hosts instead"),
    ],
)
def test_what_copies_cannot_stand_for_says_what_to_do(copies: int, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputFault, match=reason):
        compiled_part(point(copies, **given).resolved)


@pytest.mark.parametrize(
    ("fabric", "instead"),
    [
        (
            {"topology": "leaf-spine", "leaves": 4, "spines": 1, "oversubscription": 2},
            "use fabric.topology = 'single', or name hosts",
        ),
        ({"loss": 0.001}, "fabric.loss: what any of the copies loses holds up all of them"),
    ],
)
def test_networks_on_which_copies_differ_are_refused_with_what_to_do(fabric: dict[str, Any], instead: str) -> None:
    (line,) = point(2, options=DIVIDED, fabric=fabric).resolved.misfits
    assert instead in line


def test_hosts_of_thousands_are_refused_with_what_takes_their_place() -> None:
    whole = point(2, options=DIVIDED, cluster={**MACHINES, "workers": 2048})
    section = whole.section.model_copy(update={"part": PartSection(hosts="h1-h4")})
    with pytest.raises(InputFault, match=in_order("'megatron' is not", "part.copies")):
        compiled_part(replace(whole, section=section).resolved)


def test_the_fewest_copies_are_found() -> None:
    assert fewest_copies_of(point(2, options=DIVIDED).resolved) == 2
    assert fewest_copies_of(point(2, options={**DIVIDED, "tensor": 4, "context": 4}, cluster=MORE).resolved) == 4

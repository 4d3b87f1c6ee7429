"""A part of a job takes as long as the whole, passes the checker, and holds the rest back as it would in the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import FluidTimes, estimate
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.runs.compiling import part_of_job
from gradwire.runs.compiling.ideal_times import rule_of
from gradwire.runs.compiling.part_of_job import PART_NOTE, CompiledPart, compiled_part, plans_to_check
from gradwire.runs.stored.spines import Spines
from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.resolution.compilation import Compiled, compile_point
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import check
from gradwire.workloads.parts.border_rates import border_shares
from gradwire.workloads.parts.causes import Times
from tests.shared.parts import in_order, tells

LAYERS = [
    {"name": f"l{number}", "kind": "conv", "size": [size], "forward": "0.2ms", "backward": "0.4ms"}
    for number, size in enumerate(("4MB", "1MB", "8MB", "5MB"))
]
STRATEGIES = ("ring", "ddp", "fsdp", "zero2", "butterfly", "kvstore")
LEAVES = {"topology": "leaf-spine", "leaves": 4, "spines": 2, "oversubscription": 2}


def point(strategy: str = "ddp", hosts: str = "h5-h8", fabric: Mapping[str, Any] | None = None, **tables: Any) -> Point:
    document: dict[str, Any] = {
        "title": "a part",
        "cluster": {"workers": 16},
        "fabric": {"rate": "10gbit", **(fabric or {})},
        "model": {"name": "toy", "batch": 1, "layers": LAYERS},
        "strategy": {"name": strategy, "options": {"bucket_cap": "1MiB"} if strategy == "ddp" else {}},
        "part": {"hosts": hosts},
    }
    (found,) = resolve({**document, **tables}, "test", "test").points
    return found


def times(compiled: Compiled, plan: Plan | None = None) -> FluidTimes:
    (own,) = compiled.plans.values()
    fabric = compiled.fabric
    return estimate(plan or own, fabric, Spines(fabric).spine_of, send_ends=rule_of(compiled.unsent_bytes))


def whole_of(point: Point) -> Compiled:
    return compile_point(point.section.model_copy(update={"part": None}))


def slower(plan: Plan, rank: int) -> Plan:
    """One rank computes for half as long again."""
    is_its = (plan.ops.kind == OpKind.COMPUTE) & (plan.ops.rank == rank)
    longer = np.where(is_its, plan.ops.duration_ns * 3 // 2, plan.ops.duration_ns)
    return replace(plan, ops=replace(plan.ops, duration_ns=longer))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_part_takes_as_long_as_the_whole_and_passes_the_checker(strategy: str) -> None:
    found = point(strategy)
    part, whole = compiled_part(found.resolved), whole_of(found)
    assert times(part).iteration_s == pytest.approx(times(whole).iteration_s, rel=0.006)
    (cut,) = part.plans.values()
    assert len(cut.workers) == 4
    assert tells(cut.notes[-1], f"{PART_NOTE}:", "h5 to h8", "of 16")
    for plan, relative_times in plans_to_check(found.resolved, part):
        check(plan, relative_times)


def test_the_first_iteration_is_as_cold_as_that_of_the_whole() -> None:
    found = point()
    part_s, whole_s = (times(each).iterations_s[0] for each in (compiled_part(found.resolved), whole_of(found)))
    assert part_s == pytest.approx(whole_s, rel=0.01)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_what_is_slow_in_the_part_is_waited_for_by_the_rest(strategy: str) -> None:
    """Stand-ins wait for what they wait for in the whole, so that a slow worker costs as much: they have no clock."""
    found = point(strategy)
    part, whole = compiled_part(found.resolved), whole_of(found)
    ((cut,), (plan,)) = part.plans.values(), whole.plans.values()
    longer_s = times(whole, slower(plan, 5)).iteration_s - times(whole).iteration_s
    assert longer_s > 0.5e-3
    of_part_s = times(part, slower(cut, 1)).iteration_s - times(part).iteration_s
    assert of_part_s == pytest.approx(longer_s, rel=0.05)


@pytest.mark.parametrize("strategy", ["tictac", "vanilla", "double-tree"])
def test_stand_ins_keep_pace_where_others_hold_them_up(strategy: str) -> None:
    """Whole tensors on few servers: those outside send to all workers, and would answer sooner if they had four alone."""
    found = point(strategy, fabric={"rate": "2gbit"})
    part, whole = compiled_part(found.resolved), whole_of(found)
    assert times(part).iteration_s == pytest.approx(times(whole).iteration_s, rel=0.002)
    for plan, relative_times in plans_to_check(found.resolved, part):
        check(plan, relative_times)


def test_ports_of_stand_ins_have_what_other_messages_leave() -> None:
    """Three hosts send to one at once, and one of them and the receiver's port is all that the part has."""
    builder = PlanBuilder("incast")
    ranks = [builder.rank(Role.WORKER, host) for host in range(4)]
    begins = [builder.compute(rank, 1e-3) for rank in ranks]
    ends = [builder.compute(rank) for rank in ranks]
    for rank in ranks[1:]:
        send, recv = builder.message(builder.queue(rank), 0, 4_000_000, traffic_class=0)
        builder.depend(send, begins[rank])
        builder.depend(ends[rank], send)
        builder.depend(ends[0], recv)
    for rank in ranks:
        builder.depend(ends[rank], begins[rank])
        builder.depend(begins[rank], ends[rank], lag=1)
        builder.iteration(rank, begins[rank], ends[rank])
    plan, fabric = builder.build(1e-3, 4), Fabric(hosts=4, rate_bps=10e9)
    found = estimate(plan, fabric, with_ops=True)
    assert found.op_start_s is not None
    assert found.op_end_s is not None
    of_two = Times(found.op_start_s[-2:], found.op_end_s[-2:])
    port_bytes_per_s = 10e9 / 8 * fabric.goodput_share()
    shares = border_shares(plan, [1], np.array([0]), of_two, port_bytes_per_s)
    assert shares == pytest.approx([1 / 3], rel=0.01)


@pytest.mark.parametrize("strategy", ["ddp", "layer-allreduce"])
@pytest.mark.parametrize("tables", [{}, {"costs": {"message_latency": {"value": "5us", "source": "made up"}}}])
def test_a_ring_is_cut_alike_with_the_plan_of_all_ranks_and_without(
    monkeypatch: pytest.MonkeyPatch, strategy: str, tables: dict[str, Any]
) -> None:
    found = point(strategy, **tables)
    by_plan = compiled_part(found.resolved)
    monkeypatch.setattr(part_of_job, "MOST_WHOLE_OPS", 0)
    as_ring = compiled_part(found.resolved)
    assert isinstance(by_plan, CompiledPart)
    assert isinstance(as_ring, CompiledPart)
    assert by_plan.whole is not None
    assert as_ring.whole is None
    (plan,) = as_ring.plans.values()
    check(plan, as_ring.relative_times)
    assert as_ring.fabric.hosts == 5
    assert times(as_ring).iteration_s == pytest.approx(times(by_plan).iteration_s, rel=1e-4)


def test_a_part_of_thousands_has_the_ops_of_its_ranks_alone() -> None:
    found = point(cluster={"workers": 1040}, hosts="h101-h102")
    part = compiled_part(found.resolved)
    (plan,) = part.plans.values()
    buckets = 3
    assert len(plan.ops) < 3 * buckets * 2 * 1040 * 4
    assert part.fabric.hosts == 3
    with pytest.raises(InputFault, match=in_order("one ring", "no classes", "'kvstore'")):
        compiled_part(point("kvstore", cluster={"workers": 1040}).resolved)


def test_a_leaf_keeps_its_uplinks() -> None:
    found = point("fsdp", fabric=LEAVES, part={"leaf": 2})
    part, whole = compiled_part(found.resolved), whole_of(found)
    assert (part.fabric.leaves, part.fabric.hosts) == (3, 12)
    assert part.fabric.uplink_rate_bps == whole.fabric.uplink_rate_bps
    assert times(part).iteration_s == pytest.approx(times(whole).iteration_s, rel=part_of_job.NEAR)


def test_a_part_that_others_hold_up_is_refused() -> None:
    """Uplinks of other leaves are the bottleneck, and the part does not have them."""
    with pytest.raises(InputFault, match=r"part: .*% off"):
        compiled_part(point("halving-doubling", fabric=LEAVES, part={"leaf": 2}).resolved)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"part": {"hosts": "h9-h17"}}, 'part.hosts = "h9-h17": hosts are h1 to h16'),
        ({"part": {"hosts": "h9-h8"}}, "the first comes first"),
        ({"part": {"hosts": "h1-h16"}}, "is the whole network"),
        ({"part": {"leaf": 1}}, 'part.leaf = 1: fabric.topology = "single" has no leaves'),
        ({"fabric": {"rate": "10gbit", **LEAVES}, "part": {"leaf": 5}}, "part.leaf = 5: the network has 4 leaves"),
        ({"part": {}}, "say which hosts"),
        ({"part": {"hosts": "h1-h2", "leaf": 1}}, "say which hosts"),
        ({"fault": {"a": {"kind": "link-down", "link": "h1", "at": "1ms"}}}, r"part: leave out \[fault\]"),
        ({"strategy": "multicast-ps"}, "part: copies of a multicast"),
        ({"fabric": {"rate": "10gbit", "topology": "ring", "switches": 4}}, "a part of a job has hosts on one switch"),
    ],
)
def test_what_cannot_be_a_part_is_said(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(InputFault, match=words):
        _ = misfit_or_compiled(tables)


def misfit_or_compiled(tables: dict[str, Any]) -> Compiled:
    found = point(**tables)
    if found.resolved.misfits:
        raise InputFault("\n".join(found.resolved.misfits))
    return compiled_part(found.resolved)

"""The plan as data: storage, digest, scaling, patterns, and what compiling a large one costs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from gradwire.datatypes.plan import CONTROL_CLASS, OP_DTYPES, Combine, Discipline, OpKind, Plan, Role
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, Fabric
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import compute_time
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.patterns import (
    Transfer,
    all_to_all,
    compile_transfers,
    incast,
    one,
    outcast,
    priority_clash,
    ring,
)
from gradwire.workloads.plan_summary import summary_lines
from gradwire.workloads.stand_in import scaled_fabric, scaled_plan
from tests.shared.examples import examples
from tests.shared.parts import tells
from tests.shared.small_jobs import choices, compiled, dependencies, job_of, jobs, profile_of, with_cell

PROFILE = profile_of([(LayerKind.CONV, [3000, 10]), (LayerKind.OTHER, []), (LayerKind.FC, [40_000])])


def small_plan(seed: int = 1, name: str = "partition-slicing") -> Plan:
    return next(iter(compiled(job_of(PROFILE, Cluster(3, 2), seed=seed), name, {}).values()))


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(job=jobs, choice=choices)
def test_stored_and_read_it_is_the_same(job: Job, choice: tuple[str, Mapping[str, Any]], tmp_path: Path) -> None:
    for plan in compiled(job, *choice).values():
        plan.save(tmp_path / "plan.npz")
        read = Plan.load(tmp_path / "plan.npz")
        assert read.digest() == plan.digest()
        assert (read.name, read.tensors, read.notes) == (plan.name, plan.tensors, plan.notes)
        for column in OP_DTYPES:
            assert getattr(read.ops, column).dtype == OP_DTYPES[column]


def test_digest_is_repeatable_and_depends_on_the_seed() -> None:
    assert small_plan(1).digest() == small_plan(1).digest()
    assert len({small_plan(seed).digest() for seed in range(5)}) == 5


def test_digest_depends_on_every_column_and_scalar() -> None:
    plan = small_plan()
    digests = {plan.digest()}
    changes: list[dict[str, Any]] = [{"name": "x"}, {"compute_s": 1.5}, {"samples": 7}, {"notes": ("x",)}]
    for column in OP_DTYPES:
        digests.add(with_cell(plan, column, 0, int(getattr(plan.ops, column)[0]) + 1).digest())
    for field in fields(Plan):
        value = getattr(plan, field.name)
        if isinstance(value, np.ndarray) and value.size:
            changed = value.copy()
            changed.flat[0] += 1
            changes.append({field.name: changed})
    digests |= {replace(plan, **change).digest() for change in changes}
    arrays = [field for field in fields(Plan) if isinstance(getattr(plan, field.name), np.ndarray)]
    filled = [field for field in arrays if getattr(plan, field.name).size]
    assert len(digests) == 1 + len(OP_DTYPES) + len(filled) + 4


def test_scaling_divides_bytes_and_rate_and_leaves_times() -> None:
    plan, fabric = small_plan(), Fabric(3, 10e9)
    scaled = scaled_plan(plan, 100)
    sends = plan.ops.kind == OpKind.SEND
    assert scaled.ops.size_bytes[sends].tolist() == [
        max(1, size // 100) for size in plan.ops.size_bytes[sends].tolist()
    ]
    assert (scaled.ops.size_bytes[plan.ops.kind == OpKind.COMPUTE] == 0).all()
    assert scaled.ops.duration_ns.tolist() == plan.ops.duration_ns.tolist()
    assert scaled.compute_s == plan.compute_s
    check(scaled)
    assert scaled_plan(plan, 1) is plan
    assert scaled_fabric(fabric, 100).rate_bps == 100e6
    assert scaled_fabric(fabric, 10).gso_bytes == 6553
    assert scaled_fabric(fabric, 10_000).gso_bytes == fabric.mtu_bytes + ETHERNET_HEADER_BYTES


def test_columns_at_once_are_the_same_as_one_by_one() -> None:
    single, many = PlanBuilder("same"), PlanBuilder("same")
    for builder in (single, many):
        builder.rank(Role.SERVER, 0)
    for number in range(5):
        single.compute(0, number * 1e-9, lane=2, layer=number)
    single.depend(1, 0)
    single.depend(2, 1)
    ops = many.add_columns(OpKind.COMPUTE, 5, rank=0, duration_ns=np.arange(5), lane=2, layer=range(5))
    many.depend_columns(np.array(ops[1:3]), np.array(ops[:2]))
    assert single.build(0.0, 0).digest() == many.build(0.0, 0).digest()


def test_a_column_that_does_not_exist_is_refused() -> None:
    builder = PlanBuilder("typo")
    builder.rank(Role.SERVER, 0)
    with pytest.raises(TypeError, match="duration"):
        builder.add_columns(OpKind.COMPUTE, 2, rank=0, duration=5)


def test_a_million_ops_are_quick() -> None:
    count = 1_000_000
    builder = PlanBuilder("large")
    rank = builder.rank(Role.SERVER, 0)
    start_s = time.process_time()
    ops = np.asarray(builder.add_columns(OpKind.COMPUTE, count, rank=rank, duration_ns=np.arange(count), lane=0))
    builder.depend_columns(ops[1:], ops[:-1])
    plan = builder.build(0.0, 0)
    assert time.process_time() - start_s < 30
    assert (len(plan.ops), len(plan.dep_op)) == (count, count - 1)


@pytest.mark.parametrize("name", ["vanilla", "partition-slicing"])
def test_a_large_cluster_compiles_in_seconds(name: str) -> None:
    profile = model("vgg16")
    job = Job(profile, compute_time(profile, "h100"), Cluster(32, 32), profile.batch)
    start_s = time.process_time()
    plan = next(iter(compiled(job, name, {}).values()))
    assert time.process_time() - start_s < 60
    arrays = [getattr(plan, f.name) for f in fields(plan)] + [getattr(plan.ops, f.name) for f in fields(plan.ops)]
    assert sum(array.nbytes for array in arrays if isinstance(array, np.ndarray)) < 500e6
    assert plan.hosts == 32
    assert int(plan.chunk_bytes.sum()) == profile.size_bytes()


@pytest.mark.parametrize(
    ("transfers", "count"),
    [(one(1000), 1), (ring(4, 1000), 4), (incast(4, 1000), 3), (outcast(4, 1000), 3), (all_to_all(4, 1000), 12)],
)
def test_patterns(transfers: list[Transfer], count: int) -> None:
    plan = compile_transfers("pattern", 4, transfers)
    check(plan)
    data = plan.is_remote() & (plan.ops.traffic_class >= 0)
    assert int(data.sum()) == count
    assert plan.ops.size_bytes[data].tolist() == [1000] * count
    assert len(plan.begin_op) == len(plan.end_op) == 4


def test_every_op_of_a_pattern_waits_for_the_barrier() -> None:
    """An op without dependencies would run as soon as an iteration opens, before the one before has ended."""
    plan = compile_transfers("one", 4, one(1000))
    waiting = {op for op, _, _ in dependencies(plan)}
    alone = [op for op in range(len(plan.ops)) if op not in waiting and plan.ops.kind[op] != OpKind.RECV]
    assert alone == []


@pytest.mark.parametrize("at_switch", [False, True])
def test_priority_clash_meets_at_one_port(*, at_switch: bool) -> None:
    high, low = priority_clash(1_000_000, 1e9, at_switch=at_switch)
    assert (high.dst == low.dst) == at_switch
    assert (high.src == low.src) != at_switch
    assert (high.traffic_class, low.traffic_class) == (0, 1)
    assert low.delay_s == pytest.approx(0.1 * high.size_bytes * 8 / 1e9)
    plan = compile_transfers("clash", 3, [high, low])
    check(plan)
    lows = plan.ops.size_bytes[plan.is_remote() & (plan.ops.traffic_class == 1)]
    assert (len(lows), int(lows.sum())) == (low.messages, low.size_bytes)


def test_summary_says_what_crosses_the_network() -> None:
    plan, fabric = small_plan(), Fabric(3, 10e9)
    lines = "\n".join(summary_lines(plan, fabric))
    assert tells(lines, "3 workers", "2 servers", "3 hosts", f"{int(plan.is_remote().sum()):,} messages")
    assert all(part in lines for part in ("control", "class 0", "busiest port: h"))


def test_builder_keeps_what_it_is_told() -> None:
    builder = PlanBuilder("kept")
    builder.notes.append("a note")
    worker, server = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    chunk = builder.chunk(builder.tensor("weights"), 400)
    queue = builder.queue(worker, Discipline.PRIORITY)
    op = builder.compute(worker, 2e-3, layer=4)
    send, recv = builder.message(queue, server, 400, chunk=chunk, combine=Combine.ADD, traffic_class=1, latency_s=1e-6)
    added = builder.reduce(server, 400, 1e9, chunk=chunk)
    token, _ = builder.message(queue, server, CONTROL_BYTES)
    builder.depend(send, op)
    builder.iteration(worker, op, op)
    plan = builder.build(0.5, 64)
    ops = plan.ops
    assert ops.duration_ns[[op, send, added]].tolist() == [2_000_000, 1000, 400]
    assert (ops.message[send], ops.message[recv]) == (send, send)
    assert (ops.peer[send], ops.peer[recv]) == (server, worker)
    assert ops.traffic_class[[send, token]].tolist() == [1, CONTROL_CLASS]
    assert (plan.compute_s, plan.samples, plan.notes) == (0.5, 64, ("a note",))
    assert plan.workers.tolist() == [worker]
    assert plan.is_remote().tolist() == [number in (send, token) for number in range(len(ops))]

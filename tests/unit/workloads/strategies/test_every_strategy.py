"""Whatever the catalogue holds: plans are accepted, and refused when an op goes missing, comes twice, or waits for its
own result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import Int64, OpKind, Plan
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.strategy_registry import strategy
from tests.shared.examples import examples
from tests.shared.small_jobs import (
    compiled,
    dependencies,
    job_of,
    profile_of,
    training_strategies,
    with_copies,
    with_dependencies,
    without_op,
)

RATE_BPS = 1e9
NAMES = training_strategies()
layers = st.lists(
    st.tuples(st.sampled_from([LayerKind.CONV, LayerKind.FC]), st.lists(st.integers(1, 400), min_size=1, max_size=2)),
    min_size=1,
    max_size=4,
)
each = pytest.mark.parametrize("name", NAMES)
few = settings(max_examples=examples(8))


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Powers of two, which every allreduce takes; servers on hosts of their own, which every aggregation takes."""
    return Cluster(draw(st.sampled_from([2, 4])), draw(st.integers(1, 3)), colocated=False)


def plan_of(name: str, cluster: Cluster, chosen: list[tuple[LayerKind, list[int]]], seed: int) -> Plan:
    how = strategy(name)
    cluster = cluster if how.needs_servers else replace(cluster, servers=0)
    job: Job = job_of(profile_of(chosen), cluster, seed=seed)
    fabric = Fabric(hosts=cluster.hosts, rate_bps=RATE_BPS, aggregators=how.aggregators(how.options()))
    return next(iter(compiled(replace(job, rate_bps=RATE_BPS, fabric=fabric), name, {}).values()))


def needed(plan: Plan) -> Int64:
    """All ops but those that only wait: timers on a stream of their own, and ends of a step that take no time. Without
    one, a plan is another plan, not a broken one: who holds all of a tensor of two parameters need not wait for a
    message without any.
    """
    ops, named = plan.ops, np.concatenate([plan.begin_op, plan.end_op, plan.produces[:, 0], plan.consumes[:, 0]])
    computes = ops.kind == OpKind.COMPUTE
    timer = computes & (ops.lane != 0)
    join = computes & (ops.duration_ns == 0) & ~np.isin(np.arange(len(ops)), named)
    return np.flatnonzero(~(timer | join))


@each
@few
@given(cluster=clusters(), chosen=layers, seed=st.integers(0, 99), pick=st.integers(0, 10_000))
def test_a_plan_is_accepted_and_without_any_op_refused(
    name: str, cluster: Cluster, chosen: list[tuple[LayerKind, list[int]]], seed: int, pick: int
) -> None:
    plan = plan_of(name, cluster, chosen, seed)
    check(plan)
    ops = needed(plan)
    with pytest.raises(PlanError):
        check(without_op(plan, int(ops[pick % len(ops)])))


@each
@few
@given(cluster=clusters(), chosen=layers, seed=st.integers(0, 99), pick=st.integers(0, 10_000))
def test_a_message_that_goes_twice_is_refused(
    name: str, cluster: Cluster, chosen: list[tuple[LayerKind, list[int]]], seed: int, pick: int
) -> None:
    plan = plan_of(name, cluster, chosen, seed)
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND)
    send = int(sends[pick % len(sends)])
    receives = np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.message == send)).tolist()
    with pytest.raises(PlanError):
        check(with_copies(plan, [send, *receives]))


@each
@few
@given(cluster=clusters(), chosen=layers, seed=st.integers(0, 99), pick=st.integers(0, 10_000))
def test_an_op_before_what_it_waits_for_is_refused(
    name: str, cluster: Cluster, chosen: list[tuple[LayerKind, list[int]]], seed: int, pick: int
) -> None:
    """Both orders at once are a cycle."""
    plan = plan_of(name, cluster, chosen, seed)
    deps = [dep for dep in dependencies(plan) if dep[2] == 0]
    op, on, _ = deps[pick % len(deps)]
    with pytest.raises(PlanError):
        check(with_dependencies(plan, [*dependencies(plan), (on, op, 0)]))


@each
@few
@given(cluster=clusters(), chosen=layers, seed=st.integers(0, 99), pick=st.integers(0, 10_000))
def test_a_gradient_sent_before_it_is_there_is_refused(
    name: str, cluster: Cluster, chosen: list[tuple[LayerKind, list[int]]], seed: int, pick: int
) -> None:
    """The send that waits for the op that yields a chunk goes before that op."""
    plan = plan_of(name, cluster, chosen, seed)
    yields = set(plan.produces[:, 0].tolist())
    sends = plan.ops.kind == OpKind.SEND
    direct = [dep for dep in dependencies(plan) if dep[1] in yields and sends[dep[0]] and plan.ops.chunk[dep[0]] >= 0]
    if not direct:
        return
    op, on, _ = direct[pick % len(direct)]
    swapped = [dep for dep in dependencies(plan) if dep[:2] != (op, on)]
    before = [(op, other, lag) for waiting, other, lag in dependencies(plan) if waiting == on]
    with pytest.raises(PlanError):
        check(with_dependencies(plan, [*swapped, *before, (on, op, 0)]))

"""Machine code finds in a plan what numpy finds: nothing in sound ones, and the same kind of defect, order by order, in broken ones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import OpKind, Plan
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.symbolic import defects as choosing
from gradwire.workloads.symbolic.graph import Graph
from gradwire.workloads.symbolic.holdings import Holdings
from gradwire.workloads.symbolic.machine_code import first_defects
from gradwire.workloads.symbolic.orders import ORDERS
from gradwire.workloads.symbolic.side_by_side import Run
from tests.shared.small_allreduces import allreduces, plan_of
from tests.shared.small_jobs import dependencies, job_of, profile_of, with_cell, with_dependencies
from tests.unit.workloads.strategies.parallel.test_megatron import three_ways

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def both(plan: Plan) -> list[tuple[str | None, str | None]]:
    """What either says in each order, without numbers: of several wrong ops in a step, each may name another one first."""
    graph = Graph(plan)
    found = []
    for order in ORDERS:
        urgency = order(graph)
        in_numpy, in_code = Run(graph, [urgency]).defect(), first_defects(graph, [urgency], Holdings(graph.plan, 1))
        found.append((_kind(in_numpy.what if in_numpy else None), _kind(in_code[0].what if in_code else None)))
    return found


def _kind(what: str | None) -> str | None:
    return re.sub(r"-?\d+", "", what) if what else None


@quick
@given(job_and_choice=allreduces(most_workers=5), lost=st.integers(0, 10_000), kind=st.sampled_from(["dep", "yield", "how"]))  # fmt: skip
def test_both_find_the_same(job_and_choice: tuple[Job, tuple[str, dict[str, object]]], lost: int, kind: str) -> None:
    job, (name, options) = job_and_choice
    plan = plan_of(job, name, options)
    assert both(plan) == [(None, None)] * len(ORDERS)
    recvs = np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.chunk >= 0))
    assume(len(recvs) > 0)
    if kind == "dep":
        deps = dependencies(plan)
        broken = with_dependencies(plan, deps[: lost % len(deps)] + deps[lost % len(deps) + 1 :])
    elif kind == "yield":
        object.__setattr__(plan, "produces", np.delete(plan.produces, lost % len(plan.produces), axis=0))
        broken = plan
    else:
        op = int(recvs[lost % len(recvs)])
        broken = with_cell(plan, "combine", op, 5 - int(plan.ops.combine[op]))
    for in_numpy, in_code in both(broken):
        assert (in_numpy is None) == (in_code is None)


def test_groups_cycles_and_more_workers_than_a_word_has_bits() -> None:
    grouped = three_ways()
    assert both(grouped) == [(None, None)] * len(ORDERS)
    op, on, _ = next(dep for dep in dependencies(grouped) if dep[2] == 0)
    cyclic = with_dependencies(grouped, [*dependencies(grouped), (on, op, 0)])
    assert set(both(cyclic)) == {(_kind(_never()), _kind(_never()))}
    wide = plan_of(job_of(profile_of([(LayerKind.FC, [70])]), Cluster(70)), "ring")
    assert both(wide) == [(None, None)] * len(ORDERS)
    needed = [dep for dep in dependencies(wide) if wide.ops.kind[dep[0]] == OpKind.SEND]
    found = both(with_dependencies(wide, [dep for dep in dependencies(wide) if dep != needed[-1]]))
    assert all((one is None) == (other is None) for one, other in found)
    assert any(one for one, _ in found)


def _never() -> str:
    return "never becomes ready: the plan has a cycle, or waits for something that never happens"


def test_large_plans_are_checked_by_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the checker says the same of a plan, whoever has executed it."""
    plan = plan_of(job_of(profile_of([(LayerKind.FC, [70])]), Cluster(4)), "ring")
    sends = [dep for dep in dependencies(plan) if plan.ops.kind[dep[0]] == OpKind.SEND]
    kept = [dep for dep in dependencies(plan) if dep != sends[0]]
    broken = with_dependencies(plan, [*kept, (sends[0][0], int(plan.begin_op[0]), 0)])
    said = []
    for most in (10**9, 0):
        monkeypatch.setattr(choosing, "MOST_OPS_IN_NUMPY", most)
        check(plan)
        with pytest.raises(PlanError) as refused:
            check(broken)
        said.append(str(refused.value))
    assert said[0] == said[1]

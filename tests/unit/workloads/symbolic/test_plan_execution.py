"""Executing a plan finds what a Ledger says of each op: the same in Python and in machine code, which are the same
loops."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import Combine, Contributions, Int64, Ledger, OpKind, Plan
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.symbolic import verification as choosing
from gradwire.workloads.symbolic.defects import Defect, never_ready
from gradwire.workloads.symbolic.plan_execution import executions
from gradwire.workloads.symbolic.verification import ORDERS
from gradwire.workloads.symbolic.wait_graph import Holdings, WaitGraph
from tests.shared.examples import examples
from tests.shared.small_allreduces import allreduces, plan_of
from tests.shared.small_jobs import dependencies, job_of, profile_of, with_cell, with_dependencies
from tests.unit.workloads.strategies.test_megatron import three_ways

quick = settings(max_examples=examples(60))


def executed(plan: Plan) -> list[list[Defect]]:
    """What is found in each order, the same either way."""
    graph = WaitGraph(plan)
    outcomes = []
    for order in ORDERS:
        held = [Holdings(plan), Holdings(plan)]
        in_python, in_code = (
            [run.defect for run in executions(graph, [order(graph)], holdings, in_code=in_code) if run.defect]
            for holdings, in_code in zip(held, (False, True), strict=True)
        )
        assert in_python == in_code
        assert (held[0].summed == held[1].summed).all()
        assert bool(in_python) == is_refused_by_a_ledger(graph, order(graph))
        outcomes.append(in_python)
    return outcomes


def is_refused_by_a_ledger(graph: WaitGraph, urgency: Int64) -> bool:
    """Whether a Ledger refuses anything while the plan is executed in this order, or an op never becomes ready."""
    run, count = OnLedger(graph.plan), graph.count
    waits_for = graph.waits_for.tolist()
    ready = defaultdict[tuple[int, int], list[int]](list)
    for node in np.flatnonzero(graph.waits_for == 0).tolist():
        ready[int(urgency[node % count]), node // count].append(node)
    while ready:
        most_urgent = min(ready)
        batch, iteration = ready.pop(most_urgent), most_urgent[1]
        if not run.takes([node % count for node in batch], iteration):
            return True
        for after in graph.successors(np.array(batch)).tolist():
            waits_for[after] -= 1
            if not waits_for[after]:
                ready[int(urgency[after % count]), after // count].append(after)
    return any(waits_for)


class OnLedger:
    """What ops do to a Ledger, step by step."""

    def __init__(self, plan: Plan) -> None:
        ops, self.number = plan.ops, {int(rank): index for index, rank in enumerate(plan.workers)}
        self.ledger = Ledger(len(self.number), plan.contributors())
        self.rank, self.chunk, self.message = ops.rank.tolist(), ops.chunk.tolist(), ops.message.tolist()
        self.combine = [Combine(number) if number else None for number in ops.combine.tolist()]
        moves = ops.chunk >= 0
        self.sends, self.recvs = (
            set(np.flatnonzero(moves & (ops.kind == kind)).tolist()) for kind in (OpKind.SEND, OpKind.RECV)
        )
        self.how = {self.message[op]: self.combine[op] for op in self.recvs}
        self.needs, self.makes = defaultdict[int, list[tuple[int, int]]](list), defaultdict[int, list[int]](list)
        for pairs, age in ((plan.consumes, 1), (plan.needs, 0)):
            for op, chunk in pairs.tolist():
                self.needs[op].append((chunk, age))
        for op, chunk in plan.produces.tolist():
            self.makes[op].append(chunk)
        self.sent: dict[tuple[int, int], Contributions] = {}

    def takes(self, ops: list[int], iteration: int) -> bool:
        """Whether all is well with a step."""
        ledger, rank, chunk = self.ledger, self.rank, self.chunk
        held = [(ledger.complete(rank[op], wanted), iteration - age) for op in ops for wanted, age in self.needs[op]]
        if any(one != other for one, other in held):
            return False
        for op in self.sends & set(ops):
            self.sent[op, iteration] = ledger.outgoing(rank[op], chunk[op], self.how.get(op) or Combine.ADD)
        for op in (op for op in ops if op in self.recvs):
            how = self.combine[op]
            assert how is not None
            if ledger.arrive(rank[op], chunk[op], how, self.sent[self.message[op], iteration]):
                return False
        for op in ops:
            for made in self.makes[op]:
                ledger.produce(rank[op], made, self.number.get(rank[op]), iteration)
        return True


@quick
@given(
    job_and_choice=allreduces(most_workers=5),
    lost=st.integers(0, 10_000),
    kind=st.sampled_from(["dep", "yield", "how"]),
)
def test_both_find_the_same(job_and_choice: tuple[Job, tuple[str, dict[str, object]]], lost: int, kind: str) -> None:
    job, (name, options) = job_and_choice
    plan = plan_of(job, name, options)
    assert executed(plan) == [[]] * len(ORDERS)
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
    executed(broken)


def test_groups_cycles_and_more_workers_than_a_word_has_bits() -> None:
    grouped = three_ways()
    assert executed(grouped) == [[]] * len(ORDERS)
    op, on, _ = next(dep for dep in dependencies(grouped) if dep[2] == 0)
    cyclic = with_dependencies(grouped, [*dependencies(grouped), (on, op, 0)])
    assert {defect.what for outcome in executed(cyclic) for defect in outcome} == {never_ready(0, 0).what}
    assert all(executed(cyclic))
    wide = plan_of(job_of(profile_of([(LayerKind.FC, [70])]), Cluster(70)), "ring")
    assert executed(wide) == [[]] * len(ORDERS)
    needed = [dep for dep in dependencies(wide) if wide.ops.kind[dep[0]] == OpKind.SEND]
    assert any(executed(with_dependencies(wide, [dep for dep in dependencies(wide) if dep != needed[-1]])))


def test_large_plans_are_checked_by_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the checker says the same of a plan, whoever has executed it."""
    plan = plan_of(job_of(profile_of([(LayerKind.FC, [70])]), Cluster(4)), "ring")
    sends = [dep for dep in dependencies(plan) if plan.ops.kind[dep[0]] == OpKind.SEND]
    kept = [dep for dep in dependencies(plan) if dep != sends[0]]
    broken = with_dependencies(plan, [*kept, (sends[0][0], int(plan.begin_op[0]), 0)])
    said = []
    for most in (10**9, 0):
        monkeypatch.setattr(choosing, "MOST_OPS_IN_PYTHON", most)
        check(plan)
        with pytest.raises(PlanError) as refused:
            check(broken)
        said.append(str(refused.value))
    assert said[0] == said[1]

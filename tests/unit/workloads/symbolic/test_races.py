"""Races are found whatever the order: by what waits for what, alike in Python and in machine code, and never in a plan
that has none."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import Combine, Discipline, OpKind, Plan, Role
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.symbolic import accesses
from gradwire.workloads.symbolic import verification as choosing
from gradwire.workloads.symbolic.defects import Defect
from gradwire.workloads.symbolic.plan_execution import Execution, executions
from gradwire.workloads.symbolic.precedence import PrecedenceInCode, PrecedenceInPython, has_cycle
from gradwire.workloads.symbolic.verification import ORDERS, race
from gradwire.workloads.symbolic.wait_graph import Holdings, WaitGraph
from tests.mutations.bases import plan_of as plan_of_base
from tests.mutations.plans import goes_on_before_its_own_part_is_complete
from tests.shared.examples import examples
from tests.shared.parts import in_order
from tests.shared.small_allreduces import allreduces, plan_of
from tests.shared.small_jobs import choices, compiled, dependencies, job_of, jobs, profile_of, with_dependencies

quick = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
RACE = "nothing makes either wait for the other"
REPLAYS = 12
"""Random orders that a plan is executed in."""


def executed(
    plan: Plan, urgencies: list[np.typing.NDArray[np.int64]] | None = None
) -> tuple[WaitGraph, Holdings, list[Execution]]:
    graph, holdings = WaitGraph(plan), Holdings(plan)
    orders = urgencies or [order(graph) for order in ORDERS]
    return graph, holdings, list(executions(graph, orders, holdings, in_code=False))


def is_sound(runs: list[Execution]) -> bool:
    return not any(run.defect for run in runs)


def race_of(plan: Plan) -> Defect | None:
    """The race that both find, if any, in a plan that orders show nothing of."""
    graph, holdings, shown = executed(plan)
    assert is_sound(shown)
    races = [race(graph, holdings, in_code=in_code) for in_code in (False, True)]
    assert (races[0] is None) == (races[1] is None)
    return races[0]


def without(plan: Plan, number: int) -> Plan:
    deps = dependencies(plan)
    at = number % len(deps)
    return with_dependencies(plan, deps[:at] + deps[at + 1 :])


def summed_by_one(*, waits_for: str) -> Plan:
    """Three workers' gradients of one chunk are added by the first, which sends the result to the others once the
    additions' "recv" or "reduce" has ended."""
    builder = PlanBuilder("owner")
    ranks = [builder.rank(Role.WORKER, host) for host in range(3)]
    chunk = builder.chunk(builder.tensor("weights"), 8)
    queues = {(a, b): builder.queue(a) for a in ranks for b in ranks if a != b}
    begin, backward, end = ([builder.compute(rank) for rank in ranks] for _ in range(3))
    for rank in ranks:
        builder.depend(backward[rank], begin[rank])
        builder.depend(end[rank], backward[rank])
        builder.depend(begin[rank], end[rank], lag=1)
        builder.iteration(rank, begin[rank], end[rank])
        builder.produces(backward[rank], chunk)
        builder.consumes(begin[rank], chunk)
    sums = []
    for rank in ranks[1:]:
        send, recv = builder.message(queues[rank, 0], 0, 8, chunk=chunk, combine=Combine.ADD, traffic_class=0)
        added = builder.reduce(0, 8, 1e9, chunk=chunk)
        builder.depend(send, backward[rank])
        builder.depend(recv, backward[0])
        builder.depend(added, recv)
        builder.depend(end[0], added)
        sums.append({"recv": recv, "reduce": added}[waits_for])
    for rank in ranks[1:]:
        send, recv = builder.message(queues[0, rank], rank, 8, chunk=chunk, combine=Combine.COPY, traffic_class=0)
        builder.depend(send, *sums)
        builder.depend(end[rank], recv)
        builder.depend(end[0], send)
    return builder.build(0.0, 3)


@pytest.mark.parametrize("most_in_python", [10**9, 0])
def test_an_addition_that_takes_time_is_there_when_it_has_ended(
    most_in_python: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "MOST_OPS_IN_PYTHON", most_in_python)
    check(summed_by_one(waits_for="reduce"))
    with pytest.raises(PlanError, match=in_order("(SEND at rank 0", "chunk 0", "(REDUCE at rank 0", RACE)):
        check(summed_by_one(waits_for="recv"))


@pytest.mark.parametrize("most_in_python", [10**9, 0])
def test_a_worker_that_goes_on_before_its_own_sum_is_complete(
    most_in_python: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a ring's owner, which passes on what it has summed up: no order that is tried lets its last message come that
    late."""
    monkeypatch.setattr(choosing, "MOST_OPS_IN_PYTHON", most_in_python)
    broken = goes_on_before_its_own_part_is_complete(plan_of_base("ring"))
    assert is_sound(executed(broken)[2])
    with pytest.raises(PlanError, match=RACE):
        check(broken)


def test_what_a_stream_that_adds_does_besides_is_no_addition() -> None:
    """MXNet's server copies what it answers with between its additions, in any order with other workers' answers."""
    job = job_of(profile_of([(LayerKind.FC, [64, 8])]), Cluster(3, 2), costs=Costs(copy_bytes_per_s=1e6))
    assert race_of(next(iter(compiled(job, "kvstore", {}).values()))) is None


@quick
@given(job_and_choice=allreduces(most_workers=5), lost=st.integers(0, 10_000), seed=st.integers(0, 99))
def test_without_a_race_no_order_shows_a_defect(
    job_and_choice: tuple[Job, tuple[str, dict[str, object]]], lost: int, seed: int
) -> None:
    job, (name, options) = job_and_choice
    plan = plan_of(job, name, options)
    assert race_of(plan) is None
    assert_alike_in_any_order(without(plan, lost), seed)


@quick
@given(job=jobs, choice=choices, lost=st.integers(0, 10_000), seed=st.integers(0, 99))
def test_without_a_race_no_order_of_a_parameter_server_shows_a_defect(
    job: Job, choice: tuple[str, dict[str, object]], lost: int, seed: int
) -> None:
    plan = next(iter(compiled(job, *choice).values()))
    assert race_of(plan) is None
    assert_alike_in_any_order(without(plan, lost), seed)


def assert_alike_in_any_order(plan: Plan, seed: int) -> None:
    """Either a race is found, or each message carries the same in every order."""
    graph, holdings, shown = executed(plan)
    assume(is_sound(shown) and race(graph, holdings, in_code=False) is None)
    draw = np.random.default_rng(seed)
    anyhow = [draw.integers(0, 50, len(plan.ops)) for _ in range(REPLAYS)]
    _, _, again = executed(plan, anyhow)
    assert is_sound(again)
    for run in again:
        assert (run.sent_iteration == again[0].sent_iteration).all()
        assert (run.sent_workers == again[0].sent_workers).all()


@quick
@given(
    edges=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=90),
    asked=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), min_size=1, max_size=60),
)
def test_what_comes_before_what_is_what_paths_say(edges: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    source, target = (np.array([pick(edge) for edge in edges], np.int32) for pick in (min, max))
    source, target = source[source != target], target[source != target]
    reached = np.eye(40, dtype=np.bool_)
    for node in reversed(range(40)):
        for to in target[source == node]:
            reached[node] |= reached[to]
    first, then = np.array(asked, np.int32).T
    for kind in (PrecedenceInPython, PrecedenceInCode):
        order = kind(40, source, target)
        assert (np.diff(order.place[np.stack([source, target])], axis=0) > 0).all()
        places = order.place[first], order.place[then]
        assert order.ordered(*places).tolist() == reached[first, then].tolist()
        assert not (order.near(*places) & ~reached[first, then]).any()


@quick
@given(edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_a_cycle_is_found_either_way(edges: list[tuple[int, int]]) -> None:
    source, target = np.array(edges, np.int64).reshape(-1, 2).T
    reached = np.zeros((10, 10), np.bool_)
    reached[source, target] = True
    for middle in range(10):
        reached |= reached[:, middle : middle + 1] & reached[middle]
    for in_code in (False, True):
        assert has_cycle(10, source, target, in_code=in_code) == reached.diagonal().any()


@pytest.mark.parametrize(("name", "most"), [("MOST_ACCESSES", 7), ("MOST_PRODUCTS", 3)])
def test_portions_find_the_same(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accesses, name, most)
    plan = plan_of(job_of(profile_of([(LayerKind.FC, [64, 8])]), Cluster(4)), "ddp")
    assert race_of(plan) is None
    assert race_of(summed_by_one(waits_for="recv")) is not None


def test_queues_of_all_pairs_are_ordered_in_one_pass() -> None:
    """A queue for each of 65,536 pairs: to look for the messages of each among all takes half a minute."""
    job = job_of(profile_of([(LayerKind.FC, [1000])] * 2), Cluster(256, 256))
    (plan,) = compiled(job, "tictac", {}).values()
    begun_s = time.process_time()
    graph = WaitGraph(plan)
    assert time.process_time() - begun_s < 2
    counting = plan.queue_discipline[plan.ops.lane] == Discipline.COUNTER
    assert len(graph.source) == len(plan.dep_op) + int((plan.ops.message >= 0).sum()) // 2 + int(
        (counting & (plan.ops.kind == OpKind.SEND)).sum()
    )

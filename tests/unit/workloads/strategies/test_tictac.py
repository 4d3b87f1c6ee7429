"""TicTac's plans: accepted by the checker whatever the model, in the order that was asked for, and refused once
broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gradwire.agents.interpreter import Interpreter
from gradwire.datatypes.plan import Combine, Discipline, Int64, OpKind, Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.ordered_transfers import compile_ordered
from gradwire.workloads.engines.placement import whole_tensors
from gradwire.workloads.engines.worker import add_graph_passes
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Costs, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.strategies.tictac import (
    LATE_SHARE,
    almost_ordered,
    operation_graph,
    tac,
    tic,
    transfer_orders,
)
from tests.shared.examples import examples
from tests.shared.simulation import Simulation, all_ranks
from tests.shared.small_jobs import (
    compiled,
    dependencies,
    job_of,
    profile_of,
    with_copies,
    with_dependencies,
    without_op,
)

ORDERS = ("tic", "tac", "layer", "reverse", "random", "almost-layer", "shared-random")
CHOICES: list[tuple[str, dict[str, Any]]] = [
    *(("tictac", {"order": order, "workload": workload}) for order in ORDERS for workload in ("training", "inference")),
    *(("tictac", {"enforcement": "chain", "workload": workload}) for workload in ("training", "inference")),
    ("tictac-slicing", {"slice_parameters": 50}),
    ("tictac-slicing", {"slice_parameters": 0, "scheduling_cost_per_slice": "1ms"}),
]
quick = settings(max_examples=examples(40))


@st.composite
def branched(draw: st.DrawFn) -> Profile:
    """1 to 6 layers of 0 to 2 tensors, each reading up to two earlier ones."""
    layers = []
    for number in range(draw(st.integers(1, 6))):
        inputs = draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        sizes = draw(st.lists(st.integers(1, 400), min_size=int(number == 0), max_size=2))
        tensors = tuple(Tensor(f"layer{number}/{i}", parameters) for i, parameters in enumerate(sizes))
        layers.append(Layer(f"layer{number}", LayerKind.CONV, tensors, 1.0, tuple(sorted(inputs))))
    return Profile("branched", tuple(layers), 4, "made up")


def rated(profile: Profile, cluster: Cluster, seed: int, costs: Costs) -> Job:
    return replace(job_of(profile, cluster, seed=seed, costs=costs), rate_bps=1e6)


jobs = st.builds(
    rated,
    branched(),
    st.builds(Cluster, st.integers(1, 4), st.integers(1, 3), st.booleans()),
    st.integers(0, 1000),
    st.sampled_from([Costs(), Costs(aggregation_bytes_per_s=1e6, message_latency_s=1e-5)]),
)
choices = st.sampled_from(CHOICES)


def only(plans: dict[str, Plan]) -> Plan:
    (plan,) = plans.values()
    return plan


def chunk_sends(plan: Plan, role: Role) -> Int64:
    """SENDs of chunks by workers (pushes) or servers (pulls)."""
    ops = plan.ops
    return np.flatnonzero((ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (plan.rank_role[ops.rank] == role))


def pulled_by(plan: Plan, worker: int, server: int | None = None) -> list[int]:
    """Chunks of a worker in the order in which (one of the) servers' queues hand them over."""
    ops = plan.ops
    pulls = chunk_sends(plan, Role.SERVER)
    mine = pulls[(ops.peer[pulls] == worker) & ((server is None) | (ops.rank[pulls] == server))]
    chunks: list[int] = ops.chunk[mine[np.argsort(ops.order[mine])]].tolist()
    return chunks


@quick
@given(job=jobs, choice=choices)
def test_plans_are_accepted_and_carry_the_model_once_each_way(job: Job, choice: tuple[str, dict[str, Any]]) -> None:
    plan = only(compiled(job, *choice))
    check(plan)
    ops, model_bytes = plan.ops, job.profile.parameters * BYTES_PER_PARAMETER
    inference = choice[1].get("workload") == "inference"
    for worker in plan.workers.tolist():
        pulls, pushes = chunk_sends(plan, Role.SERVER), chunk_sends(plan, Role.WORKER)
        assert ops.size_bytes[pulls[ops.peer[pulls] == worker]].sum() == model_bytes
        assert ops.size_bytes[pushes[ops.rank[pushes] == worker]].sum() == (0 if inference else model_bytes)
        busy_ns = ops.duration_ns[(ops.kind == OpKind.COMPUTE) & (ops.rank == worker)].sum()
        assert busy_ns == pytest.approx(plan.compute_s * 1e9, abs=len(ops))
    assert plan.compute_s == pytest.approx(sum(job.compute.forward_s) if inference else job.compute_s)
    assert (ops.traffic_class[(ops.kind == OpKind.SEND) & (ops.chunk >= 0)] == 0).all()
    assert only(compiled(job, *choice)).digest() == plan.digest()


@quick
@given(job=jobs, choice=choices)
def test_plans_replay_to_the_end(job: Job, choice: tuple[str, dict[str, Any]]) -> None:
    """The interpreter checks every contribution as the agents do."""
    plan = only(compiled(job, *choice))
    log = Simulation(plan, [Interpreter(plan, all_ranks(plan), 3)]).run()
    assert len(log.op) == 3 * len(plan.ops)


@pytest.mark.parametrize("kind", [OpKind.SEND, OpKind.RECV])
@quick
@given(job=jobs, choice=choices, pick=st.integers(0, 10_000))
def test_a_missing_or_doubled_message_is_refused(
    kind: OpKind, job: Job, choice: tuple[str, dict[str, Any]], pick: int
) -> None:
    plan = only(compiled(job, *choice))
    candidates = np.flatnonzero(plan.ops.kind == kind)
    op = int(candidates[pick % len(candidates)])
    with pytest.raises(PlanError):
        check(without_op(plan, op))
    with pytest.raises(PlanError):
        check(with_copies(plan, [op]))


@quick
@given(job=jobs, choice=choices, pick=st.integers(0, 10_000))
def test_computing_before_a_transfer_is_refused(job: Job, choice: tuple[str, dict[str, Any]], pick: int) -> None:
    plan = only(compiled(job, *choice))
    # A lone worker's own gradient is the whole sum, which it holds without a pull.
    assume(len(plan.workers) > 1 or choice[1].get("workload") == "inference")
    recvs = np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.combine == Combine.COPY))
    recv = int(recvs[pick % len(recvs)])
    with pytest.raises(PlanError, match="needs chunk"):
        check(with_dependencies(plan, [dep for dep in dependencies(plan) if dep[1] != recv]))


@quick
@given(job=jobs, choice=choices, pick=st.integers(0, 10_000))
def test_a_reordered_counting_queue_is_still_complete_but_a_contradicting_dependency_is_refused(
    job: Job, choice: tuple[str, dict[str, Any]], pick: int
) -> None:
    plan = only(compiled(job, *choice))
    queues = np.flatnonzero(plan.queue_discipline == Discipline.COUNTER)
    ops = plan.ops
    sends = [np.flatnonzero((ops.kind == OpKind.SEND) & (ops.lane == queue)) for queue in queues]
    long = [of_queue[np.argsort(ops.order[of_queue])] for of_queue in sends if len(of_queue) > 1]
    assume(long)
    queue = long[pick % len(long)]
    with pytest.raises(PlanError, match="never becomes ready"):
        check(with_dependencies(plan, [*dependencies(plan), (int(queue[0]), int(queue[-1]), 0)]))


DIAMOND = Profile(
    "diamond",
    tuple(
        Layer(name, LayerKind.CONV, (Tensor(f"{name}/w", size),), 1.0, inputs)
        for name, size, inputs in (
            ("stem", 100, ()),
            ("deep1", 300, (0,)),
            ("deep2", 50, (1,)),
            ("side", 10, (0,)),
            ("join", 80, (2, 3)),
        )
    ),
    4,
    "made up",
)


@pytest.mark.parametrize("order", ["tic", "tac"])
@pytest.mark.parametrize("workload", ["training", "inference"])
def test_each_server_counts_its_part_of_the_common_order(order: str, workload: str) -> None:
    job = rated(DIAMOND, Cluster(3, 2, False), 1, Costs())
    graph = operation_graph(job, timed=order == "tac", inference=workload == "inference")
    expected = tac(graph) if order == "tac" else tic(graph)
    plan = only(compiled(job, "tictac", {"order": order, "workload": workload}))
    assert (plan.queue_discipline[plan.ops.lane[chunk_sends(plan, Role.SERVER)]] == Discipline.COUNTER).all()
    for worker in plan.workers.tolist():
        assert pulled_by(plan, worker) == expected
        for number, server in enumerate(np.flatnonzero(plan.rank_role == Role.SERVER).tolist()):
            assert pulled_by(plan, worker, server) == [chunk for chunk in expected if chunk % 2 == number]


def test_a_chain_asks_for_each_tensor_once_the_one_before_is_there() -> None:
    plan = only(compiled(rated(DIAMOND, Cluster(2, 2, False), 1, Costs()), "tictac", {"enforcement": "chain"}))
    ops = plan.ops
    order = tic(operation_graph(rated(DIAMOND, Cluster(2, 2, False), 1, Costs()), timed=False, inference=False))
    recvs = {
        int(ops.chunk[r]): r for r in np.flatnonzero((ops.kind == OpKind.RECV) & (ops.rank == 0) & (ops.chunk >= 0))
    }
    asks = np.flatnonzero((ops.kind == OpKind.SEND) & (ops.rank == 0) & (ops.chunk < 0)).tolist()
    after = {on for op, on, _ in dependencies(plan) if op in asks}
    assert [recvs[chunk] in after for chunk in order] == [True] * (len(order) - 1) + [False]


def test_activation_copies_every_tensor_in_a_thread_of_its_own() -> None:
    """In order, but the copies of all begin together: a small tensor is handed over before a large one."""
    job = rated(DIAMOND, Cluster(2, 1, False), 1, Costs(copy_bytes_per_s=1e6))
    plan = only(compiled(job, "tictac", {"enforcement": "activation"}))
    ops = plan.ops
    copies = np.flatnonzero(
        (ops.kind == OpKind.COMPUTE) & (ops.duration_ns > 0) & (plan.rank_role[ops.rank] == Role.SERVER)
    )
    assert sorted(ops.duration_ns[copies].tolist()) == sorted(2 * (plan.chunk_bytes * 1000).tolist())
    assert len(set(ops.lane[copies].tolist())) == len(copies)
    assert (plan.queue_discipline[ops.lane[chunk_sends(plan, Role.SERVER)]] == Discipline.FIFO).all()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"enforcement": "chain", "order": "random"}, "enforced nowhere"),
        ({"enforcement": "chain", "order": "almost-layer"}, "'almost-layer' is enforced nowhere"),
        ({"late_share": 0.1}, "only order 'almost-layer' has late tensors, not 'tic'"),
        ({"enforcement": "activation"}, r"costs\.copy_rate"),
    ],
)
def test_enforcements_that_make_no_sense_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputFault, match=says):
        compiled(rated(DIAMOND, Cluster(2, 1), 1, Costs()), "tictac", options)


def test_one_channel_serves_a_worker_and_server() -> None:
    plan = only(compiled(rated(DIAMOND, Cluster(3, 2, False), 1, Costs()), "tictac", {}))
    pulls = chunk_sends(plan, Role.SERVER)
    pairs = set(zip(plan.ops.rank[pulls].tolist(), plan.ops.peer[pulls].tolist(), strict=True))
    lanes = set(plan.ops.lane[pulls].tolist())
    assert len(pairs) == len(lanes) == 6


def test_the_baseline_differs_between_workers_and_seeds_and_the_enforced_orders_do_not() -> None:
    profile = profile_of([(LayerKind.CONV, [7, 8]) for _ in range(8)])
    by_seed = [transfer_orders(rated(profile, Cluster(2, 1), seed, Costs()), "random") for seed in (1, 2)]
    assert len({tuple(order) for orders in by_seed for order in orders}) == 4
    shared = [transfer_orders(rated(profile, Cluster(2, 1), seed, Costs()), "shared-random") for seed in (1, 2)]
    assert all(first == second for first, second in shared)
    assert shared[0] != shared[1]
    assert all(sorted(order) == list(range(16)) for orders in by_seed + shared for order in orders)
    plan = only(compiled(rated(profile, Cluster(2, 1), 1, Costs()), "tictac", {"order": "random"}))
    assert (plan.queue_discipline == Discipline.FIFO).all()
    assert pulled_by(plan, 0) == by_seed[0][0]


def test_almost_ordered_tensors_are_late_as_often_as_asked_and_come_at_any_later_place() -> None:
    """By hand: a tensor that is late by its draw stays where it is if the drawn place is before the next tensor's."""
    count, draws = 20, 4000
    orders = [almost_ordered(count, 0.1, str(seed)) for seed in range(draws)]
    assert all(sorted(order) == list(range(count)) for order in orders)
    first = np.array([order.index(0) for order in orders])
    assert (first == 0).mean() == pytest.approx(0.905, abs=0.02)
    assert first[first > 0].mean() == pytest.approx(9.5, abs=0.7)
    assert first.max() == count - 1
    assert almost_ordered(count, 0.0, "x") == list(range(count))
    assert len({tuple(almost_ordered(count, 1.0, str(seed))) for seed in range(50)}) == 50


def test_almost_ordered_baselines_differ_between_workers_and_seeds_and_are_enforced_nowhere() -> None:
    profile = profile_of([(LayerKind.CONV, [7, 8]) for _ in range(8)])
    jobs = [rated(profile, Cluster(2, 1), seed, Costs()) for seed in (1, 2)]
    orders = [order for job in jobs for order in transfer_orders(job, "almost-layer", late_share=0.5)]
    assert len({tuple(order) for order in orders}) == 4
    plan = only(compiled(jobs[0], "tictac", {"order": "almost-layer", "late_share": 0.5}))
    assert (plan.queue_discipline == Discipline.FIFO).all()
    assert pulled_by(plan, 0) == orders[0]


def test_late_tensors_are_calibrated_on_the_printed_count_of_orders() -> None:
    """Section 2.2: 493 orders in 1000 iterations of VGG-16. A thousand draws vary by 14; five thousands on average by 6."""
    tensors = len(model("vgg16").tensors)
    assert tensors == 32

    def mean_count(share: float, tensors: int = tensors) -> float:
        counts = [len({tuple(almost_ordered(tensors, share, f"{n}/{i}")) for i in range(1000)}) for n in range(5)]
        return float(np.mean(counts))

    assert mean_count(LATE_SHARE) == pytest.approx(493, abs=20)
    assert mean_count(LATE_SHARE - 0.004) < 493 - 20
    assert mean_count(LATE_SHARE + 0.004) > 493 + 20
    for name in ("resnet50-v2", "inception-v3"):
        assert mean_count(LATE_SHARE, len(model(name).tensors)) > 970, name


def test_tac_weighs_transfers_by_the_link_rate() -> None:
    """Two branches: a small tensor with 1 ms of work behind it, and one four times as large with 2 ms."""
    sizes = {"small": 25, "large": 100}
    layers = tuple(Layer(name, LayerKind.FC, (Tensor(name, size),), 1.0, ()) for name, size in sizes.items())
    job = rated(Profile("two", layers, 4, "made up"), Cluster(1, 1, False), 1, Costs())
    assert operation_graph(job, timed=True, inference=True).recv_ns == (800_000, 3_200_000)
    # Fast: work hides either transfer, so the sooner it begins the better. Slow: whatever comes last has its work
    # exposed.
    assert transfer_orders(replace(job, rate_bps=1e9), "tac", inference=True)[0] == [0, 1]
    assert transfer_orders(replace(job, rate_bps=1e4), "tac", inference=True)[0] == [1, 0]
    delayed = replace(job, costs=Costs(message_latency_s=1e-3))
    assert operation_graph(delayed, timed=True, inference=True).recv_ns == (1_800_000, 4_200_000)


def test_tac_without_a_link_rate_is_refused() -> None:
    job = job_of(DIAMOND, Cluster(1, 1))
    with pytest.raises(InputFault, match=r"fabric\.rate"):
        compiled(job, "tictac", {"order": "tac"})
    compiled(job, "tictac", {"order": "tic"})


def test_scheduling_costs_every_slice_to_a_worker_and_no_push() -> None:
    job = job_of(DIAMOND, Cluster(2, 2), costs=Costs(message_latency_s=1e-5))
    plan = only(compiled(job, "tictac-slicing", {"slice_parameters": 20, "scheduling_cost_per_slice": "9.4ms"}))
    assert set(plan.ops.duration_ns[chunk_sends(plan, Role.SERVER)].tolist()) == {9_410_000}
    assert set(plan.ops.duration_ns[chunk_sends(plan, Role.WORKER)].tolist()) == {10_000}
    assert (plan.chunk_bytes <= 20 * BYTES_PER_PARAMETER).all()
    assert pulled_by(plan, 0) == list(range(len(plan.chunk_bytes)))


def test_branches_of_the_passes_wait_for_their_own_inputs_only() -> None:
    builder = PlanBuilder("passes")
    rank = builder.rank(Role.WORKER, 0)
    passes = add_graph_passes(builder, job_of(DIAMOND, Cluster(1)), rank)
    builder.iteration(rank, passes.begin, passes.backward[0])
    plan = builder.build(0.0, 1)
    before: dict[int, set[int]] = {op: set() for op in range(len(plan.ops))}
    for op, on, _ in dependencies(plan):
        before[op].add(on)
    stem, deep1, deep2, side, join = passes.forward
    assert before[stem] == {passes.begin}
    assert (before[deep1], before[deep2], before[side]) == ({stem}, {deep1}, {stem})
    assert before[join] == {deep2, side}
    backward = passes.backward
    assert before[backward[4]] == {join}
    assert before[backward[3]] == before[backward[2]] == {backward[4]}
    assert before[backward[0]] == {backward[1], backward[3]}
    assert plan.ops.order[list(passes.forward)].tolist() == [0, 1, 2, 3, 4]
    assert plan.ops.order[list(backward)].tolist() == [9, 8, 7, 6, 5]


def test_parameters_from_outside_must_not_be_contributed_to() -> None:
    job = job_of(DIAMOND, Cluster(2, 1, False))
    pieces = whole_tensors(DIAMOND, 1)
    plan = compile_ordered(job, pieces, [list(range(5))] * 2, "inference", inference=True)
    check(plan)
    with pytest.raises(PlanError, match="from outside"):
        check(replace(plan, produces=np.vstack([plan.produces, [plan.end_op[0], 0]])))
    with pytest.raises(PlanError, match=r"needs chunk|never contributes"):
        check(replace(plan, produces=plan.produces[1:]))

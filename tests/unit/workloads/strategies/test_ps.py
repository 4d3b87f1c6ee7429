"""The parameter servers of P3, MXNet and NetOps: placement, order, what waits for what, and bytes against closed
forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gradwire.agents.interpreter import Interpreter
from gradwire.datatypes.plan import CONTROL_CLASS, Combine, Contributions, Discipline, OpKind, Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.placement import (
    by_shares,
    full_slices,
    greedy_by_size,
    in_messages,
    kvstore_keys,
    whole_tensors,
)
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.small_jobs import compiled, dependencies, job_of, jobs, profile_of, with_dependencies

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "kvstore": [
        {},
        {"split_parameters": 100, "updates": "parallel"},
        {"split_parameters": 1, "control_in_line": True, "wait_free": False},
    ],
    "p3": [{"slice_parameters": 50}, {"wait_free": False, "updates": "parallel"}, {"slice_parameters": 0}],
    "p3-slicing": [{"slice_parameters": 50}, {"slice_parameters": 90, "delivery": "pull"}],
    "netops-ps": [
        {},
        {"distribution": "block", "placement": "greedy"},
        {"distribution": "random", "placement": "split", "wait_free": False},
        {"message_parameters": 60},
        {"barrier": False, "message_parameters": 60},
        {"barrier": False, "wait_free": False},
    ],
}
choices = st.sampled_from([(name, options) for name, variants in OPTIONS.items() for options in variants])
quick = settings(max_examples=examples(40))
tensors_of = st.lists(st.integers(1, 5000), min_size=1, max_size=8)


def only(plans: Mapping[str, Plan]) -> Plan:
    (plan,) = plans.values()
    return plan


def fc_profile(sizes: list[int]) -> Any:
    return profile_of([(LayerKind.FC, [size]) for size in sizes])


@quick
@given(job=jobs, choice=choices)
def test_every_plan_is_accepted(job: Job, choice: tuple[str, dict[str, Any]]) -> None:
    plan = only(compiled(job, *choice))
    check(plan)
    assert plan.samples == job.samples
    assert plan.digest() == only(compiled(job, *choice)).digest()


@quick
@given(job=jobs, choice=choices)
def test_each_parameter_goes_to_a_server_and_back_once_for_each_worker(
    job: Job, choice: tuple[str, dict[str, Any]]
) -> None:
    """Data bytes: W times the model up and as much down, whatever the placement; those between ranks of one host stay
    off the network."""
    plan = only(compiled(job, *choice))
    ops = plan.ops
    data = (ops.kind == OpKind.SEND) & (ops.chunk >= 0)
    from_worker = plan.rank_role[ops.rank] == Role.WORKER
    expected = job.cluster.workers * job.profile.size_bytes()
    assert ops.size_bytes[data & from_worker].sum() == expected
    assert ops.size_bytes[data & ~from_worker].sum() == expected
    assert plan.chunk_bytes.sum() == job.profile.size_bytes()


@settings(quick, max_examples=examples(25))
@given(job=jobs, choice=choices, pick=st.integers(0, 10**9))
def test_a_forward_op_that_does_not_wait_for_its_parameters_is_found(
    job: Job, choice: tuple[str, dict[str, Any]], pick: int
) -> None:
    assume(job.cluster.workers > 1)  # a single worker's own gradient is complete
    plan = only(compiled(job, *choice))
    deps = dependencies(plan)
    vital = [number for number, (op, on, _) in enumerate(deps) if is_vital(plan, op, on)]
    gone = vital[pick % len(vital)]
    with pytest.raises(PlanError):
        check(with_dependencies(plan, deps[:gone] + deps[gone + 1 :]))


def is_vital(plan: Plan, op: int, on: int) -> bool:
    """A forward op waits for the arrival of what it consumes."""
    ops = plan.ops
    arrives = ops.kind[on] == OpKind.RECV and ops.combine[on] == Combine.COPY
    return bool(arrives and ops.kind[op] == OpKind.COMPUTE)


@quick
@given(sizes=tensors_of, servers=st.integers(1, 9), bound=st.integers(1, 6000))
def test_kvstore_keys(sizes: list[int], servers: int, bound: int) -> None:
    pieces = kvstore_keys(fc_profile(sizes), servers, bound)
    for key, size in enumerate(sizes):
        mine = [piece for piece in pieces if piece.tensor == key]
        assert sum(piece.parameters for piece in mine) == size
        if size < bound:
            assert [piece.server for piece in mine] == [key * 9973 % servers]
        else:
            assert [piece.server for piece in mine] == list(range(min(servers, size)))
            assert max(p.parameters for p in mine) - min(p.parameters for p in mine) <= 1


@quick
@given(sizes=tensors_of, servers=st.integers(1, 9), limit=st.integers(1, 6000))
def test_full_slices_go_round_the_servers(sizes: list[int], servers: int, limit: int) -> None:
    pieces = full_slices(fc_profile(sizes), servers, limit)
    assert [piece.server for piece in pieces] == [number % servers for number in range(len(pieces))]
    for number, size in enumerate(sizes):
        cut = [piece.parameters for piece in pieces if piece.tensor == number]
        assert sum(cut) == size
        assert all(length == limit for length in cut[:-1])
        assert 0 < cut[-1] <= limit


def test_no_slices_are_whole_tensors() -> None:
    profile = fc_profile([10, 2000, 3])
    assert full_slices(profile, 2, 0) == whole_tensors(profile, 2)


def test_p3_cuts_vgg19_into_2902_slices() -> None:
    """By hand: FC6 2056, FC7 336, FC8 82 weights' slices, 3 biases, 16 biases and 409 slices of convolutions."""
    pieces = full_slices(model("vgg19"), 8, 50_000)
    sizes = [tensor.parameters for tensor in model("vgg19").tensors]
    assert len(pieces) == sum(-(-size // 50_000) for size in sizes) == 2902
    load = Counter(piece.server for piece in pieces)
    assert max(load.values()) - min(load.values()) <= 1


@quick
@given(sizes=tensors_of, weights=st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(lambda w: sum(w) > 0))
def test_shares_come_out_to_the_parameter(sizes: list[int], weights: list[int]) -> None:
    profile = fc_profile(sizes)
    shares = [weight / sum(weights) for weight in weights]
    pieces = by_shares(profile, len(shares), shares)
    assert [piece.tensor for piece in pieces] == sorted(piece.tensor for piece in pieces)
    held, cut = Counter[int](), Counter[int]()
    for piece in pieces:
        held[piece.server] += piece.parameters
        cut[piece.tensor] += piece.parameters
    assert [cut[number] for number in range(len(sizes))] == sizes
    for server, share in enumerate(shares):
        assert held[server] == pytest.approx(share * sum(sizes), abs=1)


def test_netops_table_7_leaves_the_largest_tensor_whole() -> None:
    """VGG-16 on 4 servers: 0.918 on the fullest and 4e-5 on the emptiest; FC6 (0.827) fits on the fullest in one
    piece."""
    profile = model("vgg16-299")
    shares = [0.918, 0.04098, 0.04098, 4e-5]
    pieces = by_shares(profile, 4, shares)
    largest = max(range(len(profile.tensors)), key=lambda number: profile.tensors[number].parameters)
    assert [piece.server for piece in pieces if piece.tensor == largest] == [0]
    assert len(pieces) <= len(profile.tensors) + 3


@pytest.mark.parametrize("shares", [[0.5], [0.7, 0.1], [1.2, -0.2]])
def test_wrong_shares_are_refused(shares: list[float]) -> None:
    with pytest.raises(InputFault, match="shares"):
        by_shares(fc_profile([10]), 2, shares)


@quick
@given(sizes=tensors_of, servers=st.integers(1, 6))
def test_greedy_placement_is_as_even_as_whole_tensors_allow(sizes: list[int], servers: int) -> None:
    """The fullest server holds at most the largest tensor more than the emptiest, and no tensor is cut."""
    pieces = greedy_by_size(fc_profile(sizes), servers)
    assert [piece.parameters for piece in pieces] == sizes
    load = Counter(dict.fromkeys(range(servers), 0))
    for piece in pieces:
        load[piece.server] += piece.parameters
    assert max(load.values()) - min(load.values()) <= max(sizes)


def test_messages_stay_on_their_server() -> None:
    pieces = in_messages(whole_tensors(fc_profile([100, 30]), 2), 40)
    assert [(p.tensor, p.server, p.parameters) for p in pieces] == [(0, 0, 34), (0, 0, 33), (0, 0, 33), (1, 1, 30)]


def sends_of(plan: Plan, role: Role, *, data: bool = True) -> list[int]:
    ops = plan.ops
    wanted = (ops.kind == OpKind.SEND) & (plan.rank_role[ops.rank] == role) & ((ops.chunk >= 0) == data)
    return np.flatnonzero(wanted).tolist()


def three_layers(sizes: tuple[int, int, int] = (40, 120, 40), workers: int = 2, servers: int = 1) -> Job:
    profile = profile_of([(LayerKind.FC, [size]) for size in sizes])
    return job_of(profile, Cluster(workers, servers, colocated=False))


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("round-robin", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]),
        ("block", [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]),
    ],
)
def test_netops_orders_are_strict(distribution: str, expected: list[tuple[int, int]]) -> None:
    """(parameter, worker) in the order in which the one server sends them."""
    plan = only(compiled(three_layers(), "netops-ps", {"distribution": distribution}))
    sends = sends_of(plan, Role.SERVER)
    assert len({int(plan.ops.lane[op]) for op in sends}) == 1
    assert plan.queue_discipline[plan.ops.lane[sends[0]]] == Discipline.COUNTER
    in_order = sorted(sends, key=lambda op: int(plan.ops.order[op]))
    assert [(int(plan.ops.chunk[op]), int(plan.ops.peer[op])) for op in in_order] == expected


def test_netops_sends_a_parameter_to_all_workers_at_once() -> None:
    """Each worker has a queue, and all queues the same order, so that copies of a parameter share the server's port."""
    plan = only(compiled(three_layers(workers=3), "netops-ps", {"distribution": "together"}))
    sends = sends_of(plan, Role.SERVER)
    by_worker = {worker: [op for op in sends if plan.ops.peer[op] == worker] for worker in range(3)}
    assert len({int(plan.ops.lane[op]) for op in sends}) == 3
    for worker, own in by_worker.items():
        assert len({int(plan.ops.lane[op]) for op in own}) == 1, worker
        in_order = sorted(own, key=lambda op: int(plan.ops.order[op]))
        assert [int(plan.ops.chunk[op]) for op in in_order] == [0, 1, 2]


def test_p3_has_one_priority_queue_a_rank_in_forward_order() -> None:
    plan = only(compiled(three_layers(workers=3, servers=2), "p3", {"slice_parameters": 40}))
    ops = plan.ops
    for role in (Role.WORKER, Role.SERVER):
        sends = sends_of(plan, role)
        lane_of = {int(ops.rank[op]): int(ops.lane[op]) for op in sends}
        assert all(int(ops.lane[op]) == lane_of[int(ops.rank[op])] for op in sends)
        assert len(set(lane_of.values())) == (3 if role == Role.WORKER else 2)
        assert all(plan.queue_discipline[lane] == Discipline.PRIORITY for lane in lane_of.values())
        layers = [int(ops.layer[op]) for op in sorted(sends, key=lambda op: int(ops.order[op]))]
        assert layers == sorted(layers)
    assert not sends_of(plan, Role.WORKER, data=False)
    assert not sends_of(plan, Role.SERVER, data=False)


def test_p3_servers_do_not_all_begin_with_the_same_worker() -> None:
    plan = only(compiled(three_layers(workers=3, servers=3), "p3", {"slice_parameters": 40}))
    ops = plan.ops
    first = {}
    for op in sorted(sends_of(plan, Role.SERVER), key=lambda op: -int(ops.order[op])):
        first[int(ops.rank[op])] = int(ops.peer[op])
    assert first == {3: 0, 4: 1, 5: 2}


def test_slicing_without_priority_sends_in_backward_order() -> None:
    plan = only(compiled(three_layers(workers=1), "p3-slicing", {"slice_parameters": 40}))
    ops, sends = plan.ops, sends_of(plan, Role.WORKER)
    assert plan.queue_discipline[ops.lane[sends[0]]] == Discipline.FIFO
    in_order = sorted(sends, key=lambda op: int(ops.order[op]))
    assert [int(ops.layer[op]) for op in in_order] == [2, 1, 1, 1, 0]


def test_kvstore_asks_for_a_split_tensor_once_all_its_servers_have_notified() -> None:
    plan = only(compiled(three_layers(workers=1, servers=2), "kvstore", {"split_parameters": 100}))
    ops = plan.ops
    assert [int(chunk) for chunk in plan.chunk_tensor] == [0, 1, 1, 2]
    requests = sends_of(plan, Role.WORKER, data=False)
    assert len(requests) == 4
    assert set(ops.traffic_class[requests].tolist()) == {CONTROL_CLASS}
    on: dict[int, set[int]] = {}
    for op, other, _ in dependencies(plan):
        on.setdefault(op, set()).add(other)
    heard = {
        request: {int(ops.rank[ops.message[recv]]) for known in on[request] for recv in on[known]}
        for request in requests
    }
    servers = {int(ops.order[request]): names for request, names in heard.items()}
    # Keys 0 and 2 go whole to servers 0 and 0 (key * 9973 mod 2), the two parts of tensor 1 to servers 0 and 1 (ranks
    # 1 and 2).
    assert [servers[key] for key in sorted(servers)] == [{1}, {1, 2}, {1, 2}, {1}]


def test_control_in_line_shares_the_flow_of_the_data() -> None:
    plan = only(compiled(three_layers(), "kvstore", {"control_in_line": True}))
    ops = plan.ops
    assert set(ops.traffic_class[ops.kind == OpKind.SEND].tolist()) == {0}
    lanes = {(int(ops.rank[op]), int(ops.peer[op])): int(ops.lane[op]) for op in sends_of(plan, Role.SERVER)}
    assert all(
        lanes[int(ops.rank[op]), int(ops.peer[op])] == ops.lane[op] for op in sends_of(plan, Role.SERVER, data=False)
    )


@pytest.mark.parametrize("name", ["kvstore", "p3", "netops-ps"])
def test_without_wait_free_backpropagation_pushes_wait_for_the_whole_pass(name: str) -> None:
    plan = only(compiled(three_layers(), name, {"wait_free": False}))
    pushes = set(sends_of(plan, Role.WORKER))
    waits = [on for op, on, _ in dependencies(plan) if op in pushes]
    assert {int(plan.ops.layer[on]) for on in waits} == {0}
    assert len(waits) == len(pushes)


def test_no_barrier_lets_a_forward_op_wait_for_its_own_keys_only() -> None:
    for name, options in (("kvstore", {}), ("p3", {}), ("netops-ps", {"barrier": False})):
        plan = only(compiled(three_layers(), name, options))
        ops = plan.ops
        waits = [(op, on) for op, on, lag in dependencies(plan) if lag and ops.kind[on] == OpKind.RECV]
        assert len(waits) == 2 * 3
        assert all(ops.layer[op] == ops.layer[on] for op, on in waits)


def test_orders_without_the_barrier_and_stray_shares_are_refused() -> None:
    with pytest.raises(InputFault, match="barrier"):
        compiled(three_layers(), "netops-ps", {"barrier": False, "distribution": "block"})
    with pytest.raises(InputFault, match="shares"):
        compiled(three_layers(), "netops-ps", {"shares": [1.0]})


@pytest.mark.parametrize(("updates", "lanes"), [("serial", 1), ("parallel", 3)])
def test_updates_take_one_stream_or_one_a_key(updates: str, lanes: int) -> None:
    plan = only(compiled(three_layers(), "kvstore", {"updates": updates}))
    ops = plan.ops
    assert len(np.unique(ops.lane[ops.kind == OpKind.REDUCE])) == lanes


def test_a_p3_server_that_falls_behind_adds_the_most_urgent_slice_first() -> None:
    """Three slices arrive in backward order; the one being added is not interrupted, then the first layer's goes."""
    profile = profile_of([(LayerKind.FC, [1000])] * 3)
    job = job_of(profile, Cluster(1, 1, colocated=False), costs=Costs(aggregation_bytes_per_s=4e6))
    for name, expected in (("p3", [2, 0, 1]), ("p3-slicing", [2, 1, 0])):
        plan = only(compiled(job, name, {}))
        interpreter = Interpreter(plan, {1}, 1)
        interpreter.start(0)
        pushes = {int(plan.ops.layer[op]): op for op in sends_of(plan, Role.WORKER)}
        for now_ns, layer in enumerate((2, 1, 0)):
            interpreter.arrived(pushes[layer], 1, 0, Contributions(0, 1), 0, now_ns)
        updated = []
        for now_ns in (1_000_000, 2_000_000, 3_000_000):
            interpreter.advance(now_ns)
            outbox = interpreter.take_outbox()
            updated += [int(plan.ops.layer[message.op]) for message in outbox]
            for message in outbox:
                interpreter.sent(message.iteration, message.op, now_ns, now_ns)
        assert updated == expected


def test_a_kvstore_server_copies_its_answers_in_the_thread_that_adds() -> None:
    """Two workers: two additions and two copies a key, at 4e6 and 1e6 bytes per second. P3's server sends without a
    copy."""
    costs = Costs(aggregation_bytes_per_s=4e6, copy_bytes_per_s=1e6)
    job = job_of(fc_profile([1000, 500]), Cluster(2, 1, colocated=False), costs=costs)
    for name, expected_ms in (("kvstore", {(0, 1.0): 2, (0, 4.0): 2, (1, 0.5): 2, (1, 2.0): 2}), ("p3", None)):
        plan = only(compiled(job, name, {}))
        ops = plan.ops
        timed = np.flatnonzero(ops.kind == OpKind.REDUCE)
        assert len(np.unique(ops.lane[timed])) == 1
        counted = Counter((int(ops.chunk[op]), int(ops.duration_ns[op]) / 1e6) for op in timed)
        assert counted == (expected_ms or {(0, 1.0): 2, (1, 0.5): 2})
        answers = [op for op in sends_of(plan, Role.SERVER) if ops.chunk[op] >= 0]
        copied = [op for op, on, _ in dependencies(plan) if op in answers and ops.duration_ns[on] >= 2e6]
        assert len(copied) == (len(answers) if name == "kvstore" else 0)

"""Allreduces: bytes and times are the closed forms, the checker accepts every plan, and finds what is broken in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gradwire.analysis.bounds import critical_path_s
from gradwire.datatypes.plan import Combine, OpKind, Plan
from gradwire.faults import InputFault, InternalFault
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.collectives import butterfly, halving_doubling, hierarchical_ring, ring
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.parts import in_order
from tests.shared.simulation import replay, times
from tests.shared.small_allreduces import (
    FABRIC,
    GOODPUT_BYTES_PER_S,
    PAIRED,
    Choice,
    allreduces,
    first_send_ns,
    one_tensor,
    plan_of,
    quick,
    sent_bytes,
)
from tests.shared.small_jobs import (
    dependencies,
    job_of,
    profile_of,
    with_cell,
    with_copies,
    with_dependencies,
    without_op,
)


@quick
@given(case=allreduces())
def test_the_checker_accepts_every_plan(case: tuple[Job, Choice]) -> None:
    job, (name, options) = case
    check(plan_of(job, name, options))


@settings(quick, max_examples=examples(20))
@given(case=allreduces(6))
def test_every_plan_replays_to_its_end(case: tuple[Job, Choice]) -> None:
    job, (name, options) = case
    plan = plan_of(job, name, options)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)


@quick
@given(case=allreduces())
def test_chunks_are_the_model_once_in_the_wires_format(case: tuple[Job, Choice]) -> None:
    job, (name, options) = case
    assume(name != "csc")
    plan = plan_of(job, name, options)
    assert plan.chunk_bytes.sum() == job.profile.parameters * {"fp32": 4, "fp16": 2}[options["wire"]]
    assert plan.chunk_bytes.min() > 0


@given(workers=st.integers(2, 9), units=st.integers(1, 50), segments=st.integers(1, 3))
@quick
def test_a_ring_sends_twice_the_bucket_less_two_parts(workers: int, units: int, segments: int) -> None:
    values = workers * segments * units
    plan = plan_of(one_tensor(values, workers), "ring", {"segments": segments})
    assert sent_bytes(plan).tolist() == [2 * (workers - 1) * 4 * values // workers] * workers


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_paired_exchanges_send_what_their_closed_forms_say(workers: int) -> None:
    job = one_tensor(workers * 30, workers)
    size_bytes = workers * 30 * 4
    for name in ("butterfly", "butterfly-mixing"):
        assert sent_bytes(plan_of(job, name)).tolist() == [int(math.log2(workers)) * size_bytes] * workers
    halving = sent_bytes(plan_of(job, "halving-doubling"))
    assert halving.tolist() == [2 * (workers - 1) * size_bytes // workers] * workers


@pytest.mark.parametrize("inside", ["reduce-broadcast", "scatter-gather"])
@pytest.mark.parametrize(("machines", "per_host"), [(2, 2), (3, 4), (4, 1), (1, 4)])
def test_a_hierarchical_ring_sends_a_ring_of_machines_and_all_twice_inside(
    inside: str, machines: int, per_host: int
) -> None:
    """A chain hands the whole bucket on G - 1 times each way, a ring's 2 (G - 1) steps move 1/G of it at each of G
    ranks."""
    values = machines * per_host * 12
    job = one_tensor(values, machines * per_host, per_host=per_host)
    plan = plan_of(job, "hierarchical-ring", {"inside": inside})
    assert sent_bytes(plan).tolist() == [2 * (machines - 1) * 4 * values // machines] * machines
    assert sent_bytes(plan, remote=False).tolist() == [2 * (per_host - 1) * 4 * values] * machines


def test_a_flat_ring_over_machines_has_one_flow_in_and_one_out() -> None:
    plan = plan_of(one_tensor(80, 8, per_host=4), "ring")
    ops = plan.ops
    remote = np.flatnonzero(plan.is_remote() & (ops.chunk >= 0))
    pairs = set(zip(ops.rank[remote].tolist(), ops.peer[remote].tolist(), strict=True))
    assert pairs == {(3, 4), (7, 0)}


def test_without_messaging_whole_parameters_go_twice_around_from_different_workers() -> None:
    plan = plan_of(one_tensor(50, 3, layers=2), "ring", {"messaging": False})
    ops = plan.ops
    sends = np.flatnonzero((ops.kind == OpKind.SEND) & (ops.chunk >= 0))
    hops = {
        plan.tensors[tensor]: [int(ops.rank[s]) for s in sends if plan.chunk_tensor[ops.chunk[s]] == tensor]
        for tensor in (0, 1)
    }
    assert hops == {"layer0/0": [0, 1, 2, 0], "layer1/0": [1, 2, 0, 1]}
    assert set(ops.size_bytes[sends].tolist()) == {200}


@pytest.mark.parametrize(
    ("name", "options", "times_bucket", "steps"),
    [
        ("ring", {}, 2 * 7 / 8, 14),
        ("ring", {"messaging": False}, 14, 14),
        ("butterfly", {}, 3, 3),
        ("butterfly-mixing", {}, 3, 3),
        ("halving-doubling", {}, 6 / 8, 6),
    ],
)
def test_critical_paths_of_one_tensor(name: str, options: Mapping[str, Any], times_bucket: float, steps: int) -> None:
    """NetOps, section 8.2.1: 2 (W - 1) times the parameter without messaging, 2 (W - 1) / W with it; log2(W) for a
    butterfly.

    A critical path sees one of the parts that halving-doubling sends in a step: six eighths.
    """
    alpha_s = 1e-4
    job = one_tensor(80_000, 8, costs=Costs(message_latency_s=alpha_s))
    plan = plan_of(job, name, {"forward_waits": "barrier", **options})
    wire_s = times_bucket * 320_000 / GOODPUT_BYTES_PER_S
    assert critical_path_s(plan, FABRIC) == pytest.approx(job.compute_s + steps * alpha_s + wire_s, rel=1e-3)


def spans_ns(plan: Plan, rank: int) -> dict[int, tuple[int, int]]:
    """Of each tensor: from the first to the last message that a rank sends of it, in iteration 1 of a simulated
    replay."""
    when = times(replay(plan, 2))
    ops = plan.ops
    spans: dict[int, tuple[int, int]] = {}
    for op in np.flatnonzero((ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (ops.rank == rank)).tolist():
        tensor = int(plan.chunk_tensor[ops.chunk[op]])
        _, start, end = when[1, op]
        first, last = spans.get(tensor, (start, end))
        spans[tensor] = min(first, start), max(last, end)
    return spans


def test_buckets_go_one_after_the_other_unless_they_are_concurrent() -> None:
    job = one_tensor(40_000, 4, layers=3)
    serial = sorted(spans_ns(plan_of(job, "layer-allreduce"), 0).values())
    assert all(end <= start for (_, end), (start, _) in pairwise(serial))
    mixed = sorted(spans_ns(plan_of(job, "layer-allreduce", {"concurrent": True}), 0).values())
    assert any(end > start for (_, end), (start, _) in pairwise(mixed))


def test_steps_of_concurrent_exchanges_do_not_hold_each_other_up() -> None:
    """Each of a worker's three peers has a queue of its own; one bucket after the other, one queue serves them all."""
    job = one_tensor(8000, 8)
    for name, expected in (("butterfly-mixing", 3), ("ring", 1), ("butterfly", 1)):
        plan = plan_of(job, name, {})
        sends = np.flatnonzero((plan.ops.kind == OpKind.SEND) & (plan.ops.chunk >= 0) & (plan.ops.rank == 0))
        pairs = set(zip(plan.ops.peer[sends].tolist(), plan.ops.lane[sends].tolist(), strict=True))
        assert len({queue for _, queue in pairs}) == expected
        assert len(pairs) == len({peer for peer, _ in pairs})


def test_overlap_starts_with_the_first_gradient_and_its_absence_with_the_last() -> None:
    """Layers take 1, 2, 3 ms forward and twice that backward."""
    job = one_tensor(100, 2, layers=3)
    assert first_send_ns(plan_of(job, "layer-allreduce")) == 12_000_000
    assert first_send_ns(plan_of(job, "layer-allreduce", {"overlap": False})) == 18_000_000
    assert first_send_ns(plan_of(job, "butterfly")) == 18_000_000


def test_each_layer_or_the_whole_model_is_waited_for() -> None:
    """With a large first gradient that holds the others up, and a layer of its own to wait for it, passes may begin
    early."""
    job = job_of(profile_of([(LayerKind.FC, [4]), (LayerKind.FC, [4]), (LayerKind.FC, [400_000])]), Cluster(2))

    def forward_ns(options: Mapping[str, Any]) -> list[int]:
        plan = plan_of(job, "layer-allreduce", {"concurrent": True, **options})
        when = times(replay(plan, 2))
        compute = np.flatnonzero((plan.ops.kind == OpKind.COMPUTE) & (plan.ops.rank == 0) & (plan.ops.lane == 0))
        return [when[1, op][1] for op in compute.tolist() if plan.ops.layer[op] >= 0][:3]

    early, late = forward_ns({"forward_waits": "layer"}), forward_ns({"forward_waits": "all"})
    assert early[0] < late[0]
    assert late[2] == late[0] + 3_000_000
    assert early[2] >= late[0]


def test_adding_takes_the_gpus_time_before_the_sum_is_passed_on() -> None:
    job = one_tensor(100, 4, costs=Costs(aggregation_bytes_per_s=1e5))
    plan = plan_of(job, "ring")
    reduces = plan.ops.kind == OpKind.REDUCE
    assert plan.ops.duration_ns[reduces].tolist() == [1_000_000] * 12
    assert critical_path_s(plan, FABRIC) == pytest.approx(job.compute_s + 3e-3, abs=1e-5)


def test_a_machines_own_link_serves_one_message_of_a_gpu_at_a_time() -> None:
    job = one_tensor(1000, 2, per_host=2, costs=Costs(local_bytes_per_s=1e6, message_latency_s=1e-3))
    when = replay(plan_of(job, "ring"), 1)
    # 2 ms of the 4000 bytes and 1 ms of latency each way, after 1 ms forward and 2 ms backward.
    assert when.end_ns.max() == 3_000_000 + 2 * 3_000_000


def test_messages_inside_a_machine_have_a_latency_of_their_own() -> None:
    costs = Costs(local_bytes_per_s=1e6, message_latency_s=1e-3, local_latency_s=1e-5)
    when = replay(plan_of(one_tensor(1000, 2, per_host=2, costs=costs), "ring"), 1)
    assert when.end_ns.max() == 3_000_000 + 2 * 2_010_000
    # Between machines the latency stays; a message from machine to machine and one within take turns in this ring.
    plan = plan_of(one_tensor(1000, 4, per_host=2, costs=Costs(message_latency_s=1e-3, local_latency_s=1e-5)), "ring")
    sends = (plan.ops.kind == OpKind.SEND) & (plan.ops.chunk >= 0)
    assert set(plan.ops.duration_ns[sends & plan.is_remote()].tolist()) == {1_000_000}
    assert set(plan.ops.duration_ns[sends & ~plan.is_remote()].tolist()) == {10_000}


def data_ops(plan: Plan, kind: OpKind, *, combine: Combine | None = None) -> list[int]:
    ops = plan.ops
    chosen = (ops.kind == kind) & (ops.chunk >= 0)
    if combine is not None:
        chosen &= ops.combine == combine
    return np.flatnonzero(chosen).tolist()


def drop_message(plan: Plan, pick: int) -> Plan:
    sends = data_ops(plan, OpKind.SEND)
    return without_op(plan, sends[pick % len(sends)])


def drop_receive(plan: Plan, pick: int) -> Plan:
    recvs = data_ops(plan, OpKind.RECV)
    return without_op(plan, recvs[pick % len(recvs)])


def duplicate_message(plan: Plan, pick: int) -> Plan:
    recvs = data_ops(plan, OpKind.RECV, combine=Combine.ADD)
    recv = recvs[pick % len(recvs)]
    return with_copies(plan, [int(plan.ops.message[recv]), recv])


def send_what_is_not_there(plan: Plan, pick: int) -> Plan:
    sends = data_ops(plan, OpKind.SEND)
    send = sends[pick % len(sends)]
    return with_dependencies(plan, [dep for dep in dependencies(plan) if dep[0] != send])


def forget_a_part(plan: Plan, pick: int) -> Plan:
    """The next iteration does not wait for a part that is the last to arrive somewhere."""
    waited_for = {on for _, on, _ in dependencies(plan)}
    ends = [op for op in data_ops(plan, OpKind.RECV) if op in waited_for]
    recv = ends[-1 - pick % min(len(ends), len(plan.rank_role))]
    return with_dependencies(plan, [dep for dep in dependencies(plan) if dep[1] != recv])


def add_instead_of_copy(plan: Plan, pick: int) -> Plan:
    copies = data_ops(plan, OpKind.RECV, combine=Combine.COPY)
    assume(copies)
    return with_cell(plan, "combine", copies[pick % len(copies)], Combine.ADD)


def other_size(plan: Plan, pick: int) -> Plan:
    sends = data_ops(plan, OpKind.SEND)
    send = sends[pick % len(sends)]
    return with_cell(plan, "size_bytes", send, int(plan.ops.size_bytes[send]) + 4)


@pytest.mark.parametrize(
    "change",
    [
        drop_message,
        drop_receive,
        duplicate_message,
        send_what_is_not_there,
        forget_a_part,
        add_instead_of_copy,
        other_size,
    ],
)
@settings(quick, max_examples=examples(25))
@given(case=allreduces(6), pick=st.integers(0, 10_000))
def test_the_checker_rejects_a_broken_allreduce(
    change: Callable[[Plan, int], Plan], case: tuple[Job, Choice], pick: int
) -> None:
    job, (name, options) = case
    assume(job.cluster.workers > 1)
    # Where adding takes time, a REDUCE stands between a RECV and what waits for it.
    assume(np.isinf(job.costs.aggregation_bytes_per_s))
    plan = plan_of(job, name, options)
    with pytest.raises(PlanError):
        check(change(plan, pick))


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_an_exchange_sends_before_it_adds(workers: int) -> None:
    """The RECVs of a butterfly wait for their own rank's SENDs of the same step: without that, a sum is sent back."""
    plan = plan_of(one_tensor(100, workers), "butterfly")
    recvs = set(data_ops(plan, OpKind.RECV))
    with pytest.raises(PlanError, match=r"twice|needs chunk"):
        check(with_dependencies(plan, [dep for dep in dependencies(plan) if dep[0] not in recvs]))


def with_slow_worker(plan: Plan, rank: int) -> Plan:
    """The plan with a worker whose passes take a second longer each."""
    for op in np.flatnonzero((plan.ops.rank == rank) & (plan.ops.layer >= 0) & (plan.ops.kind == OpKind.COMPUTE)):
        plan = with_cell(plan, "duration_ns", int(op), 1_000_000_000)
    return plan


@pytest.mark.parametrize(
    "name", ["ring", "hierarchical-ring", "butterfly", "halving-doubling", "layer-allreduce", "lazy-allreduce"]
)
def test_a_worker_that_is_behind_adds_nothing_before_its_own_gradient(name: str) -> None:
    plan = plan_of(one_tensor(80, 4, per_host=2, layers=2), name, {"overlap": True})
    for recv in data_ops(plan, OpKind.RECV, combine=Combine.ADD):
        slow = with_slow_worker(plan, int(plan.ops.rank[recv]))
        assert len(replay(slow, 2).op) == 2 * len(plan.ops)
        hasty = with_dependencies(slow, [dep for dep in dependencies(slow) if dep[0] != recv])
        with pytest.raises(InternalFault):
            replay(hasty, 2)


def test_what_does_not_fit_the_number_of_workers_is_refused() -> None:
    for name in PAIRED:
        with pytest.raises(InputFault, match=in_order("cluster.workers = 6:", "4 or 8")):
            plan_of(one_tensor(10, 6), name)
    with pytest.raises(InputFault, match=in_order("group = 4:", "cluster.workers = 6")):
        plan_of(one_tensor(10, 6), "hierarchical-ring", {"group": 4})


def test_schedules_of_one_rank_move_nothing() -> None:
    for schedule in (ring(1), butterfly(1), halving_doubling(1), hierarchical_ring(1, 1)):
        assert len(schedule.rows) == 0


def test_a_large_ring_is_compiled_in_columns() -> None:
    """16 ranks x 161 tensors: 77,000 sends, whose bytes are the closed form to the byte that uneven parts leave."""
    profile = model("resnet50")
    plan = plan_of(job_of(profile, Cluster(16)), "ring")
    ops = plan.ops
    assert sent_bytes(plan).sum() == 30 * profile.parameters * 4
    assert ((ops.kind == OpKind.SEND) & (ops.chunk >= 0)).sum() == 30 * 16 * len(profile.tensors)

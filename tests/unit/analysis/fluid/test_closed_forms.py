"""Cases whose iteration time follows from a formula."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import Buffered, FluidTimes, estimate
from gradwire.datatypes.plan import CONTROL_CLASS, Discipline, Plan, Role
from gradwire.faults import InternalFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.job import Costs
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers, incast, one, ring
from tests.shared.parts import in_order
from tests.shared.small_allreduces import one_tensor, plan_of
from tests.shared.small_jobs import dependencies, with_cell, with_dependencies

RATE_BPS = 8e9
FABRIC = Fabric(8, RATE_BPS, classes=3)
PAYLOAD_BYTES_PER_S = RATE_BPS / 8 * FABRIC.goodput_share()
SIZE_BYTES = 1_000_000
ALONE_S = SIZE_BYTES / PAYLOAD_BYTES_PER_S
BARRIER = 1e-3
"""What messages of 64 bytes before and after the transfers may change, as a share of the time."""


def of_transfers(transfers: list[Transfer], fabric: Fabric = FABRIC, hosts: int = 8) -> float:
    """Time of an iteration without its barrier, or nearly: a plan whose transfers are empty takes only that, but all at once."""
    spines = Spines(fabric).spine_of
    plan = compile_transfers("some", hosts, transfers)
    idle = compile_transfers("none", hosts, [replace(transfer, size_bytes=0) for transfer in transfers])
    return estimate(plan, fabric, spines).iteration_s - estimate(idle, fabric, spines).iteration_s


@pytest.mark.parametrize(
    ("transfers", "alone"),
    [
        (one(SIZE_BYTES), 1),
        (ring(8, SIZE_BYTES), 1),
        (incast(8, SIZE_BYTES), 7),
        (all_to_all(8, SIZE_BYTES), 7),
        # Two flows share the way out of host 0, and the first of them the way into host 1 with a third: halves for all.
        ([Transfer(0, 1, SIZE_BYTES), Transfer(0, 2, SIZE_BYTES), Transfer(3, 1, SIZE_BYTES)], 2),
        # Three flows into host 3 get thirds. The other flow out of host 0 gets the remaining two thirds, and ends in one and a half.
        ([*(Transfer(i, 3, SIZE_BYTES) for i in range(3)), Transfer(0, 4, 2 * SIZE_BYTES)], 3),
        # It decides if it is longer: two thirds until the incast is over, then all of the port.
        ([*(Transfer(i, 3, SIZE_BYTES) for i in range(3)), Transfer(0, 4, 3 * SIZE_BYTES)], 4),
    ],
)
def test_flows_share_ports_in_equal_parts(transfers: list[Transfer], alone: float) -> None:
    assert of_transfers(transfers) == pytest.approx(alone * ALONE_S, rel=BARRIER)


@pytest.mark.parametrize(("ratios", "alone"), [((1, 1), 7), ((2, 1), 12), ((1, 2), 8), ((2, 2), 16), ((2, 0.5), 12)])
def test_an_all_to_all_in_a_fat_tree_takes_what_its_busiest_tier_does(
    ratios: tuple[float, float], alone: float
) -> None:
    """Of each leaf's two hosts, messages to six others leave it, and of each pod's four hosts to four others the pod."""
    tree = replace(FABRIC, topology=Topology.FAT_TREE, pods=2, leaves=2, spines=2, cores=4)
    fabric = replace(tree, oversubscription=float(ratios[0]), core_oversubscription=ratios[1])
    assert of_transfers(all_to_all(8, SIZE_BYTES), fabric) == pytest.approx(alone * ALONE_S, rel=BARRIER)


def test_a_higher_class_is_served_first_and_a_lower_one_takes_what_is_left() -> None:
    high, low = Transfer(0, 1, SIZE_BYTES, 0), Transfer(0, 2, SIZE_BYTES, 1)
    times = _ends(compile_transfers("two classes", 8, [high, low]))
    assert times == pytest.approx([ALONE_S, 2 * ALONE_S], rel=1e-3)
    # The high flow is slowed to a half at host 3, and the low one has the other half of host 0's port; then all of it.
    high, rival, low = Transfer(0, 3, SIZE_BYTES, 0), Transfer(1, 3, SIZE_BYTES, 0), Transfer(0, 2, 2 * SIZE_BYTES, 1)
    times = _ends(compile_transfers("two classes", 8, [high, rival, low]))
    assert times == pytest.approx([2 * ALONE_S, 2 * ALONE_S, 3 * ALONE_S], rel=1e-3)


def test_what_a_class_leaves_reaches_a_class_two_below() -> None:
    """The middle class is limited elsewhere, so its rate stays as it is when the highest class ends."""
    high, low = Transfer(0, 1, SIZE_BYTES, 0), Transfer(0, 4, 10 * SIZE_BYTES, 2)
    middle = [Transfer(host, 3, 2 * SIZE_BYTES, 1) for host in (0, 1, 2, 5, 6)]
    slow = Transfer(7, 1, SIZE_BYTES, 0)
    ends = _ends(compile_transfers("three classes", 8, [high, slow, *middle, low]))
    # High: a half until 2. Middle: a fifth each until 10. Low: what is left of host 0's port: 0.3, then 0.8 until 10, then all.
    assert ends[-1] == pytest.approx((10 + (10 - 0.3 * 2 - 0.8 * 8)) * ALONE_S, rel=1e-3)


def _ends(plan: Plan) -> list[float]:
    """Ends of the transfers of the first iteration, from when they could begin."""
    times = estimate(plan, FABRIC, with_ops=True)
    assert times.op_end_s is not None
    transfers = np.flatnonzero((plan.ops.traffic_class != CONTROL_CLASS) & (plan.ops.combine != 0))
    ends_s: list[float] = times.op_end_s[0][transfers].tolist()
    return ends_s


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize(("name", "token_bytes"), [("ring", CONTROL_BYTES), ("halving-doubling", 0)])
def test_an_allreduce_moves_twice_all_but_its_own_share(name: str, token_bytes: int, workers: int) -> None:
    """Each step of NetOps' ring ends with a token."""
    values = 840 * 64
    plan = plan_of(one_tensor(values, workers), name)
    moved_s = 2 * (workers - 1) * (values * 4 / workers + token_bytes) / PAYLOAD_BYTES_PER_S
    computed_s = plan.compute_s
    assert estimate(plan, FABRIC).iteration_s == pytest.approx(computed_s + moved_s, rel=1e-9)


def test_adding_takes_its_time_between_the_steps_of_a_ring() -> None:
    values, workers, rate = 840 * 64, 4, 1e9
    plan = plan_of(one_tensor(values, workers, costs=Costs(aggregation_bytes_per_s=rate)), "ring")
    free = plan_of(one_tensor(values, workers), "ring")
    added_s = (workers - 1) / workers * values * 4 / rate
    slower_s = estimate(plan, FABRIC).iteration_s - estimate(free, FABRIC).iteration_s
    assert slower_s == pytest.approx(added_s, rel=1e-6)


def parameter_server(workers: int) -> Plan:
    """Workers push, the server waits for all of them and answers each."""
    builder = PlanBuilder("parameter server")
    server = builder.rank(Role.SERVER, workers)
    summed = builder.compute(server, 2e-3)
    for worker in range(workers):
        rank = builder.rank(Role.WORKER, worker)
        begin, end = builder.compute(rank, 5e-3), builder.compute(rank)
        push, pushed = builder.message(builder.queue(rank), server, SIZE_BYTES, traffic_class=0)
        pull, pulled = builder.message(builder.queue(server), rank, SIZE_BYTES, traffic_class=0)
        builder.depend(push, begin)
        builder.depend(summed, pushed)
        builder.depend(pull, summed)
        builder.depend(end, pulled)
        builder.depend(begin, end, lag=1)
        builder.iteration(rank, begin, end)
    return builder.build(compute_s=5e-3, samples=1)


def test_a_parameter_server_takes_in_and_gives_out_one_message_per_worker() -> None:
    times = estimate(parameter_server(5), FABRIC)
    assert times.iteration_s == pytest.approx(7e-3 + 2 * 5 * ALONE_S)
    assert times.period == 1
    assert times.iterations_s == pytest.approx([times.iteration_s] * times.needed)


@pytest.mark.parametrize("oversubscription", [0.5, 1.0, 4.0])
def test_leaves_share_their_uplinks(oversubscription: float) -> None:
    fabric = Fabric(8, RATE_BPS, Topology.LEAF_SPINE, leaves=2, spines=1, oversubscription=oversubscription)
    crossing = [Transfer(host, host + 4, SIZE_BYTES) for host in range(4)]
    assert of_transfers(crossing, fabric) == pytest.approx(max(1.0, oversubscription) * ALONE_S, rel=BARRIER)
    assert of_transfers([Transfer(0, 1, SIZE_BYTES)], fabric) == pytest.approx(ALONE_S, rel=BARRIER)


def test_messages_take_the_spine_that_the_rules_choose() -> None:
    fabric = Fabric(8, RATE_BPS, Topology.LEAF_SPINE, leaves=2, spines=2)
    spine_of = Spines(fabric).spine_of
    targets = [next(t for t in range(4, 8) if spine_of(source, t, ()) == 0) for source in (0, 1, 2, 3)]
    # Four flows through one of two spines, each of whose links has twice a host's rate.
    transfers = [Transfer(source, target, SIZE_BYTES) for source, target in enumerate(targets)]
    assert of_transfers(transfers, fabric) == pytest.approx(2 * ALONE_S, rel=BARRIER)
    with pytest.raises(InternalFault, match="no spine"):
        estimate(compile_transfers("crossing", 8, transfers), fabric)


def multicast(rival: bool) -> Plan:
    """Rank 0 sends to three others at once; in the meantime rank 4 may send to rank 2."""
    builder = PlanBuilder("multicast")
    ranks = [builder.rank(Role.SERVER if host else Role.WORKER, host) for host in range(5)]
    begin, end = builder.compute(ranks[0]), builder.compute(ranks[0])
    group = builder.group(ranks[1:4])
    send, recvs = builder.group_message(builder.queue(ranks[0]), group, SIZE_BYTES, traffic_class=0)
    builder.depend(send, begin)
    acks = [builder.message(builder.queue(rank), ranks[0], 0) for rank in ranks[1:4]]
    for (ack, acked), recv in zip(acks, recvs, strict=True):
        builder.depend(ack, recv)
        builder.depend(end, acked)
    if rival:
        other, _ = builder.message(builder.queue(ranks[4]), ranks[2], SIZE_BYTES, traffic_class=0)
        builder.depend(other, other, lag=1)
    builder.depend(begin, end, lag=1)
    builder.iteration(ranks[0], begin, end)
    return builder.build(compute_s=0.0, samples=1)


def test_a_multicast_leaves_once_and_its_slowest_receiver_decides() -> None:
    alone_s = SIZE_BYTES * 8 / (RATE_BPS * FABRIC.multicast_goodput_share())
    assert estimate(multicast(rival=False), FABRIC).iteration_s == pytest.approx(alone_s)
    shared = estimate(multicast(rival=True), FABRIC).iterations_s[0]
    assert shared == pytest.approx(2 * alone_s, rel=0.01)


def test_a_multicast_crosses_an_uplink_once() -> None:
    """Host 0 sends to hosts 1, 2 and 3, of which two are on the other leaf; the uplink has a quarter of a host's rate."""
    fabric = Fabric(6, RATE_BPS, Topology.LEAF_SPINE, leaves=3, spines=1, oversubscription=8.0)
    alone_s = SIZE_BYTES * 8 / (RATE_BPS * fabric.multicast_goodput_share())
    assert estimate(multicast(rival=False), fabric).iteration_s == pytest.approx(4 * alone_s)


def chain(durations_s: list[float]) -> Plan:
    builder = PlanBuilder("chain")
    rank = builder.rank(Role.WORKER, 0)
    ops = [builder.compute(rank, seconds, lane=number % 2) for number, seconds in enumerate(durations_s)]
    for before, after in itertools.pairwise(ops):
        builder.depend(after, before)
    builder.depend(ops[0], ops[-1], lag=1)
    builder.iteration(rank, ops[0], ops[-1])
    return builder.build(compute_s=sum(durations_s), samples=1)


def test_a_chain_of_computations_takes_their_sum_and_repeats_at_once() -> None:
    times = estimate(chain([1e-3, 0.0, 2e-3, 5e-4]), FABRIC)
    assert times.iteration_s == pytest.approx(3.5e-3, rel=1e-12)
    assert (times.needed, times.period) == (2, 1)


def alternating() -> Plan:
    """Two strands, of 1 ms and of 1.5 + 1.5 ms; each waits for the other's end in the iteration before."""
    builder = PlanBuilder("alternating")
    rank = builder.rank(Role.WORKER, 0)
    short, first, second = (builder.compute(rank, ms / 1e3, lane=lane) for lane, ms in enumerate((1.0, 1.5, 1.5)))
    builder.depend(second, first)
    builder.depend(short, second, lag=1)
    builder.depend(first, short, lag=1)
    builder.iteration(rank, short, short)
    return builder.build(compute_s=1e-3, samples=1)


def test_iterations_that_alternate_are_averaged_over_their_period() -> None:
    times = estimate(alternating(), FABRIC)
    assert times.period == 2
    assert times.iteration_s == pytest.approx(2e-3)
    assert sorted(times.iterations_s[-2:]) == pytest.approx([1.5e-3, 2.5e-3])


def queue_of(discipline: Discipline, sizes: list[int], *, latency_s: float = 0.0) -> Plan:
    """One queue sends messages to one rank each; they are ready together, and the first has the highest order."""
    builder = PlanBuilder("queue")
    rank = builder.rank(Role.WORKER, 0)
    queue, begin, end = builder.queue(rank, discipline), builder.compute(rank), builder.compute(rank)
    for number, size in enumerate(sizes):
        other = builder.rank(Role.SERVER, number + 1)
        send, _ = builder.message(queue, other, size, traffic_class=0, order=len(sizes) - number, latency_s=latency_s)
        builder.depend(send, begin)
        builder.depend(end, send)
    builder.depend(begin, end, lag=1)
    builder.iteration(rank, begin, end)
    return builder.build(compute_s=0.0, samples=1)


@pytest.mark.parametrize("discipline", list(Discipline))
def test_a_queue_sends_one_message_at_a_time_by_order_each_after_its_latency(discipline: Discipline) -> None:
    plan = queue_of(discipline, [3 * SIZE_BYTES, 2 * SIZE_BYTES, SIZE_BYTES], latency_s=1e-4)
    times = estimate(plan, FABRIC, with_ops=True)
    assert times.iteration_s == pytest.approx(6 * ALONE_S + 3e-4)
    assert times.op_end_s is not None
    recvs = times.op_end_s[0][plan.ops.combine != 0]
    assert recvs == pytest.approx([6 * ALONE_S + 3e-4, 3 * ALONE_S + 2e-4, ALONE_S + 1e-4])


@pytest.mark.parametrize(
    ("discipline", "ends_ms"),
    [(Discipline.FIFO, [3, 4, 5]), (Discipline.PRIORITY, [3, 5, 4]), (Discipline.COUNTER, [7, 4, 3])],
)
def test_a_queue_serves_what_is_ready_by_its_discipline(discipline: Discipline, ends_ms: list[float]) -> None:
    """The orders are 3, 2 and 1. The first is ready at 0 and takes 3 ms; the others at 1 and 2 ms, and take 1 ms."""
    builder = PlanBuilder("queue")
    rank = builder.rank(Role.WORKER, 0)
    queue, end = builder.queue(rank, discipline), builder.compute(rank)
    begins = [builder.compute(rank, 1e-3 * bool(number)) for number in range(3)]
    for number, (begin, size_ms) in enumerate(zip(begins, (3, 1, 1), strict=True)):
        size_bytes = round(size_ms * 1e-3 * PAYLOAD_BYTES_PER_S)
        send, _ = builder.message(
            queue, builder.rank(Role.SERVER, number + 1), size_bytes, traffic_class=0, order=3 - number
        )
        builder.depend(send, begin)
        builder.depend(end, send)
        builder.depend(begin, begins[number - 1] if number else end, lag=0 if number else 1)
    builder.iteration(rank, begins[0], end)
    plan = builder.build(compute_s=2e-3, samples=1)
    times = estimate(plan, FABRIC, with_ops=True)
    assert times.op_end_s is not None
    assert times.op_end_s[0][plan.ops.kind == 2] * 1e3 == pytest.approx(ends_ms, rel=1e-5)


@pytest.mark.parametrize(("adds", "ends_ms"), [(True, [3, 5, 4]), (False, [3, 4, 5])])
def test_a_stream_adds_by_order_and_computes_as_things_become_ready(adds: bool, ends_ms: list[float]) -> None:
    """Three ops of one stream with orders 3, 2 and 1; the first is ready at 0 and takes 3 ms, the others at 1 and 2 ms, and take 1 ms."""
    builder = PlanBuilder("stream")
    rank = builder.rank(Role.WORKER, 0)
    begins = [builder.compute(rank, 1e-3 * bool(number)) for number in range(3)]
    end = builder.compute(rank)
    for number, (begin, size_ms) in enumerate(zip(begins, (3, 1, 1), strict=True)):
        size_bytes = int(size_ms * 1e6)
        op = builder.reduce(rank, size_bytes, 1e9) if adds else builder.compute(rank, size_ms / 1e3, lane=1)
        builder.depend(op, begin)
        builder.depend(end, op)
        builder.depend(begin, begins[number - 1] if number else end, lag=0 if number else 1)
    builder.iteration(rank, begins[0], end)
    plan = builder.build(compute_s=2e-3, samples=1)
    for number, op in enumerate(np.flatnonzero(plan.ops.lane == 1).tolist()):
        plan = with_cell(plan, "order", op, 3 - number)
    times = estimate(plan, FABRIC, with_ops=True)
    assert times.op_end_s is not None
    assert times.op_end_s[0][plan.ops.lane == 1] * 1e3 == pytest.approx(ends_ms)


def test_a_send_may_end_while_bytes_wait() -> None:
    """The next of three messages to different ranks then shares the port with what waits of the one before."""
    plan = queue_of(Discipline.FIFO, [SIZE_BYTES] * 3)
    buffered = estimate(plan, FABRIC, send_ends=Buffered(SIZE_BYTES // 2), with_ops=True)
    assert buffered.op_end_s is not None
    # The first SEND ends after a half, and the second shares the port with its rest until 1.5: then a half of the second waits as well.
    sends = np.sort(buffered.op_end_s[0][plan.ops.kind == 2])
    assert sends == pytest.approx(np.array([0.5, 1.5, 2.5]) * ALONE_S)
    # And the third's rest shares it with the first of the next iteration.
    assert buffered.op_end_s[0].max() == pytest.approx(3.5 * ALONE_S)


def test_messages_of_one_connection_queue_behind_each_other() -> None:
    plan = compile_transfers("two", 2, [Transfer(0, 1, 2 * SIZE_BYTES, messages=2)])
    times = estimate(plan, FABRIC, send_ends=Buffered(10 * SIZE_BYTES), with_ops=True)
    assert times.op_end_s is not None
    data = plan.ops.traffic_class == 0
    first_s = times.op_start_s[0][data].min() if times.op_start_s is not None else 0.0
    assert times.op_end_s[0][data & (plan.ops.kind == 2)] == pytest.approx([first_s, first_s])
    assert times.op_end_s[0][data & (plan.ops.combine != 0)] - first_s == pytest.approx([ALONE_S, 2 * ALONE_S])


def test_every_message_arrives_later_by_the_latency() -> None:
    plan = parameter_server(3)
    late, ideal = estimate(plan, FABRIC, latency_s=1e-4), estimate(plan, FABRIC)
    assert late.iteration_s == pytest.approx(ideal.iteration_s + 2e-4)


def test_a_plan_that_cannot_go_on_is_a_bug() -> None:
    plan = chain([1e-3, 1e-3])
    stuck = with_dependencies(plan, [*dependencies(plan), (0, 1, 0)])
    with pytest.raises(InternalFault, match=in_order("iteration 0:", "2 of", "2 ops")):
        estimate(stuck, FABRIC)


def ahead(iterations: int) -> FluidTimes:
    """A rank that nobody waits for runs ahead of one that is a hundred times slower."""
    builder = PlanBuilder("ahead")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    ops = [builder.compute(rank, seconds) for rank, seconds in zip(ranks, (1e-3, 1e-1), strict=True)]
    for rank, op in zip(ranks, ops, strict=True):
        builder.depend(op, op, lag=1)
        builder.iteration(rank, op, op)
    return estimate(builder.build(compute_s=1e-3, samples=1), FABRIC, most_iterations=iterations)


def test_iterations_may_overlap_as_far_as_they_want() -> None:
    assert ahead(12).iterations_s == pytest.approx([1e-1] * 12)


def test_a_message_that_joins_as_the_one_before_it_ends_keeps_its_bytes() -> None:
    """The latency of the second begins when 100 payloads of frames of the first wait, and ends when none does."""
    held, size_bytes = 100, 1000 * FABRIC.mss_bytes()
    frame_s = FABRIC.mss_bytes() / PAYLOAD_BYTES_PER_S
    builder = PlanBuilder("two messages")
    first, second = (builder.rank(Role.WORKER, host) for host in range(2))
    queue, ends = builder.queue(first), []
    begins = [builder.compute(rank) for rank in (first, second)]
    for latency_s in (0.0, held * frame_s):
        send, recv = builder.message(queue, second, size_bytes, traffic_class=0, latency_s=latency_s)
        builder.depend(send, begins[0])
        ends.append(recv)
    done = [builder.compute(first), builder.compute(second)]
    builder.depend(done[0], begins[0])
    builder.depend(done[1], *ends)
    for rank in (first, second):
        builder.iteration(rank, begins[rank], done[rank])
    times = estimate(builder.build(0.0, 1), FABRIC, send_ends=Buffered(held * FABRIC.mss_bytes()), most_iterations=1)
    assert times.iteration_s == pytest.approx(2000 * frame_s, rel=1e-9)

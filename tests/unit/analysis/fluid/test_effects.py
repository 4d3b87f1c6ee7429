"""What an ideal network does not have and an estimate may include: late messages, and early ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.analysis.fluid.estimate import Buffered, Departure, FluidTimes, Jitter, SendEnds, estimate
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.network.fabric import Fabric
from gradwire.workloads.builder import CONTROL_BYTES
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers
from tests.shared.small_allreduces import allreduces, plan_of, quick

FABRIC = Fabric(8, 8e9, classes=3)
PAYLOAD_BYTES_PER_S = FABRIC.rate_bps / 8 * FABRIC.goodput_share()
SIZE_BYTES = 1_000_000
ALONE_S = SIZE_BYTES / PAYLOAD_BYTES_PER_S


def arrivals_s(plan: Plan, times: FluidTimes, iteration: int = 0) -> list[float]:
    """When the messages with data arrived, from the start of the first of them."""
    assert times.op_start_s is not None
    assert times.op_end_s is not None
    data = plan.ops.traffic_class >= 0
    begin_s = times.op_start_s[iteration][data & (plan.ops.kind == OpKind.SEND)].min()
    ends_s: list[float] = (times.op_end_s[iteration][data & (plan.ops.kind == OpKind.RECV)] - begin_s).tolist()
    return ends_s


def test_a_message_arrives_early_and_its_port_is_busy_to_the_end() -> None:
    plan = compile_transfers("two", 3, [Transfer(0, 1, SIZE_BYTES), Transfer(0, 2, SIZE_BYTES)])
    early = estimate(plan, FABRIC, early_bytes=SIZE_BYTES // 4, with_ops=True)
    # Both share the port out of host 0 until all has left.
    assert arrivals_s(plan, early) == pytest.approx([1.5 * ALONE_S] * 2)
    assert early.op_end_s is not None
    sends = (plan.ops.kind == OpKind.SEND) & (plan.ops.traffic_class >= 0)
    ideal = estimate(plan, FABRIC, with_ops=True)
    assert ideal.op_end_s is not None
    assert early.op_end_s[0][sends] == pytest.approx(ideal.op_end_s[0][sends], rel=1e-3)


def test_a_message_that_is_smaller_arrives_at_once() -> None:
    plan = compile_transfers("one", 2, [Transfer(0, 1, SIZE_BYTES)])
    assert arrivals_s(plan, estimate(plan, FABRIC, early_bytes=2 * SIZE_BYTES, with_ops=True)) == pytest.approx([0.0])


def test_messages_of_one_connection_are_early_one_by_one() -> None:
    plan = compile_transfers("two", 2, [Transfer(0, 1, 2 * SIZE_BYTES, messages=2)])
    times = estimate(plan, FABRIC, send_ends=Buffered(9 * SIZE_BYTES), early_bytes=SIZE_BYTES // 2, with_ops=True)
    assert arrivals_s(plan, times) == pytest.approx([0.5 * ALONE_S, 1.5 * ALONE_S])


def test_jitter_is_between_nothing_and_its_most_and_differs_from_iteration_to_iteration() -> None:
    transfers = [Transfer(host, host + 1, SIZE_BYTES) for host in range(7)]
    plan, most_s = compile_transfers("row", 8, transfers), 1e-3
    times = estimate(plan, FABRIC, jitter=Jitter(most_s), most_iterations=30, with_ops=True)
    assert times.needed == 30
    assert times.period == 0, "no iteration repeats another"
    late = np.array([arrivals_s(plan, times, number) for number in range(30)]) - ALONE_S
    # Barrier messages are late too, so that not all transfers begin together.
    assert late.min() >= 0
    assert late.max() > most_s
    again = estimate(plan, FABRIC, jitter=Jitter(most_s), most_iterations=30)
    assert again.iterations_s.tolist() == times.iterations_s.tolist()
    other = estimate(plan, FABRIC, jitter=Jitter(most_s, seed=1), most_iterations=30)
    assert not np.allclose(other.iterations_s, times.iterations_s)


def test_its_mean_is_half_its_most() -> None:
    """A chain of at most five messages: the barrier's two before and two after the only one with data."""
    plan, most_s = compile_transfers("one", 2, [Transfer(0, 1, SIZE_BYTES)]), 1e-3
    times = [
        estimate(plan, FABRIC, jitter=Jitter(most_s, seed), most_iterations=40).iterations_s.mean() for seed in range(8)
    ]
    ideal_s = estimate(plan, FABRIC).iteration_s
    equal_s = estimate(plan, FABRIC, latency_s=most_s / 2).iteration_s
    assert 0 < equal_s - ideal_s <= 5 * most_s / 2
    assert np.mean(times) - ideal_s == pytest.approx(equal_s - ideal_s, rel=0.35)


def test_a_shorter_message_is_late_by_as_much_less() -> None:
    transfers = [Transfer(0, 1, SIZE_BYTES), Transfer(2, 3, SIZE_BYTES // 4)]
    plan = compile_transfers("two", 4, transfers)
    times = estimate(plan, FABRIC, latency_s=1e-4, whole_bytes=SIZE_BYTES, with_ops=True)
    assert arrivals_s(plan, times) == pytest.approx([ALONE_S + 1e-4, (ALONE_S + 1e-4) / 4])
    late = estimate(plan, FABRIC, jitter=Jitter(1e-4), whole_bytes=SIZE_BYTES, most_iterations=30, with_ops=True)
    sizes = np.array([SIZE_BYTES, SIZE_BYTES // 4])
    by_message = np.array([arrivals_s(plan, late, number) for number in range(30)]) - sizes / PAYLOAD_BYTES_PER_S
    assert by_message.max(axis=0) == pytest.approx(1e-4 * sizes / SIZE_BYTES, rel=0.1)


def test_workers_begin_apart_once() -> None:
    """A worker that begins late sends late; on an ideal network all wait for it, and are in step again."""
    plan = compile_transfers("ring", 4, [Transfer(host, (host + 1) % 4, SIZE_BYTES) for host in range(4)])
    together = estimate(plan, FABRIC)
    apart = estimate(plan, FABRIC, apart_s=(0.0, 0.0, 3e-3, 0.0))
    assert apart.iterations_s[0] == pytest.approx(together.iterations_s[0] + 3e-3, rel=1e-3)
    assert apart.iterations_s[1:] == pytest.approx(together.iteration_s, rel=1e-3)


def test_messages_may_overtake_each_other() -> None:
    """With a latency alone, messages arrive in the order in which they left; with jitter they need not."""
    plan = compile_transfers("all", 8, all_to_all(8, CONTROL_BYTES))
    times = estimate(plan, FABRIC, jitter=Jitter(1e-2), most_iterations=3, with_ops=True)
    assert np.isfinite(times.iterations_s).all()
    assert len(set(np.round(arrivals_s(plan, times), 9))) == len(all_to_all(8, 1))


@quick
@given(allreduces(), st.sampled_from([Departure(), Buffered(200)]), st.floats(0, 1e-2), st.integers(0, 9))
def test_every_plan_comes_to_its_end_with_jitter(
    case: tuple[object, tuple[str, object]], send_ends: SendEnds, most_s: float, seed: int
) -> None:
    plan = plan_of(case[0], *case[1])  # type: ignore[arg-type]
    fabric = replace(FABRIC, hosts=plan.hosts, rate_bps=1e6)
    late = estimate(plan, fabric, send_ends=send_ends, jitter=Jitter(most_s, seed), early_bytes=50, most_iterations=3)
    assert np.isfinite(late.iterations_s).all()

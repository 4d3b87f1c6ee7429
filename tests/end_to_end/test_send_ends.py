"""When a SEND ends, on real sockets: with its last byte's departure from the host, or when a socket has taken it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.network.fabric import EXACT_TIMER_BURST_S, Fabric
from gradwire.runs.replay import ReplayedPlan, replay_plans
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.patterns import compile_transfers, ring

pytestmark = pytest.mark.kernel

FABRIC = Fabric(hosts=4, rate_bps=10e9, classes=1)
ITERATIONS = 3
LATENCY_S = 100e-6
SIZES = (64_000, 200_000, 1_000_000)
RING_BYTES = 5_000_000
EXACT_S = EXACT_TIMER_BURST_S + 0.6e-6
"""What the shaper forgives after a pause, and half a frame."""


def wire_s(size_bytes: int) -> float:
    """Time of a message on an idle line."""
    return size_bytes * 8 / FABRIC.rate_bps / FABRIC.goodput_share()


def pair(size_bytes: int, latency_s: float) -> Plan:
    """Two messages to different hosts, through one queue."""
    builder = PlanBuilder("pair")
    ranks = [builder.rank(Role.WORKER, host) for host in range(3)]
    queue = builder.queue(ranks[0])
    begins, ends = [builder.compute(rank) for rank in ranks], [builder.compute(rank) for rank in ranks]
    for order, to in enumerate((1, 2)):
        send, received = builder.message(
            queue, ranks[to], size_bytes, traffic_class=0, order=order, latency_s=latency_s
        )
        builder.depend(send, begins[0])
        builder.depend(ends[0], send)
        builder.depend(ends[to], received)
    for rank, begin, end in zip(ranks, begins, ends, strict=True):
        builder.depend(begin, end, lag=1)
        builder.iteration(rank, begin, end)
    return builder.build(compute_s=1e-3, samples=1)


def plans() -> Mapping[str, Plan]:
    pairs = {f"{size} after {latency}": pair(size, latency) for size in SIZES for latency in (0.0, LATENCY_S)}
    return {**pairs, "ring": compile_transfers("ring", 4, ring(4, RING_BYTES))}


@pytest.fixture(scope="module")
def departing(virtual_kernel: Path) -> Mapping[str, ReplayedPlan]:
    """The plans, replayed in one kernel, where SENDs end when their last byte has left."""
    return replay_plans(plans(), FABRIC, ITERATIONS, sockets=SocketOptions(4 << 20, None))


@pytest.fixture(scope="module")
def buffered(virtual_kernel: Path) -> Mapping[str, ReplayedPlan]:
    """The same where they end when a socket has taken it."""
    return replay_plans(plans(), FABRIC, ITERATIONS, sockets=SocketOptions(4 << 20, 1 << 20))


def sends_s(run: ReplayedPlan) -> np.typing.NDArray[np.float64]:
    """Start and end of the two SENDs in each iteration, shape (iterations, 2, 2)."""
    sends, log = np.flatnonzero(run.plan.ops.kind == OpKind.SEND), run.log
    rows = [
        [np.flatnonzero((log.iteration == iteration) & (log.op == op))[0] for op in sends]
        for iteration in range(ITERATIONS)
    ]
    return np.stack([log.start_ns[rows], log.end_ns[rows]], axis=2) / 1e9


@pytest.mark.parametrize("size_bytes", SIZES)
def test_a_send_takes_as_long_as_its_bytes_and_the_next_begins_a_latency_later(
    departing: Mapping[str, ReplayedPlan], size_bytes: int
) -> None:
    times_s = sends_s(departing[f"{size_bytes} after {LATENCY_S}"])
    assert times_s[:, :, 1] - times_s[:, :, 0] == pytest.approx(wire_s(size_bytes), abs=EXACT_S)
    assert times_s[:, 1, 0] - times_s[:, 0, 1] == pytest.approx(LATENCY_S, abs=1e-6)


@pytest.mark.parametrize("size_bytes", SIZES)
def test_without_a_latency_the_next_begins_within_a_burst(
    departing: Mapping[str, ReplayedPlan], size_bytes: int
) -> None:
    times_s = sends_s(departing[f"{size_bytes} after 0.0"])
    assert times_s[:, 0, 1] - times_s[:, 0, 0] == pytest.approx(wire_s(size_bytes), abs=EXACT_S)
    early_s = times_s[:, 0, 1] - times_s[:, 1, 0]
    assert (early_s >= 0).all()
    assert (early_s <= FABRIC.grain_s(exact_timers=True)).all()
    assert times_s[:, 1, 1] - times_s[:, 0, 0] == pytest.approx(2 * wire_s(size_bytes), abs=2 * EXACT_S)


def test_with_buffers_the_latency_overlaps_the_wire(buffered: Mapping[str, ReplayedPlan]) -> None:
    times_s = sends_s(buffered[f"{SIZES[0]} after {LATENCY_S}"])
    assert (times_s[:, 0, 1] - times_s[:, 0, 0] < wire_s(SIZES[0]) / 10).all()


def test_throughput_does_not_depend_on_it(
    departing: Mapping[str, ReplayedPlan], buffered: Mapping[str, ReplayedPlan]
) -> None:
    runs = departing["ring"], buffered["ring"]
    times_s = [float(iteration_times_s(run.plan, run.log, ITERATIONS)[1:].mean()) for run in runs]
    assert times_s[0] == pytest.approx(times_s[1], rel=0.002)

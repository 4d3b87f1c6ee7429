"""A class that more urgent ones hold back for a second: on a fabric that loses nothing, TCP waits for it and sends nothing twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import COUNTERS, ReplayedPlan, replay_plans
from gradwire.workloads.builder import PlanBuilder

pytestmark = pytest.mark.kernel

FABRIC = Fabric(hosts=3, rate_bps=1e9, classes=2)
URGENT, BULK = 0, 1
BULK_BYTES = 5_000_000
"""42 ms at line rate, so most of it waits when the urgent message begins."""
HEAD_START_S = 0.01
URGENT_BYTES = 125_000_000
"""A second at line rate: five times Linux's shortest retransmission timeout of 0.2 s."""
STARVED_S = 1.0
PLACES = {"a host's port": (0, 0), "a switch's port": (0, 1)}
"""The hosts of the urgent and of the bulk sender. Both send to the third host."""


def held_back(senders: tuple[int, int]) -> Plan:
    """A bulk message, and after its head start an urgent one through the same port."""
    builder = PlanBuilder("held back")
    ranks = [builder.rank(Role.WORKER, host) for host in range(FABRIC.hosts)]
    begins = [builder.compute(rank) for rank in ranks]
    ends = [builder.compute(rank) for rank in ranks]
    for traffic_class, sender, size_bytes in zip((URGENT, BULK), senders, (URGENT_BYTES, BULK_BYTES), strict=True):
        after = begins[sender]
        if traffic_class == URGENT:
            after = builder.compute(ranks[sender], HEAD_START_S, lane=1)
            builder.depend(after, begins[sender])
        send, received = builder.message(
            builder.queue(ranks[sender]), ranks[2], size_bytes, traffic_class=traffic_class
        )
        builder.depend(send, after)
        builder.depend(ends[sender], send)
        builder.depend(ends[2], received)
    for rank, begin, end in zip(ranks, begins, ends, strict=True):
        builder.depend(begin, end, lag=1)
        builder.iteration(rank, begin, end)
    return builder.build(compute_s=HEAD_START_S, samples=1)


@pytest.fixture(scope="module")
def replayed(virtual_kernel: Path) -> Mapping[str, ReplayedPlan]:
    """The messages of each place, replayed one after the other in one kernel."""
    return replay_plans({place: held_back(senders) for place, senders in PLACES.items()}, FABRIC, 1, reads=COUNTERS)


@pytest.fixture(params=PLACES)
def starved(request: pytest.FixtureRequest, replayed: Mapping[str, ReplayedPlan]) -> ReplayedPlan:
    """Those of one place."""
    return replayed[request.param]


def test_the_bulk_is_held_back_for_longer_than_linux_would_wait(starved: ReplayedPlan) -> None:
    ops, log = starved.plan.ops, starved.log
    begin_ns = log.start_ns.min()
    arrives_s = {
        int(ops.traffic_class[op]): float(log.end_ns[np.flatnonzero(log.op == op)[0]] - begin_ns) / 1e9
        for op in np.flatnonzero(ops.kind == OpKind.RECV)
    }
    assert arrives_s[BULK] > arrives_s[URGENT] > STARVED_S
    both_s = (URGENT_BYTES + BULK_BYTES) * 8 / FABRIC.rate_bps / FABRIC.goodput_share()
    assert arrives_s[BULK] == pytest.approx(both_s, rel=0.01)


def test_nothing_is_sent_twice(starved: ReplayedPlan) -> None:
    assert starved.counts is not None
    assert starved.counts.tcp_segments_sent > 0
    assert (starved.counts.tcp_retransmits, starved.counts.tcp_timeouts) == (0, 0)

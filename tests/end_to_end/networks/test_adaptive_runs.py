"""Flowlets that avoid queues, in virtual time: a flow takes the uplink that another one does not fill, where hashes let
both meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from gradwire.datatypes.plan import OpKind
from gradwire.network.fabric import Fabric, Routing, Topology
from gradwire.network.flowlets import FLOWLET_GAP_S
from gradwire.network.wire.flows import connection_of_send, connections_of
from gradwire.network.wire.ways import MessageWays
from gradwire.runs.replay import ReplayedPlan, replay_plans
from gradwire.workloads.patterns import Transfer, compile_transfers

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

UPLINK_BPS = 1.25e9
FABRIC = Fabric(
    4,
    2.5e9,
    Topology.LEAF_SPINE,
    leaves=2,
    spines=2,
    oversubscription=2.0,
    classes=1,
    flowlet_gap_s=FLOWLET_GAP_S,
)
"""One flow of a host at its line's rate fills two uplinks, so what takes one alone waits at the leaf."""
HEAD_START_S = 5e-3
FIRST_BYTES, SECOND_BYTES = 5_000_000, 3_000_000
PLAN = compile_transfers(
    "two flows", 4, [Transfer(0, 2, FIRST_BYTES), Transfer(1, 3, SECOND_BYTES, delay_s=HEAD_START_S)]
)
SECOND = int(np.flatnonzero((PLAN.ops.kind == OpKind.SEND) & (PLAN.ops.size_bytes == SECOND_BYTES))[0])
FIRST = int(np.flatnonzero((PLAN.ops.kind == OpKind.SEND) & (PLAN.ops.size_bytes == FIRST_BYTES))[0])


def meet_by_hash(fabric: Fabric) -> bool:
    """Whether the two flows pass the same uplink if switches hash them."""
    ways = MessageWays(PLAN, replace(fabric, routing=Routing.ECMP))
    return ways.way(FIRST)[1] == ways.way(SECOND)[1]


def prefer_the_same(fabric: Fabric) -> bool:
    """Whether the two flows take the same way if no queue speaks against it."""
    numbers = connection_of_send(PLAN, connections_of(PLAN))
    ways = {fabric.routing.policy.flowlet_ways(fabric, numbers[send], 0)[0] for send in (FIRST, SECOND)}
    return len(ways) == 1


def took_s(routing: Routing, would_meet: Callable[[Fabric], bool]) -> float:
    """Time of the second flow, with a seed for which both meet by luck."""
    fabric = replace(FABRIC, routing=routing)
    seeded = next(each for seed in count(1) if would_meet(each := replace(fabric, seed=seed)))
    replayed: ReplayedPlan = replay_plans({"two flows": PLAN}, seeded, 1)["two flows"]
    ops, log = replayed.plan.ops, replayed.log
    (received,) = np.flatnonzero((ops.kind == OpKind.RECV) & (ops.message == ops.message[SECOND]))
    return float(log.end_ns[log.op == received][0] - log.start_ns[log.op == SECOND][0]) / 1e9


def test_a_way_that_another_flow_fills_is_avoided() -> None:
    alone_s = SECOND_BYTES * 8 / UPLINK_BPS / FABRIC.goodput_share()
    assert took_s(Routing.ADAPTIVE, prefer_the_same) == pytest.approx(alone_s, rel=0.05)
    assert took_s(Routing.ECMP, meet_by_hash) > 1.5 * alone_s

"""The rate of plain transfers, read from logs."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.analysis.transfers import steady_flow_time_s
from gradwire.datatypes.plan import Int64, OpKind, Plan
from gradwire.datatypes.records import OpLog
from gradwire.network.fabric import Fabric, Topology
from gradwire.workloads.patterns import Transfer, compile_transfers, probe_phases

MESSAGE_NS = 1_000_000


def test_flows_that_are_noticed_late_as_a_whole_still_run_at_their_rate() -> None:
    """Three flows of four messages, a millisecond each; flow n is noticed n * 14 us late from its first message on."""
    plan = compile_transfers("probe", 6, [Transfer(0, 1, 4000), Transfer(2, 3, 4000), Transfer(4, 5, 4000)])
    cut = compile_transfers("probe", 6, [Transfer(a, a + 1, 4000, messages=4) for a in (0, 2, 4)])
    assert steady_flow_time_s(cut, _log(cut, late_ns=14_000), 1) == pytest.approx(3e-3)
    assert steady_flow_time_s(plan, _log(plan, late_ns=14_000), 1) == 0.0


def test_the_slowest_flow_counts() -> None:
    plan = compile_transfers("probe", 4, [Transfer(0, 1, 4000, messages=3), Transfer(2, 3, 4000, messages=3)])
    log = _log(plan, late_ns=0)
    last = np.flatnonzero((log.op == _recvs(plan)[-1]) & (log.iteration == 1))
    log.end_ns[last] += 500_000
    assert steady_flow_time_s(plan, log, 1) == pytest.approx(2.5e-3)


@pytest.mark.parametrize(
    "fabric", [Fabric(5, 10e9), Fabric(2, 10e9), Fabric(8, 10e9, Topology.LEAF_SPINE, leaves=4, spines=2)]
)
def test_the_rate_probe_has_every_host_send_and_receive_at_once(fabric: Fabric) -> None:
    transfers, rate_bps = probe_phases(fabric, 1000)[0]
    hosts = list(range(fabric.hosts))
    assert sorted(transfer.src for transfer in transfers) == sorted(transfer.dst for transfer in transfers) == hosts
    assert all(fabric.leaf_of(transfer.src) == fabric.leaf_of(transfer.dst) for transfer in transfers)
    assert 0.99 < rate_bps / fabric.rate_bps < 1


def test_the_rate_probe_sends_one_flow_up_and_one_down_at_each_leaf() -> None:
    fabric = Fabric(6, 10e9, Topology.LEAF_SPINE, leaves=3, spines=2, oversubscription=4.0)
    transfers, rate_bps = probe_phases(fabric, 1000)[1]
    assert sorted(fabric.leaf_of(transfer.src) for transfer in transfers) == [0, 1, 2]
    assert sorted(fabric.leaf_of(transfer.dst) for transfer in transfers) == [0, 1, 2]
    assert all(fabric.leaf_of(transfer.src) != fabric.leaf_of(transfer.dst) for transfer in transfers)
    assert rate_bps == fabric.uplink_rate_bps


def test_small_bursts_leave_more_to_acks() -> None:
    bursts, frames = Fabric(2, 10e9), Fabric(2, 10e9, gso_bytes=1514)
    assert bursts.ack_share() == pytest.approx(90 / (43 * 1538))
    assert frames.ack_share() == pytest.approx(90 / (2 * 1538))


def _recvs(plan: Plan) -> Int64:
    return np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.traffic_class >= 0))


def _log(plan: Plan, late_ns: int) -> OpLog:
    """Two iterations in which each flow's messages arrive a millisecond apart."""
    ends = np.zeros(len(plan.ops), np.int64)
    for recv in _recvs(plan):
        flow, number = plan.ops.peer[recv] // 2, plan.ops.order[plan.ops.message[recv]]
        ends[recv] = flow * late_ns + (number + 1) * MESSAGE_NS
    count = len(plan.ops)
    iteration = np.repeat([0, 1], count)
    zeros = np.zeros(2 * count, np.int64)
    return OpLog(iteration, np.tile(np.arange(count), 2), zeros, zeros, np.concatenate([ends * 7, ends]))

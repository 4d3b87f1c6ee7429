"""Copies of a multicast that pass their ports each by itself, with times that follow by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.analysis.fluid.copies import with_separate_copies
from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import OpKind
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.links import LinkSetting
from tests.unit.analysis.fluid.test_closed_forms import RATE_BPS, SIZE_BYTES, multicast

SLOW = LinkSetting("h3", rate_bps=RATE_BPS / 10)
ON_ONE = Fabric(5, RATE_BPS, link_settings=(SLOW,))
OVER_TWO = Fabric(6, RATE_BPS, Topology.LEAF_SPINE, leaves=3, spines=1, oversubscription=4.0, link_settings=(SLOW,))
"""Of the receivers h2 is at the sender's leaf; h3 and h4 are at the other end of an uplink with half of a host's rate."""


def alone_s(fabric: Fabric) -> float:
    return SIZE_BYTES * 8 / (RATE_BPS * fabric.multicast_goodput_share())


@pytest.mark.parametrize(("fabric", "arrive"), [(ON_ONE, (1, 10, 1)), (OVER_TWO, (1, 10, 2))])
def test_each_receiver_has_its_copy_as_soon_as_its_own_ports_let_it(fabric: Fabric, arrive: tuple[float, ...]) -> None:
    plan = multicast(rival=False)
    (send,) = np.flatnonzero(plan.ops.group == 1)
    recvs = np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.message == send))
    assert plan.rank_host[plan.ops.rank[recvs]].tolist() == [1, 2, 3]
    together = estimate(plan, fabric, with_ops=True)
    apart_plan, paths = with_separate_copies(plan, fabric)
    apart = estimate(apart_plan, fabric, paths=paths, with_ops=True)
    assert together.op_end_s is not None
    assert apart.op_end_s is not None
    assert together.op_end_s[0, recvs] == pytest.approx([10 * alone_s(fabric)] * 3)
    assert apart.op_end_s[0, recvs] == pytest.approx([factor * alone_s(fabric) for factor in arrive])
    assert apart.iteration_s == pytest.approx(10 * alone_s(fabric))


def test_no_byte_is_twice_on_a_line() -> None:
    """The copies of all receivers together pass each line of the tree once."""
    plan = multicast(rival=False)
    (send,) = np.flatnonzero(plan.ops.group == 1)
    apart_plan, paths = with_separate_copies(plan, OVER_TWO)
    copies = [send, *range(len(plan.ops), len(apart_plan.ops))]
    flows = [paths.flow_of_send[copy] for copy in copies]
    passed = [
        line for flow in flows for line in paths.route_port[paths.route_start[flow] : paths.route_start[flow + 1]]
    ]
    assert len(passed) == len(set(passed))
    assert len(flows) == 3


def test_what_fast_receivers_send_keeps_the_port_of_the_slow_one() -> None:
    """Another host sends as much to the slow receiver meanwhile: both take twice as long there, and the fast ones do not."""
    plan = multicast(rival=True)
    apart_plan, paths = with_separate_copies(plan, ON_ONE)
    times = estimate(apart_plan, ON_ONE, paths=paths, most_iterations=1, with_ops=True)
    recvs = np.flatnonzero((plan.ops.kind == OpKind.RECV) & (plan.ops.size_bytes == SIZE_BYTES))
    assert times.op_end_s is not None
    fast = [recv for recv in recvs if plan.rank_host[plan.ops.rank[recv]] != 2]
    slow = [recv for recv in recvs if plan.rank_host[plan.ops.rank[recv]] == 2]
    assert times.op_end_s[0, fast] == pytest.approx(alone_s(ON_ONE))
    assert times.op_end_s[0, slow].max() == pytest.approx(20 * alone_s(ON_ONE), rel=0.01)

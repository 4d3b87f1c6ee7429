"""Flows that begin together on an idle port share it from their first burst on."""

from __future__ import annotations

import pytest

from gradwire.datatypes.plan import OpKind
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import replay_plans
from gradwire.workloads.patterns import compile_transfers, outcast

pytestmark = pytest.mark.kernel

FABRIC = Fabric(hosts=8, rate_bps=10e9)
FLOW_BYTES = 8 * 65536
"""Eight bursts: what sch_fq's fast path would give to one flow before the others have their turn."""
WARMUP = 4


@pytest.mark.usefixtures("virtual_kernel")
def test_short_flows_of_one_host_end_together() -> None:
    plan = compile_transfers("outcast", FABRIC.hosts, outcast(FABRIC.hosts, FLOW_BYTES))
    log = replay_plans({"outcast": plan}, FABRIC, WARMUP + 1)["outcast"].log
    now = log.iteration == WARMUP
    kind, traffic_class = plan.ops.kind[log.op], plan.ops.traffic_class[log.op]
    begin_ns = log.start_ns[now & (kind == OpKind.SEND) & (traffic_class >= 0)].min()
    took_ns = log.end_ns[now & (kind == OpKind.RECV) & (traffic_class >= 0)] - begin_ns
    assert took_ns.min() > 0.9 * took_ns.max(), took_ns  # 0.68 by the fast path, 0.96 without it

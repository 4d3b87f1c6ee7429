"""Switches that hash connections, in virtual time: Open vSwitch chooses as network/switch_hash.py does, so that every way is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.iterations import iteration_times_s
from gradwire.network.fabric import Fabric, Routing, Topology
from gradwire.network.graph_shapes import Torus
from gradwire.network.network_graph import spread
from gradwire.network.path_delays import enough_buffer_bytes
from gradwire.runs.replay import replay_plans
from gradwire.workloads.patterns import Transfer, compile_transfers

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

RATE_BPS = 10e9
SIZE_BYTES = 8_000_000
NEAR = 0.01
LEAF_SPINE = Fabric(16, RATE_BPS, Topology.LEAF_SPINE, leaves=4, spines=4, classes=1, routing=Routing.ECMP)
FABRICS = [
    LEAF_SPINE,
    replace(LEAF_SPINE, seed=2),
    Fabric(
        16,
        RATE_BPS,
        Topology.TORUS,
        classes=1,
        graph=spread(16, 16, Torus((4, 4)).pairs(), RATE_BPS, ""),
        routing=Routing.ECMP,
    ),
]


@pytest.mark.parametrize("fabric", FABRICS, ids=["leaf-spine", "another seed", "torus"])
def test_flows_take_their_ideal_time_on_the_ways_that_are_hashed(fabric: Fabric) -> None:
    """The second plan's connections come from the ports of the first one's."""
    plans = {
        f"{step} further": compile_transfers(
            "further", fabric.hosts, [Transfer(host, (host + step) % 16, SIZE_BYTES) for host in range(16)]
        )
        for step in (5, 7)
    }
    done = replay_plans(plans, fabric, 3, sockets=SocketOptions(enough_buffer_bytes(0), None))
    ratios = {
        # Hosts that end an iteration early begin the next one early: what one gains, the other loses.
        name: float(iteration_times_s(each.plan, each.log, 3)[1:].mean()) / estimate(each.plan, each.fabric).iteration_s
        for name, each in done.items()
    }
    assert ratios == pytest.approx(dict.fromkeys(plans, 1.0), rel=NEAR)

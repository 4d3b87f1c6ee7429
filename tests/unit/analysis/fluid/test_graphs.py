"""The fluid engine, bounds and loads on graphs, and flows with a limit, beside what is worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.bounds import bounds, message_ns
from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import OpKind
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.graph_shapes import FullMesh, Linear, Ring, Torus
from gradwire.network.links import LinkSetting
from gradwire.network.network_graph import spread
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers, incast, one, probe_phases
from gradwire.workloads.patterns import ring as ring_of
from tests.unit.analysis.fluid.test_closed_forms import BARRIER

RATE_BPS = 8e9
SIZE_BYTES = 5_000_000


def graph(hosts: int, switches: int, pairs: list[tuple[int, int]]) -> Fabric:
    return Fabric(
        hosts, RATE_BPS, Topology.CUSTOM, classes=1, graph=spread(hosts, switches, pairs, RATE_BPS, "of a test")
    )


TRIANGLE, RING, TORUS = (
    graph(3, 3, FullMesh(3).pairs()),
    graph(6, 6, Ring(6).pairs()),
    graph(16, 16, Torus((4, 4)).pairs()),
)
ALONE_S = SIZE_BYTES * 8 / RATE_BPS / TRIANGLE.goodput_share()


def time_s(fabric: Fabric, transfers: list[Transfer]) -> float:
    return estimate(compile_transfers("some", fabric.hosts, transfers), fabric).iteration_s


@pytest.mark.parametrize(
    ("fabric", "transfers", "alone"),
    [
        (TRIANGLE, one(SIZE_BYTES), 1),
        (TRIANGLE, incast(3, SIZE_BYTES), 2),
        (TRIANGLE, ring_of(3, SIZE_BYTES), 1),
        # Every host's port has two messages, and every link between switches one in each direction.
        (TRIANGLE, all_to_all(3, SIZE_BYTES), 2),
        (RING, ring_of(6, SIZE_BYTES), 1),
        (RING, incast(6, SIZE_BYTES), 5),
        (TORUS, ring_of(16, SIZE_BYTES), 1),
        (TORUS, incast(16, SIZE_BYTES), 15),
        # Between the middle switches of four in a line pass the four pairs of two hosts at one end with two at the other.
        (graph(4, 4, Linear(4).pairs()), all_to_all(4, SIZE_BYTES), 4),
    ],
)
def test_flows_share_the_lines_of_their_ways(fabric: Fabric, transfers: list[Transfer], alone: float) -> None:
    assert time_s(fabric, transfers) == pytest.approx(alone * ALONE_S, rel=3 * BARRIER)


@pytest.mark.parametrize("fabric", [TRIANGLE, RING, TORUS])
def test_no_estimate_is_below_its_bound(fabric: Fabric) -> None:
    for transfers in (all_to_all(fabric.hosts, SIZE_BYTES), incast(fabric.hosts, SIZE_BYTES)):
        plan = compile_transfers("some", fabric.hosts, transfers)
        assert estimate(plan, fabric).iteration_s >= bounds(plan, fabric).lower_bound_s * (1 - 1e-9)


def test_a_slow_link_and_a_delay_count_on_the_ways_that_pass_them() -> None:
    settings = (LinkSetting("s1-s2", rate_bps=RATE_BPS / 4), LinkSetting("s2-s3", delay_s=0.01))
    fabric = replace(TRIANGLE, link_settings=settings)
    plan = compile_transfers("some", 3, [Transfer(0, 1, SIZE_BYTES), Transfer(1, 2, SIZE_BYTES)])
    sends = (plan.ops.kind == OpKind.SEND) & (plan.ops.size_bytes == SIZE_BYTES)
    assert sorted(message_ns(plan, fabric)[sends] / 1e9) == pytest.approx([ALONE_S + 0.01, 4 * ALONE_S])
    # The barrier before the transfers passes the long link as well: its messages between ranks 0 and 2 do not.
    assert time_s(fabric, [Transfer(0, 1, SIZE_BYTES)]) == pytest.approx(4 * ALONE_S, rel=3 * BARRIER)


def test_a_flow_takes_no_more_than_its_limit_and_leaves_the_rest() -> None:
    fabric = replace(graph(4, 1, []), flow_rate_bps=RATE_BPS / 4)
    assert time_s(fabric, one(SIZE_BYTES)) == pytest.approx(4 * ALONE_S, rel=3 * BARRIER)
    # Three flows out of one host: a quarter each, and a quarter is left.
    assert time_s(fabric, [Transfer(0, host, SIZE_BYTES) for host in (1, 2, 3)]) == pytest.approx(
        4 * ALONE_S, rel=3 * BARRIER
    )
    # Where ports give less, the limit does not matter.
    fabric = replace(fabric, flow_rate_bps=RATE_BPS / 2)
    assert time_s(fabric, incast(4, SIZE_BYTES)) == pytest.approx(3 * ALONE_S, rel=3 * BARRIER)
    plan = compile_transfers("some", 4, one(SIZE_BYTES))
    assert estimate(plan, fabric).iteration_s >= bounds(plan, fabric).lower_bound_s * (1 - 1e-9)


def test_the_probe_uses_lines_apart_from_one_another() -> None:
    phases = probe_phases(replace(TORUS, link_settings=(LinkSetting("s1-s2", rate_bps=1e9),)), 1000)
    ((transfers, rate_bps),) = phases
    assert len(transfers) >= 8
    assert rate_bps == 1e9
    assert len({transfer.src for transfer in transfers}) == len(transfers)

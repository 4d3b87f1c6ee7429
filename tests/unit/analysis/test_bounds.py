"""The critical path of plans whose iterations do not all take the same time."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.bounds import bounds, critical_path_s, message_ns, stream_bounds_s
from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.fluid.paths import paths_of
from gradwire.datatypes.plan import Plan, Role
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.graph_shapes import Ring
from gradwire.network.network_graph import spread
from gradwire.network.routes import lines_of, routes_of
from gradwire.network.routing import Routing
from gradwire.network.wire.ways import MessageWays
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.small_jobs import compiled, job_of, profile_of

FABRIC = Fabric(1, 1e9)


def round_trip_of(*durations_s: float) -> Plan:
    """Ops of which each waits for another one of the iteration before, so that their round takes as many iterations as there are ops."""
    builder = PlanBuilder("round trip")
    rank = builder.rank(Role.WORKER, 0)
    ops = [builder.compute(rank, duration_s, lane=lane) for lane, duration_s in enumerate(durations_s)]
    end = builder.compute(rank, lane=len(ops))
    for number, op in enumerate(ops):
        builder.depend(op, ops[number - 1], lag=1)
        builder.depend(end, op)
    builder.iteration(rank, end, end)
    return builder.build(compute_s=max(durations_s), samples=1)


@pytest.mark.parametrize("durations_ms", [(2,), (1, 3), (4, 1, 1), (5, 1, 3), (3, 5, 1), (1, 2, 6, 2), (1, 2, 2)])
def test_the_mean_of_a_round_counts_and_not_two_iterations_that_take_the_same_time(
    durations_ms: tuple[int, ...],
) -> None:
    plan = round_trip_of(*(milliseconds / 1e3 for milliseconds in durations_ms))
    assert critical_path_s(plan, FABRIC) == pytest.approx(sum(durations_ms) / len(durations_ms) / 1e3)
    assert estimate(plan, FABRIC).iteration_s >= bounds(plan, FABRIC).lower_bound_s * (1 - 1e-9)


@pytest.mark.parametrize(("routing", "uplinks"), [(Routing.BALANCED, 1), (Routing.SPRAY, 2)])
def test_a_message_has_the_uplinks_that_its_bursts_take(routing: Routing, uplinks: int) -> None:
    """From one leaf to another: one spine, or with spraying both, each with a quarter of a host's rate."""
    fabric = Fabric(4, 1e9, Topology.LEAF_SPINE, leaves=2, spines=2, oversubscription=4.0, routing=routing)
    plan = compile_transfers("probe", 4, [Transfer(0, 2, 10_000_000)])
    (size_bytes,) = {int(size) for size in plan.ops.size_bytes[plan.ops.size_bytes > 1_000_000]}
    alone_s = message_ns(plan, fabric).max() / 1e9
    assert alone_s == pytest.approx(size_bytes / fabric.goodput_share() * 8 / (uplinks * fabric.uplink_rate_bps))


@pytest.mark.parametrize("slow_corner", [1, 3])
def test_a_multicast_goes_by_its_tree_which_need_not_be_the_way_to_its_receiver_alone(slow_corner: int) -> None:
    """Between opposite corners of a square of switches; there and back, ways of pairs are balanced over both sides, and trees are not."""
    square = spread(2, 4, Ring(4).pairs(), 1e9, "")
    trunks = tuple(replace(link, delay_s=2e-3 * (slow_corner in (link.a, link.b))) for link in square.trunks)
    fabric = Fabric(2, 1e9, Topology.CUSTOM, graph=replace(square, trunks=trunks))
    job = job_of(profile_of([(LayerKind.FC, [300_000])]), Cluster(2, 2))
    (plan,) = compiled(job, "multicast-ps", {}).values()
    routes, ways, links, alone_ns = (
        routes_of(fabric),
        MessageWays(plan, fabric),
        lines_of(fabric),
        message_ns(plan, fabric),
    )
    others = set()
    for op in np.flatnonzero(plan.is_remote() & (plan.ops.group == 1)).tolist():
        source = ways.ends(op)[0]
        branch = ways.branch(op, 1 - source)
        others.add(branch != routes.path(source, 1 - source))
        line_ns = plan.ops.size_bytes[op] / fabric.multicast_goodput_share() * 8
        assert alone_ns[op] == pytest.approx(line_ns + sum(links[line].delay_s for line in branch) * 1e9, rel=1e-6)
    assert True in others


def test_bounds_take_memory_for_ops_and_not_for_queues_of_all_ranks() -> None:
    """Every worker of a parameter server has a queue for each server, and the other way round."""
    cluster = Cluster(128, 128)
    plan = compiled(job_of(profile_of([(LayerKind.FC, [1000])]), cluster), "vanilla", {})["vanilla"]
    tracemalloc.start()
    stream_bounds_s(plan)
    assert tracemalloc.get_traced_memory()[1] < 50 * len(plan.ops)
    tracemalloc.stop()


@pytest.mark.parametrize("routing", [Routing.BALANCED, Routing.ECMP, Routing.SPRAY])
def test_ways_in_columns_are_those_of_each_message(routing: Routing) -> None:
    fabric = Fabric(hosts=4, rate_bps=1e9, topology=Topology.LEAF_SPINE, leaves=2, spines=2, routing=routing)
    plan = compiled(job_of(profile_of([(LayerKind.FC, [1000])] * 2), Cluster(4, 2)), "multicast-ps", {})["multicast-ps"]
    paths, ways = paths_of(plan, fabric, lambda *_: 0), MessageWays(plan, fabric, lambda *_: 0)
    sends = np.flatnonzero(paths.flow_of_send >= 0).tolist()
    assert sends
    for send, flow in zip(sends, paths.flow_of_send[sends].tolist(), strict=True):
        rows = slice(*paths.route_start[flow : flow + 2])
        assert list(zip(paths.route_port[rows].tolist(), paths.route_share[rows].tolist(), strict=True)) == ways.shares(
            send
        )

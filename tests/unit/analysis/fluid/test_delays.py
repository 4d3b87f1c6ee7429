"""Long links and full windows in the fluid engine, beside what is worked out by hand."""

from __future__ import annotations

import pytest

from gradwire.analysis.fluid.delays import Delays, delays_of, travel_ns
from gradwire.analysis.fluid.estimate import Buffered, estimate
from gradwire.analysis.fluid.paths import paths_of
from gradwire.datatypes.plan import Role
from gradwire.network.fabric import Fabric, MulticastGroup, Topology
from gradwire.network.graph_shapes import Linear
from gradwire.network.network_graph import spread
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.unit.analysis.fluid.test_closed_forms import multicast
from tests.unit.analysis.fluid.test_effects import FABRIC, PAYLOAD_BYTES_PER_S, arrivals_s

ONE_WAY_S = 2e-3
LINKS_S = [ONE_WAY_S / 2] * FABRIC.hosts
WINDOW_BYTES = 1_000_000
WINDOW_BYTES_PER_S = WINDOW_BYTES / (2 * ONE_WAY_S)
"""About a quarter of the line's rate."""


def arrivals(transfers: list[Transfer], window_bytes: float = float("inf")) -> list[float]:
    plan = compile_transfers("some", FABRIC.hosts, transfers)
    delays = delays_of(FABRIC, LINKS_S, window_bytes)
    times = estimate(plan, FABRIC, send_ends=Buffered(1 << 30), delays=delays, most_iterations=1, with_ops=True)
    return arrivals_s(plan, times)


def limited_s(size_bytes: float) -> float:
    """A message's time on the line where its first window leaves at the line's rate, and the rest a window per round trip."""
    first_bytes = min(size_bytes, WINDOW_BYTES)
    return first_bytes / PAYLOAD_BYTES_PER_S + (size_bytes - first_bytes) / WINDOW_BYTES_PER_S


def test_a_message_arrives_later_by_the_links_on_its_way() -> None:
    size_bytes = 5_000_000
    assert arrivals([Transfer(0, 1, size_bytes)]) == pytest.approx([size_bytes / PAYLOAD_BYTES_PER_S + ONE_WAY_S])


@pytest.mark.parametrize("size_bytes", [100_000, WINDOW_BYTES, 1_500_000, 20_000_000])
def test_what_is_larger_than_a_window_takes_a_round_trip_for_each(size_bytes: int) -> None:
    assert arrivals([Transfer(0, 1, size_bytes)], WINDOW_BYTES) == pytest.approx([limited_s(size_bytes) + ONE_WAY_S])


def test_messages_of_one_connection_have_one_window() -> None:
    each = 500_000
    took_s = arrivals([Transfer(0, 1, 8 * each, messages=8)], WINDOW_BYTES)
    assert took_s == pytest.approx([limited_s((1 + number) * each) + ONE_WAY_S for number in range(8)])


def test_windows_do_not_matter_where_they_share_the_line_anyway() -> None:
    transfers = [Transfer(0, other, 4_000_000) for other in range(1, 7)]
    assert arrivals(transfers, WINDOW_BYTES) == pytest.approx(arrivals(transfers))


def test_two_full_windows_that_do_not_fill_a_port_do_not_slow_each_other() -> None:
    transfers = [Transfer(0, 1, 20_000_000), Transfer(0, 2, 20_000_000)]
    both = arrivals(transfers, WINDOW_BYTES)
    # Together they are half of the line. Only their first windows, which leave at the rate of the port, have half of it each.
    first_s = WINDOW_BYTES / (PAYLOAD_BYTES_PER_S / 2)
    alone_s = first_s + (20_000_000 - WINDOW_BYTES) / WINDOW_BYTES_PER_S + ONE_WAY_S
    assert both == pytest.approx([alone_s] * 2)


def test_a_window_that_holds_the_round_trip_is_none() -> None:
    transfers = [Transfer(0, 1, 20_000_000)]
    enough = PAYLOAD_BYTES_PER_S * 2 * ONE_WAY_S * 1.001
    assert arrivals(transfers, enough) == pytest.approx(arrivals(transfers))


def test_without_delays_a_window_changes_nothing() -> None:
    plan = compile_transfers("one", FABRIC.hosts, [Transfer(0, 1, 20_000_000)])
    assert estimate(plan, FABRIC, delays=Delays(window_bytes=1.0)).iteration_s == estimate(plan, FABRIC).iteration_s


def test_every_link_of_a_way_counts_and_no_other() -> None:
    fabric = Fabric(hosts=4, rate_bps=8e9, topology=Topology.LEAF_SPINE, leaves=2, spines=1)
    plan = compile_transfers("across", 4, [Transfer(0, 3, 1000), Transfer(0, 1, 1000)])
    paths = paths_of(plan, fabric, Spines(fabric).spine_of)
    late_s = travel_ns(paths, delays_of(fabric, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0])) / 1e9
    data = plan.ops.traffic_class >= 0
    flows = [flow for flow in paths.flow_of_send[data & (plan.ops.size_bytes == 1000)].tolist() if flow >= 0]
    assert [late_s[flow] for flow in flows] == [1 + 16 + 32 + 8, 1 + 2]
    assert not travel_ns(paths, Delays()).any()


def test_of_a_multicast_the_farthest_receiver_counts() -> None:
    paths = paths_of(multicast(rival=False), FABRIC)
    late_ns = travel_ns(paths, delays_of(FABRIC, [float(1 + host) for host in range(FABRIC.hosts)]))
    (flow,) = paths.flow_forks.nonzero()[0].tolist()
    source, *others = sorted(paths.route_port[paths.route_start[flow] : paths.route_start[flow + 1]].tolist())
    assert len(others) > 1
    assert late_ns[flow] / 1e9 == (1 + source) + (1 + max(others) - FABRIC.hosts)


def test_the_last_copy_of_a_multicast_counts_all_links_of_its_way() -> None:
    """Along a line of four switches, that is all of them, and not the slowest one alone."""
    line = spread(4, 4, Linear(4).pairs(), 8e9, "a line")
    fabric = Fabric(4, 8e9, Topology.LINEAR, classes=1, graph=line, groups=(MulticastGroup(0, (1, 2, 3)),))
    builder = PlanBuilder("to all")
    ranks = [builder.rank(Role.WORKER, host) for host in range(4)]
    group = builder.group(ranks[1:])
    builder.group_message(builder.queue(ranks[0]), group, 1000, traffic_class=0)
    for rank in ranks:
        builder.iteration(rank, builder.compute(rank), builder.compute(rank))
    paths = paths_of(builder.build(compute_s=0.0, samples=0), fabric)
    (late_ns,) = travel_ns(paths, delays_of(fabric, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]))
    assert late_ns / 1e9 == 1 + 16 + 32 + 64 + 8

"""Flows that come to a port after different delays, beside what is worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.bounds import bounds
from gradwire.analysis.fluid.delays import Delays, delays_of, own_delays
from gradwire.analysis.fluid.estimate import Buffered, Departure, Jitter, SendEnds, estimate
from gradwire.analysis.fluid.network import hop_lags_ns
from gradwire.analysis.fluid.paths import paths_of
from gradwire.analysis.fluid.stations import FIRST, LAST, MIDDLE, WHOLE, parts_of
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.graph_shapes import Linear
from gradwire.network.network_graph import spread
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.unit.analysis.fluid.test_effects import FABRIC, PAYLOAD_BYTES_PER_S, arrivals_s

ALL_AT_ONCE = Buffered(1 << 30)
FAR_S = 1e-3
BARRIER_S = 5e-6
"""What the barrier's messages take of a port in all."""


def some(transfers: list[Transfer], fabric: Fabric = FABRIC) -> Plan:
    return compile_transfers("some", fabric.hosts, transfers)


def far(*hosts: int, fabric: Fabric = FABRIC, delay_s: float = FAR_S, window_bytes: float = float("inf")) -> Delays:
    links_s = [delay_s if host in hosts else 0.0 for host in range(len(fabric.shape_links))]
    return delays_of(fabric, links_s, window_bytes)


def arrivals(transfers: list[Transfer], delays: Delays, send_ends: SendEnds = ALL_AT_ONCE) -> list[float]:
    plan = some(transfers)
    times = estimate(plan, FABRIC, send_ends=send_ends, delays=delays, most_iterations=1, with_ops=True)
    return arrivals_s(plan, times)


def on_line_s(size_bytes: float) -> float:
    return size_bytes / PAYLOAD_BYTES_PER_S


def test_a_port_works_while_the_first_bytes_of_a_far_flow_are_under_way() -> None:
    """Host 1 has the port of host 0 for itself until the first bytes of host 2 come, 1 ms later. Then each has half of
    it, until host 1 is done; then host 2 has as much left as host 1 sent in 1 ms, and the port has never been idle."""
    each = 20_000_000
    near_s, far_s = arrivals([Transfer(1, 0, each), Transfer(2, 0, each)], far(2))
    assert near_s == pytest.approx(FAR_S + 2 * (on_line_s(each) - FAR_S), abs=BARRIER_S)
    assert far_s == pytest.approx(2 * on_line_s(each), abs=BARRIER_S)


def test_a_far_flow_that_begins_while_the_port_is_idle_comes_as_it_left() -> None:
    each = 500_000
    assert on_line_s(each) < FAR_S
    assert arrivals([Transfer(1, 0, each), Transfer(2, 0, each)], far(2)) == pytest.approx(
        [on_line_s(each), FAR_S + on_line_s(each)], abs=BARRIER_S
    )


def test_the_slow_link_of_a_far_flow_decides_how_fast_it_comes() -> None:
    """It takes a quarter of the port, and the near one has the rest."""
    links = [
        Transfer(1, 0, 20_000_000),
        Transfer(2, 0, 20_000_000),
        Transfer(2, 3, 5_000_000),
        Transfer(2, 4, 5_000_000),
    ]
    several = arrivals([*links[:2], *links[2:]], far(2))
    shared_s = 3 * on_line_s(5_000_000)
    # Host 2 sends to three at a time, a third of its line to each, and host 1 has what host 0's port has left.
    near_bytes = 1 / on_line_s(1) * (FAR_S + (shared_s - 0) * 2 / 3)
    assert several[2:] == pytest.approx([FAR_S + shared_s] * 2, abs=BARRIER_S)
    rest_s = 2 * on_line_s(20_000_000 - near_bytes)
    assert several[0] == pytest.approx(FAR_S + shared_s + rest_s, abs=BARRIER_S)
    assert several[1] == pytest.approx(2 * on_line_s(20_000_000), abs=BARRIER_S)


def test_what_waits_at_a_port_leaves_faster_than_it_came() -> None:
    """The far flow sends all in 4 ms at the line's rate, of which half waits at the port of host 0 until the near ones
    are done; then what waits has the port."""
    each = 1_000_000
    times_s = arrivals([Transfer(1, 0, each), Transfer(2, 0, 3 * each)], far(2, delay_s=1e-4))
    assert times_s[0] == pytest.approx(2 * on_line_s(each) - 1e-4, abs=BARRIER_S)
    assert times_s[1] == pytest.approx(4 * on_line_s(each), abs=BARRIER_S)


def test_a_send_ends_when_its_bytes_have_left_and_not_when_they_have_passed_the_far_port() -> None:
    """So two messages of one queue to two hosts leave one after the other at the line's rate, although the first one
    waits at the port that it shares."""
    each = 4_000_000
    plan = some([Transfer(2, 0, each), Transfer(2, 3, each), Transfer(1, 0, each)])
    times = estimate(plan, FABRIC, send_ends=Departure(), delays=far(2), most_iterations=1, with_ops=True)
    assert arrivals_s(plan, times)[1] <= FAR_S + 2 * on_line_s(each) + 1e-9


def test_a_window_bounds_what_waits_at_a_far_port() -> None:
    """Once a window is under way or waiting, a byte leaves when one has been acknowledged, so what host 2 has for
    host 3 gets more of its line."""
    each, window = 20_000_000, 2_000_000
    transfers = [Transfer(1, 0, each), Transfer(4, 0, each), Transfer(2, 0, each), Transfer(2, 3, each)]
    free, bound = (arrivals(transfers, far(2, window_bytes=size)) for size in (float("inf"), window))
    assert free[3] == pytest.approx(FAR_S + 2 * on_line_s(each), abs=BARRIER_S)
    # At first each has half of the line. From its window on, the one to host 0 has a third of that host's port.
    full_s = 2 * on_line_s(window)
    assert bound[3] == pytest.approx(FAR_S + on_line_s(each) * 3 / 2, abs=full_s)
    assert bound[2] == pytest.approx(free[2], rel=1e-3)


@pytest.mark.parametrize("window", [500_000, 1_000_000])
def test_a_flow_is_no_faster_than_its_window_over_its_round_trip(window: int) -> None:
    """Flows that share no port, although they might."""
    each, delay_s = 20_000_000, 4e-3
    transfers = [Transfer(2, 0, each), Transfer(1, 0, 1000)]
    took_s = arrivals(transfers, far(2, delay_s=delay_s, window_bytes=window))[0]
    windows = each / window
    # A window leaves at the line's rate, and then the line is idle until the first of its bytes has been acknowledged.
    assert took_s == pytest.approx((windows - 1) * 2 * delay_s + on_line_s(window) + delay_s, rel=2e-3)


def test_no_byte_is_lost_over_many_iterations_and_bands() -> None:
    plan = some([Transfer(source, 0, 100_000 + source, messages=7) for source in range(1, FABRIC.hosts)])
    delays = delays_of(FABRIC, [1e-5 * 1.37**host for host in range(FABRIC.hosts)])
    times = estimate(plan, FABRIC, delays=delays, most_iterations=30)
    assert times.iteration_s > on_line_s(100_000 * (FABRIC.hosts - 1))
    assert times.iteration_s < on_line_s(100_000 * (FABRIC.hosts - 1)) + 10 * sum(delays.port_s)


def test_ports_clocks_are_as_slow_as_all_their_flows_allow() -> None:
    """Along a line of four switches: flows that meet after the same delay are whole, others are divided where they
    meet."""
    fabric = Fabric(4, 8e9, Topology.LINEAR, classes=1, graph=spread(4, 4, Linear(4).pairs(), 8e9, "a line"))
    paths = paths_of(some([Transfer(0, 3, 1000), Transfer(1, 3, 1000)], fabric), fabric)
    equal = own_delays(replace(fabric, delay_s=1e-3))
    parts = parts_of(paths, hop_lags_ns(paths, equal))
    assert set(parts.kind.tolist()) == {WHOLE, FIRST, LAST} or MIDDLE in parts.kind
    assert parts_of(paths, hop_lags_ns(paths, Delays())).is_whole


@pytest.mark.parametrize("delay_s", [0.0, 1e-6, 1e-3, 0.1])
def test_flows_that_share_ports_after_equal_delays_are_whole(delay_s: float) -> None:
    transfers = [Transfer(a, b, 1000) for a in range(FABRIC.hosts) for b in range(FABRIC.hosts) if a != b]
    paths = paths_of(some(transfers), FABRIC)
    lags_ns = hop_lags_ns(paths, own_delays(replace(FABRIC, delay_s=delay_s)))
    assert not np.any(lags_ns)


@pytest.mark.parametrize(
    "effect",
    [
        {},
        {"early_bytes": 1000},
        {"early_bytes": 68_036},
        {"send_ends": Buffered(50_000)},
        {"jitter": Jitter(2e-5)},
        {"latency_s": 1e-5, "whole_bytes": 65_536},
    ],
    ids=str,
)
@pytest.mark.parametrize("window_bytes", [float("inf"), 100_000.0])
def test_whatever_shares_ports_comes_to_an_end(effect: dict[str, Any], window_bytes: float) -> None:
    """Rounding once had a station go on at one moment for ever, where messages arrive early."""
    for seed in range(10):
        draw = random.Random(seed)
        pairs = [(a, b) for a in range(FABRIC.hosts) for b in range(FABRIC.hosts) if a != b and draw.random() < 0.5]
        plan = some([Transfer(a, b, draw.randint(1, 300_000), messages=draw.randint(1, 3)) for a, b in pairs])
        links_s = [draw.choice([0, 1e-5, 1e-4 * draw.random()]) for _ in range(FABRIC.hosts)]
        times = estimate(plan, FABRIC, delays=delays_of(FABRIC, links_s, window_bytes), most_iterations=5, **effect)
        early_s = on_line_s(effect.get("early_bytes", 0))
        assert times.iteration_s >= bounds(plan, FABRIC).lower_bound_s - early_s - effect.get("latency_s", 0.0)

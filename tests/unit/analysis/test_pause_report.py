"""Where buffers can deadlock, what a report says of pauses, and pauses in a trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradwire.analysis.pause_report import (
    buffer_circles,
    circle_between_hosts,
    circle_foreseen,
    pause_events,
    pause_lines,
)
from gradwire.datatypes.pauses import MOST_EVENTS, HeldBandBytes, PauseEvents, PauseState
from gradwire.network.fabric import Fabric, Routing, Topology
from gradwire.network.graph_shapes import Ring
from gradwire.network.lossless import Lossless
from gradwire.network.network_graph import spread
from gradwire.network.routed_network import Route
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.patterns import all_to_all, compile_transfers, ring
from tests.shared.parts import tells
from tests.unit.datatypes.test_pauses import count

ONE_SWITCH = Fabric(4, 10e9, classes=1, gso_bytes=16384, lossless=Lossless())
LEAF_SPINE = replace(ONE_SWITCH, topology=Topology.LEAF_SPINE, leaves=2, spines=2)
THE_LONG_WAY = ("s1 h2 s3", "s1 h3 s3", "s3 h2 s2", "s3 h1 s2", "s2 h1 s1", "s2 h3 s1")
TRIANGLE = replace(
    ONE_SWITCH,
    hosts=3,
    topology=Topology.RING,
    graph=spread(3, 3, Ring(3).pairs(), 10e9, "a ring of 3 switches"),
    routing=Routing.STATIC,
    routes=tuple(Route(switch, host, (following,)) for switch, host, following in map(str.split, THE_LONG_WAY)),
)
RING = compile_transfers("ring", 3, ring(3, 1000))


def test_routes_around_a_triangle_are_a_circle() -> None:
    (circle,) = buffer_circles(RING, TRIANGLE).values()
    assert [port.rpartition("(")[2].split("-")[0] for port in circle] == ["s2", "s1", "s3"]
    assert circle[0] == "s1-s2 to s1 (s2-eth2)"
    around = " -> ".join([*circle, circle[0]])
    assert tells(circle_foreseen("ways of class 0", circle), "fabric.lossless:", "ways of class 0", around)


def test_programs_may_send_from_every_host_to_every_other() -> None:
    assert circle_between_hosts(TRIANGLE) == next(iter(buffer_circles(RING, TRIANGLE).values()))
    assert circle_between_hosts(LEAF_SPINE, Spines(LEAF_SPINE).spine_of) == ()
    assert circle_between_hosts(replace(TRIANGLE, lossless=None)) == ()


def test_a_class_that_is_not_paused_has_no_circle() -> None:
    assert buffer_circles(RING, replace(TRIANGLE, classes=2, lossless=Lossless(classes=(1,)))) == {}
    assert buffer_circles(RING, replace(TRIANGLE, lossless=None)) == {}


def test_leaves_and_spines_have_none() -> None:
    plan = compile_transfers("all to all", 4, all_to_all(4, 1000))
    assert buffer_circles(plan, LEAF_SPINE, Spines(LEAF_SPINE).spine_of) == {}


def test_pauses_are_told_by_port_the_longest_first() -> None:
    counts = (
        count("s1-eth1", pauses=2, paused_ns=1_500_000, most_headroom_bytes=40_000, headroom_bytes=80_000),
        count("s1-eth2", pauses=1, paused_ns=2_000_000, most_headroom_bytes=1_000, headroom_bytes=80_000),
        count("s1-eth3", headroom_bytes=80_000),
    )
    paused, headroom, traced = pause_lines(ONE_SWITCH, PauseState(0, 0, counts, told=MOST_EVENTS + 1))
    longest = ("h2 out by s1-eth2", "class 0", "1 times", "2.000 ms")
    other = ("h1 out by s1-eth1", "class 0", "2 times", "1.500 ms")
    assert tells(paused, "paused 3 times", "3.500 ms", *longest, *other)
    assert tells(traced, "headroom:", "40,000", "80,000 bytes", "h1 out (s1-eth1)")
    assert "131,073 pauses" in headroom


def test_a_key_without_effect_is_named() -> None:
    (line,) = pause_lines(ONE_SWITCH, PauseState(0, 0, (count("s1-eth1", headroom_bytes=9, most_bytes=700),)))
    assert tells(line, "fabric.lossless had no", "700 bytes", "h1 out (s1-eth1)")


def test_a_trace_has_the_part_of_each_pause_in_its_time() -> None:
    # h1's port, then s1's, for each link; s1-eth1 is number 1.
    rows = [(1000, 1, 1), (5000, 1, 0), (9000, 1, 1)]
    times, ports, pauses = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    names = tuple(port.interface for port, _ in ONE_SWITCH.ports())
    events = PauseEvents(names, times, ports, np.ones(3, dtype=np.int64), pauses)
    found = list(pause_events(events, ONE_SWITCH, 2000, 10_000, process=5))
    assert [(event["ph"], event["ts"]) for event in found] == [("b", 0.0), ("e", 3.0), ("b", 7.0), ("e", 8.0)]
    assert all(tells(event["name"], "h1 out", "paused by s1-eth1", "class 0") for event in found)


def test_ports_that_wait_in_a_circle_at_the_end_are_named() -> None:
    around = ("s1-eth3", "s3-eth2", "s2-eth2")
    by = dict(zip(around, ("s3-eth3", "s2-eth3", "s1-eth2"), strict=True))
    counts = [
        *(count(port, stopped=True) for port in around),
        *(count(port, pauses=1, headroom_bytes=9) for port in by.values()),
    ]
    following = dict(zip(around, (*around[1:], around[0]), strict=True))
    held = tuple(HeldBandBytes(following[port], 1, by[port], 9) for port in around)
    *_, named = pause_lines(TRIANGLE, PauseState(0, 0, tuple(counts), held))
    assert tells(named, "class 0", "(deadlock)", "s1-eth3", "paused by s3-eth3", "s3-eth2")

"""What links add to round trips, and the buffers that fill them."""

from __future__ import annotations

import pytest

from gradwire.datatypes.records import PlannedFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.path_delays import (
    BUFFER_FACTOR,
    GRAIN_BYTES,
    LARGEST_BUFFER_BYTES,
    LEAST_BUFFER_BYTES,
    enough_buffer_bytes,
    link_delays_s,
    longest_round_trip_s,
    round_trip_bytes,
)

STAR = Fabric(hosts=3, rate_bps=25e9)
LEAF_SPINE = Fabric(hosts=4, rate_bps=10e9, topology=Topology.LEAF_SPINE, leaves=2, spines=2)


def delay(place: str, value_s: float, kind: str = "delay") -> PlannedFault:
    return PlannedFault(f"{place} {value_s}", kind, 0, place=place, value=value_s)


def test_delays_of_a_link_add_up_whichever_of_its_ends_names_it() -> None:
    faults = [delay("h1-eth0", 1e-3), delay("s1-eth1", 2e-3), delay("s1-eth3", 5e-3), delay("h2-eth0", 0.5, "loss")]
    assert link_delays_s(STAR, faults) == [3e-3, 0.0, 5e-3]


def test_the_longest_round_trip_is_that_of_the_two_farthest_hosts() -> None:
    faults = [delay(f"h{host}-eth0", host * 1e-3) for host in (1, 2, 3)]
    assert longest_round_trip_s(STAR, faults) == pytest.approx(2 * (2e-3 + 3e-3))
    assert longest_round_trip_s(STAR, faults[:1]) == pytest.approx(2e-3)
    assert longest_round_trip_s(STAR, [delay("h1-eth0", 0.5, "loss")]) == longest_round_trip_s(STAR, []) == 0.0


def test_links_between_switches_count_on_the_way_up_and_down() -> None:
    up, down, aside = delay("s1-eth3", 4e-3), delay("s2-eth3", 2e-3), delay("s1-eth4", 1e-3)
    host = delay("h1-eth0", 1e-3)
    assert longest_round_trip_s(LEAF_SPINE, [up, down, aside, host]) == pytest.approx(2 * (4e-3 + 2e-3 + 1e-3))


def test_a_buffer_follows_what_the_longest_round_trip_holds() -> None:
    held_bytes = round_trip_bytes(STAR, [delay(f"h{host}-eth0", 1e-3) for host in (1, 2, 3)])
    assert held_bytes == 12_500_000
    assert enough_buffer_bytes(held_bytes) == 36 * GRAIN_BYTES >= BUFFER_FACTOR * held_bytes


def test_a_buffer_is_what_it_was_where_nothing_is_far_and_no_larger_than_sockets_can_be() -> None:
    assert enough_buffer_bytes(0) == enough_buffer_bytes(1000) == LEAST_BUFFER_BYTES == 4 << 20
    assert enough_buffer_bytes(10**10) == LARGEST_BUFFER_BYTES

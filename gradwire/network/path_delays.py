"""Delays of packets in addition to their time on the line, and the windows that they require. Pure; imports only frozen
data.

A link has the delay that the fabric gives it for good, and those of faults of kind "delay", which are there for
packets of both directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gradwire.datatypes.records import PlannedFault
from gradwire.network.fabric import Fabric
from gradwire.network.routes import most_trunks_on_way

LEAST_BUFFER_BYTES = 4 << 20
"""A socket's buffer where nobody asks for another and links have no delay."""
LARGEST_BUFFER_BYTES = 2**31 - 1
"""The kernel takes sizes of sockets' buffers as ints."""
BUFFER_FACTOR = 3
"""A socket's buffer over what the longest round trip holds at the line's rate. A sender writes again only when a third
of its socket is free (sk_stream_min_wspace of include/net/sock.h), which asks for 1.5. A receiver's largest window is
65,535 times a power of two, between half of its buffer and all of it (tcp_select_initial_window of
net/ipv4/tcp_output.c), which asks for 2. Where bursts are single frames, the kernel's own structures take a third of a
buffer, which asks for 3. Measured with two hosts and one flow each way: over 4 ms at 25 Gbit/s, iterations took 0.200
s with a factor of 1.3 and 0.146 s with 1.5, 2 and 3, as on an ideal network; over 50 ms, 0.562 s with 1.5 and 0.527 s
with 2 and 3, at 25 as at 100 Gbit/s; in single frames, 0.318 s with 2 and 0.310 s with 3."""
GRAIN_BYTES = 1 << 20
"""Buffers that follow the round trip are whole MiB."""
LARGEST_WINDOW_BYTES = 1 << 30
"""TCP's largest window (RFC 7323, section 2.3)."""


def link_delays_s(fabric: Fabric, faults: Iterable[PlannedFault]) -> list[float]:
    """Returns the delay in seconds that each link adds to a packet in either direction, in the order of `Fabric.links`.

    It is the link's own delay, plus half of its jitter, plus those of all its faults at once.

    That is what it does for good, where the mean of a jitter counts, and all its faults at once.
    """
    places = {end.interface: number for number, link in enumerate(fabric.links()) for end in (link.a, link.b)}
    delays = [link.delay_s + link.jitter_s / 2 for link in fabric.links()]
    for fault in faults:
        if fault.kind == "delay":
            delays[places[fault.place]] += fault.value
    return delays


def longest_round_trip_s(fabric: Fabric, faults: Sequence[PlannedFault]) -> float:
    """The most that links add to a round trip between any two endpoints; 0 where no link has a delay.

    It is a bound: the slowest two links of each tier, and of a graph as many of the slowest as a way has at most, are
    taken to be on one way.
    """
    delays = link_delays_s(fabric, faults)
    if not any(delays):
        return 0.0
    if not fabric.is_tiered:
        ends, between = sorted(delays[: fabric.hosts]), sorted(delays[fabric.hosts :])
        return 2 * (sum(ends[-2:]) + sum(between[len(between) - most_trunks_on_way(fabric) :]))
    trunks = delays[fabric.hosts : fabric.hosts + len(fabric.tree.trunks)]
    of_leaves = fabric.tree.leaf_count * fabric.tree.spines
    ends = delays[: fabric.hosts] + delays[fabric.hosts + len(trunks) :]
    tiers = (ends, trunks[:of_leaves], trunks[of_leaves:])
    return 2 * sum(sum(sorted(tier)[-2:]) for tier in tiers)


def round_trip_bytes(fabric: Fabric, faults: Sequence[PlannedFault]) -> int:
    """Returns the bytes that the longest round trip holds at the rate of the fastest host's link (bandwidth-delay
    product); 0 if no link has a delay."""
    return math.ceil(max(fabric.host_bps) * longest_round_trip_s(fabric, faults) / 8)


def enough_buffer_bytes(path_bytes: int) -> int:
    """The buffer with which a socket fills a path whose round trip holds so much, as far as sockets can be so large."""
    grains = math.ceil(BUFFER_FACTOR * path_bytes / GRAIN_BYTES)
    return min(max(LEAST_BUFFER_BYTES, grains * GRAIN_BYTES), LARGEST_BUFFER_BYTES)

"""The work of stations: they take the bytes that come over their lines, and tell the next ones at which rate bytes
leave."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.fluid.agenda import Agenda, schedule
from gradwire.analysis.fluid.compiled import compiled
from gradwire.analysis.fluid.network import CROWDED, LINE_ROOM, Network
from gradwire.analysis.fluid.sharing import limit, unlimit
from gradwire.analysis.fluid.stations import FIRST, NOBODY

NOTHING_BYTES = 1e-3
"""Bytes that rounding may leave at a station from which all has gone."""
SAME_RATE = 1 + 1e-9
"""Rates that differ by less are the same; that is rounding. Else two stations at one port could limit each other in
turn at one moment, for ever."""
ROUNDING_NS = 2e-3
"""Nanoseconds by which rounding may be off in time at such a station. A time of an hour is rounded to a quarter of
that."""


@compiled
def slack_bytes(network: Network, flow: int) -> float:
    """Largest number of bytes at a station that counts as nothing."""
    record = network.flows[flow]
    return float(NOTHING_BYTES + ROUNDING_NS * max(record.rate, record.in_rate))


@compiled
def is_dry(network: Network, flow: int) -> bool:
    """Returns whether nothing waits at a station, so that bytes can leave it only as they come."""
    record = network.flows[flow]
    return bool(record.arrived_bytes - record.left_bytes <= slack_bytes(network, flow))


@compiled
def is_wanted(network: Network, flow: int) -> bool:
    """Returns whether a station has anything to send through its ports."""
    record = network.flows[flow]
    if record.kind == FIRST:
        return bool(record.count > 0)
    return bool(record.in_rate > 0.0 or not is_dry(network, flow))


@compiled
def pass_through(network: Network, flow: int) -> None:
    """Limits an active station at which nothing waits to the rate at which bytes come."""
    record = network.flows[flow]
    if record.limit < np.inf or not is_dry(network, flow):
        return
    if record.kind != FIRST:
        record.left_bytes = record.arrived_bytes
    limit(network, flow, record.in_rate)


@compiled
def take(network: Network, flow: int) -> None:
    """Takes the oldest change of rate from the line to a station. The bytes that came before have been counted until
    now."""
    record = network.flows[flow]
    change = network.changes[record.first_change + record.change_head]
    record.change_head = (record.change_head + 1) % network.counts[LINE_ROOM]
    record.change_count -= 1
    record.in_rate, record.arrived_bytes = change.rate, change.total_bytes
    if record.kind == FIRST:
        record.arrived_bytes += record.window_bytes
    if not record.is_active or record.limit == np.inf:
        return
    if record.kind == FIRST and not is_dry(network, flow):
        unlimit(network, flow, True)
        return
    if record.kind != FIRST:
        record.left_bytes = record.arrived_bytes
    limit(network, flow, record.in_rate)


@compiled
def expect(network: Network, agenda: Agenda, first_thing: int, flow: int) -> None:
    """Schedules the oldest change on the line to a station. Behind the flows, which begin with first_thing, and the
    arrivals, that of station i is thing i."""
    record = network.flows[flow]
    if record.change_count > 0:
        change = network.changes[record.first_change + record.change_head]
        schedule(agenda, first_thing + len(network.flows) + 1 + flow, change.at_ns)


@compiled
def tell(network: Network, agenda: Agenda, first_thing: int, flow: int, now_ns: float) -> None:
    """Tells the next station how fast bytes leave this one from now on. The bytes that have left have been
    counted.

    A station whose ports are slower than what comes keeps some of it from now on, so nothing else limits it.
    """
    record = network.flows[flow]
    if record.rate * SAME_RATE < record.limit < np.inf:
        unlimit(network, flow, False)
    if record.next == NOBODY or record.told_rate == record.rate:
        return
    record.told_rate = record.rate
    _add_change(network, record.next, now_ns + record.lag_ns, record.rate, record.left_bytes)
    expect(network, agenda, first_thing, record.next)


@compiled
def _add_change(network: Network, flow: int, at_ns: float, rate: float, total_bytes: float) -> None:
    record, room = network.flows[flow], network.counts[LINE_ROOM]
    place = record.first_change + (record.change_head + record.change_count - 1) % room
    if record.change_count == 0 or network.changes[place].at_ns != at_ns:
        if record.change_count == room:
            network.counts[CROWDED] = 1
            return
        place = record.first_change + (record.change_head + record.change_count) % room
        record.change_count += 1
    change = network.changes[place]
    change.at_ns, change.rate, change.total_bytes = at_ns, rate, total_bytes

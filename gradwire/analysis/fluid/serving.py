"""What stations do: they take what comes over their lines, and tell the next ones what leaves."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.fluid.agenda import Agenda, schedule
from gradwire.analysis.fluid.compiled import compiled
from gradwire.analysis.fluid.network import Network
from gradwire.analysis.fluid.sharing import limit, unlimit
from gradwire.analysis.fluid.stations import CROWDED, FIRST, ROOM

NOTHING_BYTES = 1e-3
"""What rounding may leave at a station from which all has gone,"""
ROUNDING_NS = 2e-3
"""and how late it may be. A time of an hour is rounded to a quarter of that."""


@compiled
def slack_bytes(network: Network, flow: int) -> float:
    """What counts as nothing at a station."""
    record = network.flows[flow]
    faster = max(record.rate, network.line.stations[record.station].in_rate)
    return float(NOTHING_BYTES + ROUNDING_NS * faster)


@compiled
def waiting_bytes(network: Network, flow: int) -> float:
    """What may leave a station at once, as of its flow's `left_ns`: what waits, and of a first one what is free of its
    window."""
    record = network.flows[flow]
    return float(network.line.stations[record.station].arrived_bytes - record.left_bytes)


@compiled
def is_dry(network: Network, flow: int) -> bool:
    """Whether only that may leave a station that is just coming."""
    return waiting_bytes(network, flow) <= slack_bytes(network, flow)


@compiled
def is_wanted(network: Network, flow: int) -> bool:
    """Whether a flow record has anything to do at its ports."""
    record = network.flows[flow]
    if record.station < 0 or network.line.stations[record.station].kind == FIRST:
        return bool(record.count > 0)
    return bool(network.line.stations[record.station].in_rate > 0.0 or not is_dry(network, flow))


@compiled
def pass_through(network: Network, flow: int) -> None:
    """Has an active station at which nothing waits pass on no more than what comes."""
    record = network.flows[flow]
    if record.station < 0 or record.limit < np.inf or not is_dry(network, flow):
        return
    station = network.line.stations[record.station]
    if station.kind != FIRST:
        record.left_bytes = station.arrived_bytes
    limit(network, flow, station.in_rate)


@compiled
def keep_up(network: Network, flow: int) -> None:
    """Notes, when rates have been computed, that a station whose ports are slower than what comes keeps some of it."""
    record = network.flows[flow]
    if record.station >= 0 and record.rate < record.limit < np.inf:
        unlimit(network, flow, False)


@compiled
def take(network: Network, flow: int) -> None:
    """Takes the oldest change from a station's line. Its bytes have been counted until now."""
    record = network.flows[flow]
    station = network.line.stations[record.station]
    change = network.line.changes[station.first_change + station.head]
    station.head = (station.head + 1) % network.line.counts[ROOM]
    station.count -= 1
    station.in_rate, station.arrived_bytes = change.rate, change.total_bytes
    if station.kind == FIRST:
        station.arrived_bytes += record.window_bytes
    if not record.is_active or record.limit == np.inf:
        return
    if station.kind == FIRST and not is_dry(network, flow):
        unlimit(network, flow, True)
        return
    if station.kind != FIRST:
        record.left_bytes = station.arrived_bytes
    limit(network, flow, station.in_rate)


@compiled
def expect(network: Network, agenda: Agenda, first_line: int, station: int) -> None:
    """Schedules the oldest change of a station's line. That of station i is thing first_line + i."""
    record = network.line.stations[station]
    if record.count > 0:
        schedule(agenda, first_line + station, network.line.changes[record.first_change + record.head].at_ns)


@compiled
def tell(network: Network, agenda: Agenda, first_line: int, flow: int, now_ns: float) -> None:
    """Tells the next station how fast bytes leave from now on. What has left has been counted."""
    record = network.flows[flow]
    if record.station < 0:
        return
    station = network.line.stations[record.station]
    if station.next < 0 or station.told_rate == record.rate:
        return
    station.told_rate = record.rate
    _add_change(network, network.flows[station.next].station, now_ns + station.lag_ns, record.rate, record.left_bytes)
    expect(network, agenda, first_line, network.flows[station.next].station)


@compiled
def _add_change(network: Network, station: int, at_ns: float, rate: float, total_bytes: float) -> None:
    record, room = network.line.stations[station], network.line.counts[ROOM]
    place = record.first_change + (record.head + record.count - 1) % room
    if record.count == 0 or network.line.changes[place].at_ns != at_ns:
        if record.count == room:
            network.line.counts[CROWDED] = 1
            return
        place = record.first_change + (record.head + record.count) % room
        record.count += 1
    change = network.line.changes[place]
    change.at_ns, change.rate, change.total_bytes = at_ns, rate, total_bytes

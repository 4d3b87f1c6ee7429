"""The messages of each flow: a queue of bytes that drains at the flow's rate."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.fluid.agenda import Agenda, cancel, schedule
from gradwire.analysis.fluid.compiled import compiled, inlined
from gradwire.analysis.fluid.network import FILLED_FLOWS, TOUCHED, Network
from gradwire.analysis.fluid.serving import SAME_RATE, is_wanted, pass_through, tell
from gradwire.analysis.fluid.sharing import fill, forget, join, leave, limit
from gradwire.analysis.fluid.stations import WINDOWED

NOTHING_FREE = 1e-9
"""The share of a window that rounding may leave of it."""


@inlined
def touch(network: Network, flow: int) -> None:
    """Has the flow looked at in the next `share_ports`."""
    if not network.flows[flow].is_touched:
        network.flows[flow].is_touched = 1
        network.touched[network.counts[TOUCHED]] = flow
        network.counts[TOUCHED] += 1


@inlined
def drain(network: Network, flow: int, now_ns: float) -> None:
    """Counts the bytes that have left until now."""
    _drain_at(network, flow, network.flows[flow].rate, now_ns)


@inlined
def _drain_at(network: Network, flow: int, rate: float, now_ns: float) -> None:
    """Counts the bytes that have left until now, at the rate that the flow has had since it was last counted."""
    record = network.flows[flow]
    record.left_bytes += rate * (now_ns - record.left_ns)
    if record.kind == WINDOWED:
        _use_window(network, flow, rate, now_ns - record.left_ns)
    elif record.kind > WINDOWED:
        record.arrived_bytes += record.in_rate * (now_ns - record.left_ns)
    record.left_ns = now_ns


@compiled
def _use_window(network: Network, flow: int, rate: float, duration_ns: float) -> None:
    """Updates the free part of a flow's window after it has sent at a rate for some time.

    What leaves faster than a window per round trip takes from it, and what leaves more slowly gives back. So the first
    window of a message leaves at the rate of its ports, and all that follows a window per round trip.
    """
    record = network.flows[flow]
    taken = rate if rate > record.window_rate else rate - record.window_rate
    record.free_bytes = min(record.window_bytes, record.free_bytes - taken * duration_ns)


@compiled
def fill_window(network: Network, flow: int) -> None:
    """Limits a flow whose window is full, once."""
    record = network.flows[flow]
    if record.limit == np.inf and record.free_bytes <= NOTHING_FREE * record.window_bytes:
        limit(network, flow, record.window_rate)


@compiled
def append(network: Network, flow: int, instance: int, line_bytes: float, now_ns: float) -> None:
    """Adds a message at the end of a flow's queue."""
    record = network.flows[flow]
    end_bytes = line_bytes
    if record.kind > WINDOWED:
        _append_to_stations(network, flow, instance, line_bytes, now_ns)
        return
    if record.count:
        drain(network, flow, now_ns)
        last = record.first_message + (record.head + record.count - 1) % record.room
        end_bytes += network.messages[last].end_bytes
    else:
        if record.kind == WINDOWED:
            _use_window(network, flow, 0.0, now_ns - record.left_ns)
        record.left_bytes, record.left_ns = 0.0, now_ns
    _add_message(network, flow, instance, end_bytes, line_bytes, 0)
    record.accepted, record.accept_bytes = instance, end_bytes - record.unsent_bytes
    touch(network, flow)


@inlined
def _add_message(
    network: Network, flow: int, instance: int, end_bytes: float, line_bytes: float, has_arrived: int
) -> None:
    """Adds the message whose last byte this is. has_arrived: 1 where it is another station's to have it arrive."""
    record = network.flows[flow]
    message = network.messages[record.first_message + (record.head + record.count) % record.room]
    record.count += 1
    message.instance, message.end_bytes = instance, end_bytes
    message.arrive_bytes, message.has_arrived = end_bytes - min(line_bytes, record.early_bytes), has_arrived


@compiled
def _append_to_stations(network: Network, flow: int, instance: int, line_bytes: float, now_ns: float) -> None:
    """Adds a message to the first station, which sends it, and to the last one, where it arrives. Their bytes are
    counted from the beginning of the replay on."""
    record = network.flows[flow]
    drain(network, flow, now_ns)
    end_bytes = record.left_bytes
    if record.count:
        end_bytes = network.messages[record.first_message + (record.head + record.count - 1) % record.room].end_bytes
    end_bytes += line_bytes
    _add_message(network, flow, instance, end_bytes, line_bytes, 1)
    last = record.last
    _add_message(network, last, instance, end_bytes, line_bytes, 0)
    record.accepted, record.accept_bytes = instance, end_bytes - record.unsent_bytes
    touch(network, flow)
    drain(network, last, now_ns)
    touch(network, last)


@inlined
def next_bytes(network: Network, flow: int) -> float:
    """At which byte of the flow something happens next: its latest SEND ends, or its oldest message arrives or has
    left."""
    record = network.flows[flow]
    oldest = network.messages[record.first_message + record.head]
    return float(min(record.accept_bytes, oldest.end_bytes if oldest.has_arrived else oldest.arrive_bytes))


@inlined
def remove_first(network: Network, flow: int) -> None:
    """Removes the oldest message."""
    record = network.flows[flow]
    record.head = (record.head + 1) % record.room
    record.count -= 1


@compiled
def share_ports(network: Network, agenda: Agenda, first_thing: int, now_ns: float) -> None:
    """Gives all flows the rates that they have from now on, and schedules their next events. Flow i is thing
    first_thing + i."""
    for number in range(network.counts[TOUCHED]):
        flow = network.touched[number]
        record = network.flows[flow]
        record.is_touched = 0
        wanted = record.count > 0 if record.kind <= WINDOWED else is_wanted(network, flow)
        if wanted and not record.is_active:
            record.is_active = 1
            join(network, flow)
            if record.kind > WINDOWED:
                pass_through(network, flow)
        elif not wanted and record.is_active:
            record.is_active = 0
            leave(network, flow)
            cancel(agenda, first_thing + flow)
            if record.kind > WINDOWED:
                tell(network, agenda, first_thing, flow, now_ns)
        elif wanted:
            _schedule_next(network, agenda, first_thing, flow, now_ns)
    network.counts[TOUCHED] = 0
    for band in range(len(network.dirty_count)):
        if network.dirty_count[band] > 0:
            fill(network, band)
            _reschedule(network, agenda, first_thing, now_ns)
            forget(network)


@inlined
def _reschedule(network: Network, agenda: Agenda, first_thing: int, now_ns: float) -> None:
    """Moves the events of flows whose rates have changed."""
    for number in range(network.counts[FILLED_FLOWS]):
        flow = network.filled_flows[number]
        record = network.flows[flow]
        # What limits a station may have changed where its rate has not.
        is_same = record.old_rate == record.rate and record.kind <= WINDOWED
        if not is_same or agenda.things[first_thing + flow].place < 0:
            _drain_at(network, flow, record.old_rate, now_ns)
            if record.kind > WINDOWED:
                tell(network, agenda, first_thing, flow, now_ns)
            _schedule_next(network, agenda, first_thing, flow, now_ns)


@inlined
def _schedule_next(network: Network, agenda: Agenda, first_thing: int, flow: int, now_ns: float) -> None:
    record = network.flows[flow]
    if record.kind > WINDOWED:
        _schedule_station(network, agenda, first_thing, flow, now_ns)
    elif record.rate > 0.0:
        wait_ns = (next_bytes(network, flow) - record.left_bytes) / record.rate
        if record.kind == WINDOWED and record.rate > record.window_rate and record.limit == np.inf:
            wait_ns = min(wait_ns, record.free_bytes / record.rate)
        schedule(agenda, first_thing + flow, max(now_ns, record.left_ns + wait_ns))
    else:
        cancel(agenda, first_thing + flow)


@compiled
def _schedule_station(network: Network, agenda: Agenda, first_thing: int, flow: int, now_ns: float) -> None:
    """Its next event is one of its messages, or that nothing waits any more."""
    record, wait_ns = network.flows[flow], np.inf
    if record.rate > 0.0:
        if record.count > 0:
            wait_ns = (next_bytes(network, flow) - record.left_bytes) / record.rate
        if record.limit == np.inf and record.rate > record.in_rate * SAME_RATE:
            wait_ns = min(wait_ns, (record.arrived_bytes - record.left_bytes) / (record.rate - record.in_rate))
    if wait_ns < np.inf:
        schedule(agenda, first_thing + flow, max(now_ns, record.left_ns + wait_ns))
    else:
        cancel(agenda, first_thing + flow)

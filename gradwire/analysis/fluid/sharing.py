"""How flows share ports: strict priority between bands, max-min fair within a band.

The rates of a band are found by filling (Bertsekas and Gallager, Data Networks, section 6.5.2): the port that leaves
each of its flows the least decides their rates, and is taken out together with them, until no flow is left. What a
band takes is missing to the bands below it. Of a flow that takes several ways in turn, a port has a share of its rate.

A flow whose window is full takes no more than its window over a round trip, and leaves the rest to others: it is fixed
at that rate, as if it passed a port that has no more and that no other flow uses. So is a flow that the network limits
(fabric.flow_rate), and a station at which nothing waits (stations.py).

When flows start or end, only those rates are computed anew that can change: of flows that share a port with them,
directly or through other flows of the same band, and of lower bands at the ports where that band's sum has changed.
Filling goes from the smallest share to the largest. As long as it has not come to the share at which a changed port
decided rates before, or will decide them, it goes as the last time. So flows with less than that keep their rates.
"""

from __future__ import annotations

import numpy as np

from gradwire.analysis.fluid.compiled import compiled, inlined
from gradwire.analysis.fluid.network import (
    CAPPED,
    FILLED_FLOWS,
    FILLED_PORTS,
    FULL_WINDOWS,
    RATE_UNKNOWN,
    UNTOUCHED,
    VARIED,
    Network,
)

SAME_SHARE = 1 + 1e-12
"""Ports whose shares differ by rounding alone are filled together."""
SLIVER = 1e-12
"""Share of a port's rate that rounding may leave when the bands above have filled it. It counts as nothing for the
bands below."""
BELOW = 1 - 1e-9
"""Rates that are less than a share by more than rounding are less than this part of it."""
MOST_STEPS = 4
"""After so many, a changed port's share is close enough to what it comes to; it only grows on the way there."""


@compiled
def join(network: Network, flow: int) -> None:
    """Makes a flow active at all its ports; its rate is known after the next `fill`."""
    record, hops = network.flows[flow], network.hops
    for hop in range(record.first_hop, record.end_hop):
        pair = network.pairs[hops[hop].port * len(network.dirty_count) + record.band]
        hops[hop].before, hops[hop].after = -1, pair.head
        if pair.head >= 0:
            hops[pair.head].before = hop
        pair.head = hop
        pair.active += 1
        _mark(network, hops[hop].port, record.band)


@compiled
def leave(network: Network, flow: int) -> None:
    """Ends a flow at all its ports."""
    record, hops = network.flows[flow], network.hops
    record.rate = 0.0
    if record.limit < np.inf:
        record.limit = np.inf
        network.counts[FULL_WINDOWS] -= 1
    for hop in range(record.first_hop, record.end_hop):
        pair = network.pairs[hops[hop].port * len(network.dirty_count) + record.band]
        before, after = hops[hop].before, hops[hop].after
        if before >= 0:
            hops[before].after = after
        else:
            pair.head = after
        if after >= 0:
            hops[after].before = before
        pair.active -= 1
        _mark(network, hops[hop].port, record.band)


@compiled
def limit(network: Network, flow: int, rate: float) -> None:
    """Has an active flow take no more than a rate from now on."""
    record = network.flows[flow]
    if record.limit == np.inf:
        network.counts[FULL_WINDOWS] += 1
    record.limit = rate
    for hop in range(record.first_hop, record.end_hop):
        _mark(network, network.hops[hop].port, record.band)


@compiled
def unlimit(network: Network, flow: int, is_felt: bool) -> None:
    """Lets an active flow have the rate that its ports give it. is_felt: whether its rate may change by that."""
    record = network.flows[flow]
    record.limit = np.inf
    network.counts[FULL_WINDOWS] -= 1
    if is_felt:
        for hop in range(record.first_hop, record.end_hop):
            _mark(network, network.hops[hop].port, record.band)


@inlined
def _mark(network: Network, port: int, band: int) -> None:
    pair = network.pairs[port * len(network.dirty_count) + band]
    if not pair.is_dirty:
        pair.is_dirty = 1
        network.dirty[band * len(network.ports) + network.dirty_count[band]] = port
        network.dirty_count[band] += 1


@compiled
def fill(network: Network, band: int) -> None:
    """Computes the rates of a band anew where they may have changed. Bands above it must have been filled before.

    Afterwards filled_flows has these flows, with their rates until then as `old_rate`. `forget` must follow before the
    next `fill`.
    """
    _gather(network, band, _kept_below(network, band))
    left = network.counts[FILLED_FLOWS]
    while left > 0:
        left -= _fill_tightest(network, band)
    _note_taken(network, band)


@inlined
def _room(network: Network, port: int, band: int) -> float:
    """Rate that the bands above leave of a port."""
    bands, room = len(network.dirty_count), network.ports[port].rate
    for above in range(band):
        room -= network.pairs[port * bands + above].taken
    return float(room if room > SLIVER * network.ports[port].rate else 0.0)


@compiled
def _kept_below(network: Network, band: int) -> float:
    """Flows with lower rates than this keep them: it is less than each share at which a dirty port has decided rates, or
    will."""
    if network.counts[VARIED] > 0:
        return 0.0
    bands, least = len(network.dirty_count), np.inf
    for number in range(network.dirty_count[band]):
        port = network.dirty[band * len(network.ports) + number]
        pair = network.pairs[port * bands + band]
        least = min(least, pair.share)
        if pair.active > 0:
            least = min(least, _share_at_least(network, pair.head, _room(network, port, band)))
    return float(least * BELOW)


@compiled
def _share_at_least(network: Network, head: int, room: float) -> float:
    """Lower bound of the rate that a port leaves each of its flows: equal shares, plus what flows with lower rates so
    far leave to the others."""
    unfilled, hop = 0.0, head
    while hop >= 0:
        unfilled += network.hops[hop].share
        hop = network.hops[hop].after
    share = room / unfilled
    for _ in range(MOST_STEPS):
        left, others, hop = room, 0.0, head
        while hop >= 0:
            passed, rate = network.hops[hop].share, network.flows[network.hops[hop].flow].rate
            hop = network.hops[hop].after
            if 0.0 < rate < share * BELOW:
                left -= rate * passed
            else:
                others += passed
        if others in (0.0, unfilled):
            break
        share, unfilled = max(share, left / others), others
    return float(share)


@compiled
def _gather(network: Network, band: int, kept_below: float) -> None:
    """Collects the dirty ports, the band's flows there whose rates may change, the other ports of these flows, and so
    on; with what those flows that keep their rates leave of each port."""
    bands, flows, reached = len(network.dirty_count), 0, 0
    count = network.dirty_count[band]
    for number in range(count):
        port = network.dirty[band * len(network.ports) + number]
        network.pairs[port * bands + band].is_dirty = 0
        network.ports[port].is_filled = 1
        network.filled_ports[number] = port
    network.dirty_count[band] = 0
    while reached < count:
        here = network.filled_ports[reached]
        reached += 1
        pair = network.pairs[here * bands + band]
        room, unfilled, unfilled_share, hop = _room(network, here, band), 0, 0.0, pair.head
        pair.share = np.inf
        while hop >= 0:
            flow, share = network.hops[hop].flow, network.hops[hop].share
            hop = network.hops[hop].after
            record = network.flows[flow]
            if record.old_rate == UNTOUCHED:
                if 0.0 < record.rate < kept_below:
                    room -= record.rate * share
                    continue
                record.old_rate = RATE_UNKNOWN
                network.filled_flows[flows] = flow
                flows += 1
                for other in range(record.first_hop, record.end_hop):
                    port = network.hops[other].port
                    if not network.ports[port].is_filled:
                        network.ports[port].is_filled = 1
                        network.filled_ports[count] = port
                        count += 1
            unfilled += 1
            unfilled_share += share
        record_here = network.ports[here]
        record_here.room, record_here.unfilled, record_here.unfilled_share = max(0.0, room), unfilled, unfilled_share
    network.counts[FILLED_PORTS], network.counts[FILLED_FLOWS] = count, flows


@compiled
def _fill_tightest(network: Network, band: int) -> int:
    """Fixes the rates of all flows at the ports that leave each flow the least; returns their number."""
    share, fixed = np.inf, 0
    for number in range(network.counts[FILLED_PORTS]):
        record = network.ports[network.filled_ports[number]]
        if record.unfilled > 0:
            share = min(share, record.room / record.unfilled_share)
    if network.counts[FULL_WINDOWS] > 0 or network.counts[CAPPED] > 0:
        fixed = _fix_limited(network, share)
        if fixed > 0:
            return fixed
    for number in range(network.counts[FILLED_PORTS]):
        port = network.filled_ports[number]
        record = network.ports[port]
        if record.unfilled == 0 or record.room / record.unfilled_share > share * SAME_SHARE:
            continue
        network.pairs[port * len(network.dirty_count) + band].share = share
        hop = network.pairs[port * len(network.dirty_count) + band].head
        while hop >= 0:
            flow = network.hops[hop].flow
            hop = network.hops[hop].after
            if network.flows[flow].old_rate == RATE_UNKNOWN:
                _fix(network, flow, share)
                fixed += 1
    return fixed


@compiled
def _fix_limited(network: Network, share: float) -> int:
    """Fixes the rates of flows that get less from a full window or a limit per flow than from every port; returns
    their number."""
    fixed = 0
    for number in range(network.counts[FILLED_FLOWS]):
        flow = network.filled_flows[number]
        record = network.flows[flow]
        most = min(record.limit, record.most_rate)
        if record.old_rate == RATE_UNKNOWN and most < share:
            _fix(network, flow, most)
            fixed += 1
    return fixed


@compiled
def _fix(network: Network, flow: int, share: float) -> None:
    record = network.flows[flow]
    record.old_rate, record.rate = record.rate, share
    for hop in range(record.first_hop, record.end_hop):
        port = network.ports[network.hops[hop].port]
        port.room = max(0.0, port.room - share * network.hops[hop].share)
        port.unfilled -= 1
        port.unfilled_share -= network.hops[hop].share


@inlined
def _note_taken(network: Network, band: int) -> None:
    """Sums up the rate that the band takes at each port, and marks the bands below it to be filled anew if the sum has
    changed."""
    bands = len(network.dirty_count)
    if band == bands - 1:
        return
    for number in range(network.counts[FILLED_PORTS]):
        port = network.filled_ports[number]
        pair = network.pairs[port * bands + band]
        taken, hop = 0.0, pair.head
        while hop >= 0:
            taken += network.flows[network.hops[hop].flow].rate * network.hops[hop].share
            hop = network.hops[hop].after
        if taken != pair.taken:
            pair.taken = taken
            for below in range(band + 1, bands):
                if network.pairs[port * bands + below].active > 0:
                    _mark(network, port, below)


@inlined
def forget(network: Network) -> None:
    """Ends a filling that `fill` began, when its flows have been seen."""
    for number in range(network.counts[FILLED_PORTS]):
        network.ports[network.filled_ports[number]].is_filled = 0
    for number in range(network.counts[FILLED_FLOWS]):
        network.flows[network.filled_flows[number]].old_rate = UNTOUCHED

"""Flows and ports as records: the bytes that each flow still has to send, and the flows that are active at each
port.

Flows come late at ports that they share with flows of other delays. An ideal network has a flow's bytes at all ports of
its way at once, although they come to each later than they left. That is exact where all flows come to a port after the
same delay: the port's own clock is slow by that delay. So every port gets a clock that is as slow as all its flows
allow, and what a flow's delay exceeds it by is the flow's lag there. A lag never falls along a way. Where it rises,
bytes wait in a line of that length, and the ports behind it serve what comes out of the line (stations.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradwire.analysis.fluid.delays import NO_DELAYS, Delays, travel_ns
from gradwire.analysis.fluid.graph import Float64, Records
from gradwire.analysis.fluid.paths import Bool, Paths
from gradwire.analysis.fluid.stations import LAST, LEAST_LINE_ROOM, MIDDLE, WHOLE, WINDOWED, Parts, lay_lines, parts_of
from gradwire.datatypes.plan import Int64

UNTOUCHED, RATE_UNKNOWN = -1.0, -2.0
"""Values of `old_rate` that are not rates: the flow is not being filled, or is, and has no new rate yet."""

FLOW = np.dtype(
    [
        ("rate", "f8"),  # bytes on the line per ns
        ("old_rate", "f8"),  # while rates are computed anew: the one until then, UNTOUCHED or RATE_UNKNOWN
        ("left_bytes", "f8"),  # what has left since the flow last had nothing to send
        ("left_ns", "f8"),  # when that was true
        ("accept_bytes", "f8"),  # its latest SEND ends when so many bytes have left; infinite if it has ended
        ("accepted", "i8"),  # the instance of that SEND
        ("unsent_bytes", "f8"),  # how many bytes may wait when a SEND ends
        ("early_bytes", "f8"),  # how many may wait when a message arrives
        (
            "travel_ns",
            "f8",
        ),  # how much later than its last byte leaves a message arrives, beside what all messages have
        ("window_bytes", "f8"),  # what may have left without having been acknowledged; infinite if no window matters,
        ("window_rate", "f8"),  # and that over a round trip: the rate of a flow whose window is full
        ("free_bytes", "f8"),  # what is free of its window
        ("limit", "f8"),  # a rate that it does not exceed: `window_rate` while its window is full, else infinite
        ("most_rate", "f8"),  # a rate that it never exceeds; infinite if nothing limits it but ports and windows
        ("first_message", "i8"),  # its messages are a ring from here on,
        ("room", "i8"),  # of this length;
        ("head", "i8"),  # the oldest message's place in the ring,
        ("count", "i8"),  # and the number of messages
        ("band", "i8"),
        ("first_hop", "i8"),  # its hops are from here on,
        ("end_hop", "i8"),  # before this one
        ("is_active", "i8"),
        ("is_touched", "i8"),
        ("kind", "i8"),  # WHOLE, WINDOWED, or which station of a flow in several parts it is (stations.py):
        ("next", "i8"),  # what leaves it comes to this one; of LAST that is the first one, by ACKs; or NOBODY
        ("last", "i8"),  # of FIRST: the last one
        ("lag_ns", "f8"),  # how long that takes
        ("told_rate", "f8"),  # the rate that the next one was told of last
        ("arrived_bytes", "f8"),  # what may have left at `left_ns`: what has come, and of FIRST a window and what has
        ("in_rate", "f8"),  # been acknowledged. It grows by so much, in bytes per ns
        ("first_change", "i8"),  # the changes on the line to it are a ring from here on,
        ("change_head", "i8"),  # the oldest one's place in the ring,
        ("change_count", "i8"),  # and their number
    ]
)
MESSAGE = np.dtype(
    [
        ("instance", "i8"),  # its SEND and iteration (see Progress)
        ("arrive_bytes", "f8"),  # it arrives when so many bytes of the flow have left
        ("end_bytes", "f8"),  # how many have when its last one has
        ("has_arrived", "i8"),
    ]
)
HOP = np.dtype(
    [
        ("port", "i8"),
        ("flow", "i8"),
        ("share", "f8"),  # of the flow's bytes
        ("after", "i8"),  # the active flows of a port and band are a linked list of hops; -1 at its ends
        ("before", "i8"),
    ]
)
PORT = np.dtype(
    [
        ("rate", "f8"),  # bytes per ns
        ("room", "f8"),  # while it is filled: what no flow has yet
        ("unfilled", "i8"),  # while it is filled: how many flows have no rate yet,
        ("unfilled_share", "f8"),  # and the sum of the shares of them that pass it
        ("is_filled", "i8"),  # whether it is being filled
    ]
)
PAIR = np.dtype(
    [
        ("head", "i8"),  # first hop of an active flow; -1 if there is none
        ("active", "i8"),  # number of active flows
        ("taken", "f8"),  # what they take together, in bytes per ns
        ("share", "f8"),  # at which it decided the rates of its flows; infinite if other ports or limits did
        ("is_dirty", "i8"),  # whether rates must be computed anew here
    ]
)
TOUCHED, FILLED_PORTS, FILLED_FLOWS, FULL_WINDOWS, CAPPED, LINE_ROOM, CROWDED, VARIED = 0, 1, 2, 3, 4, 5, 6, 7
"""Indices of Network.counts."""
SAME_DELAY_NS = 1e-3
"""Sums of delays that differ by less than this are the same; that is rounding."""
WIDE = 1 - 1e-9
"""Ports whose rates are equal but for rounding are."""
MOST_PASSES = 100
"""After so many, clocks that do not settle are set to the true time, which is always right. 40 random graphs of 10
switches needed 1 to 6."""


class Network(NamedTuple):
    """All flows and ports."""

    #: FLOWs. Those of Paths, and behind them all stations but first ones.
    flows: Records
    #: MESSAGEs of all flows, flow by flow.
    messages: Records
    #: HOPs of all flows, flow by flow.
    hops: Records
    #: PORTs.
    ports: Records
    #: A PAIR for each port and band, at port * bands + band.
    pairs: Records
    #: Ports at which rates of a band must be computed anew, from index band * ports on. Below that, the number of these
    #: ports.
    dirty: Int64
    dirty_count: Int64
    #: Flows that may have become active or idle, or whose next event may have moved.
    touched: Int64
    #: The ports and flows that are being filled.
    filled_ports: Int64
    filled_flows: Int64
    #: Lengths of `touched`, `filled_ports` and `filled_flows`, how many active flows are limited, how many have a most
    #: rate, the room of each line, 1 if that was too little, and how many flows may be limited by other than ports.
    counts: Int64
    #: CHANGEs on the lines of all stations, line by line.
    changes: Records


def network_of(
    paths: Paths,
    unsent_bytes: float,
    early_bytes: float,
    iterations: int,
    delays: Delays = NO_DELAYS,
    line_room: int = LEAST_LINE_ROOM,
) -> Network:
    """A network without active flows.

    unsent_bytes: payload of a flow that may wait when a SEND ends. If it may, there is room for the messages of so
    many iterations. early_bytes: payload of a message that has not left when it arrives. delays: of links, and the
    windows of connections there. line_room: changes of rate that may be under way at a time on each line.
    """
    ports = len(paths.port_bytes_per_ns)
    bands = int(paths.flow_band.max(initial=0)) + 1
    parts = parts_of(paths, hop_lags_ns(paths, delays))
    flow, share = parts.flow, paths.flow_goodput_share[parts.flow]
    travels_ns = travel_ns(paths, delays)
    far = travels_ns > 0
    window_bytes = np.full(len(far), np.inf)
    window_bytes[far] = delays.window_bytes / paths.flow_goodput_share[far]

    flows = np.zeros(len(flow), FLOW)
    flows["old_rate"], flows["accept_bytes"] = UNTOUCHED, np.inf
    flows["unsent_bytes"], flows["early_bytes"] = unsent_bytes / share, early_bytes / share
    flows["travel_ns"] = np.maximum(travels_ns[flow] - parts.lag_ns, 0.0)
    flows["limit"], flows["window_bytes"] = np.inf, np.inf
    windowed = np.flatnonzero((parts.kind == WHOLE) & np.isfinite(window_bytes[flow]))
    flows["window_bytes"][windowed] = window_bytes[windowed]
    flows["window_rate"][windowed] = window_bytes[windowed] / (2 * travels_ns[windowed])
    flows["free_bytes"] = flows["window_bytes"]
    changes = lay_lines(flows, parts, travels_ns, window_bytes, line_room)
    flows["kind"][windowed] = WINDOWED
    limited = paths.flow_is_limited[flow] & (parts.kind != MIDDLE) & (parts.kind != LAST)
    flows["most_rate"] = np.where(limited, paths.flow_bytes_per_ns, np.inf)
    flows["room"] = _message_room(paths, parts, iterations, has_unsent=bool(unsent_bytes))
    flows["first_message"] = np.cumsum(flows["room"]) - flows["room"]
    flows["band"] = paths.flow_band[flow]
    return Network(
        flows=flows,
        messages=np.empty(int(flows["room"].sum()), MESSAGE),
        hops=_hops(paths, parts, flows),
        ports=_ports(paths.port_bytes_per_ns),
        pairs=_pairs(ports * bands),
        dirty=np.zeros(ports * bands, np.int64),
        dirty_count=np.zeros(bands, np.int64),
        touched=np.zeros(len(flow), np.int64),
        filled_ports=np.zeros(ports, np.int64),
        filled_flows=np.zeros(len(flow), np.int64),
        counts=np.array([0, 0, 0, 0, np.isfinite(flows["most_rate"]).sum(), line_room, 0, _varied(flows)], np.int64),
        changes=changes,
    )


def _varied(flows: Records) -> int:
    """Number of flows that may have a limit that is not a port's, and comes and goes."""
    return int(((flows["kind"] != WHOLE) | np.isfinite(flows["most_rate"])).sum())


def _message_room(paths: Paths, parts: Parts, iterations: int, *, has_unsent: bool) -> Int64:
    """Number of messages that each row has room for: one more than may wait, for one that has arrived and ended but not
    left."""
    most = paths.flow_sends[parts.flow] * iterations + 1
    room: Int64 = most if has_unsent else np.ones(len(most), np.int64)
    room[parts.kind == LAST] = most[parts.kind == LAST]
    room[parts.kind == MIDDLE] = 1
    return room


def _hops(paths: Paths, parts: Parts, flows: Records) -> Records:
    """The ports of each flow record, in whose `first_hop` and `end_hop` their places are put."""
    flows["first_hop"], flows["end_hop"] = parts.first_hop, parts.end_hop
    hops = np.zeros(len(paths.route_port), HOP)
    hops["port"], hops["share"] = paths.route_port, paths.route_share
    by_hop = np.lexsort((parts.end_hop, parts.first_hop))
    hops["flow"] = np.repeat(by_hop, (parts.end_hop - parts.first_hop)[by_hop])
    return hops


def _ports(bytes_per_ns: Float64) -> Records:
    ports = np.zeros(len(bytes_per_ns), PORT)
    ports["rate"] = bytes_per_ns
    return ports


def _pairs(count: int) -> Records:
    pairs = np.zeros(count, PAIR)
    pairs["head"], pairs["share"] = -1, np.inf
    return pairs


def hop_lags_ns(paths: Paths, delays: Delays) -> Float64:
    """Lag of each flow at each port of its route, in the order of `Paths.route_port`, by the ports' own clocks.

    Copies of a multicast flow pass all ports of their tree at once, and bursts that take several ways those of all ways.
    """
    hops = len(paths.route_port)
    if not any(delays.port_s):
        return np.zeros(hops)
    offset_ns = _offsets_ns(paths, delays)
    counts = _may_queue(paths) & ~np.repeat(paths.flow_forks, np.diff(paths.route_start))
    slow_ns: Float64 = np.full(len(paths.port_from), np.inf)
    if delays.waits_at_ports:
        # A lag that rises at each port makes each a station.
        place = np.arange(hops) - np.repeat(paths.route_start[:-1], np.diff(paths.route_start))
        return _pass_along(paths, offset_ns + 2 * SAME_DELAY_NS * place, counts, np.zeros(len(slow_ns)))[0]
    np.minimum.at(slow_ns, paths.route_port[counts], offset_ns[counts])
    for _ in range(MOST_PASSES):
        lag_ns, is_settled = _pass_along(paths, offset_ns, counts, slow_ns)
        if is_settled:
            return lag_ns
    slow_ns[:] = 0.0
    return _pass_along(paths, offset_ns, counts, slow_ns)[0]


def _offsets_ns(paths: Paths, delays: Delays) -> Float64:
    """Nanoseconds after it left its first port at which a byte comes to each port of its route, without its time on the
    lines."""
    late_ns = (np.array(delays.port_s) * 1e9)[paths.route_port]
    before_ns = np.cumsum(late_ns) - late_ns
    firsts = paths.route_start[:-1][np.diff(paths.route_start) > 0]
    lengths = np.diff(paths.route_start)
    base_ns = np.repeat(before_ns[firsts], lengths[lengths > 0])
    offset_ns: Float64 = before_ns - base_ns
    return offset_ns


def _may_queue(paths: Paths) -> Bool:
    """Returns for each hop whether bytes may ever wait at its port. They cannot if the ports before it are together no
    faster."""
    ports = len(paths.port_from)
    first: Bool = np.zeros(len(paths.route_port), np.bool_)
    first[paths.route_start[:-1][np.diff(paths.route_start) > 0]] = True
    port, before = paths.route_port[~first], paths.route_port[np.flatnonzero(~first) - 1]
    pairs = np.unique(port * ports + before)
    fed = np.bincount(pairs // ports, paths.port_bytes_per_ns[pairs % ports], ports)
    narrow = fed * WIDE > paths.port_bytes_per_ns
    narrow[paths.route_port[first]] = True
    copied = np.repeat(paths.flow_forks, np.diff(paths.route_start))
    narrow[paths.route_port[copied]] = True
    may: Bool = narrow[paths.route_port]
    return may


def _pass_along(paths: Paths, offset_ns: Float64, counts: Bool, slow_ns: Float64) -> tuple[Float64, bool]:
    """Lags by these clocks, and whether they never fall; the clocks of ports where one would are made less slow.

    Where `counts` is false, a lag is that of the port before.
    """
    lag_ns, is_settled = np.zeros(len(offset_ns)), True
    lengths = np.diff(paths.route_start)
    sofar_ns: Float64 = np.zeros(len(lengths))
    for place in range(int(lengths.max(initial=0))):
        flows = np.flatnonzero(lengths > place)
        hop: Int64 = paths.route_start[flows] + place
        counted = counts[hop]
        flows, hop, kept = flows[counted], hop[counted], hop[~counted]
        port = paths.route_port[hop]
        here_ns = offset_ns[hop] - slow_ns[port]
        falls = here_ns < sofar_ns[flows] - SAME_DELAY_NS
        if falls.any():
            is_settled = False
            np.minimum.at(slow_ns, port[falls], offset_ns[hop[falls]] - sofar_ns[flows[falls]])
            here_ns = offset_ns[hop] - slow_ns[port]
        rises = here_ns > sofar_ns[flows] + SAME_DELAY_NS
        sofar_ns[flows[rises]] = here_ns[rises]
        lag_ns[hop] = sofar_ns[flows]
        lag_ns[kept] = sofar_ns[_flow_of(paths, kept)]
    return lag_ns, is_settled


def _flow_of(paths: Paths, hop: Int64) -> Int64:
    found: Int64 = np.searchsorted(paths.route_start, hop, side="right") - 1
    return found

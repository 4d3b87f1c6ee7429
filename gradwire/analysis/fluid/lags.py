"""By how much flows come late at ports that they share with flows of other delays.

An ideal network has a flow's bytes at all ports of its way at once, although they come to each later than they left.
That is exact where all flows come to a port after the same delay: the port's own clock is slow by that delay. So every
port gets a clock that is as slow as all its flows allow, and what a flow's delay exceeds it by is the flow's lag there.
A lag never falls along a way. Where it rises, bytes wait in a line of that length, and the ports behind it serve what
comes out of the line (stations.py).
"""

from __future__ import annotations

import numpy as np

from gradwire.analysis.fluid.delays import Delays
from gradwire.analysis.fluid.paths import Bool, Float64, Paths
from gradwire.datatypes.plan import Int64

SAME_DELAY_NS = 1e-3
"""Sums of delays that differ by less than this are the same; that is rounding."""
WIDE = 1 - 1e-9
"""Ports whose rates are equal but for rounding are."""
MOST_PASSES = 100
"""After so many, clocks that do not settle are set to the true time, which is always right. 40 random graphs of 10
switches needed 1 to 6."""


def hop_lags_ns(paths: Paths, delays: Delays) -> Float64:
    """Lag of each flow at each port of its route, in the order of `Paths.route_port`, by the ports' own clocks.

    Copies of a multicast flow pass all ports of their tree at once.
    """
    hops = len(paths.route_port)
    if not any(delays.port_s):
        return np.zeros(hops)
    offset_ns = _offsets_ns(paths, delays)
    counts = _may_queue(paths) & ~np.repeat(paths.flow_is_multicast, np.diff(paths.route_start))
    slow_ns: Float64 = np.full(len(paths.port_from), np.inf)
    np.minimum.at(slow_ns, paths.route_port[counts], offset_ns[counts])
    for _ in range(MOST_PASSES):
        lag_ns, is_settled = _pass_along(paths, offset_ns, counts, slow_ns)
        if is_settled:
            return lag_ns
    slow_ns[:] = 0.0
    return _pass_along(paths, offset_ns, counts, slow_ns)[0]


def _offsets_ns(paths: Paths, delays: Delays) -> Float64:
    """How long after it left its first port a byte comes to each port of its route, without its time on the lines."""
    late_ns = (np.array(delays.port_s) * 1e9)[paths.route_port]
    before_ns = np.cumsum(late_ns) - late_ns
    firsts = paths.route_start[:-1][np.diff(paths.route_start) > 0]
    lengths = np.diff(paths.route_start)
    base_ns = np.repeat(before_ns[firsts], lengths[lengths > 0])
    offset_ns: Float64 = before_ns - base_ns
    return offset_ns


def _may_queue(paths: Paths) -> Bool:
    """Of each hop, whether bytes may ever wait at its port: not where the ports before it are no faster together."""
    ports = len(paths.port_from)
    first: Bool = np.zeros(len(paths.route_port), np.bool_)
    first[paths.route_start[:-1][np.diff(paths.route_start) > 0]] = True
    port, before = paths.route_port[~first], paths.route_port[np.flatnonzero(~first) - 1]
    pairs = np.unique(port * ports + before)
    fed = np.bincount(pairs // ports, paths.port_bytes_per_ns[pairs % ports], ports)
    narrow = fed * WIDE > paths.port_bytes_per_ns
    narrow[paths.route_port[first]] = True
    copied = np.repeat(paths.flow_is_multicast, np.diff(paths.route_start))
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

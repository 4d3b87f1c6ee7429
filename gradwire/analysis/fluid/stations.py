"""Flows in parts: the ports of a way up to a line of some length, and those behind it.

A flow whose lag (lags.py) rises on its way is a row of stations. Each is a flow by itself, as the ports see it, and
what leaves it comes to the next one later. The first one sends messages, and no more than a window that has not been
acknowledged; the last one has them arrive. The others serve what has come: as fast as their ports let them while
something waits, and else as fast as it comes.

A line holds changes of the rate at which its bytes come, each with all bytes that came before, so that nothing is
lost to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradwire.analysis.fluid.graph import Records
from gradwire.analysis.fluid.paths import Bool, Float64, Paths
from gradwire.datatypes.plan import Int64

WHOLE, WINDOWED, FIRST, MIDDLE, LAST = 0, 1, 2, 3, 4
"""Kinds of rows of Network.flows: a flow in one part, one that has a window, or a station of a flow in several
parts."""
NOBODY = -1

LEAST_LINE_ROOM = 16
"""Changes of rate that a line has room for at first; where more come, the replay begins anew with twice as much."""

CHANGE = np.dtype(
    [
        ("at_ns", "f8"),  # when it is felt
        ("rate", "f8"),  # from then on
        ("total_bytes", "f8"),  # what has come until then
    ]
)


@dataclass(frozen=True)
class Parts:
    """The division of flows into parts. Rows are flow records: whole flows and first stations, in the order of Paths,
    and all other stations behind them."""

    #: Hops of each row: those of Paths.route_port from `first_hop` up to `end_hop`.
    first_hop: Int64
    end_hop: Int64
    #: WHOLE, FIRST, MIDDLE or LAST. Which whole ones have windows is not known here.
    kind: Int64
    #: The flow of Paths that each row belongs to.
    flow: Int64
    #: Lag of each row's ports.
    lag_ns: Float64

    @property
    def is_whole(self) -> bool:
        """Whether no flow is divided."""
        return not self.kind.any()


def parts_of(paths: Paths, hop_lags_ns: Float64) -> Parts:
    """Divides flows where their lags rise."""
    flows = len(paths.flow_band)
    flow_of_hop = np.repeat(np.arange(flows), np.diff(paths.route_start))
    same_flow: Bool = np.zeros(len(flow_of_hop), np.bool_)
    same_flow[1:] = flow_of_hop[1:] == flow_of_hop[:-1]
    before_ns = np.concatenate([hop_lags_ns[:1], hop_lags_ns[:-1]])
    begins = np.flatnonzero(same_flow & (hop_lags_ns > before_ns))
    owner = flow_of_hop[begins]
    first_hop = np.concatenate([paths.route_start[:-1], begins])
    order = np.lexsort((np.arange(len(first_hop)), first_hop, np.concatenate([np.arange(flows), owner])))
    flow = np.concatenate([np.arange(flows), owner])
    kind: Int64 = np.full(len(flow), MIDDLE, np.int64)
    in_order = flow[order]
    is_last = np.append(in_order[1:] != in_order[:-1], np.ones(min(1, len(in_order)), np.bool_))
    end_hop: Int64 = np.empty(len(flow), np.int64)
    end_hop[order] = np.where(is_last, paths.route_start[1:][in_order], np.append(first_hop[order][1:], 0))
    kind[order[is_last]] = LAST
    kind[:flows] = np.where(kind[:flows] == LAST, WHOLE, FIRST)
    lag_ns = np.concatenate([np.zeros(flows), hop_lags_ns[begins]])
    return Parts(first_hop.astype(np.int64), end_hop, kind, flow.astype(np.int64), lag_ns)


def lay_lines(flows: Records, parts: Parts, travel_ns: Float64, window_bytes: Float64, room: int) -> Records:
    """Joins the stations of each flow by lines, which are empty; returns the changes on all lines.

    flows: the flow records of `parts`. travel_ns: of each flow, how long it is under way. window_bytes: of each flow,
    what may be on the line without having been acknowledged, which takes as long again as it was under way; infinite
    where no window matters. room: changes that are on a line at a time.
    """
    flows["kind"], flows["next"], flows["last"] = parts.kind, NOBODY, NOBODY
    rows = np.flatnonzero(parts.kind != WHOLE)
    by_flow = rows[np.lexsort((parts.lag_ns[rows], parts.flow[rows]))]
    here, there = by_flow[:-1], by_flow[1:]
    joined = parts.flow[here] == parts.flow[there]
    here, there = here[joined], there[joined]
    flows["next"][here] = there
    flows["lag_ns"][here] = parts.lag_ns[there] - parts.lag_ns[here]
    lasts = rows[parts.kind[rows] == LAST]
    firsts = parts.flow[lasts]
    flows["last"][firsts] = lasts
    flows["arrived_bytes"][firsts] = flows["window_bytes"][firsts] = window_bytes[firsts]
    limited = np.isfinite(window_bytes[firsts])
    acked, sender = lasts[limited], firsts[limited]
    flows["next"][acked] = sender
    flows["lag_ns"][acked] = 2 * travel_ns[sender] - parts.lag_ns[acked]
    flows["first_change"][rows] = np.arange(len(rows)) * room
    return np.zeros(len(rows) * room, CHANGE)

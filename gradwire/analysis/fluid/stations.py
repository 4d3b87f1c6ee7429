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
from typing import NamedTuple

import numpy as np

from gradwire.analysis.fluid.graph import Records
from gradwire.analysis.fluid.paths import Bool, Float64, Paths
from gradwire.datatypes.plan import Int64

WHOLE, FIRST, MIDDLE, LAST = 0, 1, 2, 3
"""What a row of Network.flows is: a flow in one part, or a station of one."""

LINE_ROOM = 16
"""Changes of rate that a line has room for at first; where more come, the replay begins anew with twice as much."""

STATION = np.dtype(
    [
        ("kind", "i8"),  # FIRST, MIDDLE or LAST
        ("row", "i8"),  # its flow record
        ("next", "i8"),  # the flow record that gets what leaves; of LAST the first one, by ACKs; -1 for none
        ("last", "i8"),  # of FIRST: the flow record of its last station
        ("lag_ns", "f8"),  # how long that takes
        ("told_rate", "f8"),  # the rate that the next one was told of last
        ("arrived_bytes", "f8"),  # what may have left by now, as of the flow's `left_ns`: what has come, and of FIRST
        ("in_rate", "f8"),  # what has been acknowledged and a window. It grows by so much, in bytes per ns
        ("first_change", "i8"),  # the changes of its own line are a ring from here on,
        ("head", "i8"),  # the oldest one's place in the ring,
        ("count", "i8"),  # and their number
    ]
)
CHANGE = np.dtype(
    [
        ("at_ns", "f8"),  # when it is felt
        ("rate", "f8"),  # from then on
        ("total_bytes", "f8"),  # what has come until then
    ]
)


class Stations(NamedTuple):
    """The stations of all flows in several parts, and their lines."""

    #: STATIONs, in the order of the flow records that they are the rest of.
    stations: Records
    #: CHANGEs of all lines, line by line.
    changes: Records
    #: Room of each line; and 1 if that was too little.
    counts: Int64


ROOM, CROWDED = 0, 1
"""Indices of Stations.counts."""


@dataclass(frozen=True)
class Parts:
    """How flows are divided. Rows are flow records: whole flows and first stations, in the order of Paths, and all
    other stations behind them."""

    #: Hops of each row: those of Paths.route_port from `first_hop` up to `end_hop`.
    first_hop: Int64
    end_hop: Int64
    #: WHOLE, FIRST, MIDDLE or LAST.
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


def stations_of(parts: Parts, travel_ns: Float64, window_bytes: Float64, room: int) -> tuple[Stations, Int64]:
    """Stations at which nothing has come, and the station of each row, -1 of a whole flow.

    travel_ns: of each flow, how long it is under way. window_bytes: of each flow, what may be on the line without
    having been acknowledged, which takes as long again as it was under way; infinite where no window matters.
    """
    rows = np.flatnonzero(parts.kind != WHOLE)
    station_of_row: Int64 = np.full(len(parts.kind), -1, np.int64)
    station_of_row[rows] = np.arange(len(rows))
    stations = np.zeros(len(rows), STATION)
    stations["kind"], stations["row"], stations["next"], stations["last"] = parts.kind[rows], rows, -1, -1
    by_flow = rows[np.lexsort((parts.lag_ns[rows], parts.flow[rows]))]
    here, there = by_flow[:-1], by_flow[1:]
    joined = parts.flow[here] == parts.flow[there]
    here, there = here[joined], there[joined]
    stations["next"][station_of_row[here]] = there
    stations["lag_ns"][station_of_row[here]] = parts.lag_ns[there] - parts.lag_ns[here]
    lasts = rows[parts.kind[rows] == LAST]
    firsts = parts.flow[lasts]
    stations["last"][station_of_row[firsts]] = lasts
    stations["arrived_bytes"][station_of_row[firsts]] = window_bytes[firsts]
    limited = np.isfinite(window_bytes[firsts])
    acked, sender = station_of_row[lasts[limited]], firsts[limited]
    stations["next"][acked] = sender
    stations["lag_ns"][acked] = 2 * travel_ns[sender] - parts.lag_ns[lasts[limited]]
    stations["first_change"] = np.arange(len(rows)) * room
    changes = np.zeros(len(rows) * room, CHANGE)
    return Stations(stations, changes, np.array([room, 0], np.int64)), station_of_row

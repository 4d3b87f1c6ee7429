"""Where network time on a critical path went: onto the line, or behind whose messages at which port."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradwire.analysis.bounds import message_ns, once, switches_of
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.names import Names, host_name
from gradwire.analysis.path.walk import NETWORK, Kind, Segment
from gradwire.analysis.wire import Bool, Float64, WireMessages, data_of, wire_messages
from gradwire.topo.fabric import Fabric, Topology
from gradwire.workloads.plan import Plan, Role


def split_transfers(segments: Iterable[Segment], plan: Plan, fabric: Fabric) -> list[Segment]:
    """Cuts each transfer into what the message takes on an empty network, and what it took longer.

    The message's own time is put at the end. A transfer that the iteration's start cuts off keeps at most its own time.
    """
    alone_ns = message_ns(plan, fabric)
    found = []
    for segment in segments:
        if segment.kind is not Kind.TRANSFER:
            found.append(segment)
            continue
        send = int(plan.ops.message[segment.op])
        middle = max(segment.begin_ns, segment.end_ns - round(float(alone_ns[send])))
        if segment.begin_ns < middle:
            found.append(replace(segment, end_ns=middle, kind=Kind.SHARING))
        if middle < segment.end_ns:
            found.append(replace(segment, begin_ns=middle, kind=Kind.SERIALISATION))
    return found


@dataclass(frozen=True)
class Contention:
    """What shared a message's way while it was on it.

    place: the busiest place on its way, e.g. "the port out of h2". flows: connections that had data under way there, its own
    included. others: names of the messages that moved the most bytes there beside it, most first, each with its share of all bytes there.
    """

    place: str
    flows: int
    others: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class _Place:
    """Somewhere that messages share: its name, its line rate (1 for equal ones), and which messages pass."""

    name: str
    rate_bps: float
    passing: Bool


class Traffic:
    """All messages of a run on the wire, to be asked what was in whose way. fabric: None where it is not known."""

    def __init__(self, logged: LoggedOps, fabric: Fabric | None) -> None:
        self._logged, self._fabric = logged, fabric
        self._names = Names(logged.plan)
        plan = logged.plan
        self._aggregators = set(plan.rank_host[plan.rank_role == Role.AGGREGATOR].tolist())

    @cached_property
    def _messages(self) -> WireMessages:
        messages = wire_messages(self._logged)
        return messages.where(data_of(self._logged, messages))

    def contention(self, segment: Segment, most: int = 3) -> Contention | None:
        """What shared the way of the message of a network segment; None for a message without data or a way of limited rate.

        A message's bytes are taken to move evenly between its first byte sent and its last received, which is an estimate: a message
        that waits in a socket counts as sharing the port that it waits for.
        """
        found, ops = self._messages, self._logged.plan.ops
        send = int(ops.message[segment.op])
        mine = (found.send == send) & (found.iteration == segment.iteration)
        if segment.kind not in NETWORK or not mine.any():
            return None
        span = np.maximum(found.arrived_ns - found.sent_ns, 1)
        overlap = np.minimum(found.arrived_ns, segment.end_ns) - np.maximum(found.sent_ns, segment.begin_ns)
        moved = ops.size_bytes[found.send] * np.clip(overlap, 0, None) / span
        places = self._places(mine)
        if not places:
            return None
        place = max(places, key=lambda there: moved[there.passing].sum() / there.rate_bps)
        there = place.passing & (moved > 0)
        flows = len(np.unique(found.connection[there | mine & place.passing]))
        return Contention(place.name, flows, self._largest(moved, there & ~mine, most))

    def _places(self, mine: Bool) -> list[_Place]:
        """What has a line rate on the way of the messages `mine`; an aggregator's port has none."""
        found, fabric = self._messages, self._fabric
        rate_bps = fabric.rate_bps if fabric else 1.0
        source, places = int(found.src[mine][0]), []
        if source not in self._aggregators:
            leaving = (found.src == source) & found.first | mine
            places.append(_Place(f"the port out of {host_name(source)}", rate_bps, leaving))
        for target in set(found.dst[mine].tolist()) - self._aggregators:
            places.append(_Place(f"the port into {host_name(target)}", rate_bps, found.dst == target))
        if fabric is not None and fabric.topology is Topology.LEAF_SPINE:
            places += self._uplinks(fabric, mine)
        return places

    def _uplinks(self, fabric: Fabric, mine: Bool) -> list[_Place]:
        """A leaf's uplinks together: which of them a message takes is the switches' choice."""
        found = self._messages
        source, target = switches_of(fabric, found.src), switches_of(fabric, found.dst)
        rate_bps = fabric.spines * fabric.uplink_rate_bps
        places = []
        for leaf, name in enumerate(fabric.leaf_names()):
            for passing, way in ((source == leaf, "uplinks"), (target == leaf, "downlinks")):
                crossing = passing & (source != target)
                if (crossing & mine).any():
                    places.append(_Place(f"the {way} of {name}", rate_bps, once(crossing, found.iteration, found.send)))
        return places

    def _largest(self, moved: Float64, chosen: Bool, most: int) -> tuple[tuple[str, float], ...]:
        found, names = self._messages, dict[str, float]()
        for index in np.flatnonzero(chosen).tolist():
            send = int(found.send[index])
            name = f"{self._names.tensor(send)} -> {self._names.receiver(send)}"
            names[name] = names.get(name, 0.0) + float(moved[index])
        total = float(moved[chosen].sum())
        largest = sorted(names.items(), key=lambda item: -item[1])[:most]
        return tuple((name, size / total) for name, size in largest)

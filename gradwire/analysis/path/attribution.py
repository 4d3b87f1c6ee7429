"""Attributes network time on a critical path: to the line, or to other messages at a port."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradwire.analysis.bounds import message_ns, once, parts_of
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.names import Names, host_name
from gradwire.analysis.path.walk import NETWORK, Kind, Segment
from gradwire.analysis.wire import Bool, Float64, WireMessages, data_of, wire_messages
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.tiers import Tier


def split_transfers(segments: Iterable[Segment], plan: Plan, fabric: Fabric) -> list[Segment]:
    """Splits each transfer into the message's time on an empty network and the time beyond that.

    The message's own time comes last. A transfer that the iteration's start cuts off keeps at most its own time.
    """
    alone_ns = message_ns(plan, fabric)
    pieces = []
    for segment in segments:
        if segment.kind is not Kind.TRANSFER:
            pieces.append(segment)
            continue
        send = int(plan.ops.message[segment.op])
        middle = max(segment.begin_ns, segment.end_ns - round(float(alone_ns[send])))
        if segment.begin_ns < middle:
            pieces.append(replace(segment, end_ns=middle, kind=Kind.SHARING))
        if middle < segment.end_ns:
            pieces.append(replace(segment, begin_ns=middle, kind=Kind.SERIALISATION))
    return pieces


@dataclass(frozen=True)
class Contention:
    """What shared the path of a message while it was under way."""

    #: The busiest place on its path, e.g. "the port out of h2".
    place: str
    #: Number of connections with data under way there, its own included.
    flows: int
    #: Names of the other messages that moved the most bytes there, largest first, each with its share of all bytes there.
    others: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class _Place:
    """A place that messages share."""

    #: Name for people.
    name: str
    #: Line rate; 1 everywhere if the fabric is unknown.
    rate_bps: float
    #: Which messages pass.
    passing: Bool


class Traffic:
    """All messages of a run on the wire, which tell what delayed a message. `fabric` is None if it is unknown."""

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
        """What shared the path of a network segment's message; None for a message without data or a path without a rate limit.

        A message's bytes are assumed to move evenly between the first byte sent and the last byte received. This is an estimate: a
        message that waits in a socket counts as sharing the port that it waits for.
        """
        messages, ops = self._messages, self._logged.plan.ops
        send = int(ops.message[segment.op])
        mine = (messages.send == send) & (messages.iteration == segment.iteration)
        if segment.kind not in NETWORK or not mine.any():
            return None
        span = np.maximum(messages.arrived_ns - messages.sent_ns, 1)
        overlap = np.minimum(messages.arrived_ns, segment.end_ns) - np.maximum(messages.sent_ns, segment.begin_ns)
        moved = ops.size_bytes[messages.send] * np.clip(overlap, 0, None) / span
        places = self._places(mine)
        if not places:
            return None
        busiest = max(places, key=lambda place: moved[place.passing].sum() / place.rate_bps)
        active = busiest.passing & (moved > 0)
        flows = len(np.unique(messages.connection[active | mine & busiest.passing]))
        return Contention(busiest.name, flows, self._largest(moved, active & ~mine, most))

    def _places(self, mine: Bool) -> list[_Place]:
        """The places with a line rate on the path of the messages `mine`; an aggregator's port has none."""
        messages, fabric = self._messages, self._fabric
        rates_bps = fabric.host_bps if fabric else ()
        source, places = int(messages.src[mine][0]), []
        if source not in self._aggregators:
            leaving = (messages.src == source) & messages.first | mine
            places.append(_Place(f"the port out of {host_name(source)}", rates_bps[source] if fabric else 1.0, leaving))
        for target in set(messages.dst[mine].tolist()) - self._aggregators:
            places.append(
                _Place(
                    f"the port into {host_name(target)}", rates_bps[target] if fabric else 1.0, messages.dst == target
                )
            )
        if fabric is not None:
            places += [place for tier in fabric.tree.tiers for place in self._uplinks(fabric, tier, mine)]
        return places

    def _uplinks(self, fabric: Fabric, tier: Tier, mine: Bool) -> list[_Place]:
        """The uplinks of a leaf, or of a pod, count together: the switches choose which of them a message takes."""
        messages = self._messages
        source, target = parts_of(fabric, tier, messages.src), parts_of(fabric, tier, messages.dst)
        places = []
        for part, name in enumerate(tier.names):
            for passing, way in ((source == part, "uplinks"), (target == part, "downlinks")):
                crossing = passing & (source != target)
                if (crossing & mine).any():
                    once_each = once(crossing, messages.iteration, messages.send)
                    places.append(_Place(f"the {way} of {name}", tier.part_bps[part], once_each))
        return places

    def _largest(self, moved: Float64, chosen: Bool, most: int) -> tuple[tuple[str, float], ...]:
        messages, names = self._messages, dict[str, float]()
        for index in np.flatnonzero(chosen).tolist():
            send = int(messages.send[index])
            name = f"{self._names.tensor(send)} -> {self._names.receiver(send)}"
            names[name] = names.get(name, 0.0) + float(moved[index])
        total = float(moved[chosen].sum())
        largest = sorted(names.items(), key=lambda item: -item[1])[:most]
        return tuple((name, size / total) for name, size in largest)

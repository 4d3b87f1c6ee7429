"""The critical path of one iteration, and how the iteration's time divides along it.

`critical_path` walks back from the slowest worker's end to the end of the previous iteration
(analysis/timeline/walk.py), splits network time into line and waiting, and sums up in one sentence where the
iteration's time went. The pieces are whole nanoseconds without gaps or overlaps, so they sum to the iteration time
that analysis/iterations.py measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradwire.analysis.agreement.short_windows import ShortWindow
from gradwire.analysis.bounds import message_ns, once, parts_of
from gradwire.analysis.iterations import Float64, iteration_ends_ns
from gradwire.analysis.link_loads import passing_by_way
from gradwire.analysis.logged import Bool, LoggedOps, WireMessages, data_of, wire_messages
from gradwire.analysis.plan_names import PlanNames, host_name
from gradwire.analysis.quantities import quantity
from gradwire.analysis.timeline.walk import NETWORK, PathSegment, TimeKind, walk_back
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.records import FaultRecord, OpLog
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.network.tiers import Tier
from gradwire.network.wire.ways import MessageWays

PARTS: dict[str, tuple[TimeKind, ...]] = {
    "compute": (TimeKind.COMPUTE,),
    "network": NETWORK,
    "straggler": (TimeKind.STRAGGLER,),
    "aggregation": (TimeKind.AGGREGATION,),
    "latency": (TimeKind.LATENCY,),
    "local": (TimeKind.LOCAL,),
    "other": (TimeKind.LATENESS, TimeKind.UNEXPLAINED),
}
"""The parts of an iteration's time, and the kinds of segments in each."""
PART_NAMES = {
    "compute": "compute",
    "network": "network",
    "straggler": "waiting for a straggler",
    "aggregation": "aggregation",
    "latency": "software latency",
    "local": "inside machines",
    "other": "the emulator's own time",
}
WORTH_SAYING = 0.05
"""Smallest share of the time with which a part is mentioned in the sentence."""


def split_transfers(segments: Iterable[PathSegment], plan: Plan, fabric: Fabric) -> list[PathSegment]:
    """Splits each transfer into the message's time on an empty network and the time beyond that.

    The message's own time comes last. A transfer that the iteration's start cuts off keeps at most its own time.
    """
    alone_ns = message_ns(plan, fabric)
    pieces = []
    for segment in segments:
        if segment.kind is not TimeKind.TRANSFER:
            pieces.append(segment)
            continue
        send = int(plan.ops.message[segment.op])
        middle = max(segment.begin_ns, segment.end_ns - round(float(alone_ns[send])))
        if segment.begin_ns < middle:
            pieces.append(replace(segment, end_ns=middle, kind=TimeKind.SHARING))
        if middle < segment.end_ns:
            pieces.append(replace(segment, begin_ns=middle, kind=TimeKind.SERIALISATION))
    return pieces


@dataclass(frozen=True)
class SharedPath:
    """The messages that shared the path of a message while it was under way."""

    #: The busiest place on its path, e.g. "the port out of h2".
    place: str
    #: Number of connections with data under way there, its own included.
    flows: int
    #: Names of the other messages that moved the most bytes there, largest first, each with its share of all bytes
    #: there.
    others: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class _SharedPlace:
    """A place that messages share."""

    #: Name for people.
    name: str
    #: Line rate; 1 everywhere if the fabric is unknown.
    rate_bps: float
    #: Whether each message passes.
    passing: Bool


class Traffic:
    """All messages of a run on the wire, from which the cause of a message's delay follows. `fabric` is None if it is
    unknown."""

    def __init__(self, logged: LoggedOps, fabric: Fabric | None) -> None:
        self._logged, self._fabric = logged, fabric
        self._names = PlanNames(logged.plan)
        plan = logged.plan
        self._aggregators = set(plan.rank_host[plan.rank_role == Role.AGGREGATOR].tolist())

    @cached_property
    def _messages(self) -> WireMessages:
        messages = wire_messages(self._logged)
        return messages.where(data_of(self._logged, messages))

    def contention(self, segment: PathSegment, most: int = 3) -> SharedPath | None:
        """Messages that shared the path of a network segment's message; None for a message without data or a path
        without a rate limit.

        A message's bytes are assumed to move evenly between the first byte sent and the last byte received. This is an
        estimate: a message that waits in a socket counts as sharing the port that it waits for.
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
        busiest = max(places, key=lambda line: moved[line.passing].sum() / line.rate_bps)
        active = busiest.passing & (moved > 0)
        flows = len(np.unique(messages.connection[active | mine & busiest.passing]))
        return SharedPath(busiest.name, flows, self._largest(moved, active & ~mine, most))

    def _places(self, mine: Bool) -> list[_SharedPlace]:
        """The places with a line rate on the path of the messages `mine`; an aggregator's port has none."""
        messages, fabric = self._messages, self._fabric
        rates_bps = fabric.host_bps if fabric else ()
        source, places = int(messages.src[mine][0]), []
        if source not in self._aggregators:
            leaving = (messages.src == source) & messages.first | mine
            places.append(
                _SharedPlace(f"the port out of {host_name(source)}", rates_bps[source] if fabric else 1.0, leaving)
            )
        for target in set(messages.dst[mine].tolist()) - self._aggregators:
            rate_bps = rates_bps[target] if fabric else 1.0
            places.append(_SharedPlace(f"the port into {host_name(target)}", rate_bps, messages.dst == target))
        if fabric is not None:
            places += [line for tier in fabric.tree.tiers for line in self._uplinks(fabric, tier, mine)]
            # Bursts that take all ways in turn share each line for a moment.
            if not (fabric.is_tiered or fabric.routing.policy.writes_ways):
                places += self._lines(fabric, mine)
        return places

    def _lines(self, fabric: Fabric, mine: Bool) -> list[_SharedPlace]:
        """The lines between switches on the way of the messages `mine`, where switches are not in tiers."""
        _messages, links = self._messages, fabric.trunk_links()
        names = [(link, link.a.device, link.b.device) for link in links]
        names += [(link, link.b.device, link.a.device) for link in links]
        places = []
        for (link, near, far), passing in zip(names, self._passing, strict=True):
            if (passing & mine).any():
                places.append(_SharedPlace(f"the line from {near} to {far}", link.rate_bps, passing))
        return places

    @cached_property
    def _passing(self) -> list[Bool]:
        """The messages on each line between switches: those of one direction, then those of the other."""
        assert self._fabric is not None
        ways = MessageWays(self._logged.plan, self._fabric)
        passing = passing_by_way(ways, self._messages, self._fabric)
        return [up for up, _ in passing] + [down for _, down in passing]

    def _uplinks(self, fabric: Fabric, tier: Tier, mine: Bool) -> list[_SharedPlace]:
        """The uplinks of a leaf, or of a pod, count together: the switches choose which of them a message takes."""
        messages = self._messages
        source, target = parts_of(fabric, tier, messages.src), parts_of(fabric, tier, messages.dst)
        places = []
        for part, name in enumerate(tier.names):
            for passing, way in ((source == part, "uplinks"), (target == part, "downlinks")):
                crossing = passing & (source != target)
                if (crossing & mine).any():
                    once_each = once(crossing, messages.iteration, messages.send)
                    places.append(_SharedPlace(f"the {way} of {name}", tier.part_bps[part], once_each))
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


@dataclass(frozen=True)
class PathContribution:
    """All pieces of a path with the same subject."""

    #: Kind of the pieces.
    kind: TimeKind
    #: Description with the ranks.
    what: str
    #: The pieces, in order of time.
    segments: tuple[PathSegment, ...]

    @property
    def duration_ns(self) -> int:
        """Total duration of the segments."""
        return sum(segment.duration_ns for segment in self.segments)


class CriticalPath:
    """The path of one iteration, as segments in order of time that cover the whole iteration."""

    def __init__(
        self,
        logged: LoggedOps,
        fabric: Fabric | None,
        iteration: int,
        segments: tuple[PathSegment, ...],
        faults: Sequence[FaultRecord] = (),
        windows: Sequence[ShortWindow] = (),
    ) -> None:
        self.iteration = iteration
        self.segments = segments
        self.names = PlanNames(logged.plan)
        self.plan = logged.plan
        self.faults = faults
        self._logged, self._fabric = logged, fabric
        self._short = {(window.state.src_host, window.state.dst_host): window for window in windows}

    @property
    def duration_ns(self) -> int:
        """The iteration's time, which is the sum of all segments."""
        return sum(segment.duration_ns for segment in self.segments)

    @cached_property
    def kinds_ns(self) -> dict[TimeKind, int]:
        """Time of each kind; the sum is the iteration's time."""
        totals = dict.fromkeys(TimeKind, 0)
        for segment in self.segments:
            totals[segment.kind] += segment.duration_ns
        return totals

    @property
    def shares(self) -> dict[str, float]:
        """Share of each part in PARTS in the iteration's time; the sum is 1."""
        whole = max(self.duration_ns, 1)
        return {part: sum(self.kinds_ns[kind] for kind in kinds) / whole for part, kinds in PARTS.items()}

    def what(self, segment: PathSegment) -> str:
        """Describes a segment with its ranks and its layer, but without its kind."""
        ops, names = self.plan.ops, self.names
        send = int(ops.message[segment.op])
        if send >= 0:
            chunk = names.tensor(send) if segment.kind in NETWORK else names.chunk(names.chunk_of(send))
            return f"{chunk}: {names.rank(int(ops.rank[send]))} -> {names.receiver(send)}"
        return f"{names.rank(int(ops.rank[segment.op]))}: {names.op(segment.op)}"

    def merged(self, segments: Iterable[PathSegment] | None = None) -> list[PathContribution]:
        """The path in order; consecutive segments of the same kind and about the same layer or tensor are merged."""
        groups: list[tuple[TimeKind, str, list[PathSegment]]] = []
        for segment in self.segments if segments is None else segments:
            what = self.what(segment)
            if not groups or groups[-1][:2] != (segment.kind, what):
                groups.append((segment.kind, what, []))
            groups[-1][2].append(segment)
        return [PathContribution(kind, what, tuple(pieces)) for kind, what, pieces in groups]

    def contributions(self) -> list[PathContribution]:
        """The contributions to the time, largest first, each with all segments of one
        kind and about the same thing on the whole path."""
        groups: dict[tuple[TimeKind, str], list[PathSegment]] = {}
        for segment in self.segments:
            groups.setdefault((segment.kind, self.what(segment)), []).append(segment)
        merged = [PathContribution(kind, what, tuple(pieces)) for (kind, what), pieces in groups.items()]
        return sorted(merged, key=lambda contribution: -contribution.duration_ns)

    @cached_property
    def traffic(self) -> Traffic:
        """The messages on the wire, which tell who shared which port."""
        return Traffic(self._logged, self._fabric)

    def faults_during(self, segments: Sequence[PathSegment]) -> list[FaultRecord]:
        """The faults that were in the network, or at a worker, during any of these segments."""
        return [
            fault for fault in self.faults if any(fault.overlaps(piece.begin_ns, piece.end_ns) for piece in segments)
        ]

    def sentence(self) -> str:
        """One sentence on how the iteration's time divides, and on the largest cause other than computation."""
        shares = self.shares
        parts = sorted(PARTS, key=lambda part: -shares[part])
        mentioned = [part for part in parts if shares[part] >= WORTH_SAYING] or parts[:1]
        texts = [f"{shares[part]:.0%} {PART_NAMES[part]}" for part in mentioned]
        texts[0] = f"{shares[mentioned[0]]:.0%} of iteration {self.iteration} is {PART_NAMES[mentioned[0]]}"
        listed = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
        causes = [part for part in mentioned if part != "compute"]
        cause = self._cause(causes[0]) if causes else "hardly anything else is on its critical path"
        return f"{listed}: {cause}{self._faults_told()}."

    def _faults_told(self) -> str:
        during = self.faults_during(self.segments)
        names = [f"{fault.fault.what} (fault.{fault.fault.name})" for fault in during]
        return f"; during it, {' and '.join(names)}" if names else ""

    def _cause(self, part: str) -> str:
        if part == "network":
            return self._network_cause()
        largest = next(piece for piece in self.contributions() if piece.kind in PARTS[part])
        if part == "straggler":
            return f"at least half of the other workers wait for {largest.what}"
        return f"most of the {PART_NAMES[part]} is {largest.what}"

    def _network_cause(self) -> str:
        """The message with the most network time, the rank that waits for it, and the cause of its delay."""
        about: dict[str, list[PathSegment]] = {}
        for segment in self.segments:
            if segment.kind in NETWORK:
                about.setdefault(self._awaited(segment), []).append(segment)
        text, pieces = max(about.items(), key=lambda item: sum(piece.duration_ns for piece in item[1]))
        in_front: dict[str, int] = {}
        for piece in pieces:
            if piece.kind is TimeKind.QUEUEING:
                name = self.names.message(piece.op)
                in_front[name] = in_front.get(name, 0) + piece.duration_ns
        if sum(in_front.values()) * 2 > sum(piece.duration_ns for piece in pieces):
            more = f" and {len(in_front) - 1} more" if len(in_front) > 1 else ""
            text += f", behind {max(in_front, key=lambda name: in_front[name])}{more} in its send queue"
        longest = max(pieces, key=lambda piece: piece.duration_ns)
        contention = self.traffic.contention(longest)
        if contention is None:
            return text
        window = self._window_told(longest)
        if contention.flows < 2:
            return f"{text}; it has {contention.place} to itself{window}"
        return f"{text}; {contention.flows} flows share {contention.place}{window}"

    def _window_told(self, segment: PathSegment) -> str:
        """Words for the rate that the window of a network segment's connection lets through; "" unless the window holds
        less than the path."""
        ops, host = self.plan.ops, self.plan.rank_host
        send = int(ops.message[segment.op])
        if ops.group[send]:
            return ""
        short = self._short.get((int(host[ops.rank[send]]), int(host[ops.peer[send]])))
        if short is None:
            return ""
        window, trip = quantity(round(short.window_bytes), "bytes"), quantity(short.round_trip_s, "s")
        reached, rate = quantity(short.reached_bps, "bit/s"), quantity(short.rate_bps, "bit/s")
        return (
            f", but sockets' windows of {window} in each round trip of {trip} let {reached} of {rate} through "
            "(transport.buffer)"
        )

    def _awaited(self, segment: PathSegment) -> str:
        """Names the receiver that waits in a network segment, the data that it waits for, and their sender."""
        ops, names = self.plan.ops, self.names
        send = segment.behind if segment.behind >= 0 else int(ops.message[segment.op])
        waits = "wait" if ops.group[send] else "waits"
        chunk = names.chunk(names.chunk_of(send))
        return f"{names.receiver(send)} {waits} for {chunk} from {names.rank(int(ops.rank[send]))}"


def critical_path(
    plan: Plan,
    log: OpLog,
    iteration: int,
    fabric: Fabric | None = None,
    faults: Sequence[FaultRecord] = (),
    windows: Sequence[ShortWindow] = (),
) -> CriticalPath:
    """The critical path of an iteration (0 is the first, warm-up included).

    With `fabric`, network time is split into line and waiting for others; without it, a message's way is a single
    TRANSFER. `faults` are what became of the run's faults, `windows` those of connections that hold less than their
    paths. Raises InputFault for an iteration that the log does not have, InternalFault if the log is incomplete.
    """
    logged = LoggedOps.of(plan, log, faults)
    if not 0 <= iteration < logged.iterations:
        raise InputFault(f"iteration {iteration}: the run has iterations 0 to {logged.iterations - 1}")
    bounds_ns = iteration_ends_ns(plan, log, iteration + 1)
    slowest = int(logged.end[iteration][plan.end_op].argmax())
    segments = walk_back(logged, iteration, int(plan.end_op[slowest]), int(bounds_ns[iteration]))
    if fabric is not None:
        segments = split_transfers(segments, plan, fabric)
    return CriticalPath(logged, fabric, iteration, tuple(segments), faults, windows)

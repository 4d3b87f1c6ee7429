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

from gradwire.analysis.agreement.short_windows import ShortWindow
from gradwire.analysis.bounds import message_ns
from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.plan_names import PlanNames
from gradwire.analysis.quantities import quantity
from gradwire.analysis.timeline.limits import WaitedLine, line_in_words, waited_line
from gradwire.analysis.timeline.line_traffic import LineTraffic
from gradwire.analysis.timeline.walk import NETWORK, PathSegment, TimeKind, walk_back
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import FaultRecord, OpLog
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.network.routes import SummitOf

PARTS: dict[str, tuple[TimeKind, ...]] = {
    "compute": (TimeKind.COMPUTE,),
    "network": NETWORK,
    "straggler": (TimeKind.STRAGGLER,),
    "aggregation": (TimeKind.AGGREGATION,),
    "latency": (TimeKind.LATENCY,),
    "local": (TimeKind.LOCAL,),
    "arrivals": (TimeKind.ARRIVALS,),
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
    "arrivals": "until requests arrive",
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
        summit_of: SummitOf | None = None,
    ) -> None:
        self.iteration = iteration
        self.segments = segments
        self.names = PlanNames(logged.plan)
        self.plan = logged.plan
        self.faults = faults
        self._logged, self._fabric, self._summit_of = logged, fabric, summit_of
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
    def _traffic(self) -> LineTraffic | None:
        """The messages on the lines of the network, which tell who shared which."""
        if self._fabric is None:
            return None
        return LineTraffic(self._logged, self._fabric, self._summit_of, self.faults)

    def waited_line(self, segments: Sequence[PathSegment]) -> WaitedLine | None:
        """The line for which these segments waited longest; None if they waited for none, and where the network is unknown."""
        if self._traffic is None or self._fabric is None:
            return None
        return waited_line(self._traffic, self.plan, self._fabric, segments)

    @cached_property
    def waited(self) -> WaitedLine | None:
        """The line for which the whole path waited longest."""
        return self.waited_line(self.segments)

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
        cause = self._cause(causes[0]) if causes else self._only_compute()
        return f"{listed}: {cause}{self._faults_told()}."

    def _faults_told(self) -> str:
        during = self.faults_during(self.segments)
        names = [f"{fault.fault.what} (fault.{fault.fault.name})" for fault in during]
        return f"; during it, {' and '.join(names)}" if names else ""

    def _only_compute(self) -> str:
        left = f"{1 - self.shares['compute']:.1%}"
        return f"hardly anything else is on its critical path, so that no network and no strategy could save more than {left} of it"

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
        return f"{text}{f'; {line_in_words(self.waited)}' if self.waited else ''}{self._window_told(longest)}"

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
    summit_of: SummitOf | None = None,
) -> CriticalPath:
    """The critical path of an iteration (0 is the first, warm-up included).

    With `fabric`, network time is split into line and waiting for others; without it, a message's way is a single
    TRANSFER. `faults` are what became of the run's faults, `windows` those of connections that hold less than their
    paths. `summit_of` says which spine or core a message takes, where there is a choice. Raises InputFault for an
    iteration that the log does not have, InternalFault if the log is incomplete.
    """
    logged = LoggedOps.of(plan, log, faults)
    if not 0 <= iteration < logged.iterations:
        raise InputFault(f"iteration {iteration}: the run has iterations 0 to {logged.iterations - 1}")
    bounds_ns = iteration_ends_ns(plan, log, iteration + 1)
    slowest = int(logged.end[iteration][plan.end_op].argmax())
    segments = walk_back(logged, iteration, int(plan.end_op[slowest]), int(bounds_ns[iteration]))
    if fabric is not None:
        segments = split_transfers(segments, plan, fabric)
    return CriticalPath(logged, fabric, iteration, tuple(segments), faults, windows, summit_of)

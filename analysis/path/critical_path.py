"""The critical path of one iteration, and how the iteration's time divides along it.

`critical_path` walks back from the slowest worker's end to the end of the iteration before (analysis/path/walk.py), cuts network time
into line and waiting (analysis/path/attribution.py), and says in one sentence what the iteration's time went by with. The pieces are
whole nanoseconds without gap or overlap, so they sum to the iteration time that analysis/iterations.py measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gradwire.agents.records import OpLog
from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.names import Names
from gradwire.analysis.path.attribution import Traffic, split_transfers
from gradwire.analysis.path.walk import NETWORK, Kind, Segment, walk_back
from gradwire.faults import InputFault
from gradwire.topo.fabric import Fabric
from gradwire.workloads.plan import Plan

PARTS: dict[str, tuple[Kind, ...]] = {
    "compute": (Kind.COMPUTE,),
    "network": NETWORK,
    "straggler": (Kind.STRAGGLER,),
    "aggregation": (Kind.AGGREGATION,),
    "latency": (Kind.LATENCY,),
    "local": (Kind.LOCAL,),
    "other": (Kind.LATENESS, Kind.UNEXPLAINED),
}
"""The parts that an iteration divides into."""
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
"""Share of the time from which on a part is in the sentence."""


@dataclass(frozen=True)
class Contribution:
    """All pieces of a path that are about the same thing. what: in words, with the ranks. segments: in the order of time."""

    kind: Kind
    what: str
    segments: tuple[Segment, ...]

    @property
    def duration_ns(self) -> int:
        """Their sum."""
        return sum(segment.duration_ns for segment in self.segments)


class CriticalPath:
    """The path of one iteration. iteration: its number. segments: in the order of time, from begin_ns to end_ns of the run's clock."""

    def __init__(self, logged: LoggedOps, fabric: Fabric | None, iteration: int, segments: tuple[Segment, ...]) -> None:
        self.iteration = iteration
        self.segments = segments
        self.names = Names(logged.plan)
        self.plan = logged.plan
        self._logged, self._fabric = logged, fabric

    @property
    def duration_ns(self) -> int:
        """The iteration's time: the sum of all segments."""
        return sum(segment.duration_ns for segment in self.segments)

    @cached_property
    def kinds_ns(self) -> dict[Kind, int]:
        """Time of every kind; their sum is the iteration's time."""
        found = dict.fromkeys(Kind, 0)
        for segment in self.segments:
            found[segment.kind] += segment.duration_ns
        return found

    @property
    def shares(self) -> dict[str, float]:
        """Share of the iteration's time of every part in PARTS; they sum to 1."""
        whole = max(self.duration_ns, 1)
        return {part: sum(self.kinds_ns[kind] for kind in kinds) / whole for part, kinds in PARTS.items()}

    def what(self, segment: Segment) -> str:
        """A segment in words, with its ranks and layer but without its kind."""
        ops, names = self.plan.ops, self.names
        send = int(ops.message[segment.op])
        if send >= 0:
            chunk = names.tensor(send) if segment.kind in NETWORK else names.chunk(int(ops.chunk[send]))
            return f"{chunk}: {names.rank(int(ops.rank[send]))} -> {names.receiver(send)}"
        return f"{names.rank(int(ops.rank[segment.op]))}: {names.op(segment.op)}"

    def merged(self, segments: Iterable[Segment] | None = None) -> list[Contribution]:
        """The path in order, with segments that follow one another and are of one kind and about the same layer or tensor as one."""
        found: list[tuple[Kind, str, list[Segment]]] = []
        for segment in self.segments if segments is None else segments:
            what = self.what(segment)
            if not found or found[-1][:2] != (segment.kind, what):
                found.append((segment.kind, what, []))
            found[-1][2].append(segment)
        return [Contribution(kind, what, tuple(pieces)) for kind, what, pieces in found]

    def contributions(self) -> list[Contribution]:
        """What the time went by with, the largest first: all segments of one kind and about the same thing, wherever on the path."""
        found: dict[tuple[Kind, str], list[Segment]] = {}
        for segment in self.segments:
            found.setdefault((segment.kind, self.what(segment)), []).append(segment)
        merged = [Contribution(kind, what, tuple(pieces)) for (kind, what), pieces in found.items()]
        return sorted(merged, key=lambda contribution: -contribution.duration_ns)

    @cached_property
    def traffic(self) -> Traffic:
        """Who shared which port."""
        return Traffic(self._logged, self._fabric)

    def sentence(self) -> str:
        """How the iteration's time divides, and the largest cause beside computation, in one sentence."""
        shares = self.shares
        parts = sorted(PARTS, key=lambda part: -shares[part])
        said = [part for part in parts if shares[part] >= WORTH_SAYING] or parts[:1]
        texts = [f"{shares[part]:.0%} {PART_NAMES[part]}" for part in said]
        texts[0] = f"{shares[said[0]]:.0%} of iteration {self.iteration} is {PART_NAMES[said[0]]}"
        listed = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
        causes = [part for part in said if part != "compute"]
        return f"{listed}: {self._cause(causes[0]) if causes else 'hardly anything else is on its critical path'}."

    def _cause(self, part: str) -> str:
        if part == "network":
            return self._network_cause()
        largest = next(found for found in self.contributions() if found.kind in PARTS[part])
        if part == "straggler":
            return f"at least half of the other workers wait for {largest.what}"
        return f"most of the {PART_NAMES[part]} is {largest.what}"

    def _network_cause(self) -> str:
        """The message that the most network time is about, who waits for it, and what was in its way."""
        about: dict[str, list[Segment]] = {}
        for segment in self.segments:
            if segment.kind in NETWORK:
                about.setdefault(self._awaited(segment), []).append(segment)
        text, pieces = max(about.items(), key=lambda item: sum(piece.duration_ns for piece in item[1]))
        in_front: dict[str, int] = {}
        for piece in pieces:
            if piece.kind is Kind.QUEUEING:
                name = self.names.message(piece.op)
                in_front[name] = in_front.get(name, 0) + piece.duration_ns
        if sum(in_front.values()) * 2 > sum(piece.duration_ns for piece in pieces):
            more = f" and {len(in_front) - 1} more" if len(in_front) > 1 else ""
            text += f", behind {max(in_front, key=lambda name: in_front[name])}{more} in its send queue"
        found = self.traffic.contention(max(pieces, key=lambda piece: piece.duration_ns))
        if found is None:
            return text
        if found.flows < 2:
            return f"{text}; it has {found.place} to itself"
        return f"{text}; {found.flows} flows share {found.place}"

    def _awaited(self, segment: Segment) -> str:
        """Who waits for what from whom in a network segment."""
        ops, names = self.plan.ops, self.names
        send = segment.behind if segment.behind >= 0 else int(ops.message[segment.op])
        waits = "wait" if ops.group[send] else "waits"
        chunk = names.chunk(int(ops.chunk[send]))
        return f"{names.receiver(send)} {waits} for {chunk} from {names.rank(int(ops.rank[send]))}"


def critical_path(plan: Plan, log: OpLog, iteration: int, fabric: Fabric | None = None) -> CriticalPath:
    """The critical path of an iteration (0 is the first, warm-up included).

    fabric: with it, network time is divided into line and waiting for others; without it, a message's way is one TRANSFER.
    Raises InputFault for an iteration that the log does not have, InternalFault where the log is incomplete.
    """
    logged = LoggedOps.of(plan, log)
    if not 0 <= iteration < logged.iterations:
        raise InputFault(f"iteration {iteration}: the run has iterations 0 to {logged.iterations - 1}")
    bounds_ns = iteration_ends_ns(plan, log, iteration + 1)
    slowest = int(logged.end[iteration][plan.end_op].argmax())
    segments = walk_back(logged, iteration, int(plan.end_op[slowest]), int(bounds_ns[iteration]))
    if fabric is not None:
        segments = split_transfers(segments, plan, fabric)
    return CriticalPath(logged, fabric, iteration, tuple(segments))

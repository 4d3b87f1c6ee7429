"""What a run's messages put on each line of the network (network/routes.py numbers them), and which line was the limit while
something waited.

A message's bytes are taken to pass evenly from when its first ones can have begun to when the last one arrived, so the use of a line
over a short time is an estimate; that over a longer one is exact. Of a message whose bursts take several ways, each line has its share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradwire.analysis.bounds import message_ns, once
from gradwire.analysis.iterations import Float64
from gradwire.analysis.link_loads import LinkLoad, binned_bytes
from gradwire.analysis.logged import Bool, LoggedOps, WireMessages, data_of, wire_messages
from gradwire.analysis.plan_names import PlanNames
from gradwire.datatypes.records import FaultRecord, Int64
from gradwire.network.fabric import Fabric, Link
from gradwire.network.routes import SummitOf, line_titles, lines_of, routes_of
from gradwire.network.sprayed_ways import SprayedRoutes
from gradwire.network.wire.ways import MessageWays

Spans = Sequence[tuple[int, int]]
"""Times that do not overlap, from and to, in nanoseconds of the run's clock, in order."""
AS_FULL = 0.02
"""Two lines whose use differs by less than this are equally full: messages' bytes do not pass quite evenly."""
MOST_BESIDE = 64
"""Other ways on which lines are looked for that could have taken what a line carried."""


@dataclass(frozen=True)
class Sharer:
    """What one sender sent one receiver over a line while something waited for the line."""

    #: "rank 0 -> rank 4", "rank 0 -> rank 4 of job a", or "tenant (fault.other)".
    name: str
    #: Name of its job, where a plan has several; else "".
    job: str
    #: Tensor with most of its bytes there.
    tensor: str
    #: Its share of the bytes on the line.
    share: float


@dataclass(frozen=True)
class LineUse:
    """How a line was used while something waited for what passes it."""

    #: Number of the line.
    line: int
    #: Its name: "h3 out", "leaf1-spine2 to spine2".
    name: str
    #: Line rate, as faults left it.
    rate_bps: float
    #: Share of what it could carry that it did carry.
    busy: float
    #: Flows with data there: connections, or what a queue sends to a multicast group.
    flows: int
    #: All that share it, the largest first.
    sharers: tuple[Sharer, ...] = ()
    #: Names and use of the lines that could have taken what it carried, on other shortest ways.
    beside: tuple[tuple[str, float], ...] = ()
    #: Faults of its link, or of a switch at its end, meanwhile.
    faults: tuple[FaultRecord, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether the lines beside it had room for a tenth or more of what it carried."""
        return bool(self.beside) and min(busy for _, busy in self.beside) < self.busy - 0.1


@dataclass(frozen=True)
class _Rows:
    """The messages that pass one line: their rows in all messages, the bytes of each on the line, and when these pass."""

    rows: Int64
    size_bytes: Float64
    begun_ns: Float64
    ended_ns: Float64

    def moved(self, begin_ns: int, end_ns: int) -> Float64:
        """Bytes of each message that pass between these times."""
        overlap = np.minimum(self.ended_ns, end_ns) - np.maximum(self.begun_ns, begin_ns)
        moved: Float64 = self.size_bytes * np.clip(overlap, 0, None) / np.maximum(self.ended_ns - self.begun_ns, 1)
        return moved


class LineTraffic:
    """The messages of a run on the lines that they pass. summit_of: which spine or core a message takes, where there is a choice."""

    def __init__(
        self, logged: LoggedOps, fabric: Fabric, summit_of: SummitOf | None, faults: Sequence[FaultRecord] = ()
    ) -> None:
        self._logged, self._fabric, self._summit_of, self._faults = logged, fabric, summit_of, faults
        self._names, self._links, self.titles = PlanNames(logged.plan), lines_of(fabric), line_titles(fabric)
        self._ways = MessageWays(logged.plan, fabric, summit_of)
        self._of_line: dict[int, _Rows] = {}

    def lines_of(self, send: int) -> list[int]:
        """The lines that the message of a SEND passes; none where it stays on a host or between aggregators of a switch."""
        return [line for line, _ in self._ways.shares(send)]

    def fullest(self, lines: Sequence[int], begin_ns: int, end_ns: int) -> int | None:
        """The line of these that was used most between two times. Of several that are equally full it is the first with the fewest flows:
        one flow that fills a line alone goes no faster whatever happens to the others."""
        span = [(begin_ns, end_ns)]
        busy = {line: self._busy(line, span) for line in lines}
        if not busy:
            return None
        most = max(busy.values())
        full = [line for line in lines if busy[line] >= most - AS_FULL]
        return min(full, key=lambda line: self._flows(line, span))

    def use(self, line: int, spans: Spans) -> LineUse:
        """The use of a line in these times."""
        length_ns = sum(end - begin for begin, end in spans)
        at_line = tuple(fault for fault in self._faults_of(line) if any(fault.overlaps(*span) for span in spans))
        return LineUse(
            line,
            self.titles[line],
            self._capacity_bits(line, spans) * 1e9 / max(length_ns, 1),
            self._busy(line, spans),
            self._flows(line, spans),
            tuple(self._sharers(line, spans)),
            tuple((self.titles[other], self._busy(other, spans)) for other in self._beside(line, spans)),
            at_line,
        )

    def busiest(self, begin_ns: int, end_ns: int, most: int) -> list[int]:
        """The lines that were used most between two times, the busiest first; those that carried nothing are left out."""
        busy = {line: self._busy(line, [(begin_ns, end_ns)]) for line in self._passing}
        return sorted((line for line in busy if busy[line] > 0), key=lambda line: -busy[line])[:most]

    def load(self, line: int, edges_ns: Int64) -> LinkLoad:
        """The load of a line in each bin between these times, by its rate without faults."""
        rows, rate_bps = self._rows(line), self._links[line].rate_bps
        moved = binned_bytes(edges_ns, rows.begun_ns, rows.ended_ns, rows.size_bytes, rate_bps / 8e9)
        return LinkLoad(self.titles[line], rate_bps, moved * 8 * 1e9 / np.diff(edges_ns) / rate_bps)

    def loads(self, edges_ns: Int64) -> list[LinkLoad]:
        """The load of every line in each bin between these times."""
        return [self.load(line, edges_ns) for line in range(len(self._links))]

    def lines_at_faults(self) -> list[int]:
        """The lines of links that had a fault of their own."""
        return [
            line
            for line in self._passing
            if any(record.fault.place in _places_of(self._links[line]) for record in self._faults)
        ]

    def _busy(self, line: int, spans: Spans) -> float:
        moved = sum(float(self._rows(line).moved(*span).sum()) for span in spans)
        moved += sum(size for _, size in self._tenants(line, spans))
        capacity_bits = self._capacity_bits(line, spans)
        return min(1.0, moved * 8 / capacity_bits) if capacity_bits > 0 else 0.0

    def _flows(self, line: int, spans: Spans) -> int:
        rows = self._rows(line)
        active = np.any([rows.moved(*span) > 0 for span in spans], axis=0) & self._is_data[rows.rows]
        return len(np.unique(self._messages.connection[rows.rows[active]])) + len(list(self._tenants(line, spans)))

    def _sharers(self, line: int, spans: Spans) -> Iterator[Sharer]:
        rows, messages, plan = self._rows(line), self._messages, self._logged.plan
        moved = np.sum([rows.moved(*span) for span in spans], axis=0)
        sends = messages.send[rows.rows]
        by_pair: dict[tuple[int, str], dict[str, float]] = {}
        for index in np.flatnonzero((moved > 0) & self._is_data[rows.rows]).tolist():
            send = int(sends[index])
            tensors = by_pair.setdefault((int(plan.ops.rank[send]), self._names.receiver(send)), {})
            tensor = self._names.tensor(send)
            tensors[tensor] = tensors.get(tensor, 0.0) + float(moved[index])
        tenants = dict(self._tenants(line, spans))
        total = max(float(moved.sum()) + sum(tenants.values()), 1e-9)
        found = [self._sharer(*pair, tensors, total) for pair, tensors in by_pair.items()]
        found += [Sharer(name, "", "", size / total) for name, size in tenants.items()]
        yield from sorted(found, key=lambda sharer: -sharer.share)

    def _sharer(self, rank: int, receiver: str, tensors: dict[str, float], total: float) -> Sharer:
        jobs = self._logged.plan.jobs
        job = next((job.name for job in jobs if job.first_rank <= rank < job.first_rank + job.ranks), "")
        tensor = max(tensors, key=lambda name: tensors[name]).removeprefix(f"{job}: ")
        of_job = f" of job {job}" if job else ""
        return Sharer(f"{self._names.rank(rank)} -> {receiver}{of_job}", job, tensor, sum(tensors.values()) / total)

    def _beside(self, line: int, spans: Spans) -> list[int]:
        """The lines that take the place of this one on other shortest ways of what it carried most of."""
        rows, fabric = self._rows(line), self._fabric
        if line < 2 * fabric.hosts or not len(rows.rows):
            return []
        largest = int(rows.rows[np.sum([rows.moved(*span) for span in spans], axis=0).argmax()])
        source, target = int(self._messages.src[largest]), int(self._messages.dst[largest])
        if max(source, target) >= fabric.hosts or not fabric.summits:
            return []
        routes = SprayedRoutes.of(fabric)
        ways = [routes.path(source, target, way) for way in range(min(routes.ways, MOST_BESIDE))]
        places = {way.index(line) for way in ways if line in way}
        return sorted({way[place] for place in places for way in ways if place < len(way) - 1} - {line})

    def _capacity_bits(self, line: int, spans: Spans) -> float:
        """What a line could carry in these times, with its faults: a link that flaps is down half of the time."""
        rate_bps = self._links[line].rate_bps
        bits = 0.0
        for begin_ns, end_ns in spans:
            bits += rate_bps * (end_ns - begin_ns) / 1e9
            for fault in self._faults_of(line):
                left_bps = {"rate": fault.fault.value, "flapping": rate_bps / 2, "loss": rate_bps, "delay": rate_bps}
                lacking_bps = rate_bps - left_bps.get(fault.fault.kind, 0.0)
                bits -= lacking_bps * _overlap_ns(fault, begin_ns, end_ns) / 1e9
        return max(bits, 0.0)

    def _faults_of(self, line: int) -> list[FaultRecord]:
        """The faults of the line's link, or of a switch at its end."""
        places = _places_of(self._links[line])
        return [fault for fault in self._faults if fault.fault.place in places]

    def _tenants(self, line: int, spans: Spans) -> Iterator[tuple[str, float]]:
        """Yields the name of each tenant that uses the line in these times, and the bytes that it sends then."""
        for record in self._faults:
            fault = record.fault
            if fault.source < 0 or record.begun_ns < 0:
                continue
            if line not in routes_of(self._fabric, self._summit_of).path(fault.source, fault.destination, None):
                continue
            last_ns = record.ended_ns if record.ended_ns >= 0 else spans[-1][1]
            here_ns = sum(_overlap_ns(record, *span) for span in spans)
            if here_ns:
                rate = record.sent_bytes / max(last_ns - record.begun_ns, 1) / self._fabric.goodput_share()
                yield f"tenant (fault.{fault.name})", rate * here_ns

    @cached_property
    def _messages(self) -> WireMessages:
        return wire_messages(self._logged)

    @cached_property
    def _is_data(self) -> Bool:
        """Which messages carry data: requests and tokens are no flows that share a line."""
        return data_of(self._logged, self._messages)

    @cached_property
    def _begun_ns(self) -> Float64:
        """When the first byte of each message can have left, at the latest."""
        messages = self._messages
        alone_ns = message_ns(self._logged.plan, self._fabric)[messages.send]
        begun = np.maximum(messages.sent_ns, np.minimum(messages.header_ns, messages.arrived_ns - alone_ns))
        return begun.astype(np.float64)

    @cached_property
    def _passing(self) -> dict[int, list[tuple[Int64, float, float]]]:
        """The messages of each line, by connection: their rows, the share of each that passes, and how much earlier in ns than at its
        receiver it does."""
        messages = self._messages
        if not len(messages):
            return {}
        order = np.argsort(messages.connection, kind="stable")
        _, first = np.unique(messages.connection[order], return_index=True)
        delays_ns = [link.delay_s * 1e9 for link in self._links]
        passing: dict[int, list[tuple[Int64, float, float]]] = {}
        for rows in np.split(order, first[1:]):
            send, target = int(messages.send[rows[0]]), int(messages.dst[rows[0]])
            grouped = bool(self._logged.plan.ops.group[send])
            way = [(line, 1.0) for line in self._ways.branch(send, target)] if grouped else self._ways.shares(send)
            left_ns = sum(delays_ns[line] * share for line, share in way)
            for line, share in way:
                passing.setdefault(line, []).append((rows, share, left_ns))
                left_ns -= delays_ns[line] * share
        return passing

    def _rows(self, line: int) -> _Rows:
        if line not in self._of_line:
            self._of_line[line] = self._rows_of(self._passing.get(line, []))
        return self._of_line[line]

    def _rows_of(self, passing: Sequence[tuple[Int64, float, float]]) -> _Rows:
        messages, plan, fabric = self._messages, self._logged.plan, self._fabric
        none: Int64 = np.zeros(0, np.int64)
        rows = np.concatenate([none, *(rows for rows, _, _ in passing)])
        share = np.concatenate([np.zeros(0), *(np.full(len(rows), share) for rows, share, _ in passing)])
        early_ns = np.concatenate([np.zeros(0), *(np.full(len(rows), early) for rows, _, early in passing)])
        # A multicast message passes a line once, whoever is behind it.
        kept = once(np.ones(len(rows), np.bool_), messages.iteration[rows], messages.send[rows])
        rows, share, early_ns = rows[kept], share[kept], early_ns[kept]
        sends = messages.send[rows]
        payload = np.where(plan.ops.group[sends] == 1, fabric.multicast_goodput_share(), fabric.goodput_share())
        size_bytes = plan.ops.size_bytes[sends] * share / payload
        return _Rows(rows, size_bytes, self._begun_ns[rows] - early_ns, messages.arrived_ns[rows] - early_ns)


def _places_of(link: Link) -> set[str]:
    """The places of faults that are at a link: its ports, and the switches at its ends."""
    return {link.a.interface, link.b.interface, link.a.device, link.b.device}


def _overlap_ns(fault: FaultRecord, begin_ns: int, end_ns: int) -> int:
    """How long a fault was there between two times."""
    if fault.begun_ns < 0:
        return 0
    last_ns = end_ns if fault.ended_ns < 0 else min(end_ns, fault.ended_ns)
    return max(0, last_ns - max(begin_ns, fault.begun_ns))


def joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The times in order, where those that overlap or meet are one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found

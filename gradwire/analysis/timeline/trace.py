"""One iteration as a trace for Perfetto or chrome://tracing, in the Trace Event Format (JSON).

Each rank is a process with a track per stream, per send queue and per queue that it receives from. Another process
stands for the network, with a counter per link and direction. The trace shows how long a message waited in its send
queue ("waiting"), when it was handed to the kernel (the send queue's track), when it was taken from it (the receiver's
track), and an arrow between the two.

Times are microseconds since the iteration's begin. Slices that began earlier are cut off there, and their arguments
say so.

Requirements of the format's readers (learnt from Perfetto's importer): thread ids are unique across processes; slices
of a thread do not overlap; a flow event directly follows its slice; and there is no displayTimeUnit, which older
readers took for the unit of "ts".
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.link_loads import LinkLoad
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.plan_names import PlanNames
from gradwire.analysis.timeline.line_traffic import LineTraffic
from gradwire.analysis.timeline.tracks import Slice, Track, Tracks
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import FaultRecord, Int64, OpLog
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.network.fabric import Fabric
from gradwire.network.routes import SummitOf

BINS = 500
"""Bins of the link loads over the iteration."""
Event = dict[str, Any]


def trace_events(
    plan: Plan,
    log: OpLog,
    iteration: int,
    fabric: Fabric,
    spine_of: SummitOf | None = None,
    bins: int = BINS,
    faults: Sequence[FaultRecord] = (),
) -> list[Event]:
    """The events of one iteration, sorted by time. Raises InputFault for an iteration that the log does not have.

    The trace contains everything that overlaps the iteration's time, whichever iteration it belongs to, and everything
    that belongs to the iteration but comes later (pushes after the last backward op if there is no barrier). `spine_of`
    says which spine or core a message takes, where there is a choice. Each of the `faults` that were there meanwhile has
    a track in the network's process.
    """
    logged = LoggedOps.of(plan, log, faults)
    if not 0 <= iteration < logged.iterations:
        raise InputFault(f"iteration {iteration}: the run has iterations 0 to {logged.iterations - 1}")
    begin_ns, end_ns = iteration_ends_ns(plan, log, iteration + 1)[iteration:].tolist()
    tracks = Tracks(logged, iteration, begin_ns, end_ns)
    writer = _Writer(len(plan.rank_role), begin_ns)
    edges_ns = np.unique(np.linspace(begin_ns, end_ns, bins + 1).astype(np.int64))
    timed = [*writer.slices(tracks.all()), *writer.queue_counters(tracks.waits())]
    for load in LineTraffic(logged, fabric, spine_of).loads(edges_ns):
        timed += writer.link_counter(load, edges_ns)
    timed += [writer.instant(f"iteration {iteration} begins", begin_ns)]
    timed += [writer.instant(f"iteration {iteration} ends", end_ns)]
    timed += writer.faults([fault for fault in faults if fault.overlaps(begin_ns, end_ns)], end_ns)
    timed.sort(key=lambda event: float(event["ts"]))
    return [*_processes(PlanNames(plan), len(plan.rank_role)), *writer.threads, *timed]


def network_process(plan: Plan) -> int:
    """The process of a trace that stands for the network."""
    return len(plan.rank_role) + 1


def write_trace(path: Path, events: Sequence[Event], about: Mapping[str, str]) -> None:
    """Writes events as a JSON object, compressed if the name ends in .gz. `about`
    describes the trace to people who open the file."""
    with (
        replacing(path) as partial,
        gzip.open(partial, "wt", encoding="utf-8")
        if path.suffix == ".gz"
        else partial.open("w", encoding="utf-8") as file,
    ):
        file.writelines(_lines(events, about))


def _lines(events: Sequence[Event], about: Mapping[str, str]) -> Iterator[str]:
    yield '{"traceEvents":['
    for number, event in enumerate(events):
        yield (",\n" if number else "\n") + json.dumps(event, separators=(",", ":"))
    yield '\n],"otherData":' + json.dumps(dict(about)) + "}\n"


def _processes(names: PlanNames, ranks: int) -> list[Event]:
    labels = [names.process(rank) for rank in range(ranks)] + ["network: load of links"]
    events = []
    for number, label in enumerate(labels, start=1):
        events.append(_meta("process_name", number, number, name=label))
        events.append(_meta("process_sort_index", number, number, sort_index=number))
    return events


class _Writer:
    """Turns tracks into events. Process ids are ranks + 1, as readers take 0 for the idle process; the network comes
    last.

    `threads` collects events with the names of threads, whose ids follow those of the processes.
    """

    def __init__(self, ranks: int, begin_ns: int) -> None:
        self.threads: list[Event] = []
        self._network = ranks + 1
        self._thread = ranks + 1
        self._begin_ns = begin_ns

    def _at(self, time_ns: int) -> float:
        """Microseconds since the iteration's begin."""
        return max(time_ns - self._begin_ns, 0) / 1e3

    def slices(self, tracks: Sequence[Track]) -> Iterator[Event]:
        """Events of all slices, each directly followed by the arrows that start or
        end there. At equal times, senders come first."""
        placed = []
        for track in tracks:
            for number, row in enumerate(track.rows()):
                thread = self._new_thread(track, number)
                order = 1 if track.category == "receive" else 0
                placed += [((s.begin_ns, order, s.end_ns), track, thread, s) for s in row]
        placed.sort(key=lambda item: item[0])
        for _, track, thread, piece in placed:
            yield from self._slice(track, thread, piece)

    def _new_thread(self, track: Track, row: int) -> int:
        self._thread += 1
        name = track.name if row == 0 else f"{track.name} ({row + 1})"
        self.threads.append(_meta("thread_name", track.rank + 1, self._thread, name=name))
        self.threads.append(_meta("thread_sort_index", track.rank + 1, self._thread, sort_index=self._thread))
        return self._thread

    def _slice(self, track: Track, thread: int, piece: Slice) -> Iterator[Event]:
        begin_ns = max(piece.begin_ns, self._begin_ns)
        where = {"pid": track.rank + 1, "tid": thread, "ts": self._at(begin_ns)}
        arguments = dict(piece.arguments)
        if piece.begin_ns < begin_ns:
            arguments["began_us"] = (piece.begin_ns - self._begin_ns) / 1e3
        duration_us = (piece.end_ns - begin_ns) / 1e3
        yield {"ph": "X", "name": piece.name, "cat": track.category, **where, "dur": duration_us, "args": arguments}
        flow = {"name": "message", "cat": "message", **where}
        yield from ({"ph": "s", "id": number, **flow} for number in piece.flow_out)
        if piece.flow_in is not None:
            yield {"ph": "f", "bp": "e", "id": piece.flow_in, **flow}

    def queue_counters(self, waits: Sequence[Track]) -> Iterator[Event]:
        """Number of messages waiting in each send queue over time, for queues in which any message waits."""
        for track in waits:
            changes: dict[int, int] = {}
            for piece in track.slices:
                since_ns = max(piece.begin_ns, self._begin_ns)
                changes[since_ns] = changes.get(since_ns, 0) + 1
                changes[piece.end_ns] = changes.get(piece.end_ns, 0) - 1
            waiting = 0
            for time_ns in sorted(changes):
                waiting += changes[time_ns]
                yield self._counter(track.rank + 1, f"{track.name}:", time_ns, "messages", waiting)

    def link_counter(self, load: LinkLoad, edges_ns: Int64) -> list[Event]:
        """Load of a link in each bin, in percent of its line rate, and 0 after the last."""
        unit = f"% of {load.rate_bps / 1e9:g} Gbit/s"
        values = [*np.round(load.share * 100, 2).tolist(), 0.0]
        return [
            self._counter(self._network, f"{load.name}:", edge_ns, unit, value)
            for edge_ns, value in zip(edges_ns.tolist(), values, strict=True)
        ]

    def _counter(self, process: int, name: str, time_ns: int, unit: str, value: float) -> Event:
        where = {"pid": process, "tid": process, "ts": self._at(time_ns)}
        return {"ph": "C", "name": name, **where, "args": {unit: value}}

    def faults(self, records: Sequence[FaultRecord], end_ns: int) -> Iterator[Event]:
        """A track for each fault, with a slice while it was there, cut off where the iteration begins and ends."""
        for record in records:
            self._thread += 1
            fault = record.fault
            for meta in ({"name": f"fault.{fault.name}"}, {"sort_index": self._thread}):
                self.threads.append(_meta(f"thread_{next(iter(meta))}", self._network, self._thread, **meta))
            begin_us = self._at(record.begun_ns)
            ended_ns = end_ns if record.ended_ns < 0 else min(record.ended_ns, end_ns)
            where = {"pid": self._network, "tid": self._thread, "ts": begin_us, "dur": self._at(ended_ns) - begin_us}
            times = {"began_s": record.begun_ns / 1e9, "ended_s": record.ended_ns / 1e9}
            yield {"ph": "X", "name": fault.what, "cat": "fault", **where, "args": {"kind": fault.kind, **times}}

    def instant(self, name: str, time_ns: int) -> Event:
        """A mark across all tracks."""
        return {"ph": "i", "name": name, "s": "g", "pid": self._network, "tid": self._network, "ts": self._at(time_ns)}


def _meta(kind: str, process: int, thread: int, **arguments: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": arguments}

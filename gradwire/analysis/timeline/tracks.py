"""The timeline of one iteration as named tracks of slices: streams, send queues, messages waiting in them, and
receives.

It can be drawn in axes that are given: what each rank computes, adds, sends and receives, and when.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.logged import MISSING, Bool, LoggedOps
from gradwire.analysis.plan_names import PlanNames
from gradwire.analysis.report.charts import PALETTE
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault

MOST_WAITING_ROWS = 8
"""Number of messages of a send queue that are drawn waiting at the same time; its counter shows how many there are in
all."""
DOES = {"compute": "computes", "reduce": "adds", "send": "sends", "receive": "receives"}
"""Categories of tracks that are drawn, and what their ranks do."""
FORWARD, BACKWARD = "#7FCFB5", PALETTE[2]
"""Colours of computation: the forward pass in a lighter shade than all else."""
COLORS = {"compute": BACKWARD, "reduce": PALETTE[3], "send": PALETTE[0], "receive": PALETTE[1]}
HAIRLINE_PT = 0.5
"""Outline of every slice: a message that the kernel took at once, in no time, would not be seen without."""
HEIGHT = 0.8
"""Height of a row, where rows are 1 apart."""


@dataclass(frozen=True)
class Slice:
    """An interval with a name, in nanoseconds of the run's clock."""

    #: Begin of the interval.
    begin_ns: int
    #: End of the interval.
    end_ns: int
    #: Name for people.
    name: str
    #: Details for the viewer.
    arguments: Mapping[str, Any]
    #: Ids of the arrows that start here.
    flow_out: tuple[int, ...] = ()
    #: Id of the arrow that ends here.
    flow_in: int | None = None


@dataclass
class Track:
    """Slices of one rank that belong together."""

    #: The rank.
    rank: int
    #: Name for people.
    name: str
    #: Category of the trace events.
    category: str
    #: The slices themselves.
    slices: list[Slice] = field(default_factory=list)
    #: Number of simultaneous slices that are drawn; 0 draws all.
    most_rows: int = 0

    def rows(self) -> list[list[Slice]]:
        """The slices in as few rows without overlaps as possible, each in order of time."""
        taken: list[tuple[int, int]] = []
        free: list[int] = []
        rows: list[list[Slice]] = []
        for piece in sorted(self.slices, key=lambda piece: (piece.begin_ns, piece.end_ns)):
            while taken and taken[0][0] <= piece.begin_ns:
                heapq.heappush(free, heapq.heappop(taken)[1])
            if not free:
                if self.most_rows and len(rows) == self.most_rows:
                    continue
                heapq.heappush(free, len(rows))
                rows.append([])
            row = heapq.heappop(free)
            rows[row].append(piece)
            heapq.heappush(taken, (piece.end_ns, row))
        return rows


class Tracks:
    """The tracks of everything that overlaps begin_ns to end_ns of the
    run's clock, and of later parts of `iteration`."""

    def __init__(self, logged: LoggedOps, iteration: int, begin_ns: int, end_ns: int) -> None:
        self._logged, self._plan, self._names = logged, logged.plan, PlanNames(logged.plan)
        self._begin_ns = begin_ns
        self._shown = []
        for at in range(logged.iterations):
            # An op without duration at the boundary is shown in its own iteration only.
            since_ns = begin_ns if at == iteration else begin_ns + 1
            shown = (logged.end[at] != MISSING) & (logged.end[at] >= since_ns)
            if at != iteration:
                is_send = logged.plan.ops.kind == OpKind.SEND
                shown &= np.where(is_send, logged.nominal[at], logged.start[at]) < end_ns
            self._shown.append(shown)

    def all(self) -> list[Track]:
        """Every track, rank by rank."""
        tracks = [*self.streams(), *self.sends(), *self.waits(), *self.receives()]
        return sorted(tracks, key=lambda track: track.rank)

    def _each(self, *kinds: OpKind) -> Iterator[tuple[int, int]]:
        wanted: Bool = np.isin(self._plan.ops.kind, kinds)
        for iteration, shown in enumerate(self._shown):
            for op in np.flatnonzero(wanted & shown).tolist():
                yield iteration, op

    def streams(self) -> list[Track]:
        """Computation and additions at their nominal times, without ops that take no time."""
        ops, tracks = self._plan.ops, dict[tuple[int, int], Track]()
        for iteration, op in self._each(OpKind.COMPUTE, OpKind.REDUCE):
            begin, end = int(self._logged.nominal[iteration, op]), int(self._logged.finish[iteration, op])
            if end <= max(begin, self._begin_ns):
                continue
            key = int(ops.rank[op]), int(ops.lane[op])
            if key not in tracks:
                adding = bool(ops.kind[op] == OpKind.REDUCE)
                tracks[key] = Track(key[0], self._stream_name(*key, adding), "reduce" if adding else "compute")
            late_us = (int(self._logged.end[iteration, op]) - end) / 1e3
            arguments = {"op": op, "iteration": iteration, "acted_on_late_us": late_us}
            tracks[key].slices.append(Slice(begin, end, self._names.op(op), arguments))
        return [tracks[key] for key in sorted(tracks)]

    def _stream_name(self, rank: int, lane: int, adding: bool) -> str:
        if adding:
            return f"adding, stream {lane}"
        return "compute" if lane == 0 and self._plan.rank_role[rank] == Role.WORKER else f"stream {lane}"

    def sends(self) -> list[Track]:
        """Messages from the first to the last byte handed to the kernel, one after the other in each queue."""
        tracks: dict[int, Track] = {}
        for iteration, op in self._each(OpKind.SEND):
            queue = int(self._plan.ops.lane[op])
            start, end = int(self._logged.start[iteration, op]), int(self._logged.end[iteration, op])
            if queue not in tracks:
                tracks[queue] = Track(int(self._plan.ops.rank[op]), f"send {self._receivers_of[queue]}", "send")
            waited_us = (start - int(self._logged.nominal[iteration, op])) / 1e3
            arguments = {"ready_to_start_us": waited_us, **self._arguments(iteration, op)}
            received = [recv for recv in self._recvs_of.get(op, ()) if self._shown[iteration][recv]]
            flows = tuple(self._flow(iteration, recv) for recv in received)
            tracks[queue].slices.append(Slice(start, end, self._names.message(op), arguments, flow_out=flows))
        return [tracks[queue] for queue in sorted(tracks)]

    def waits(self) -> list[Track]:
        """Tracks of messages between ready and start; the messages in front of them are on the queue's own track."""
        tracks: dict[int, Track] = {}
        for iteration, op in self._each(OpKind.SEND):
            ready, start = int(self._logged.nominal[iteration, op]), int(self._logged.start[iteration, op])
            if start <= max(ready, self._begin_ns):
                continue
            queue = int(self._plan.ops.lane[op])
            if queue not in tracks:
                name = f"waiting to send {self._receivers_of[queue]}"
                tracks[queue] = Track(int(self._plan.ops.rank[op]), name, "waiting", most_rows=MOST_WAITING_ROWS)
            tracks[queue].slices.append(Slice(ready, start, self._names.message(op), self._arguments(iteration, op)))
        return [tracks[queue] for queue in sorted(tracks)]

    def receives(self) -> list[Track]:
        """Messages from the reading of the header to the end of the RECV,
        one track per send queue that they come from."""
        ops, tracks = self._plan.ops, dict[tuple[int, int], Track]()
        for iteration, op in self._each(OpKind.RECV):
            send = int(ops.message[op])
            start, end = int(self._logged.start[iteration, op]), int(self._logged.end[iteration, op])
            key = int(ops.rank[op]), int(ops.lane[send])
            if key not in tracks:
                tracks[key] = Track(key[0], f"receive from {self._names.rank(int(ops.rank[send]))}", "receive")
            flow = self._flow(iteration, op) if self._shown[iteration][send] else None
            arguments = self._arguments(iteration, op)
            tracks[key].slices.append(Slice(start, end, self._names.message(op), arguments, flow_in=flow))
        return [tracks[key] for key in sorted(tracks)]

    def _arguments(self, iteration: int, op: int) -> dict[str, Any]:
        ops = self._plan.ops
        columns = {"bytes": int(ops.size_bytes[op]), "class": int(ops.traffic_class[op]), "order": int(ops.order[op])}
        return {"op": op, "iteration": iteration, **columns}

    def _flow(self, iteration: int, recv: int) -> int:
        """A unique number per message and receiver."""
        return iteration * len(self._plan.ops) + recv + 1

    @cached_property
    def _recvs_of(self) -> dict[int, list[int]]:
        """RECVs of each SEND."""
        recvs: dict[int, list[int]] = {}
        for recv in np.flatnonzero(self._plan.ops.kind == OpKind.RECV).tolist():
            recvs.setdefault(int(self._plan.ops.message[recv]), []).append(recv)
        return recvs

    @cached_property
    def _receivers_of(self) -> dict[int, str]:
        """The receiver of each send queue, or the number of its receivers."""
        receivers: dict[int, set[str]] = {}
        for send in np.flatnonzero(self._plan.ops.kind == OpKind.SEND).tolist():
            receivers.setdefault(int(self._plan.ops.lane[send]), set()).add(self._names.receiver(send))
        return {
            queue: f"to {next(iter(names))}" if len(names) == 1 else f"to {len(names)} receivers"
            for queue, names in receivers.items()
        }


def draw_timeline(axes: Axes, plan: Plan, log: OpLog, iteration: int) -> None:
    """Draws an iteration: a row for the computations, additions, sends and receives of each rank, the first on top,
    over milliseconds since its begin.

    A message is sent from its first to its last byte handed to the kernel, and received from its header to its last
    byte. The vertical line is the iteration's end; what belongs to it and comes later is drawn as well. Raises
    InputFault for an iteration that the log lacks.
    """
    logged = LoggedOps.of(plan, log)
    if not 0 <= iteration < logged.iterations:
        raise InputFault(f"iteration {iteration}: the run has iterations 0 to {logged.iterations - 1}")
    begin_ns, end_ns = iteration_ends_ns(plan, log, iteration + 1)[iteration:].tolist()
    tracks = Tracks(logged, iteration, begin_ns, end_ns)
    rows = list(_rows([*tracks.streams(), *tracks.sends(), *tracks.receives()], PlanNames(plan), len(plan.rank_role)))
    for row, (_, category, slices) in enumerate(rows):
        spans_ms = [_span_ms(piece, begin_ns) for piece in slices]
        colors = [FORWARD if piece.name.startswith("forward ") else COLORS[category] for piece in slices]
        below = row - HEIGHT / 2
        axes.broken_barh(spans_ms, (below, HEIGHT), facecolors=colors, edgecolors=colors, linewidth=HAIRLINE_PT)
    axes.axvline((end_ns - begin_ns) / 1e6, color="#777777", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"Time in iteration {iteration} (ms); dashed: its end")
    drawn = {category for _, category, _ in rows}
    keys = [Patch(color=FORWARD, label="forward"), Patch(color=BACKWARD, label="backward")]
    keys += [Patch(color=COLORS[name], label=word) for name, word in DOES.items() if name in drawn - {"compute"}]
    axes.legend(handles=keys, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(keys), frameon=False)


def _rows(tracks: Sequence[Track], names: PlanNames, ranks: int) -> Iterator[tuple[str, str, list[Slice]]]:
    """Label, category and slices of each row, rank by rank, in the order of DOES."""
    for rank in range(ranks):
        for category, word in DOES.items():
            slices = [
                piece for track in tracks if (track.rank, track.category) == (rank, category) for piece in track.slices
            ]
            if slices:
                yield f"{names.rank(rank)} {word}", category, slices


def _span_ms(piece: Slice, begin_ns: int) -> tuple[float, float]:
    """Begin and length of a piece in milliseconds of the iteration; the part before the iteration is cut off."""
    begin = max(piece.begin_ns, begin_ns)
    return (begin - begin_ns) / 1e6, (piece.end_ns - begin) / 1e6

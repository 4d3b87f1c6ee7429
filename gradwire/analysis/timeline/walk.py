"""Walks back from the end of an iteration from each op to the last of its causes to end, and attributes every
nanosecond to a kind of time.

The walk goes from an op to whatever ended last of the things that it waited for: a dependency, the message of a RECV,
or the op before it on its stream or send queue. In between lies the op's own time. The log makes this exact
(agents/interpreter.py): timed ops start at the nominal end of what they waited for; a SEND starts in the turn
in which its last dependency was acted on or its queue's last message was handed over, plus its latency; a RECV ends in
the turn in which its message is complete or its last dependency is acted on.

`_Straggler` explains how waiting for a straggler is recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from gradwire.analysis.logged import MISSING, LoggedOps
from gradwire.analysis.request_times import arrival_ops
from gradwire.datatypes.plan import OpKind, Role
from gradwire.faults import InternalFault


class TimeKind(StrEnum):
    """Kind of work or waiting that a piece of the critical path was spent on."""

    COMPUTE = "compute"
    STRAGGLER = "straggler"
    """Others wait for what a worker computes."""
    AGGREGATION = "aggregation"
    TRANSFER = "transfer"
    """A message is on its way, if the fabric is unknown; otherwise one of the next two applies."""
    SERIALISATION = "on the line"
    """The time that the message takes on an empty network."""
    SHARING = "shared port"
    """The time beyond that: other messages had the links, or it waited behind them in its own connection."""
    QUEUEING = "send queue"
    """Other messages of its send queue went before it."""
    LATENCY = "software latency"
    """The latency that the plan gives a message, and what a rank does besides GPU
    work and additions: copies, waiting for a cycle."""
    ARRIVALS = "until requests arrive"
    """A model that is served had none."""
    LOCAL = "inside a machine"
    """The message was between ranks of one host: its own link and latency."""
    LATENESS = "emulator late"
    """An agent acted later than it should have, which the verdict bounds."""
    UNEXPLAINED = "unexplained"
    """Nothing in the plan delayed the op: it had no dependency."""


NETWORK = (TimeKind.TRANSFER, TimeKind.SERIALISATION, TimeKind.SHARING, TimeKind.QUEUEING)


@dataclass(frozen=True)
class PathSegment:
    """A piece of the critical path, in nanoseconds of the run's clock."""

    #: Begin of the piece.
    begin_ns: int
    #: End of the piece.
    end_ns: int
    #: Kind of work or waiting that its time was spent on.
    kind: TimeKind
    #: Iteration of `op`.
    iteration: int
    #: The op that the time belongs to; for QUEUEING the message in front, for STRAGGLER what the straggler computes.
    op: int
    #: For QUEUEING the SEND on the path, which waits behind `op`; else -1.
    behind: int = -1

    @property
    def duration_ns(self) -> int:
        """Length of the piece."""
        return self.end_ns - self.begin_ns


def walk_back(logged: LoggedOps, iteration: int, op: int, begin_ns: int) -> list[PathSegment]:
    """The path that ends with `op` of `iteration` and goes back to `begin_ns`, in order of time and without gaps.

    Raises InternalFault if the log lacks the op.
    """
    if logged.end[iteration, op] == MISSING:
        raise InternalFault(f"the op log lacks op {op} of iteration {iteration}: the run ended early")
    walk = _Walk(logged, int(logged.end[iteration, op]), begin_ns)
    here: tuple[int, int] | None = (iteration, op)
    while here is not None and not walk.is_done:
        here = walk.step(*here)
    walk.cut(TimeKind.UNEXPLAINED, begin_ns, iteration, op)
    return walk.segments[::-1]


class _Walk:
    """A walk in progress. `segments` has the latest first; `_now` is the time that the walk has reached."""

    def __init__(self, logged: LoggedOps, end_ns: int, begin_ns: int) -> None:
        self.segments: list[PathSegment] = []
        self._logged, self._plan = logged, logged.plan
        self._now, self._begin = end_ns, begin_ns
        self._straggler = _Straggler(logged)
        self._remote = logged.plan.is_remote()
        self._arrivals = arrival_ops(logged.plan)
        self._joined: tuple[int, int] | None = None
        self._in_queue = False
        self._awaited = -1

    @property
    def is_done(self) -> bool:
        return self._now <= self._begin

    def cut(self, kind: TimeKind, since_ns: int, iteration: int, op: int) -> None:
        """Attributes the time from `since_ns` to the current position to an op."""
        since_ns = max(min(since_ns, self._now), self._begin)
        if since_ns < self._now:
            behind = self._awaited if kind is TimeKind.QUEUEING else -1
            self.segments.append(PathSegment(since_ns, self._now, kind, iteration, op, behind))
        self._now = since_ns

    def step(self, iteration: int, op: int) -> tuple[int, int] | None:
        """Attributes an op's own time; returns the op that it waited for last."""
        kind = self._plan.ops.kind[op]
        self._straggler.at(int(self._plan.ops.rank[op]))
        if kind == OpKind.RECV:
            return self._received(iteration, op)
        if kind == OpKind.SEND:
            return self._sent(iteration, op)
        return self._timed(iteration, op)

    def _timed(self, iteration: int, op: int) -> tuple[int, int] | None:
        nominal = int(self._logged.nominal[iteration, op])
        self.cut(TimeKind.LATENESS, int(self._logged.finish[iteration, op]), iteration, op)
        kind = self._timed_kind(op)
        if kind is TimeKind.COMPUTE:
            late_since = self._straggler.late_since_ns(iteration, op)
            if late_since is not None:
                self.cut(TimeKind.STRAGGLER, max(nominal, late_since), iteration, op)
        self.cut(kind, nominal, iteration, op)
        awaited = [*self._dependencies(iteration, op), *self._lane_before(iteration, op)]
        gate = max(awaited, key=lambda other: self._logged.finish[other], default=None)
        if gate is not None:
            self.cut(TimeKind.UNEXPLAINED, int(self._logged.finish[gate]), iteration, op)
        self._joined, self._in_queue = (iteration, op), False
        return gate

    def _timed_kind(self, op: int) -> TimeKind:
        if self._plan.ops.kind[op] == OpKind.REDUCE:
            return TimeKind.AGGREGATION
        if self._arrivals[op]:
            return TimeKind.ARRIVALS
        # The GPU is stream 0 (workloads/engines/worker.py); the others copy, or wait for a fusion cycle.
        return TimeKind.COMPUTE if self._plan.ops.lane[op] == 0 else TimeKind.LATENCY

    def _sent(self, iteration: int, op: int) -> tuple[int, int] | None:
        ops, start = self._plan.ops, int(self._logged.start[iteration, op])
        remote = bool(self._remote[op])
        if not self._in_queue:
            self._awaited = op
        self.cut(TimeKind.QUEUEING if self._in_queue else TimeKind.TRANSFER, start, iteration, op)
        latency = TimeKind.LATENCY if remote else TimeKind.LOCAL
        self.cut(latency, start - int(ops.duration_ns[op]), iteration, op)
        self._straggler.leaves(op, self._joined)
        dependencies = self._dependencies(iteration, op)
        gate = max(dependencies, key=lambda other: self._logged.end[other], default=None)
        in_front = self._logged.lane_before(iteration, op)
        self._in_queue = in_front is not None and (gate is None or self._logged.end[in_front] > self._logged.end[gate])
        gate = in_front if self._in_queue else gate
        if gate is not None:
            self.cut(TimeKind.LATENESS, int(self._logged.end[gate]), iteration, op)
        self._joined = None
        return gate

    def _received(self, iteration: int, op: int) -> tuple[int, int]:
        self._in_queue = False
        dependencies = self._dependencies(iteration, op)
        gate = max(dependencies, key=lambda other: self._logged.end[other], default=None)
        # An agent acts on a dependency and on the RECV that waited for it in the same turn, so both have the same
        # time.
        if gate is not None and self._logged.end[gate] == self._logged.end[iteration, op]:
            self._straggler.leaves(op, None)
            self._joined = None
            return gate
        return iteration, int(self._plan.ops.message[op])

    def _dependencies(self, iteration: int, op: int) -> list[tuple[int, int]]:
        return self._logged.dependencies(iteration, op)

    def _lane_before(self, iteration: int, op: int) -> Iterator[tuple[int, int]]:
        before = self._logged.lane_before(iteration, op)
        if before is not None:
            yield before


class _Straggler:
    """Finds the part of a worker's computation that others wait for.

    Where contributions of all workers come together and the path comes from worker w, w is a straggler from the moment
    when at least half of the other workers had come as far until w had too. For a message with gradients, a worker has
    come as far when it has its own gradient of the same chunk (the op that `Plan.produces` names); for a control
    message, when its own message to the same op is ready. What w computes on the path in that time counts as time in
    which the others wait for a straggler. Its waiting for the network still counts as network, and its computation
    before that moment as ordinary computation.

    Limits: this shows that workers waited, not why the straggler was late. If messages delayed it, their time on the
    path is in the network's share. With equal computation times, all of a late worker's computation may count,
    although it would be needed without straggling too. A worker that is late at the boundary of the previous iteration
    is not recognised.
    """

    def __init__(self, logged: LoggedOps) -> None:
        self._logged, self._plan = logged, logged.plan
        self._rank = -1
        self._chunk = -1
        self._late_since: int | None = None
        self._produced: dict[int, set[int]] = {}
        for op, chunk in logged.plan.produces.tolist():
            self._produced.setdefault(op, set()).add(chunk)

    def at(self, rank: int) -> None:
        """Called when the walk reaches an op of this rank."""
        if rank != self._rank:
            self._rank, self._chunk, self._late_since = rank, -1, None

    def leaves(self, op: int, joined: tuple[int, int] | None) -> None:
        """Called when a worker's data leave with `op`, a SEND, or are added with `op`, a RECV.

        `joined` is the op that a control message released.
        """
        if self._plan.rank_role[self._rank] != Role.WORKER:
            return
        chunk = int(self._plan.ops.chunk[op])
        if chunk >= 0:
            self._chunk = chunk
        elif joined is not None:
            ready_ns, others_ns = self._at_join(*joined, self._rank)
            self._note(ready_ns, others_ns)

    def late_since_ns(self, iteration: int, op: int) -> int | None:
        """The time since which the rank's computation (`op` or what it did
        before) keeps others waiting; None if it does not."""
        if self._chunk in self._produced.get(op, ()):
            producers = self._plan.produces[self._plan.produces[:, 1] == self._chunk, 0]
            workers = producers[self._plan.rank_role[self._plan.ops.rank[producers]] == Role.WORKER]
            ready = {
                int(self._plan.ops.rank[producer]): int(self._logged.finish[iteration, producer])
                for producer in workers.tolist()
            }
            own_ns = ready.pop(self._rank, None)
            self._chunk = -1
            self._note(own_ns, list(ready.values()))
        return self._late_since

    def _at_join(self, iteration: int, op: int, rank: int) -> tuple[int | None, list[int]]:
        """Times in nanoseconds at which the contributions to what released `op` were ready: that of `rank`, None if
        there is none, and those of the other workers."""
        ops, ready_ns, others_ns = self._plan.ops, None, []
        for at, on in self._logged.dependencies(iteration, op):
            source, ready = int(ops.rank[on]), int(self._logged.finish[at, on])
            if ops.kind[on] == OpKind.RECV:
                send = int(ops.message[on])
                source, ready = int(ops.rank[send]), int(self._logged.nominal[at, send])
            if source == rank:
                ready_ns = ready
            elif self._plan.rank_role[source] == Role.WORKER:
                others_ns.append(ready)
        return ready_ns, others_ns

    def _note(self, own_ns: int | None, others_ns: list[int]) -> None:
        ready = np.sort(np.array([other for other in others_ns if other != MISSING], np.int64))
        if own_ns is None or not len(ready):
            return
        half = int(ready[(len(ready) - 1) // 2])
        self._late_since = half if half < own_ns else None

"""Replays a plan for some of its ranks, without I/O: from what happened, and when, it decides which messages to send.

The states of an op
===================

Each op of each iteration passes through these states, always downwards:

    WAITING   Some dependency has not ended. The message that a RECV receives counts as one more dependency.
    READY     All dependencies have ended and the op queues for its lane: a COMPUTE or REDUCE for its stream, a SEND for
              its send queue. A RECV needs no lane and ends as soon as it is ready.
    RUNNING   The op holds its lane. A COMPUTE or REDUCE holds it until a timer ends it. A SEND first waits out its
              software latency, if it has any, also on a timer, and then holds the queue until the network has taken its
              last byte: until that has left the host, or, where systems buffer, until a socket has it.
    ENDED     The op is in the log, its lane is free, and every op that depends on it has one dependency less to wait
              for.

No variable holds the state; where the op is found says it. A waiting op has a count in `_pending`, a ready one an
entry in its lane, a running one a timer or a message under way, and an ended one a row in the log. An op that has just
ended stands in `_ended` until `_settle` passes the news on.

Nominal and actual time
=======================

The interpreter never reads a clock. Every call from outside says what time it is, in nanoseconds since the start of
the replay.

A process that is to wake up at a certain time wakes up a little later. If each COMPUTE started when its predecessor
was seen to end, these delays would add up along the critical path and be taken for network time. So COMPUTEs and
REDUCEs have nominal times: one starts when the last of its dependencies ended, or when its stream became free if that
is later, and ends its duration after that. Its successors and its stream continue from the nominal end. Lateness
therefore shows in `lateness_ns` and in the log, and never adds up.

Messages take the time that the network takes, so SENDs and RECVs end when they are seen to end. From there on, nominal
time continues from that actual time. Only what a SEND's last packet takes on the line is known beforehand, and added.

Who may call what
=================

Call `start` once. Then call `advance` when a timer is due (see `next_timer_ns`), `sent` once for each `Outgoing` when
the network has taken it, and `arrived` once for each receiving rank of a message. Time must not go back from one call
to the next. If several of these happen together, call `advance` first: timers that woke up late belong before messages
that arrived later. After each call, take the messages to send from `take_outbox`.

The invariant
=============

Whenever no call is in progress, nothing more can happen without time or the network: no ended op is left to propagate,
and no lane is free while it has an op that it may serve. `_settle` restores this at the end of every call. It
propagates all ends before it serves a lane, so that ops which become ready at the same moment compete by their order
in the plan, and not by which of them was found first.

Every message also carries whose gradients it holds. The ledger adds these sets up exactly as the plan's checker did,
so an op that would start from the wrong data raises an InternalFault.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gradwire.agents.contention import Contention, Moved
from gradwire.agents.op_state import Column, OpLogger, RankGraph, SendQueue, Stream, column
from gradwire.agents.pace import ComputePace
from gradwire.datatypes.plan import FULL_SPEED, Combine, Contributions, Ledger, OpKind, Plan
from gradwire.faults import InternalFault

NOTHING = Contributions(-1, 0)
SEND, RECV, REDUCE = int(OpKind.SEND), int(OpKind.RECV), int(OpKind.REDUCE)
COMBINES = {int(combine): combine for combine in Combine}
"""Looked up for each message, which takes a fifth of the time of `Combine(number)`."""


class Outgoing(NamedTuple):
    """A message to put on the network now."""

    iteration: int
    #: Index of the SEND.
    op: int
    #: What the message's header must carry.
    contributions: Contributions


class _Execution(NamedTuple):
    """One op of one iteration, on a timer or ended. Sorts by its end, so that a heap of these is a list of timers."""

    #: Nominal end of a timed op; for a message, when it was seen to end.
    end_ns: int
    iteration: int
    op: int
    nominal_start_ns: int
    start_ns: int


class _Arrival(NamedTuple):
    """A message that has arrived before its RECV could end."""

    carried: Contributions
    #: When its header was read.
    start_ns: int


class Interpreter:
    """A replay of `iterations` iterations of a plan by the ranks in `ranks`; the module's docstring says how to drive
    it.

    pace: how much slower than planned ranks compute; without it, as planned.
    """

    def __init__(self, plan: Plan, ranks: set[int], iterations: int, pace: ComputePace | None = None) -> None:
        self.plan, self.iterations = plan, iterations
        self._pace = pace
        self._contention = Contention(plan) if plan.speed_permille != FULL_SPEED else None
        #: The timers of ops that compute on a stream and may slow down, by stream.
        self._slowing: dict[tuple[int, int], _Execution] = {}
        #: How long after its time `advance` was called, for each timer.
        self.lateness_ns: list[int] = []
        self.iterations_done = 0
        self._graph = RankGraph(plan, ranks)
        self.log = OpLogger(len(self._graph.own_ops) * iterations)
        self._ledger = Ledger(len(plan.workers), plan.contributors())
        self._outbox: list[Outgoing] = []
        self._now_ns = 0
        # Of each iteration that has begun and not ended: dependencies that each op waits for, the latest end among
        # those that have ended, and how many ops have not ended.
        self._pending: dict[int, Column] = {}
        self._ready_ns: dict[int, Column] = {}
        self._unended: dict[int, int] = {}
        #: Messages that have arrived, by iteration and RECV.
        self._arrivals: dict[tuple[int, int], _Arrival] = {}
        #: By rank and lane.
        self._streams: dict[tuple[int, int], Stream] = {}
        self._queues = {
            lane: SendQueue(discipline, orders) for lane, (discipline, orders) in self._graph.send_queues().items()
        }
        self._timers: list[_Execution] = []
        self._ended: deque[_Execution] = deque()
        # Lanes that may have something to serve, as ordered sets.
        self._streams_to_serve: dict[tuple[int, int], None] = {}
        self._queues_to_serve: dict[int, None] = {}

    @property
    def finished(self) -> bool:
        """Returns whether every op of every iteration has ended.

        Ranks without ops, or no ranks at all, are finished before they start.
        """
        return self.iterations_done == self.iterations or not self._graph.own_ops

    def awaited(self) -> list[tuple[int, int]]:
        """Iteration and op of each RECV that waits for nothing but its message, in the earliest iteration that has
        any."""
        graph = self._graph
        for iteration, pending in sorted(self._pending.items()):
            waiting = [
                (iteration, op)
                for op in graph.own_ops
                if graph.kind[op] == OpKind.RECV and pending[op] == 1 and (iteration, op) not in self._arrivals
            ]
            if waiting:
                return waiting
        return []

    def next_timer_ns(self) -> int | None:
        """The latest time to call `advance`; None if no timer is set."""
        return self._timers[0].end_ns if self._timers else None

    def take_outbox(self) -> list[Outgoing]:
        """The messages to put on the network since the last call."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def start(self, now_ns: int) -> None:
        """Begins iteration 0."""
        self._now_ns = now_ns
        self._pending_of(0)
        self._settle()

    def advance(self, now_ns: int) -> None:
        """Ends every timer that is due."""
        self._now_ns = now_ns
        while self._timers and self._timers[0].end_ns <= now_ns:
            due_ns = self._timers[0].end_ns
            while self._timers and self._timers[0].end_ns == due_ns:
                self._end_timer(heapq.heappop(self._timers))
            self._settle()

    def sent(self, iteration: int, op: int, start_ns: int, now_ns: int, on_line_ns: int = 0) -> None:
        """Notes that the network has taken a message, which was handed over at `start_ns`.

        on_line_ns: for how long its last bytes are still on the host's line. The SEND ends after that. Its queue picks
        the next message at once, so that the line does not pause between them.
        """
        self._now_ns = now_ns
        self._end_send(iteration, op, start_ns, now_ns + on_line_ns)
        self._settle()

    def arrived(
        self, message: int, rank: int, iteration: int, carried: Contributions, start_ns: int, now_ns: int
    ) -> None:
        """Notes that the last byte of a message has arrived at `rank`; its header was read at `start_ns`.

        message: index of its SEND. Raises InternalFault if its contributions do not add up.
        """
        self._now_ns = now_ns
        self._deliver(message, rank, iteration, carried, start_ns)
        self._settle()

    def _settle(self) -> None:
        """Carries out all that takes no time; see "The invariant" above."""
        while True:
            if self._ended:
                self._propagate(self._ended.popleft())
            elif self._streams_to_serve:
                key, _ = self._streams_to_serve.popitem()
                self._serve_stream(key)
            elif self._queues_to_serve:
                lane, _ = self._queues_to_serve.popitem()
                self._serve_queue(lane)
            else:
                return

    # From WAITING to READY

    def _pending_of(self, iteration: int) -> Column:
        """The counts of an iteration's dependencies, made when the first of its ops is touched."""
        if iteration not in self._pending:
            waits = self._graph.waits_first if iteration == 0 else self._graph.waits_later
            self._pending[iteration] = column(np.array(waits, np.int32))
            self._ready_ns[iteration] = column(np.full(len(waits), 0, np.int64))
            self._unended[iteration] = len(self._graph.own_ops)
            for op in self._graph.own_ops:
                if not waits[op]:
                    self._become_ready(iteration, op, self._now_ns)
        return self._pending[iteration]

    def _dependency_ended(self, iteration: int, op: int, end_ns: int) -> None:
        pending = self._pending.get(iteration) or self._pending_of(iteration)
        ready_ns = self._ready_ns[iteration]
        ready_ns[op] = max(ready_ns[op], end_ns)
        left = pending[op] - 1
        pending[op] = left
        if not left:
            self._become_ready(iteration, op, ready_ns[op])

    def _become_ready(self, iteration: int, op: int, ready_ns: int) -> None:
        graph = self._graph
        kind, lane = graph.kind[op], graph.lane[op]
        self._ready_ns[iteration][op] = ready_ns
        if kind == RECV:
            carried, start_ns = self._arrivals.pop((iteration, op))
            self._combine(iteration, op, carried)
            self._ended.append(_Execution(self._now_ns, iteration, op, start_ns, start_ns))
        elif kind == SEND:
            self._queues[lane].push(ready_ns, graph.order[op], iteration, op)
            self._queues_to_serve[lane] = None
        else:
            key = (graph.rank[op], lane)
            stream = self._streams.get(key)
            if stream is None:
                stream = self._streams[key] = Stream()
            push = stream.push_reduce if kind == REDUCE else stream.push_compute
            push(ready_ns, graph.order[op], iteration, op)
            self._streams_to_serve[key] = None

    # From READY to RUNNING

    def _serve_stream(self, key: tuple[int, int]) -> None:
        stream = self._streams[key]
        next_op = stream.pop()
        if next_op is None:
            return
        iteration, op = next_op.iteration, next_op.op
        for chunk in self._graph.consumes.get(op, ()):
            self._expect_complete(iteration, op, chunk, "the iteration before", iteration - 1)
        for chunk in self._graph.needs.get(op, ()):
            self._expect_complete(iteration, op, chunk, "this iteration", iteration)
        nominal_start_ns = max(self._ready_ns[iteration][op], stream.free_ns)
        work_ns = self._graph.duration_ns[op]
        end_ns = nominal_start_ns + work_ns
        if self._pace is not None:
            end_ns = self._pace.end_ns(self._graph.rank[op], iteration, nominal_start_ns, work_ns)
        slows = self._contention is not None and self._contention.slows(op)
        if self._contention is not None and slows:
            end_ns = self._contention.computes(key, nominal_start_ns, work_ns)
        execution = _Execution(end_ns, iteration, op, nominal_start_ns, self._now_ns)
        if slows:
            self._slowing[key] = execution
        if end_ns > self._now_ns:
            heapq.heappush(self._timers, execution)
        else:
            self._end_stream_op(execution)

    def _serve_queue(self, lane: int) -> None:
        next_send = self._queues[lane].pop()
        if next_send is None:
            return
        iteration, op = next_send.iteration, next_send.op
        if self._contention is not None:
            self._move_timers(self._contention.message(iteration, op, self._now_ns))
        latency_ns = self._graph.duration_ns[op]
        if latency_ns:
            start_ns = max(self._now_ns, self._queues[lane].free_ns)
            execution = _Execution(start_ns + latency_ns, iteration, op, start_ns, start_ns)
            heapq.heappush(self._timers, execution)
        else:
            self._dispatch(iteration, op)

    def _dispatch(self, iteration: int, op: int) -> None:
        """Sends a message onto the network, or through memory if its receiver is on the same host."""
        graph = self._graph
        chunk, carried = graph.chunk[op], NOTHING
        if chunk >= 0:
            carried = self._ledger.outgoing(graph.rank[op], chunk, COMBINES[graph.received_as[op]])
        if graph.is_remote[op]:
            self._outbox.append(Outgoing(iteration, op, carried))
            return
        self._end_send(iteration, op, self._now_ns, self._now_ns)
        self._deliver(op, graph.peer[op], iteration, carried, self._now_ns)

    def _deliver(self, message: int, rank: int, iteration: int, carried: Contributions, start_ns: int) -> None:
        op = self._graph.recv_of(message, rank)
        self._arrivals[iteration, op] = _Arrival(carried, start_ns)
        self._dependency_ended(iteration, op, self._now_ns)

    # From RUNNING to ENDED

    def _end_timer(self, timer: _Execution) -> None:
        self.lateness_ns.append(self._now_ns - timer.end_ns)
        if self._graph.kind[timer.op] == SEND:
            self._dispatch(timer.iteration, timer.op)
        else:
            self._end_stream_op(timer)

    def _end_stream_op(self, execution: _Execution) -> None:
        key = (self._graph.rank[execution.op], self._graph.lane[execution.op])
        stream = self._streams[key]
        if self._contention is not None and key in self._slowing:
            del self._slowing[key]
            self._contention.computed(key)
        stream.is_running, stream.free_ns = False, execution.end_ns
        self._streams_to_serve[key] = None
        self._ended.append(execution)

    def _move_timers(self, moved: Iterable[Moved]) -> None:
        """Moves the timers of computations whose ends have changed."""
        for stream, end_ns in moved:
            self._timers.remove(self._slowing[stream])
            heapq.heapify(self._timers)
            self._slowing[stream] = self._slowing[stream]._replace(end_ns=end_ns)
            heapq.heappush(self._timers, self._slowing[stream])

    def _end_send(self, iteration: int, op: int, start_ns: int, end_ns: int) -> None:
        lane = self._graph.lane[op]
        self._ended.append(_Execution(end_ns, iteration, op, self._ready_ns[iteration][op], start_ns))
        queue = self._queues[lane]
        queue.is_busy, queue.free_ns = False, end_ns
        self._queues_to_serve[lane] = None

    def _propagate(self, execution: _Execution) -> None:
        """Logs an op that has ended and tells those that depend on it."""
        graph, (end_ns, iteration, op, nominal_start_ns, start_ns) = self._graph, execution
        now_ns = self._now_ns
        if self._contention is not None:
            self._move_timers(self._contention.message(iteration, op, now_ns, end_ns))
        keeps_end = end_ns > now_ns or (self._contention is not None and self._contention.slows(op))
        self.log.add(iteration, op, nominal_start_ns, start_ns, end_ns if keeps_end else now_ns)
        for chunk in graph.produces.get(op, ()):
            self._ledger.produce(graph.rank[op], chunk, graph.worker_number.get(graph.rank[op]), iteration)
        lag, successor = graph.successor_lag, graph.successor
        for edge in range(graph.successors_start[op], graph.successors_start[op + 1]):
            successor_iteration = iteration + lag[edge]
            if successor_iteration < self.iterations:
                self._dependency_ended(successor_iteration, successor[edge], end_ns)
        self._unended[iteration] -= 1
        if not self._unended[iteration]:
            del self._pending[iteration], self._ready_ns[iteration], self._unended[iteration]
            self.iterations_done += 1

    # Whose gradients are where

    def _combine(self, iteration: int, op: int, carried: Contributions) -> None:
        graph = self._graph
        if graph.chunk[op] < 0:
            return
        defect = self._ledger.arrive(graph.rank[op], graph.chunk[op], COMBINES[graph.combine[op]], carried)
        if defect:
            raise InternalFault(
                f"iteration {iteration}, RECV op {op} at rank {graph.rank[op]}, chunk {graph.chunk[op]}: {defect}"
            )

    def _expect_complete(self, iteration: int, op: int, chunk: int, of: str, needed_iteration: int) -> None:
        held_iteration = self._ledger.complete(self._graph.rank[op], chunk)
        if held_iteration != needed_iteration:
            raise InternalFault(
                f"iteration {iteration}, op {op} at rank {self._graph.rank[op]} needs chunk {chunk} of {of}, "
                f"but holds that of iteration {held_iteration}"
            )

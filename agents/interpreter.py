"""Replays a plan for some of its ranks, without I/O: told what happened and what time it is, it says what to send.

Compute and reduce ops are scheduled from nominal times (the latest end among dependencies, or of the stream's last op, plus the
duration), so that waking up late is measured and never adds up. Messages end when they really end.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np

from gradwire.agents.graph import Column, RankGraph, column
from gradwire.agents.oplog import OpLogger
from gradwire.faults import InternalFault
from gradwire.workloads.plan import Combine, Contributions, Discipline, Ledger, OpKind, Plan

NOTHING = Contributions(-1, 0)


@dataclass(frozen=True)
class Outgoing:
    """A message to put on the network now. contributions: what its header must carry."""

    iteration: int
    op: int
    contributions: Contributions


@dataclass
class _Stream:
    """A rank's serial stream: `waiting` holds (ready_ns, order, iteration, op) of a COMPUTE, (order, ready_ns, iteration, op) of a REDUCE.

    So a server that falls behind adds what is most urgent first (P3, section 4.2), and a GPU keeps the order of its kernels.
    """

    waiting: list[tuple[int, int, int, int]]
    running: bool = False
    free_ns: int = 0


class _SendQueue:
    """Picks the next of a queue's ready SENDs by its discipline, one at a time."""

    def __init__(self, discipline: Discipline, orders: list[int]) -> None:
        self.discipline = discipline
        self.orders = sorted(orders)
        self.position = self.iteration = 0
        self.busy = False
        self.waiting: list[tuple[int, int, int, int]] = []

    def push(self, ready_ns: int, order: int, iteration: int, op: int) -> None:
        """Adds a SEND that is ready."""
        rank = (ready_ns, order) if self.discipline == Discipline.FIFO else (iteration, order)
        heapq.heappush(self.waiting, (*rank, iteration, op))

    def pop(self) -> tuple[int, int] | None:
        """The (iteration, op) to serve now, or None while nothing may be sent."""
        if self.busy or not self.waiting:
            return None
        if self.discipline == Discipline.COUNTER:
            if self.waiting[0][:2] != (self.iteration, self.orders[self.position]):
                return None
            self.position = (self.position + 1) % len(self.orders)
            self.iteration += self.position == 0
        self.busy = True
        _, _, iteration, op = heapq.heappop(self.waiting)
        return iteration, op


class Interpreter:
    """A replay of `iterations` iterations of a plan by the ranks in `ranks`.

    Call `start` once, then `advance`, `sent` and `arrived` as things happen; after each call, `take_outbox` gives the messages to send.
    lateness_ns: of each timer, how late `advance` came.
    """

    def __init__(self, plan: Plan, ranks: set[int], iterations: int) -> None:
        self.plan, self.iterations = plan, iterations
        self.lateness_ns: list[int] = []
        self.iterations_done = 0
        self._graph = RankGraph(plan, ranks)
        self.log = OpLogger(len(self._graph.mine) * iterations)
        self._now = 0
        self._pending: dict[int, Column] = {}
        self._ready_ns: dict[int, Column] = {}
        self._left: dict[int, int] = {}
        self._arrivals: dict[tuple[int, int], tuple[Contributions, int]] = {}
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._queues = {
            queue: _SendQueue(discipline, orders) for queue, (discipline, orders) in self._graph.send_queues().items()
        }
        self._timers: list[tuple[int, int, int, int, int]] = []
        self._ended: deque[tuple[int, int, int, int, int]] = deque()
        self._idle_streams: dict[tuple[int, int], None] = {}
        self._idle_queues: dict[int, None] = {}
        self._outbox: list[Outgoing] = []
        self._ledger = Ledger(len(plan.workers))

    @property
    def finished(self) -> bool:
        """Whether every op of every iteration is done; ranks without ops, or no ranks at all, are done before they start."""
        return self.iterations_done == self.iterations or not self._graph.mine

    def next_timer_ns(self) -> int | None:
        """When `advance` must be called at the latest, or None."""
        return self._timers[0][0] if self._timers else None

    def take_outbox(self) -> list[Outgoing]:
        """The messages to put on the network since the last call."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def start(self, now_ns: int) -> None:
        """Begins iteration 0."""
        self._now = now_ns
        self._counters(0)
        self._settle()

    def advance(self, now_ns: int) -> None:
        """Ends every timed op that is due."""
        self._now = now_ns
        while self._timers and self._timers[0][0] <= now_ns:
            due_ns = self._timers[0][0]
            while self._timers and self._timers[0][0] == due_ns:
                self._end_timer(*heapq.heappop(self._timers))
            self._settle()

    def _end_timer(self, end_ns: int, iteration: int, op: int, nominal_ns: int, start_ns: int) -> None:
        self.lateness_ns.append(self._now - end_ns)
        if self._graph.kind[op] == OpKind.SEND:
            self._dispatch(iteration, op)
        else:
            self._free_stream(op, end_ns)
            self._ended.append((iteration, op, nominal_ns, start_ns, end_ns))

    def sent(self, iteration: int, op: int, start_ns: int, now_ns: int) -> None:
        """The last byte of a message has been handed to the network."""
        self._now = now_ns
        self._send_done(iteration, op, start_ns)
        self._settle()

    def arrived(
        self, message: int, rank: int, iteration: int, carried: Contributions, start_ns: int, now_ns: int
    ) -> None:
        """The last byte of a message has arrived at `rank`. Raises InternalFault if its contributions do not add up."""
        self._now = now_ns
        self._deliver(message, rank, iteration, carried, start_ns)
        self._settle()

    def _counters(self, iteration: int) -> Column:
        """How many dependencies each op of an iteration still waits for; opened by whatever touches the iteration first."""
        if iteration not in self._pending:
            waits = self._graph.waits_first if iteration == 0 else self._graph.waits_later
            self._pending[iteration] = column(np.array(waits, np.int32))
            self._ready_ns[iteration] = column(np.full(len(waits), 0, np.int64))
            self._left[iteration] = len(self._graph.mine)
            for op in self._graph.mine:
                if not waits[op]:
                    self._become_ready(iteration, op, self._now)
        return self._pending[iteration]

    def _settle(self) -> None:
        """Lets everything follow that takes no time, until only timers and the network can go on.

        Ends come before queues and streams are served, so that ops that become ready at the same time compete by their order.
        """
        while True:
            if self._ended:
                self._propagate(*self._ended.popleft())
            elif self._idle_streams:
                key, _ = self._idle_streams.popitem()
                self._run_stream(key)
            elif self._idle_queues:
                queue, _ = self._idle_queues.popitem()
                self._serve(queue)
            else:
                return

    def _propagate(self, iteration: int, op: int, nominal_ns: int, start_ns: int, end_ns: int) -> None:
        self.log.add(iteration, op, nominal_ns, start_ns, max(end_ns, self._now))
        graph = self._graph
        for chunk in graph.produces.get(op, ()):
            self._ledger.produce(graph.rank[op], chunk, graph.worker_number.get(graph.rank[op]), iteration)
        for edge in range(graph.successors_start[op], graph.successors_start[op + 1]):
            at = iteration + graph.successor_lag[edge]
            if at < self.iterations:
                self._dependency_done(at, graph.successor[edge], end_ns)
        self._left[iteration] -= 1
        if not self._left[iteration]:
            del self._pending[iteration], self._ready_ns[iteration], self._left[iteration]
            self.iterations_done += 1

    def _dependency_done(self, iteration: int, op: int, at_ns: int) -> None:
        counters = self._counters(iteration)
        ready = self._ready_ns[iteration]
        ready[op] = max(ready[op], at_ns)
        counters[op] -= 1
        if not counters[op]:
            self._become_ready(iteration, op, ready[op])

    def _become_ready(self, iteration: int, op: int, ready_ns: int) -> None:
        graph = self._graph
        kind, lane = graph.kind[op], graph.lane[op]
        self._ready_ns[iteration][op] = ready_ns
        if kind == OpKind.RECV:
            carried, start_ns = self._arrivals.pop((iteration, op))
            self._combine(iteration, op, carried)
            self._ended.append((iteration, op, start_ns, start_ns, self._now))
        elif kind == OpKind.SEND:
            self._queues[lane].push(ready_ns, graph.order[op], iteration, op)
            self._idle_queues[lane] = None
        else:
            key = (graph.rank[op], lane)
            stream = self._streams.setdefault(key, _Stream([]))
            rank = (graph.order[op], ready_ns) if kind == OpKind.REDUCE else (ready_ns, graph.order[op])
            heapq.heappush(stream.waiting, (*rank, iteration, op))
            self._idle_streams[key] = None

    def _run_stream(self, key: tuple[int, int]) -> None:
        stream = self._streams[key]
        if stream.running or not stream.waiting:
            return
        _, _, iteration, op = heapq.heappop(stream.waiting)
        ready_ns = self._ready_ns[iteration][op]
        for chunk in self._graph.consumes.get(op, ()):
            self._expect_complete(iteration, op, chunk)
        nominal_ns = max(ready_ns, stream.free_ns)
        end_ns = nominal_ns + self._graph.duration_ns[op]
        stream.running = True
        if end_ns > self._now:
            heapq.heappush(self._timers, (end_ns, iteration, op, nominal_ns, self._now))
        else:
            self._free_stream(op, end_ns)
            self._ended.append((iteration, op, nominal_ns, self._now, end_ns))

    def _free_stream(self, op: int, end_ns: int) -> None:
        key = (self._graph.rank[op], self._graph.lane[op])
        stream = self._streams[key]
        stream.running, stream.free_ns = False, end_ns
        self._idle_streams[key] = None

    def _serve(self, lane: int) -> None:
        turn = self._queues[lane].pop()
        if turn is None:
            return
        iteration, op = turn
        latency_ns = self._graph.duration_ns[op]
        if latency_ns:
            heapq.heappush(self._timers, (self._now + latency_ns, iteration, op, self._now, self._now))
        else:
            self._dispatch(iteration, op)

    def _dispatch(self, iteration: int, op: int) -> None:
        """A SEND goes out: onto the network, or through memory to a rank of the same host."""
        graph = self._graph
        chunk, carried = graph.chunk[op], NOTHING
        if chunk >= 0:
            carried = self._ledger.outgoing(graph.rank[op], chunk, Combine(graph.received_as[op]))
        if graph.remote[op]:
            self._outbox.append(Outgoing(iteration, op, carried))
            return
        self._send_done(iteration, op, self._now)
        self._deliver(op, graph.peer[op], iteration, carried, self._now)

    def _send_done(self, iteration: int, op: int, start_ns: int) -> None:
        lane = self._graph.lane[op]
        self._ended.append((iteration, op, self._ready_ns[iteration][op], start_ns, self._now))
        self._queues[lane].busy = False
        self._idle_queues[lane] = None

    def _deliver(self, message: int, rank: int, iteration: int, carried: Contributions, start_ns: int) -> None:
        op = self._graph.recv_of(message, rank)
        self._arrivals[iteration, op] = (carried, start_ns)
        self._dependency_done(iteration, op, self._now)

    def _combine(self, iteration: int, op: int, carried: Contributions) -> None:
        graph = self._graph
        if graph.chunk[op] < 0:
            return
        wrong = self._ledger.arrive(graph.rank[op], graph.chunk[op], Combine(graph.combine[op]), carried)
        if wrong:
            raise InternalFault(
                f"iteration {iteration}, RECV op {op} at rank {graph.rank[op]}, chunk {graph.chunk[op]}: {wrong}"
            )

    def _expect_complete(self, iteration: int, op: int, chunk: int) -> None:
        held = self._ledger.complete(self._graph.rank[op], chunk)
        if held != iteration - 1:
            raise InternalFault(
                f"iteration {iteration}, op {op} at rank {self._graph.rank[op]} needs chunk {chunk} of the iteration before, "
                f"but holds that of iteration {held}"
            )

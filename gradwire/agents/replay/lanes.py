"""The lanes that ready ops queue for: a rank's serial streams (COMPUTE, REDUCE) and its send queues (SEND).

A lane serves one op at a time. Its waiting ops are a heap of `Waiting`, so the two sort keys of an entry are its whole
policy.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from gradwire.datatypes.plan import Discipline


class Waiting(NamedTuple):
    """A ready op in the heap of its lane; the lowest entry is served first."""

    #: What decides first: the time at which the op became ready, its `order` in the plan, or its iteration.
    primary: int
    #: What decides among entries with the same `primary`.
    secondary: int
    iteration: int
    #: Index of the op in the plan.
    op: int


class Stream:
    """A serial stream of a rank, such as the compute stream of its GPU or the thread that adds gradients.

    COMPUTEs are served in the order in which they became ready, as a GPU serves its kernels. REDUCEs are served by
    `order`, so that a server that falls behind adds the most urgent gradients first (P3, section 4.2).
    """

    def __init__(self) -> None:
        self.is_running = False
        #: Nominal end of the last op, hence the earliest nominal start of the next.
        self.free_ns = 0
        self._waiting: list[Waiting] = []

    def push_compute(self, ready_ns: int, order: int, iteration: int, op: int) -> None:
        """Adds a ready COMPUTE."""
        heapq.heappush(self._waiting, Waiting(ready_ns, order, iteration, op))

    def push_reduce(self, ready_ns: int, order: int, iteration: int, op: int) -> None:
        """Adds a ready REDUCE."""
        heapq.heappush(self._waiting, Waiting(order, ready_ns, iteration, op))

    def pop(self) -> Waiting | None:
        """Returns the op to run now and marks the stream as running, or returns None if it is running or nothing
        waits."""
        if self.is_running or not self._waiting:
            return None
        self.is_running = True
        return heapq.heappop(self._waiting)


class SendQueue:
    """A send queue of a rank, which picks the next SEND by its discipline."""

    def __init__(self, discipline: Discipline, orders: list[int]) -> None:
        self.is_busy = False
        #: When the last byte of the last SEND has left, which is at most a packet after `is_busy` ends.
        self.free_ns = 0
        self._is_fifo = discipline == Discipline.FIFO
        self._is_counted = discipline == Discipline.COUNTER
        self._waiting: list[Waiting] = []
        #: The orders of all SENDs of one iteration. A COUNTER queue serves them strictly one after another.
        self._orders = sorted(orders)
        self._position = self._iteration = 0

    def push(self, ready_ns: int, order: int, iteration: int, op: int) -> None:
        """Adds a ready SEND."""
        primary = ready_ns if self._is_fifo else iteration
        heapq.heappush(self._waiting, Waiting(primary, order, iteration, op))

    def pop(self) -> Waiting | None:
        """Returns the SEND to serve now and marks the queue as busy, or returns None while it is busy or must wait."""
        if self.is_busy or not self._waiting:
            return None
        if self._is_counted:
            first = self._waiting[0]
            if first.primary != self._iteration or first.secondary != self._orders[self._position]:
                return None
            self._position = (self._position + 1) % len(self._orders)
            self._iteration += self._position == 0
        self.is_busy = True
        return heapq.heappop(self._waiting)

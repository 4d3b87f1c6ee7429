"""State that the interpreter keeps: a plan's columns with the dependencies of some of its ranks, the lanes that ready
ops queue for, and the log.

Columns are memoryviews of numpy arrays. Reading one element is nearly as fast as reading a list, and a million ops
take 50 MB where lists of Python integers take 600 MB. Memory matters inside the user-mode kernel: every stretch of a
process's memory is a mapping of the host, a process may have 65,530 of them (vm.max_map_count), and an agent that
needs more is killed by signal 11.
"""

from __future__ import annotations

import heapq
from collections.abc import MutableSequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Discipline, Int64, OpKind, Plan
from gradwire.datatypes.records import OpLog

Column = MutableSequence[int]


class RankGraph:
    """The ops of the ranks in `ranks` and what depends on what. Columns without a comment are those of `Ops`."""

    def __init__(self, plan: Plan, ranks: set[int]) -> None:
        ops = plan.ops
        self._plan = plan
        self.kind, self.rank, self.peer = column(ops.kind), column(ops.rank), column(ops.peer)
        self.lane, self.order, self.chunk = column(ops.lane), column(ops.order), column(ops.chunk)
        self.combine, self.duration_ns = column(ops.combine), column(ops.duration_ns)
        #: 1 for each op that is a SEND across the network.
        self.is_remote = column(plan.is_remote().astype(np.uint8))
        #: Each worker's bit in a set of contributions, by its rank.
        self.worker_number = {int(rank): number for number, rank in enumerate(plan.workers)}
        #: The chunks that an op produces, consumes or needs.
        self.produces, self.consumes = _chunks_by_op(plan.produces), _chunks_by_op(plan.consumes)
        self.needs = _chunks_by_op(plan.needs)
        is_own = np.isin(ops.rank, list(ranks))
        #: The ops of `ranks`.
        self.own_ops = column(np.flatnonzero(is_own))
        recvs = np.flatnonzero(ops.kind == OpKind.RECV)
        received_as = np.zeros(len(ops), np.uint8)
        received_as[ops.message[recvs]] = ops.combine[recvs]
        #: The `Combine` of each SEND's RECVs.
        self.received_as = column(received_as)
        self._index_recvs(recvs[is_own[recvs]])
        self._link(is_own)

    def recv_of(self, message: int, rank: int) -> int:
        """The RECV, at one of `ranks`, of the message that SEND `message` sends."""
        op = self.only_recv[message]
        return op if op >= 0 else self._group_recvs[message, rank]

    def _index_recvs(self, recvs: Int64) -> None:
        """Indexes RECVs by their SEND.

        Only those of messages to a group, of which there are few, need the rank as well.
        """
        ops = self._plan.ops
        only_recv = np.full(len(ops), -1, np.int32)
        is_grouped = ops.group[ops.message[recvs]] == 1
        single, grouped = recvs[~is_grouped], recvs[is_grouped]
        only_recv[ops.message[single]] = single
        #: The RECV of each SEND to one rank, if that is one of `ranks`; otherwise -1.
        self.only_recv = column(only_recv)
        keys = zip(ops.message[grouped].tolist(), ops.rank[grouped].tolist(), strict=True)
        self._group_recvs = dict(zip(keys, grouped.tolist(), strict=True))

    def _link(self, is_own: npt.NDArray[np.bool_]) -> None:
        """Turns "op waits for" into "op is awaited by", and counts what each op waits for."""
        plan, count = self._plan, len(self._plan.ops)
        waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
        kept = is_own[waiting]
        waiting, awaited, lag = waiting[kept], plan.dep_op[kept], plan.dep_lag[kept]
        by_awaited = np.argsort(awaited, kind="stable")
        #: The ops that wait for `op` are successor[successors_start[op]:successors_start[op + 1]].
        self.successor = column(waiting[by_awaited].astype(np.int32))
        #: How many iterations later each of them is: 0 or 1.
        self.successor_lag = column(lag[by_awaited])
        start = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(awaited, minlength=count), out=start[1:])
        self.successors_start = column(start)
        message = (plan.ops.kind == OpKind.RECV).astype(np.int64)
        same, before = (np.bincount(waiting[lag == value], minlength=count) for value in (0, 1))
        #: Dependencies of each op in iteration 0, which has none before it; the message of a RECV counts as one.
        self.waits_first = column((same + message).astype(np.int32))
        #: Dependencies of each op in later iterations, counted in the same way.
        self.waits_later = column((same + before + message).astype(np.int32))

    def send_queues(self) -> dict[int, tuple[Discipline, list[int]]]:
        """Discipline of each send queue of `ranks`, and the orders of its SENDs."""
        queues: dict[int, tuple[Discipline, list[int]]] = {}
        for op in self.own_ops:
            if self.kind[op] == OpKind.SEND:
                discipline = Discipline(int(self._plan.queue_discipline[self.lane[op]]))
                queues.setdefault(self.lane[op], (discipline, []))[1].append(self.order[op])
        return queues


def column(values: npt.NDArray[Any]) -> Column:
    """Returns a view of the same numbers, whose elements are read and written as Python integers."""
    return cast(Column, np.ascontiguousarray(values).data)


def _chunks_by_op(pairs: Int64) -> dict[int, list[int]]:
    chunks: dict[int, list[int]] = {}
    for op, chunk in pairs.tolist():
        chunks.setdefault(op, []).append(chunk)
    return chunks


class ReadyOp(NamedTuple):
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
        self._waiting: list[ReadyOp] = []

    def push_compute(self, ready_ns: int, order: int, iteration: int, op: int) -> None:
        """Adds a ready COMPUTE."""
        heapq.heappush(self._waiting, ReadyOp(ready_ns, order, iteration, op))

    def push_reduce(self, ready_ns: int, order: int, iteration: int, op: int) -> None:
        """Adds a ready REDUCE."""
        heapq.heappush(self._waiting, ReadyOp(order, ready_ns, iteration, op))

    def pop(self) -> ReadyOp | None:
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
        self._waiting: list[ReadyOp] = []
        #: The orders of all SENDs of one iteration. A COUNTER queue serves them strictly one after another.
        self._orders = sorted(orders)
        self._position = self._iteration = 0

    def push(self, ready_ns: int, order: int, iteration: int, op: int) -> None:
        """Adds a ready SEND."""
        primary = ready_ns if self._is_fifo else iteration
        heapq.heappush(self._waiting, ReadyOp(primary, order, iteration, op))

    def pop(self) -> ReadyOp | None:
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


COLUMNS = 5


class OpLogger:
    """Takes one row per executed op, at most `rows` in all; `freeze` returns the log.

    The table has its full size from the start and is written once before it is used. Columns that grew side by side
    would take pages of memory in turn, and each page would be a separate mapping (see above).
    """

    def __init__(self, rows: int) -> None:
        # np.zeros would not do: memory that was never written is a single page of zeros, mapped again for every page
        # of the array.
        self._rows = np.full((rows, COLUMNS), 0, np.int64)
        self._table = column(self._rows.reshape(-1))
        self._used = 0

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._used // COLUMNS

    def add(self, iteration: int, op: int, nominal_start_ns: int, start_ns: int, end_ns: int) -> None:
        """Adds a row, with the columns of OpLog. Raises IndexError if the table is full."""
        table, at = self._table, self._used
        table[at] = iteration
        table[at + 1] = op
        table[at + 2] = nominal_start_ns
        table[at + 3] = start_ns
        table[at + 4] = end_ns
        self._used = at + COLUMNS

    def freeze(self) -> OpLog:
        """The log so far."""
        rows = self._rows[: self._used // COLUMNS]
        return OpLog(*(rows[:, number].copy() for number in range(COLUMNS)))

"""A plan's columns as the interpreter reads them, and the dependency graph of some of its ranks.

Columns are memoryviews of numpy arrays. Reading one element is nearly as fast as reading a list, and a million ops
take 50 MB where lists of Python integers take 600 MB. Memory matters inside the user-mode kernel: every stretch of a
process's memory is a mapping of the host, a process may have 65,530 of them (vm.max_map_count), and an agent that
needs more is killed by signal 11.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Discipline, Int64, OpKind, Plan

Column = MutableSequence[int]


class RankGraph:
    """The ops of the ranks in `ranks` and what depends on what. Columns without a comment are those of `Ops`."""

    def __init__(self, plan: Plan, ranks: set[int]) -> None:
        ops = plan.ops
        self._plan = plan
        self.kind, self.rank, self.peer = column(ops.kind), column(ops.rank), column(ops.peer)
        self.lane, self.order, self.chunk = column(ops.lane), column(ops.order), column(ops.chunk)
        self.combine, self.duration_ns = column(ops.combine), column(ops.duration_ns)
        #: Of each op: 1 if it is a SEND that crosses the network.
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
        #: Of each SEND: the `Combine` of its RECVs.
        self.received_as = column(received_as)
        self._index_recvs(recvs[is_own[recvs]])
        self._link(is_own)

    def recv_of(self, message: int, rank: int) -> int:
        """The RECV, at one of `ranks`, of the message that SEND `message` sends."""
        op = self.only_recv[message]
        return op if op >= 0 else self._group_recvs[message, rank]

    def _index_recvs(self, recvs: Int64) -> None:
        """Indexes RECVs by their SEND. Only those of messages to a group, of which there are few, need the rank as
        well."""
        ops = self._plan.ops
        only_recv = np.full(len(ops), -1, np.int32)
        is_grouped = ops.group[ops.message[recvs]] == 1
        single, grouped = recvs[~is_grouped], recvs[is_grouped]
        only_recv[ops.message[single]] = single
        #: Of each SEND to one rank, if that is one of `ranks`: its RECV; otherwise -1.
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
        #: The same in later iterations.
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
    """A view of the same numbers that is read and written one Python integer at a time."""
    return cast(Column, np.ascontiguousarray(values).data)


def _chunks_by_op(pairs: Int64) -> dict[int, list[int]]:
    chunks: dict[int, list[int]] = {}
    for op, chunk in pairs.tolist():
        chunks.setdefault(op, []).append(chunk)
    return chunks

"""A plan's columns as the interpreter reads them, and the graph of some ranks.

Columns are memoryviews of numpy's arrays: read one by one they are nearly as fast as lists, and a million ops take 50 MB, where lists of
Python's own numbers take 600. Inside the user-mode kernel memory is dear: each stretch of a process is a mapping of the machine's, of
which a process may have 65,530 (vm.max_map_count), and an agent that needs more of them ends with signal 11.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from gradwire.workloads.plan import Discipline, Int64, OpKind, Plan

Column = MutableSequence[int]


class RankGraph:
    """What the ranks in `ranks` have to do.

    mine: their ops. waits_first, waits_later: dependencies of each op in iteration 0 and in later ones; a RECV waits for its
    message as for one more. successor[successors_start[op]:successors_start[op + 1]]: the ops that wait for `op`, each in the iteration
    `successor_lag` later. received_as: Combine of the RECVs of a message, by its SEND.
    """

    def __init__(self, plan: Plan, ranks: set[int]) -> None:
        ops = plan.ops
        self._plan = plan
        self.kind, self.rank, self.peer = column(ops.kind), column(ops.rank), column(ops.peer)
        self.lane, self.order, self.chunk = column(ops.lane), column(ops.order), column(ops.chunk)
        self.combine, self.duration_ns = column(ops.combine), column(ops.duration_ns)
        self.remote = column(plan.is_remote().astype(np.uint8))
        self.worker_number = {int(rank): number for number, rank in enumerate(plan.workers)}
        self.produces, self.consumes = _by_op(plan.produces), _by_op(plan.consumes)
        is_mine = np.isin(ops.rank, list(ranks))
        self.mine = column(np.flatnonzero(is_mine))
        recvs = np.flatnonzero(ops.kind == OpKind.RECV)
        received_as = np.zeros(len(ops), np.uint8)
        received_as[ops.message[recvs]] = ops.combine[recvs]
        self.received_as = column(received_as)
        self._index_recvs(recvs[is_mine[recvs]])
        self._link(is_mine)

    def recv_of(self, message: int, rank: int) -> int:
        """The RECV at one of these ranks of a message, named by its SEND."""
        op = self._only_recv[message]
        return op if op >= 0 else self._group_recvs[message, rank]

    def _index_recvs(self, recvs: Int64) -> None:
        """A message to one rank has one RECV, kept by its SEND; those of messages to a group are few, and kept by rank as well."""
        ops = self._plan.ops
        only = np.full(len(ops), -1, np.int32)
        to_group = ops.group[ops.message[recvs]] == 1
        single, grouped = recvs[~to_group], recvs[to_group]
        only[ops.message[single]] = single
        self._only_recv = column(only)
        pairs = zip(ops.message[grouped].tolist(), ops.rank[grouped].tolist(), strict=True)
        self._group_recvs = dict(zip(pairs, grouped.tolist(), strict=True))

    def _link(self, is_mine: npt.NDArray[np.bool_]) -> None:
        plan, count = self._plan, len(self._plan.ops)
        waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
        kept = is_mine[waiting]
        waiting, on, lag = waiting[kept], plan.dep_op[kept], plan.dep_lag[kept]
        by_on = np.argsort(on, kind="stable")
        self.successor = column(waiting[by_on].astype(np.int32))
        self.successor_lag = column(lag[by_on])
        start = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(on, minlength=count), out=start[1:])
        self.successors_start = column(start)
        message = (plan.ops.kind == OpKind.RECV).astype(np.int64)
        same, before = (np.bincount(waiting[lag == value], minlength=count) for value in (0, 1))
        self.waits_first = column((same + message).astype(np.int32))
        self.waits_later = column((same + before + message).astype(np.int32))

    def send_queues(self) -> dict[int, tuple[Discipline, list[int]]]:
        """Of each send queue of these ranks: its discipline and the orders of its ops."""
        queues: dict[int, tuple[Discipline, list[int]]] = {}
        for op in self.mine:
            if self.kind[op] == OpKind.SEND:
                discipline = Discipline(int(self._plan.queue_discipline[self.lane[op]]))
                queues.setdefault(self.lane[op], (discipline, []))[1].append(self.order[op])
        return queues


def column(values: npt.NDArray[Any]) -> Column:
    """The same numbers, to be read and written one by one as Python's own; no copy."""
    return cast(Column, np.ascontiguousarray(values).data)


def _by_op(pairs: Int64) -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for op, chunk in pairs.tolist():
        table.setdefault(op, []).append(chunk)
    return table

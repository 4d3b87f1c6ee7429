"""A plan's columns as the interpreter reads them: plain lists (faster to index one by one than arrays) and the graph of some ranks."""

from __future__ import annotations

import numpy as np

from workloads.plan import Discipline, Int64, OpKind, Plan


class RankGraph:
    """What the ranks in `ranks` have to do.

    mine: their ops. waits_first, waits_later: dependencies of each op in iteration 0 and in later ones; a RECV waits for its
    message as for one more. successor[successors_start[op]:successors_start[op + 1]]: the ops that wait for `op`, each in the iteration
    `successor_lag` later. recv_of: the RECV of a (message, rank).
    """

    def __init__(self, plan: Plan, ranks: set[int]) -> None:
        ops = plan.ops
        self._plan = plan
        self.kind: list[int] = ops.kind.tolist()
        self.rank: list[int] = ops.rank.tolist()
        self.peer: list[int] = ops.peer.tolist()
        self.lane: list[int] = ops.lane.tolist()
        self.order: list[int] = ops.order.tolist()
        self.chunk: list[int] = ops.chunk.tolist()
        self.combine: list[int] = ops.combine.tolist()
        self.duration_ns: list[int] = ops.duration_ns.tolist()
        self.remote: list[bool] = plan.is_remote().tolist()
        self.worker_number = {int(rank): number for number, rank in enumerate(plan.workers)}
        self.produces, self.consumes = _by_op(plan.produces), _by_op(plan.consumes)
        is_mine = np.isin(ops.rank, list(ranks))
        self.mine: list[int] = np.flatnonzero(is_mine).tolist()
        recvs = np.flatnonzero(ops.kind == OpKind.RECV)
        message = ops.message.tolist()
        self.received_as = {message[op]: self.combine[op] for op in recvs.tolist()}
        self.recv_of = {(message[op], self.rank[op]): op for op in recvs[is_mine[recvs]].tolist()}
        self._link(is_mine)

    def _link(self, is_mine: np.typing.NDArray[np.bool_]) -> None:
        plan, count = self._plan, len(self._plan.ops)
        waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
        kept = is_mine[waiting]
        waiting, on, lag = waiting[kept], plan.dep_op[kept], plan.dep_lag[kept]
        by_on = np.argsort(on, kind="stable")
        self.successor: list[int] = waiting[by_on].tolist()
        self.successor_lag: list[int] = lag[by_on].tolist()
        start = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(on, minlength=count), out=start[1:])
        self.successors_start: list[int] = start.tolist()
        message = (plan.ops.kind == OpKind.RECV).astype(np.int64)
        same, before = (np.bincount(waiting[lag == value], minlength=count) for value in (0, 1))
        self.waits_first: list[int] = (same + message).tolist()
        self.waits_later: list[int] = (same + before + message).tolist()

    def send_queues(self) -> dict[int, tuple[Discipline, list[int]]]:
        """Of each send queue of these ranks: its discipline and the orders of its ops."""
        queues: dict[int, tuple[Discipline, list[int]]] = {}
        for op in self.mine:
            if self.kind[op] == OpKind.SEND:
                discipline = Discipline(int(self._plan.queue_discipline[self.lane[op]]))
                queues.setdefault(self.lane[op], (discipline, []))[1].append(self.order[op])
        return queues


def _by_op(pairs: Int64) -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for op, chunk in pairs.tolist():
        table.setdefault(op, []).append(chunk)
    return table

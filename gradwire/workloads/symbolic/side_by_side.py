"""Executes a plan's orders side by side, in steps: each executes all ops that are ready and most urgent at once, in numpy.

A step costs the same few dozen calls whether it executes one op or thousands. So small plans are executed this way; large ones, of which
many have narrow steps, by workloads/symbolic/machine_code.py, which finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradwire.datatypes.plan import Combine, Int64, OpKind
from gradwire.workloads.symbolic.defect import Defect, never_ready, not_held, wrongly_added
from gradwire.workloads.symbolic.graph import ITERATIONS, Graph
from gradwire.workloads.symbolic.holdings import Holdings


class Run:
    """Executions of a plan in several orders, side by side: each step takes the most urgent ops of every order.

    A node is an op of an iteration of an order: (order * ITERATIONS + iteration) * count + op. A step costs the same few dozen calls
    whether it executes one op or thousands, so that six orders at once take hardly longer than one where steps are narrow.
    """

    def __init__(self, graph: Graph, urgencies: Sequence[Int64]) -> None:
        self.graph, self.plan, self.count = graph, graph.plan, graph.count
        self.nodes = ITERATIONS * self.count
        self.orders = len(urgencies)
        self.levels = ITERATIONS * (max(int(urgency.max(initial=0)) for urgency in urgencies) + 1)
        # Of two ops of the same urgency, the one of the earlier iteration goes first.
        self.pool_of = np.concatenate(
            [
                order * self.levels + urgency * ITERATIONS + iteration
                for order, urgency in enumerate(urgencies)
                for iteration in range(ITERATIONS)
            ]
        )
        self.holdings = Holdings(self.plan, self.orders)
        ops = self.plan.ops
        self.combine = ops.combine
        self.sends = (ops.kind == OpKind.SEND) & (ops.chunk >= 0)
        self.receives = (ops.kind == OpKind.RECV) & (ops.chunk >= 0)
        recvs = np.flatnonzero(self.receives)
        self.copies = np.zeros(self.count, dtype=np.bool_)
        self.copies[ops.message[recvs]] = ops.combine[recvs] == Combine.COPY
        self.produced = _Pairs(self.plan.produces, self.count)
        #: Chunks of the iteration before, and of the same one; `_age` is 1 and 0 for them.
        self._needs = np.concatenate([self.plan.consumes, self.plan.needs])
        self._age = np.repeat([1, 0], [len(self.plan.consumes), len(self.plan.needs)])
        self.needed = _Pairs(self._needs, self.count)
        self._last_place = np.zeros(len(self.holdings.complete), dtype=np.int64)
        self.sent_iteration = np.zeros(self.orders * self.nodes, dtype=np.int64)
        self.sent_workers = np.zeros((self.orders * self.nodes, self.holdings.contribution.shape[1]), dtype=np.uint64)

    def defect(self) -> Defect | None:
        """Executes the plan; returns the first defect, which may be an op that never becomes ready, or None."""
        waits_for = np.tile(self.graph.waits_for, self.orders)
        for nodes in self._steps(waits_for):
            defect = self._step(nodes)
            if defect:
                return defect
        stuck = np.flatnonzero(waits_for > 0)
        if len(stuck):
            iteration, op = divmod(int(stuck[0]) % self.nodes, self.count)
            return never_ready(op, iteration)
        return None

    def _steps(self, waits_for: Int64) -> Iterator[Int64]:
        pools: list[list[Int64]] = [[] for _ in range(self.orders * self.levels)]
        filled = np.zeros((self.orders, self.levels), dtype=np.bool_)
        first_pool = np.arange(self.orders) * self.levels

        def add(nodes: Int64) -> None:
            pool_of = self.pool_of[nodes]
            for pool in np.unique(pool_of).tolist():
                pools[pool].append(nodes[pool_of == pool])
                filled.flat[pool] = True

        add(np.flatnonzero(waits_for == 0))
        while (under_way := filled.any(axis=1)).any():
            most_urgent = (first_pool + filled.argmax(axis=1))[under_way].tolist()
            nodes = np.concatenate([part for pool in most_urgent for part in pools[pool]])
            for pool in most_urgent:
                pools[pool] = []
            filled.flat[most_urgent] = False
            yield nodes
            after = self._successors(nodes)
            np.subtract.at(waits_for, after, 1)
            add(np.unique(after[waits_for[after] == 0]))

    def _successors(self, nodes: Int64) -> Int64:
        if self.orders == 1:
            return self.graph.successors(nodes)
        order, node = np.divmod(nodes, self.nodes)
        after, lengths = self.graph.successors_of_each(node)
        in_order: Int64 = after + np.repeat(order * self.nodes, lengths)
        return in_order

    def _step(self, nodes: Int64) -> Defect | None:
        """Executes ops that are ready together: checks what they need, then has them send, receive and produce."""
        rest, op = np.divmod(nodes, self.count)
        order, iteration = np.divmod(rest, ITERATIONS)
        defect = self._need(order, iteration, op) if self.needed.any_of[op].any() else None
        sending, receiving = self.sends[op], self.receives[op]
        if sending.any():
            self._send(nodes[sending], order[sending], op[sending])
        if receiving.any():
            defect = defect or self._receive(order[receiving], iteration[receiving], op[receiving])
        if self.produced.any_of[op].any():
            node, own = self.produced.of(op)
            self.holdings.produce(own, order[node], iteration[node])
        return defect

    def _need(self, order: Int64, iteration: Int64, op: Int64) -> Defect | None:
        node, needed = self.needed.of(op)
        complete = self.holdings.complete[self.holdings.row_of_needed[needed] + order[node] * self.holdings.rows]
        missing = np.flatnonzero(complete != iteration[node] - self._age[needed])
        if not len(missing):
            return None
        at = missing[0]
        chunk = int(self._needs[needed[at], 1])
        return not_held(int(op[node[at]]), int(iteration[node[at]]), chunk, int(complete[at]))

    def _send(self, nodes: Int64, order: Int64, op: Int64) -> None:
        holdings, copied = self.holdings, self.copies[op]
        rows = holdings.row_of_op[op] + order * holdings.rows
        self.sent_iteration[nodes] = np.where(copied, holdings.complete[rows], holdings.sum_iteration[rows])
        self.sent_workers[nodes] = np.where(copied[:, None], holdings.whole(rows), holdings.sum_workers[rows])

    def _receive(self, order: Int64, iteration: Int64, op: Int64) -> Defect | None:
        """Executes receives, one after the other where they touch the same chunk of the same rank."""
        rows = self.holdings.row_of_op[op] + order * self.holdings.rows
        first_of_iteration = (order * ITERATIONS + iteration) * self.count
        for chosen in self._turns(rows):
            message = first_of_iteration[chosen] + self.plan.ops.message[op[chosen]]
            copied = self.combine[op[chosen]] == Combine.COPY
            wrong = self.holdings.arrive(rows[chosen], copied, self.sent_iteration[message], self.sent_workers[message])
            if wrong:
                at, empty, total = wrong
                receive, when = int(op[chosen[at]]), int(iteration[chosen[at]])
                added = int(self.sent_iteration[message[at]])
                return wrongly_added(receive, when, empty=empty, added=added, total=total)
        return None

    def _turns(self, rows: Int64) -> Iterator[Int64]:
        """Yields the indices of `rows` in portions, none of which has a row twice."""
        places = np.arange(len(rows))
        self._last_place[rows] = places
        if (self._last_place[rows] == places).all():
            yield places
            return
        by_row = np.argsort(rows, kind="stable")
        _, start, turns = np.unique(rows[by_row], return_index=True, return_counts=True)
        turn = places - np.repeat(start, turns)
        for now in range(int(turns.max(initial=0))):
            yield by_row[turn == now]


class _Pairs:
    """Rows of pairs (op, chunk), by op."""

    def __init__(self, pairs: Int64, count: int) -> None:
        self._by_op = np.argsort(pairs[:, 0], kind="stable")
        pairs_of_op = np.bincount(pairs[:, 0], minlength=count)
        #: Whether each op has any pairs.
        self.any_of = pairs_of_op > 0
        self._start = np.concatenate([[0], np.cumsum(pairs_of_op)])

    def of(self, ops: Int64) -> tuple[Int64, Int64]:
        """Returns two columns for all pairs of `ops`: the index into `ops`, and the row of the pair."""
        lengths = self._start[ops + 1] - self._start[ops]
        first = np.repeat(self._start[ops] - (np.cumsum(lengths) - lengths), lengths)
        return np.repeat(np.arange(len(ops)), lengths), self._by_op[first + np.arange(int(lengths.sum()))]

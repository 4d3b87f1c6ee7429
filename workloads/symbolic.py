"""Executes a plan without time, and tracks whose contributions every rank holds of every chunk.

A step executes all ops that are ready and most urgent at once, so that a million ops take seconds. What one order of steps shows holds
for that order alone: a missing dependency opens a race, and only shows where that race is lost. The plan is therefore executed in several
orders, which pull apart whatever no dependency holds together (see `ORDERS`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.workloads.plan import Combine, Discipline, Int64, OpKind, Plan

ITERATIONS = 2
"""The first starts from initial parameters; the second consumes what the plan itself delivered."""
WORD_BITS = 64
MOST_OPS_SIDE_BY_SIDE = 300_000
"""The orders are executed side by side up to this size. Larger plans have wide steps, which gain little, and would take a gigabyte."""

UInt64 = npt.NDArray[np.uint64]
Urgency = Callable[["Graph"], Int64]


@dataclass(frozen=True)
class Defect:
    """Something wrong with an op of the plan."""

    op: int
    #: The iteration in which it is wrong; -1 for all of them.
    iteration: int
    what: str


class Graph:
    """Successors of each op in each of ITERATIONS, in compressed rows. Messages and counter queues are edges too."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.count = len(plan.ops)
        waiting = np.repeat(np.arange(self.count), np.diff(plan.dep_start))
        recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV)
        first, second, lag = _counter_edges(plan)
        source = np.concatenate([plan.dep_op, plan.ops.message[recvs], first])
        target = np.concatenate([waiting, recvs, second])
        lags = np.concatenate([plan.dep_lag.astype(np.int64), np.zeros(len(recvs), np.int64), lag])
        self.out_degree = np.bincount(source, minlength=self.count)
        self._source, self._target = source, target
        ahead = [(it, it + step) for it in range(ITERATIONS) for step in (0, 1) if it + step < ITERATIONS]
        sources = np.concatenate([source[lags == after - it] + it * self.count for it, after in ahead])
        targets = np.concatenate([target[lags == after - it] + after * self.count for it, after in ahead])
        nodes = ITERATIONS * self.count
        self.waits_for = np.bincount(targets, minlength=nodes)
        by_source = np.argsort(sources, kind="stable")
        self._successors = targets[by_source]
        self._start = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=nodes))])

    def successors(self, nodes: Int64) -> Int64:
        """Concatenates the successors of all `nodes`. A node is an iteration times `count` plus an op."""
        return self.successors_of_each(nodes)[0]

    def successors_of_each(self, nodes: Int64) -> tuple[Int64, Int64]:
        """The same, and how many each node has."""
        lengths = self._start[nodes + 1] - self._start[nodes]
        first = np.repeat(self._start[nodes] - (np.cumsum(lengths) - lengths), lengths)
        successors: Int64 = self._successors[first + np.arange(int(lengths.sum()))]
        return successors, lengths

    def dead_ends(self) -> npt.NDArray[np.bool_]:
        """Whether each op is a dead end, for which only other dead ends wait. If a dependency is missing, the race is lost there."""
        waiting = self.out_degree.copy()
        by_target = np.argsort(self._target, kind="stable")
        sources = self._source[by_target]
        start = np.concatenate([[0], np.cumsum(np.bincount(self._target, minlength=self.count))])
        dead: npt.NDArray[np.bool_] = waiting == 0
        frontier = np.flatnonzero(dead)
        while len(frontier):
            lengths = start[frontier + 1] - start[frontier]
            first = np.repeat(start[frontier] - (np.cumsum(lengths) - lengths), lengths)
            before = sources[first + np.arange(int(lengths.sum()))]
            np.subtract.at(waiting, before, 1)
            frontier = np.unique(before[waiting[before] == 0])
            dead[frontier] = True
        return dead


def _counter_edges(plan: Plan) -> tuple[Int64, Int64, Int64]:
    """Columns (first, second, lag) of the sends that counter queues order.

    Each send comes before the next one, and the last one before the first one of the next iteration.
    """
    ops = plan.ops
    sends = np.flatnonzero(ops.kind == OpKind.SEND)
    edges: list[tuple[int, int, int]] = []
    for queue in np.flatnonzero(plan.queue_discipline == Discipline.COUNTER):
        queued = sends[ops.lane[sends] == queue]
        queued = queued[np.argsort(ops.order[queued], kind="stable")]
        edges += [(a, b, 0) for a, b in itertools.pairwise(queued.tolist())]
        if len(queued):
            edges.append((int(queued[-1]), int(queued[0]), 1))
    columns = np.array(edges, dtype=np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _receives_first(graph: Graph) -> Int64:
    kind = graph.plan.ops.kind
    urgency: Int64 = np.where(kind == OpKind.RECV, 0, np.where(kind == OpKind.SEND, 2, 1))
    return urgency


def _sends_first(graph: Graph) -> Int64:
    kind = graph.plan.ops.kind
    urgency: Int64 = np.where(kind == OpKind.SEND, 0, np.where(kind == OpKind.RECV, 2, 1))
    urgency += (kind == OpKind.RECV) & graph.dead_ends()
    return urgency


def _ahead(ahead: Callable[[Int64, int], npt.NDArray[np.bool_]]) -> Urgency:
    def urgency(graph: Graph) -> Int64:
        held_back: Int64 = (~ahead(graph.plan.ops.rank.astype(np.int64), len(graph.plan.rank_role))).astype(np.int64)
        return held_back

    return urgency


ORDERS: tuple[Urgency, ...] = (
    _receives_first,
    _sends_first,
    _ahead(lambda rank, _: rank % 2 == 0),
    _ahead(lambda rank, _: rank % 2 == 1),
    _ahead(lambda rank, ranks: rank < ranks // 2),
    _ahead(lambda rank, ranks: rank >= ranks // 2),
)
"""The first order puts receives as early and sends as late as possible; the second does the opposite, with receives that nothing waits for
last of all. The others let some ranks run as far ahead of the rest as messages permit: every second rank, and one half of them (in a
parameter server's plan, the workers or the servers). Executing one rank after the other would pull more apart, but takes almost as many
steps as there are ops."""


class Holdings:
    """What every rank holds of every chunk, by the rules of gradwire.workloads.plan.Ledger, for many ops at once.

    A row is a (rank, chunk) that some op touches, and each order of execution has all rows of its own. `sum_iteration` and `sum_workers`
    are the sum under way; `complete` is the iteration of the last complete value.
    """

    def __init__(self, plan: Plan, orders: int) -> None:
        ops, chunks = plan.ops, max(1, len(plan.chunk_bytes))
        key = ops.rank.astype(np.int64) * chunks + ops.chunk
        pairs = np.concatenate([plan.produces, plan.consumes, plan.needs])
        pair_key = ops.rank[pairs[:, 0]].astype(np.int64) * chunks + pairs[:, 1]
        rows, index = np.unique(np.concatenate([key, pair_key]), return_inverse=True)
        self.row_of_op = index[: len(ops)]
        self.row_of_produced = index[len(ops) : len(ops) + len(plan.produces)]
        #: Of rows of Plan.consumes, and behind them of Plan.needs.
        self.row_of_needed = index[len(ops) + len(plan.produces) :]
        words = -(-max(1, len(plan.workers)) // WORD_BITS)
        everyone = self._bits(np.arange(len(plan.workers)), words).sum(axis=0, dtype=np.uint64)
        self.rows = len(rows)
        self.sum_iteration = np.full(orders * self.rows, -1, dtype=np.int64)
        self.sum_workers = np.zeros((orders * self.rows, words), dtype=np.uint64)
        self.complete = np.full(orders * self.rows, -1, dtype=np.int64)
        own = np.full(len(plan.rank_role), -1, dtype=np.int64)
        own[plan.workers] = np.arange(len(plan.workers))
        producer = own[ops.rank[plan.produces[:, 0]]]
        #: The contributions that make each chunk complete; one row for all of them if every chunk is everybody's.
        self._whole_of_chunk: UInt64 = everyone[None, :]
        self._chunk_of_row = np.zeros(1, dtype=np.int64)
        if len(plan.chunk_contributors):
            of_set = [self._bits(own[plan.set_ranks(i)], words).sum(axis=0) for i in range(-1, len(plan.set_start) - 1)]
            self._whole_of_chunk = np.array(of_set, dtype=np.uint64)[plan.chunk_contributors + 1]
            self._chunk_of_row = np.maximum(rows, 0) % chunks
        whole = self.whole(self.row_of_produced)
        self.contribution = np.where(producer[:, None] < 0, whole, self._bits(producer, words))

    @staticmethod
    def _bits(workers: Int64, words: int) -> UInt64:
        bits = np.zeros((len(workers), words), dtype=np.uint64)
        numbered = np.flatnonzero(workers >= 0)
        bits[numbered, workers[numbered] // WORD_BITS] = np.uint64(1) << (workers[numbered] % WORD_BITS).astype(
            np.uint64
        )
        return bits

    def whole(self, rows: Int64) -> UInt64:
        """The contributions that make the chunks of `rows` complete, in one row if they are the same for all."""
        if len(self._whole_of_chunk) == 1:
            return self._whole_of_chunk
        of_rows: UInt64 = self._whole_of_chunk[self._chunk_of_row[rows % self.rows]]
        return of_rows

    def produce(self, produced: Int64, order: Int64, iteration: Int64) -> None:
        """Executes rows of Plan.produces: each starts a new sum with the rank's own contribution, or with the whole chunk."""
        self._store(self.row_of_produced[produced] + order * self.rows, iteration, self.contribution[produced])

    def arrive(
        self, rows: Int64, copied: npt.NDArray[np.bool_], iteration: Int64, workers: UInt64
    ) -> tuple[int, str] | None:
        """Takes in contributions that reach distinct `rows`; returns the index of the first wrong one and what is wrong, or None."""
        self.complete[rows[copied]] = iteration[copied]
        added = np.flatnonzero(~copied)
        row, new_iteration, new_workers = rows[added], iteration[added], workers[added]
        sum_iteration, sum_workers = self.sum_iteration[row], self.sum_workers[row]
        same = new_iteration == sum_iteration
        empty = ~new_workers.any(axis=1)
        twice = (new_iteration < sum_iteration) | (same & (new_workers & sum_workers).any(axis=1))
        for wrong, what in ((empty, "carries no contribution"), (twice, "would count twice or too late")):
            if wrong.any():
                at = int(np.flatnonzero(wrong)[0])
                defect = (
                    f"its message {what}: of iteration {new_iteration[at]}, on a sum of iteration {sum_iteration[at]}"
                )
                return int(added[at]), defect
        self._store(row, new_iteration, np.where(same[:, None], new_workers | sum_workers, new_workers))
        return None

    def _store(self, rows: Int64, iteration: Int64, workers: UInt64) -> None:
        self.sum_iteration[rows], self.sum_workers[rows] = iteration, workers
        whole = (workers == self.whole(rows)).all(axis=1)
        self.complete[rows[whole]] = iteration[whole]


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
            what = "never becomes ready: the plan has a cycle, or waits for something that never happens"
            return Defect(op, iteration if iteration else -1, what)
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
        what = f"needs chunk {self._needs[needed[at], 1]}, but holds that of iteration {complete[at]}"
        return Defect(int(op[node[at]]), int(iteration[node[at]]), what)

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
                at, what = wrong
                return Defect(int(op[chosen[at]]), int(iteration[chosen[at]]), what)
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


def defects(plan: Plan) -> Iterator[Defect]:
    """Yields, for each of ORDERS, the first defect that it shows, if any."""
    graph = Graph(plan)
    urgencies = [order(graph) for order in ORDERS]
    if graph.count <= MOST_OPS_SIDE_BY_SIDE and Run(graph, urgencies).defect() is None:
        return
    for urgency in urgencies:
        defect = Run(graph, [urgency]).defect()
        if defect:
            yield defect

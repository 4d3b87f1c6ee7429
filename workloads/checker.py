"""Checks a plan before it runs: well-formed, acyclic, bytes conserved, and every contribution everywhere exactly once.

The contributions are followed by carrying the plan out symbolically for three iterations, twice: once with receives as early
as their dependencies permit and sends as late, and once the other way round, with receives that nothing waits for last of all,
so that a missing dependency shows whichever way the race would go.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

import numpy as np

from vm.faults import InternalFault
from workloads.plan import Combine, Contributions, Discipline, Int64, Ledger, OpKind, Plan

SYMBOLIC_ITERATIONS = 3
"""The first starts from initial parameters; the second and third consume what the plan itself delivered."""


class PlanError(InternalFault):
    """The plan is wrong, which is a bug of the strategy that compiled it."""


def check(plan: Plan) -> None:
    """Raises PlanError at the first defect found."""
    _check_references(plan)
    _check_messages(plan)
    for receives_first in (True, False):
        _check_contributions(plan, receives_first)


def _fail(plan: Plan, op: int, what: str) -> PlanError:
    return PlanError(f"plan '{plan.name}': {describe(plan, op)}: {what}")


def describe(plan: Plan, op: int) -> str:
    """One op as a person reads it."""
    ops = plan.ops
    kind = OpKind(int(ops.kind[op])).name
    chunk = int(ops.chunk[op])
    tensor = f" of {plan.tensors[plan.chunk_tensor[chunk]]}/{chunk}" if chunk >= 0 else ""
    peer = f" with rank {ops.peer[op]}" if ops.peer[op] >= 0 else ""
    return f"op {op} ({kind} at rank {ops.rank[op]}{peer}{tensor})"


def _check_references(plan: Plan) -> None:
    ops, count = plan.ops, len(plan.ops)
    if len(plan.dep_op) and (plan.dep_op.min() < 0 or plan.dep_op.max() >= count):
        raise PlanError(f"plan '{plan.name}': a dependency names an op that does not exist")
    if len(plan.dep_lag) and plan.dep_lag.max() > 1:
        raise PlanError(f"plan '{plan.name}': a dependency reaches further back than the iteration before")
    waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
    across = np.flatnonzero(ops.rank[waiting] != ops.rank[plan.dep_op])
    if len(across):
        raise _fail(
            plan, int(waiting[across[0]]), f"waits for {describe(plan, int(plan.dep_op[across[0]]))} of another rank"
        )
    sends = np.flatnonzero(ops.kind == OpKind.SEND)
    foreign = sends[plan.queue_rank[ops.lane[sends]] != ops.rank[sends]]
    if len(foreign):
        raise _fail(plan, int(foreign[0]), "uses another rank's queue")
    if len(plan.begin_op) != len(plan.workers) or len(plan.end_op) != len(plan.workers):
        raise PlanError(f"plan '{plan.name}': every worker needs an op that begins and one that ends its iteration")
    for discipline_queue in np.flatnonzero(plan.queue_discipline == Discipline.COUNTER):
        orders = np.sort(ops.order[sends[ops.lane[sends] == discipline_queue]])
        if len(np.unique(orders)) != len(orders):
            raise PlanError(
                f"plan '{plan.name}': queue {discipline_queue} counts, but two of its sends have the same order"
            )


def _check_messages(plan: Plan) -> None:
    """Every SEND is named by one RECV at its peer (one a member, for groups) of the same size, chunk and class."""
    ops = plan.ops
    sends, recvs = np.flatnonzero(ops.kind == OpKind.SEND), np.flatnonzero(ops.kind == OpKind.RECV)
    wrong = sends[ops.message[sends] != sends]
    if len(wrong):
        raise _fail(plan, int(wrong[0]), "a SEND must name itself as its message")
    named = ops.message[recvs]
    bad = recvs[(named < 0) | (named >= len(ops))]
    if len(bad) or len(recvs[ops.kind[named] != OpKind.SEND]):
        raise _fail(
            plan, int(bad[0] if len(bad) else recvs[ops.kind[named] != OpKind.SEND][0]), "no SEND belongs to it"
        )
    expected = np.where(
        ops.group[sends] == 1, _group_sizes(plan)[np.where(ops.group[sends] == 1, ops.peer[sends], 0)], 1
    )
    found = np.bincount(named, minlength=len(ops))[sends]
    for i in np.flatnonzero(expected != found):
        raise _fail(plan, int(sends[i]), f"{found[i]} RECVs belong to it instead of {expected[i]}")
    for column in ("size_bytes", "chunk", "traffic_class"):
        values = getattr(ops, column)
        differing = recvs[values[recvs] != values[named]]
        if len(differing):
            raise _fail(plan, int(differing[0]), f"its {column} differs from its SEND's")
    unicast = recvs[ops.group[named] == 0]
    sender = ops.message[unicast]
    astray = unicast[(ops.peer[sender] != ops.rank[unicast]) | (ops.peer[unicast] != ops.rank[sender])]
    if len(astray):
        raise _fail(plan, int(astray[0]), "its SEND goes elsewhere")
    _check_groups(plan, recvs)
    data = recvs[ops.chunk[recvs] >= 0]
    if len(data) and (ops.combine[data] < Combine.COPY).any():
        raise _fail(
            plan, int(data[ops.combine[data] < Combine.COPY][0]), "carries a chunk, but does not say how to combine it"
        )


def _check_groups(plan: Plan, recvs: Int64) -> None:
    """A group's members are on other hosts than its sender, and each has one RECV of its messages."""
    ops = plan.ops
    receivers: dict[int, list[int]] = {}
    for recv in recvs[ops.group[ops.message[recvs]] == 1].tolist():
        receivers.setdefault(int(ops.message[recv]), []).append(int(ops.rank[recv]))
        if ops.peer[recv] != ops.rank[ops.message[recv]]:
            raise _fail(plan, recv, "names another sender than its group's message has")
    for send, ranks in receivers.items():
        group = ops.peer[send]
        members = plan.group_rank[plan.group_start[group] : plan.group_start[group + 1]].tolist()
        if sorted(ranks) != sorted(members):
            raise _fail(plan, send, f"ranks {sorted(ranks)} receive it instead of the group's {sorted(members)}")
        if plan.rank_host[ops.rank[send]] in plan.rank_host[members]:
            raise _fail(plan, send, "a member of its group is on the sender's own host, where memory is the way")


def _group_sizes(plan: Plan) -> Int64:
    sizes = np.diff(plan.group_start)
    return sizes if len(sizes) else np.zeros(1, np.int64)


class _Symbolic:
    """Carries a plan out without time: which op may go next, and what every rank holds."""

    def __init__(self, plan: Plan, receives_first: bool) -> None:
        self.plan = plan
        self.count = len(plan.ops)
        self.kind = plan.ops.kind.tolist()
        self.rank = plan.ops.rank.tolist()
        self.chunk = plan.ops.chunk.tolist()
        self.combine = plan.ops.combine.tolist()
        self.message = plan.ops.message.tolist()
        self.workers = {int(rank): bit for bit, rank in enumerate(plan.workers)}
        self.ledger = Ledger(len(self.workers))
        self.in_flight: dict[tuple[int, int], Contributions] = {}
        recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV).tolist()
        self.received_as = {self.message[op]: self.combine[op] for op in recvs}
        self.produced = _by_op(plan.produces)
        self.consumed = _by_op(plan.consumes)
        self.successors, self.pending = self._edges()
        sends, receives = (2, 0) if receives_first else (0, 2)
        urgency: dict[int, int] = {OpKind.SEND: sends, OpKind.RECV: receives}
        self.urgency = [urgency.get(kind, 1) for kind in self.kind]
        if not receives_first:
            for op in self._dead_ends():
                self.urgency[op] += self.kind[op] == OpKind.RECV

    def _edges(self) -> tuple[list[list[tuple[int, int]]], list[list[int]]]:
        """Successors (op, lag) of each op, counting messages and counter queues as edges; and what each op waits for, by iteration."""
        plan, count = self.plan, self.count
        successors: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        now, before = [0] * count, [0] * count
        waiting = np.repeat(np.arange(count), np.diff(plan.dep_start)).tolist()
        for op, on, lag in zip(waiting, plan.dep_op.tolist(), plan.dep_lag.tolist(), strict=True):
            successors[on].append((op, lag))
            (before if lag else now)[op] += 1
        for op in np.flatnonzero(plan.ops.kind == OpKind.RECV).tolist():
            successors[self.message[op]].append((op, 0))
            now[op] += 1
        for first, second in _counter_edges(plan):
            successors[first].append((second, 0))
            now[second] += 1
        first_iteration = list(now)
        later = [a + b for a, b in zip(now, before, strict=True)]
        return successors, [first_iteration] + [list(later) for _ in range(SYMBOLIC_ITERATIONS - 1)]

    def _dead_ends(self) -> Iterator[int]:
        """Ops that nothing waits for, nor for what waits for them: where a dependency is missing, the race is lost there."""
        waited_for = [len(after) for after in self.successors]
        before: list[list[int]] = [[] for _ in range(self.count)]
        for op, after in enumerate(self.successors):
            for successor, _ in after:
                before[successor].append(op)
        dead = [op for op, count in enumerate(waited_for) if not count]
        while dead:
            op = dead.pop()
            yield op
            for earlier in before[op]:
                waited_for[earlier] -= 1
                if not waited_for[earlier]:
                    dead.append(earlier)

    def run(self) -> int:
        """Carries out all iterations as far as possible; returns how many ops were carried out. Raises PlanError."""
        ready = [
            (self.urgency[op], it, op)
            for it in range(SYMBOLIC_ITERATIONS)
            for op, waits in enumerate(self.pending[it])
            if not waits
        ]
        heapq.heapify(ready)
        done = 0
        while ready:
            _, iteration, op = heapq.heappop(ready)
            self._carry_out(op, iteration)
            done += 1
            for successor, lag in self.successors[op]:
                at = iteration + lag
                if at < SYMBOLIC_ITERATIONS:
                    self.pending[at][successor] -= 1
                    if not self.pending[at][successor]:
                        heapq.heappush(ready, (self.urgency[successor], at, successor))
        return done

    def _carry_out(self, op: int, iteration: int) -> None:
        kind, rank, chunk = self.kind[op], self.rank[op], self.chunk[op]
        for needed in self.consumed.get(op, ()):
            held = self.ledger.complete(rank, needed)
            if held != iteration - 1:
                raise _fail(
                    self.plan, op, f"in iteration {iteration} needs chunk {needed}, but holds that of iteration {held}"
                )
        for own in self.produced.get(op, ()):
            self.ledger.produce(rank, own, self.workers.get(rank), iteration)
        if kind == OpKind.SEND and chunk >= 0:
            self.in_flight[iteration, op] = self.ledger.outgoing(rank, chunk, Combine(self.received_as[op]))
        elif kind == OpKind.RECV and chunk >= 0:
            arrived = self.in_flight[iteration, self.message[op]]
            wrong = self.ledger.arrive(rank, chunk, Combine(self.combine[op]), arrived)
            if wrong:
                raise _fail(self.plan, op, f"in iteration {iteration}: {wrong}")


def _check_contributions(plan: Plan, receives_first: bool) -> None:
    symbolic = _Symbolic(plan, receives_first)
    done = symbolic.run()
    if done != symbolic.count * SYMBOLIC_ITERATIONS:
        stuck = next(op for it in symbolic.pending for op, waits in enumerate(it) if waits)
        raise _fail(plan, stuck, "never becomes ready: the plan has a cycle or waits for something that nobody does")
    produced, consumed = _rank_chunks(plan, plan.produces), _rank_chunks(plan, plan.consumes)
    needed = {(int(worker), chunk) for worker in plan.workers for chunk in range(len(plan.chunk_bytes))}
    from_outside = {chunk for rank, chunk in produced if rank not in symbolic.workers}
    owed = {(rank, chunk) for rank, chunk in needed if chunk not in from_outside}
    for wrong, verb in (
        (owed - produced, "never contributes to"),
        ((produced & needed) - owed, "contributes to what comes from outside the job,"),
        (needed - consumed, "never needs"),
    ):
        if wrong:
            rank, chunk = min(wrong)
            tensor = plan.tensors[plan.chunk_tensor[chunk]]
            raise PlanError(f"plan '{plan.name}': worker rank {rank} {verb} chunk {chunk} of {tensor}")


def _rank_chunks(plan: Plan, pairs: Int64) -> set[tuple[int, int]]:
    return set(zip(plan.ops.rank[pairs[:, 0]].tolist(), pairs[:, 1].tolist(), strict=True))


def _by_op(pairs: Int64) -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for op, chunk in pairs.tolist():
        table.setdefault(op, []).append(chunk)
    return table


def _counter_edges(plan: Plan) -> Iterator[tuple[int, int]]:
    """Pairs of sends of which a counter queue sends the first before the second."""
    ops = plan.ops
    sends = np.flatnonzero(ops.kind == OpKind.SEND)
    for queue in np.flatnonzero(plan.queue_discipline == Discipline.COUNTER):
        mine = sends[ops.lane[sends] == queue]
        mine = mine[np.argsort(ops.order[mine], kind="stable")].tolist()
        yield from itertools.pairwise(mine)

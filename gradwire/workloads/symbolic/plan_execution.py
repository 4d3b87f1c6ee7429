"""Executes a plan in one order after the other, op by op: all ops that are ready and most urgent take what they need,
then send, then receive, then produce.

Small plans are executed by Python, 2 to 3 us per op and iteration; large ones by machine code, a tenth of a microsecond
(workloads/symbolic/loops.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Combine, Int32, Int64, OpKind, UInt8
from gradwire.workloads.symbolic.defects import Defect, never_ready, not_held, wrongly_added
from gradwire.workloads.symbolic.loops import Loops
from gradwire.workloads.symbolic.wait_graph import ITERATIONS, Holdings, UInt64, WaitGraph

SENDS, RECEIVES, COPIES = 1, 2, 4
"""Bits of `_Code.does`. An op without a bit only takes its turn."""
FINE, NOT_HELD, EMPTY, NOT_ADDABLE = range(4)
"""Results of an execution."""

Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]
_LOOPS = Loops()


class _Code(NamedTuple):
    """The columns that do not change while a plan is executed. Pairs of an op are in compressed rows, as its successors
    are.

    Sets of workers are of `words` words each, one set behind the other. All columns are arrays for machine code, and
    lists for Python.
    """

    does: UInt8
    #: The SEND of each op's message, and the row of `Holdings` that the op touches.
    message: Int64
    row: Int32
    #: Successors of each op, and 1 for those in the next iteration.
    after_start: Int64
    after: Int32
    after_lag: Int8
    #: Rows that each op needs, the iterations that they may be behind, and their place among consumes and needs.
    need_start: Int64
    need_row: Int64
    need_age: Int64
    need_pair: Int64
    #: Rows to which each op contributes, and what.
    produce_start: Int64
    produce_row: Int64
    contribution: UInt64
    #: Contributions that make each row complete: rows of `whole`.
    whole_of_row: Int64
    whole: UInt64


class _State(NamedTuple):
    """The columns that change while a plan is executed; see Holdings for the first four."""

    sum_iteration: Int8
    sum_workers: UInt64
    complete: Int8
    summed: Bool
    #: By node.
    sent_iteration: Int8
    sent_workers: UInt64
    waits_for: Int64
    #: Lists of ready nodes by urgency and iteration: the next one in a node's list, and ends.
    following: Int32
    first: Int64
    last: Int64


class Execution(NamedTuple):
    """The result of an execution in one order."""

    #: The first one.
    defect: Defect | None
    #: By node, what the messages of SENDs carry: an iteration, and a set of workers unless it is to be copied. Up to
    #: the defect, if any.
    sent_iteration: Int8
    sent_workers: UInt64


def executions(
    graph: WaitGraph, urgencies: Sequence[Int64], holdings: Holdings, *, in_code: bool
) -> Iterator[Execution]:
    """Executes a plan once for each order.

    `holdings.summed` learns which sums become complete. in_code: by machine code.
    """
    code = _code(graph, holdings, in_code=in_code)
    if not in_code:
        # Python reads a number from a list in a third of the time.
        code = _Code._make(column.tolist() for column in code)
    for urgency in urgencies:
        yield _execution(graph, holdings, code, urgency, in_code=in_code)


def _execution(graph: WaitGraph, holdings: Holdings, code: _Code, urgency: Int64, *, in_code: bool) -> Execution:
    count = graph.count
    levels = ITERATIONS * (int(urgency.max(initial=0)) + 1)
    words = holdings.contribution.shape[1]
    state = _State(
        sum_iteration=np.full(holdings.rows, -1, np.int8),
        sum_workers=np.zeros(holdings.rows * words, np.uint64),
        complete=np.full(holdings.rows, -1, np.int8),
        summed=holdings.summed,
        sent_iteration=np.full(ITERATIONS * count, -1, np.int8),
        sent_workers=np.zeros(ITERATIONS * count * words, np.uint64),
        waits_for=graph.waits_for.copy(),
        following=np.full(ITERATIONS * count, -1, np.int32),
        first=np.full(levels, -1, np.int64),
        last=np.full(levels, -1, np.int64),
    )
    urgent: npt.NDArray[np.int32] = urgency.astype(np.int32)
    if in_code:
        finding = _LOOPS.in_code(_execute)(code, state, urgent, words, ITERATIONS)
    else:
        listed = _State._make(column.tolist() for column in state)
        finding = _execute(code, listed, urgent.tolist(), words, ITERATIONS)
        holdings.summed[:] = listed.summed
        state = state._replace(
            waits_for=np.array(listed.waits_for, np.int64),
            sent_iteration=np.array(listed.sent_iteration, np.int8),
            sent_workers=np.array(listed.sent_workers, np.uint64),
        )
    sent_workers = state.sent_workers.reshape(-1, words)
    return Execution(_defect(graph, finding, state.waits_for), state.sent_iteration, sent_workers)


def _defect(graph: WaitGraph, outcome: tuple[int, int, int, int], waits_for: Int64) -> Defect | None:
    """Returns the defect that `_execute` found, or that of an op that never became ready; None if there is none."""
    finding, node, one, other = outcome
    count, plan = graph.count, graph.plan
    iteration, op = divmod(int(node), count)
    if finding == NOT_HELD:
        return not_held(op, iteration, int(np.concatenate([plan.consumes, plan.needs])[one, 1]), int(other))
    if finding != FINE:
        return wrongly_added(op, iteration, empty=finding == EMPTY, added=int(one), total=int(other))
    stuck = np.flatnonzero(waits_for > 0)
    return never_ready(int(stuck[0]) % count, int(stuck[0]) // count) if len(stuck) else None


def _code(graph: WaitGraph, holdings: Holdings, *, in_code: bool) -> _Code:
    plan, ops, count = graph.plan, graph.plan.ops, graph.count
    data = ops.chunk >= 0
    sends, receives = data & (ops.kind == OpKind.SEND), data & (ops.kind == OpKind.RECV)
    copies = receives & (ops.combine == Combine.COPY)
    does = (sends * SENDS + receives * RECEIVES + copies * COPIES).astype(np.uint8)
    does[ops.message[copies]] |= COPIES
    after_start, order = _rows(graph.source, count, in_code=in_code)
    needs = np.concatenate([plan.consumes, plan.needs])
    need_start, need_order = _rows(needs[:, 0], count, in_code=in_code)
    produce_start, produce_order = _rows(plan.produces[:, 0], count, in_code=in_code)
    ages = np.repeat([1, 0], [len(plan.consumes), len(plan.needs)])
    return _Code(
        does=does,
        message=ops.message,
        row=holdings.row_of_op.astype(np.int32),
        after_start=after_start,
        after=graph.target[order].astype(np.int32),
        after_lag=graph.lag[order].astype(np.int8),
        need_start=need_start,
        need_row=holdings.row_of_needed[need_order],
        need_age=ages[need_order],
        need_pair=need_order,
        produce_start=produce_start,
        produce_row=holdings.row_of_produced[produce_order],
        contribution=holdings.contribution[produce_order].reshape(-1),
        whole_of_row=holdings.whole_of_row,
        whole=holdings.wholes.reshape(-1),
    )


def _rows(op: Int64, count: int, *, in_code: bool) -> tuple[Int64, Int64]:
    """Compressed rows of pairs by their op: where each op's begin, and the numbers of the pairs."""
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(op, minlength=count), out=start[1:])
    if not in_code:
        return start, np.argsort(op, kind="stable")
    order = np.empty(len(op), np.int64)
    _LOOPS.in_code(_sort)(np.ascontiguousarray(op), start[:-1].copy(), order)
    return start, order


@_LOOPS
def _sort(keys: Int64, upcoming: Int64, order: Int64) -> None:
    """Fills `order` with the positions of equal keys next to each other, in their order. upcoming: where the next one
    of each key goes."""
    for index in range(len(keys)):
        order[upcoming[keys[index]]] = index
        upcoming[keys[index]] += 1


@_LOOPS
def _execute(code: _Code, state: _State, urgency: Int32, words: int, iterations: int) -> tuple[int, int, int, int]:
    """Executes all nodes that ever become ready. Returns what it finds, at which node, and two numbers more:

    NOT_HELD: the pair of consumes and needs, and the iteration that is held instead. EMPTY and NOT_ADDABLE: the
    iterations of what is added and of the sum.
    """
    count = len(code.does)
    for node in range(len(state.waits_for)):
        if state.waits_for[node] == 0:
            _enlist(state, urgency[node % count] * iterations + node // count, node)
    level = 0
    while level < len(state.first):
        batch = state.first[level]
        if batch < 0:
            level += 1
            continue
        state.first[level] = -1
        iteration = level % iterations
        finding, at, one, other = _step(code, state, words, batch, iteration)
        if finding != FINE:
            return finding, at, one, other
        node = batch
        while node >= 0:
            following = state.following[node]
            state.following[node] = -1
            level = min(level, _release(code, state, urgency, iterations, node))
            node = following
    return FINE, 0, 0, 0


@_LOOPS
def _enlist(state: _State, level: int, node: int) -> None:
    if state.first[level] < 0:
        state.first[level] = node
    else:
        state.following[state.last[level]] = node
    state.last[level] = node


@_LOOPS
def _release(code: _Code, state: _State, urgency: Int32, iterations: int, node: int) -> int:
    """Lists the nodes that have waited only for this one as ready; returns the most urgent of their levels."""
    count, most_urgent = len(code.does), len(state.first)
    iteration, op = node // count, node % count
    for edge in range(code.after_start[op], code.after_start[op + 1]):
        then = iteration + code.after_lag[edge]
        if then < iterations:
            waiting = code.after[edge] + then * count
            state.waits_for[waiting] -= 1
            if state.waits_for[waiting] == 0:
                level = urgency[code.after[edge]] * iterations + then
                _enlist(state, level, waiting)
                most_urgent = min(most_urgent, level)
    return most_urgent


@_LOOPS
def _step(code: _Code, state: _State, words: int, batch: int, iteration: int) -> tuple[int, int, int, int]:
    """Executes the nodes of a list, all of one iteration; returns as `_execute` does."""
    first = iteration * len(code.does)
    node = batch
    while node >= 0:
        op = node - first
        for pair in range(code.need_start[op], code.need_start[op + 1]):
            held = state.complete[code.need_row[pair]]
            if held != iteration - code.need_age[pair]:
                return NOT_HELD, node, code.need_pair[pair], held
        node = state.following[node]
    node = batch
    while node >= 0:
        if code.does[node - first] & SENDS:
            _send(code, state, words, node, node - first)
        node = state.following[node]
    node = batch
    while node >= 0:
        if code.does[node - first] & RECEIVES:
            finding, arrived, total = _receive(code, state, words, first, node - first)
            if finding != FINE:
                return finding, node, arrived, total
        node = state.following[node]
    node = batch
    while node >= 0:
        _produce(code, state, words, iteration, node - first)
        node = state.following[node]
    return FINE, 0, 0, 0


@_LOOPS
def _send(code: _Code, state: _State, words: int, node: int, op: int) -> None:
    row = code.row[op]
    if code.does[op] & COPIES:
        state.sent_iteration[node] = state.complete[row]
        return
    state.sent_iteration[node] = state.sum_iteration[row]
    for word in range(words):
        state.sent_workers[node * words + word] = state.sum_workers[row * words + word]


@_LOOPS
def _receive(code: _Code, state: _State, words: int, first: int, op: int) -> tuple[int, int, int]:
    """Copies or adds what has arrived; returns what is wrong with it, and the iterations of it and of the sum."""
    row, message = code.row[op], code.message[op] + first
    arrived, total = state.sent_iteration[message], state.sum_iteration[row]
    if code.does[op] & COPIES:
        state.complete[row] = arrived
        return FINE, arrived, total
    empty, twice, whole = True, False, True
    for word in range(words):
        new = state.sent_workers[message * words + word]
        empty &= new == 0
        twice |= (new & state.sum_workers[row * words + word]) != 0
    if empty:
        return EMPTY, arrived, total
    if arrived < total or (arrived == total and twice):
        return NOT_ADDABLE, arrived, total
    for word in range(words):
        new = state.sent_workers[message * words + word]
        if arrived == total:
            new |= state.sum_workers[row * words + word]
        state.sum_workers[row * words + word] = new
        whole &= new == code.whole[code.whole_of_row[row] * words + word]
    state.sum_iteration[row] = arrived
    if whole:
        state.complete[row] = arrived
        state.summed[row] = True
    return FINE, arrived, total


@_LOOPS
def _produce(code: _Code, state: _State, words: int, iteration: int, op: int) -> None:
    for pair in range(code.produce_start[op], code.produce_start[op + 1]):
        row, whole = code.produce_row[pair], True
        for word in range(words):
            state.sum_workers[row * words + word] = code.contribution[pair * words + word]
            whole &= code.contribution[pair * words + word] == code.whole[code.whole_of_row[row] * words + word]
        state.sum_iteration[row] = iteration
        if whole:
            state.complete[row] = iteration
            state.summed[row] = True

"""Accesses of ops to what their ranks hold of a chunk: the sum under way, and the last complete value (see
plan.Ledger).

Accesses to one thing that may come in any order among themselves are a run; `neighbours` says what must come before
what between runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Combine, Int32, Int64, OpKind, Plan, UInt8
from gradwire.workloads.symbolic.wait_graph import ITERATIONS, Holdings, WaitGraph

PHASES = 4
"""An op takes what it needs, sends, takes in, and yields, in this order: numbers of `Accesses.phase`."""


class Access(IntEnum):
    """The ways in which an op uses or changes the contributions that its rank holds of a chunk."""

    USES_SUM = 0
    """Sends the sum under way."""
    ADDS = 1
    """Adds to the sum. Additions of an iteration may come in any order."""
    STARTS_SUM = 2
    """Yields the rank's own contribution, which starts a new sum."""
    USES = 3
    """Needs or sends the complete value."""
    REPLACES = 4
    """Replaces the complete value by what has arrived."""
    COMPLETES = 5
    """Stands for all additions that make a sum complete, which replaces the complete value."""


@dataclass(frozen=True)
class Accesses:
    """Columns, of all iterations. A row of Holdings is a rank and a chunk."""

    row: Int32
    #: The node of the graph.
    node: Int32
    phase: UInt8
    #: An Access.
    what: UInt8
    iteration: UInt8

    def of(self, chosen: npt.NDArray[np.generic]) -> Accesses:
        """Returns the accesses that are chosen by their numbers, or by a mask."""
        return Accesses(
            self.row[chosen], self.node[chosen], self.phase[chosen], self.what[chosen], self.iteration[chosen]
        )

    def and_those(self, others: Accesses) -> Accesses:
        """Returns these accesses and `others` behind them."""
        return Accesses(
            np.concatenate([self.row, others.row]),
            np.concatenate([self.node, others.node]),
            np.concatenate([self.phase, others.phase]),
            np.concatenate([self.what, others.what]),
            np.concatenate([self.iteration, others.iteration]),
        )


def accesses_to_sums(graph: WaitGraph, holdings: Holdings) -> Accesses:
    """Accesses to sums under way."""
    plan, ops = graph.plan, graph.plan.ops
    sends = np.flatnonzero((ops.chunk >= 0) & (ops.kind == OpKind.SEND) & ~_is_copied(plan))
    arrives = (ops.chunk >= 0) & (ops.kind == OpKind.RECV) & (ops.combine == Combine.ADD)
    adds = np.concatenate([np.flatnonzero(arrives), _additions_that_take_time(plan, arrives)])
    return _in_all_iterations(
        graph.count,
        (holdings.row_of_op[sends], sends, 1, Access.USES_SUM),
        (holdings.row_of_op[adds], adds, 2, Access.ADDS),
        (holdings.row_of_produced, plan.produces[:, 0], 3, Access.STARTS_SUM),
    )


def _additions_that_take_time(plan: Plan, arrives: npt.NDArray[np.bool_]) -> Int64:
    """REDUCEs that wait for what they add: it is in the sum when they end.

    Others only keep their stream busy, as copies do.
    """
    ops = plan.ops
    waiting = np.repeat(np.arange(len(ops)), np.diff(plan.dep_start))
    reduces = (
        (ops.kind[waiting] == OpKind.REDUCE) & arrives[plan.dep_op] & (ops.chunk[waiting] == ops.chunk[plan.dep_op])
    )
    return np.unique(waiting[reduces & (plan.dep_lag == 0)])


def accesses_to_values(graph: WaitGraph, holdings: Holdings) -> Accesses:
    """Accesses to complete values, without what sums do to them."""
    plan, ops = graph.plan, graph.plan.ops
    sends = np.flatnonzero((ops.chunk >= 0) & (ops.kind == OpKind.SEND) & _is_copied(plan))
    copies = np.flatnonzero((ops.chunk >= 0) & (ops.kind == OpKind.RECV) & (ops.combine == Combine.COPY))
    needing = np.concatenate([plan.consumes[:, 0], plan.needs[:, 0]])
    return _in_all_iterations(
        graph.count,
        (holdings.row_of_needed, needing, 0, Access.USES),
        (holdings.row_of_op[sends], sends, 1, Access.USES),
        (holdings.row_of_op[copies], copies, 2, Access.REPLACES),
    )


def _is_copied(plan: Plan) -> npt.NDArray[np.bool_]:
    """Returns, for each op, whether it is a SEND whose receivers copy it."""
    ops = plan.ops
    copied = np.zeros(len(ops), np.bool_)
    copied[ops.message[(ops.kind == OpKind.RECV) & (ops.combine == Combine.COPY)]] = True
    return copied


def _in_all_iterations(count: int, *parts: tuple[Int64, Int64, int, Access]) -> Accesses:
    """Accesses of each iteration. A part: rows, ops, and what they do in which phase."""
    rows = np.concatenate([rows for rows, _, _, _ in parts]).astype(np.int32)
    nodes = np.concatenate([ops for _, ops, _, _ in parts]).astype(np.int32)
    sizes = [len(ops) for _, ops, _, _ in parts]
    phases = np.repeat(np.array([phase for _, _, phase, _ in parts], np.uint8), sizes)
    whats = np.repeat(np.array([what for _, _, _, what in parts], np.uint8), sizes)
    iteration = np.repeat(np.arange(ITERATIONS, dtype=np.uint8), len(nodes))
    nodes = np.tile(nodes, ITERATIONS) + iteration * np.int32(count)
    return Accesses(
        np.tile(rows, ITERATIONS), nodes, np.tile(phases, ITERATIONS), np.tile(whats, ITERATIONS), iteration
    )


MOST_ACCESSES = 1 << 17
"""Accesses that are looked at together, or more if they are all of one row. It bounds the memory, and costs no time."""
MOST_PRODUCTS = 1 << 18
"""Pairs of nodes that are looked at together. It bounds the memory, and costs no time."""
IN_NO_RUN = (Access.STARTS_SUM, Access.REPLACES, Access.COMPLETES)
"""Accesses that are ordered with all others, even with those of their own kind."""


@dataclass(frozen=True)
class Neighbours:
    """Pairs of runs that follow each other: every node of the one must come before every node of the other."""

    #: By pair: the row, and what the nodes of either run do.
    row: Int32
    first_does: UInt8
    then_does: UInt8
    #: Nodes of the runs that come first, and the pair that each belongs to, in order; and the same of those that come
    #: then.
    first: Int32
    first_pair: Int64
    then: Int32
    then_pair: Int64

    def begins(self, pair_of: Int64) -> Int64:
        """The positions at which each pair's nodes begin in `first_pair` or `then_pair`."""
        begins: Int64 = np.searchsorted(pair_of, np.arange(len(self.row)))
        return begins


@dataclass(frozen=True)
class Groups:
    """Members of numbered groups: those of group i are members[start[i]:start[i + 1]]."""

    start: Int64
    members: Int32

    @staticmethod
    def of(number: Int64, member: Int32, count: int) -> Groups:
        """Members by the number of their group."""
        start = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=count))])
        return Groups(start, member[np.argsort(number, kind="stable")])


def neighbours(accesses: Accesses, moments: Int64, completing: Groups, joins_from: int) -> Iterator[Neighbours]:
    """Pairs of runs, in portions.

    moments: of each access, in an order that all edges of the graph permit. completing: what completes a sum; group i
    has the node `joins_from` + i, which comes after any of them: whatever must come before the sum is complete, must
    come before that node, and what comes behind it must come after all of the group.
    """
    order = np.lexsort((moments, accesses.row))
    row = accesses.row[order]
    begins = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]])) if len(row) else np.zeros(0, np.int64)
    at = 0
    while at < len(order):
        later = np.searchsorted(begins, at + MOST_ACCESSES)
        end = int(begins[later]) if later < len(begins) else len(order)
        yield _of_rows(accesses.of(order[at:end]), completing, joins_from)
        at = end


def _of_rows(accesses: Accesses, completing: Groups, joins_from: int) -> Neighbours:
    """Pairs of runs of accesses that are sorted by row and moment."""
    row, does = accesses.row, accesses.what
    kind = np.where(does == Access.ADDS, len(Access) + accesses.iteration, does)
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (row[1:] != row[:-1]) | (kind[1:] != kind[:-1]) | np.isin(does[1:], IN_NO_RUN)
    start = np.flatnonzero(begins)
    length = np.diff(np.append(start, len(row)))
    one, other = start[:-1], start[1:]
    completes = does[start] == Access.COMPLETES
    # Sums of two iterations are ordered as such.
    paired = np.flatnonzero((row[one] == row[other]) & ~(completes[:-1] & completes[1:]))
    nodes = np.concatenate([accesses.node, completing.members])
    group = np.where(completes, accesses.node[start] - joins_from, 0)
    in_place_of = np.where(completes, len(row) + completing.start[group], start)
    how_many = np.where(completes, completing.start[group + 1] - completing.start[group], length)
    first, first_pair = _slices(in_place_of[paired], how_many[paired])
    then, then_pair = _slices(start[paired + 1], length[paired + 1])
    return Neighbours(
        row[one[paired]], does[one[paired]], does[other[paired]], nodes[first], first_pair, nodes[then], then_pair
    )


def _slices(start: Int64, length: Int64) -> tuple[Int64, Int64]:
    """The numbers of all slices one after the other, and the slice that each is in."""
    of = np.repeat(np.arange(len(start)), length)
    behind = np.cumsum(length) - length
    return np.arange(len(of)) + np.repeat(start - behind, length), of


def distinct(group: Int64, node: Int32, nodes: int) -> Int64:
    """The first place of every node in each group. Groups are in order."""
    places: Int64 = np.unique(group * nodes + node, return_index=True)[1]
    return places


def products(first_group: Int64, then_group: Int64, groups: int) -> Iterator[tuple[Int64, Int64, Int64]]:
    """Every pair of a member of a group and one of the group's other side, in portions: group, and place on either
    side."""
    sizes, other_sizes = (np.bincount(group, minlength=groups) for group in (first_group, then_group))
    begins, other_begins = (np.cumsum(of) - of for of in (sizes, other_sizes))
    pairs = sizes * other_sizes
    portion = np.cumsum(pairs) // MOST_PRODUCTS
    for chosen in np.split(np.arange(groups), np.flatnonzero(np.diff(portion)) + 1):
        number, of = _slices(np.zeros(len(chosen), np.int64), pairs[chosen])
        group = chosen[of]
        one, other = np.divmod(number, np.maximum(other_sizes[group], 1))
        yield group, begins[group] + one, other_begins[group] + other

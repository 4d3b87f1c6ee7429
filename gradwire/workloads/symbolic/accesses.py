"""Which ops use and change what their ranks hold of a chunk: the sum under way, and the last complete value (see
plan.Ledger)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Combine, Int32, Int64, OpKind, Plan, UInt8
from gradwire.workloads.symbolic.graph import ITERATIONS, Graph
from gradwire.workloads.symbolic.holdings import Holdings

PHASES = 4
"""An op takes what it needs, sends, takes in, and yields, in this order: numbers of `Accesses.phase`."""


class Access(IntEnum):
    """What an op does with what its rank holds of a chunk."""

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
        """Those that are chosen by their numbers, or by a mask."""
        return Accesses(
            self.row[chosen], self.node[chosen], self.phase[chosen], self.what[chosen], self.iteration[chosen]
        )

    def and_those(self, others: Accesses) -> Accesses:
        """These and others."""
        return Accesses(
            np.concatenate([self.row, others.row]),
            np.concatenate([self.node, others.node]),
            np.concatenate([self.phase, others.phase]),
            np.concatenate([self.what, others.what]),
            np.concatenate([self.iteration, others.iteration]),
        )


def accesses_to_sums(graph: Graph, holdings: Holdings) -> Accesses:
    """Accesses to sums under way."""
    plan, ops = graph.plan, graph.plan.ops
    sends = np.flatnonzero((ops.chunk >= 0) & (ops.kind == OpKind.SEND) & ~_copied(plan))
    arrives = (ops.chunk >= 0) & (ops.kind == OpKind.RECV) & (ops.combine == Combine.ADD)
    adds = np.concatenate([np.flatnonzero(arrives), _additions_that_take_time(plan, arrives)])
    return _unrolled(
        graph.count,
        (holdings.row_of_op[sends], sends, 1, Access.USES_SUM),
        (holdings.row_of_op[adds], adds, 2, Access.ADDS),
        (holdings.row_of_produced, plan.produces[:, 0], 3, Access.STARTS_SUM),
    )


def _additions_that_take_time(plan: Plan, arrives: npt.NDArray[np.bool_]) -> Int64:
    """REDUCEs that wait for what they add: it is in the sum when they end. Others only keep their stream busy, as
    copies do."""
    ops = plan.ops
    waiting = np.repeat(np.arange(len(ops)), np.diff(plan.dep_start))
    reduces = (
        (ops.kind[waiting] == OpKind.REDUCE) & arrives[plan.dep_op] & (ops.chunk[waiting] == ops.chunk[plan.dep_op])
    )
    return np.unique(waiting[reduces & (plan.dep_lag == 0)])


def accesses_to_values(graph: Graph, holdings: Holdings) -> Accesses:
    """Accesses to complete values, without what sums do to them."""
    plan, ops = graph.plan, graph.plan.ops
    sends = np.flatnonzero((ops.chunk >= 0) & (ops.kind == OpKind.SEND) & _copied(plan))
    copies = np.flatnonzero((ops.chunk >= 0) & (ops.kind == OpKind.RECV) & (ops.combine == Combine.COPY))
    needing = np.concatenate([plan.consumes[:, 0], plan.needs[:, 0]])
    return _unrolled(
        graph.count,
        (holdings.row_of_needed, needing, 0, Access.USES),
        (holdings.row_of_op[sends], sends, 1, Access.USES),
        (holdings.row_of_op[copies], copies, 2, Access.REPLACES),
    )


def _copied(plan: Plan) -> npt.NDArray[np.bool_]:
    """Whether each op is a SEND whose receivers copy it."""
    ops = plan.ops
    copied = np.zeros(len(ops), np.bool_)
    copied[ops.message[(ops.kind == OpKind.RECV) & (ops.combine == Combine.COPY)]] = True
    return copied


def _unrolled(count: int, *parts: tuple[Int64, Int64, int, Access]) -> Accesses:
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

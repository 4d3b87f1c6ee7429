"""What executing a plan in several orders shows, and what no order needs to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int64, OpKind, Plan
from gradwire.workloads.symbolic.defects import Defect
from gradwire.workloads.symbolic.execution import executions
from gradwire.workloads.symbolic.races import race
from gradwire.workloads.symbolic.wait_graph import Graph, Holdings

Urgency = Callable[[Graph], Int64]
"""How urgent each op is: of those that are ready, the ones with the lowest number go first."""


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
"""The first order puts receives as early and sends as late as possible; the second does the opposite, with receives
that nothing waits for last of all. The others let some ranks run as far ahead of the rest as messages permit: every
second rank, and one half of them (in a parameter server's plan, the workers or the servers). Executing one rank after
the other would pull more apart, but takes almost as many steps as there are ops."""


MOST_OPS_IN_PYTHON = 15_000
"""Larger plans are executed by machine code. Loading that takes half a second, in which Python executes a plan of so
many ops."""


def defects(plan: Plan) -> Iterator[Defect]:
    """Yields, for each of ORDERS, the first defect that it shows, if any; if there is none, the first race, if any."""
    graph, holdings = Graph(plan), Holdings(plan)
    in_code = graph.count > MOST_OPS_IN_PYTHON
    shown = [run.defect for run in executions(graph, [order(graph) for order in ORDERS], holdings, in_code=in_code)]
    shown_defects = [defect for defect in shown if defect]
    yield from shown_defects
    if not shown_defects and (racing := race(graph, holdings, in_code=in_code)):
        yield racing

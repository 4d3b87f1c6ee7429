"""What executing a plan in several orders shows, and what no order needs to show."""

from __future__ import annotations

from collections.abc import Iterator

from gradwire.datatypes.plan import Plan
from gradwire.workloads.symbolic.defect import Defect
from gradwire.workloads.symbolic.graph import Graph
from gradwire.workloads.symbolic.holdings import Holdings
from gradwire.workloads.symbolic.orders import ORDERS
from gradwire.workloads.symbolic.races import race
from gradwire.workloads.symbolic.side_by_side import Run

MOST_OPS_IN_NUMPY = 10_000
"""Larger plans are executed by machine code. Loading that takes a second, in which numpy executes a plan of so many ops in a chain."""


def defects(plan: Plan) -> Iterator[Defect]:
    """Yields, for each of ORDERS, the first defect that it shows, if any; if there is none, the first race, if any."""
    graph = Graph(plan)
    in_code = graph.count > MOST_OPS_IN_NUMPY
    holdings, found = _executed_in_code(graph) if in_code else _executed(graph)
    yield from found
    if not found and (racing := race(graph, holdings, in_code=in_code)):
        yield racing


def _executed_in_code(graph: Graph) -> tuple[Holdings, list[Defect]]:
    """What is held at the end, and the first defect that each order shows."""
    from gradwire.workloads.symbolic.machine_code import first_defects  # noqa: PLC0415 (numba: a second that few plans need)

    holdings = Holdings(graph.plan, 1)
    return holdings, first_defects(graph, [order(graph) for order in ORDERS], holdings)


def _executed(graph: Graph) -> tuple[Holdings, list[Defect]]:
    urgencies = [order(graph) for order in ORDERS]
    run = Run(graph, urgencies)
    if run.defect() is None:
        return run.holdings, []
    alone = (Run(graph, [urgency]).defect() for urgency in urgencies)
    return run.holdings, [defect for defect in alone if defect]

"""What executing a plan in several orders shows, and what no order needs to show."""

from __future__ import annotations

from collections.abc import Iterator

from gradwire.datatypes.plan import Plan
from gradwire.workloads.symbolic.defect import Defect
from gradwire.workloads.symbolic.execution import executions
from gradwire.workloads.symbolic.graph import Graph
from gradwire.workloads.symbolic.holdings import Holdings
from gradwire.workloads.symbolic.orders import ORDERS
from gradwire.workloads.symbolic.races import race

MOST_OPS_IN_PYTHON = 15_000
"""Larger plans are executed by machine code. Loading that takes half a second, in which Python executes a plan of so
many ops."""


def defects(plan: Plan) -> Iterator[Defect]:
    """Yields, for each of ORDERS, the first defect that it shows, if any; if there is none, the first race, if any."""
    graph, holdings = Graph(plan), Holdings(plan)
    in_code = graph.count > MOST_OPS_IN_PYTHON
    shown = [run.defect for run in executions(graph, [order(graph) for order in ORDERS], holdings, in_code=in_code)]
    found = [defect for defect in shown if defect]
    yield from found
    if not found and (racing := race(graph, holdings, in_code=in_code)):
        yield racing

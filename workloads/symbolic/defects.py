"""What executing a plan in several orders shows."""

from __future__ import annotations

from collections.abc import Iterator

from gradwire.workloads.plan import Plan
from gradwire.workloads.symbolic.defect import Defect
from gradwire.workloads.symbolic.graph import Graph
from gradwire.workloads.symbolic.orders import ORDERS
from gradwire.workloads.symbolic.side_by_side import Run

MOST_OPS_IN_NUMPY = 10_000
"""Larger plans are executed by machine code. Loading that takes a second, in which numpy executes a plan of so many ops in a chain."""


def defects(plan: Plan) -> Iterator[Defect]:
    """Yields, for each of ORDERS, the first defect that it shows, if any."""
    graph = Graph(plan)
    urgencies = [order(graph) for order in ORDERS]
    if graph.count > MOST_OPS_IN_NUMPY:
        from gradwire.workloads.symbolic.machine_code import first_defects  # noqa: PLC0415 (numba: a second that few plans need)

        yield from first_defects(graph, urgencies)
        return
    if Run(graph, urgencies).defect() is None:
        return
    for urgency in urgencies:
        defect = Run(graph, [urgency]).defect()
        if defect:
            yield defect

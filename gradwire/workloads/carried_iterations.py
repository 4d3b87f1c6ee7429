"""Of which iteration the data is that each message of a plan carries: its own, or the one before, as a pull of parameters does. Pure."""

from __future__ import annotations

import numpy as np

from gradwire.datatypes.plan import Combine, Int64, Ledger, OpKind, Plan
from gradwire.faults import InternalFault
from gradwire.workloads.symbolic.wait_graph import Graph


def carried_lag(plan: Plan) -> Int64:
    """For each SEND and RECV, how many iterations before its own the data is that it carries: 0 or 1; 0 for all other ops.

    The plan is executed without time for two iterations. In a plan that passes the checker, a message carries the same in any order.
    Raises InternalFault for a plan that gets stuck, or that would need more than two iterations.
    """
    ops, count = plan.ops, len(plan.ops)
    recvs = np.flatnonzero((ops.kind == OpKind.RECV) & (ops.chunk >= 0))
    combine = {int(ops.message[recv]): Combine(int(ops.combine[recv])) for recv in recvs}
    produced: dict[int, list[int]] = {}
    for op, chunk in plan.produces.tolist():
        produced.setdefault(op, []).append(chunk)
    number = {rank: place for place, rank in enumerate(plan.workers.tolist())}
    ledger = Ledger(len(plan.workers), plan.contributors())
    carried = {}
    kind, rank, chunk_of, message = (getattr(ops, name).tolist() for name in ("kind", "rank", "chunk", "message"))
    for node in _in_order(Graph(plan)):
        iteration, op = divmod(node, count)
        chunk = chunk_of[op]
        if kind[op] == OpKind.SEND and op in combine:
            carried[iteration, op] = ledger.outgoing(rank[op], chunk, combine[op])
        elif kind[op] == OpKind.RECV and message[op] in combine:
            sent = carried[iteration, message[op]]
            ledger.arrive(rank[op], chunk, combine[message[op]], sent)
        for made in produced.get(op, ()):
            ledger.produce(rank[op], made, number.get(rank[op]), iteration)
    lag: Int64 = np.zeros(count, np.int64)
    for (iteration, op), what in carried.items():
        if iteration == 1:
            lag[op] = 1 - what.iteration
    lag[recvs] = lag[ops.message[recvs]]
    if len(lag) and (lag.min() < 0 or lag.max() > 1):
        raise InternalFault(f"plan '{plan.name}': a message carries data that is older than the iteration before")
    return lag


def _in_order(graph: Graph) -> list[int]:
    """The nodes of two iterations, each behind those that it waits for."""
    waits = graph.waits_for.copy()
    order = np.flatnonzero(waits == 0).tolist()
    for node in order:
        following = graph.successors(np.array([node], np.int64))
        np.subtract.at(waits, following, 1)
        order += np.unique(following[waits[following] == 0]).tolist()
    if len(order) < len(waits):
        raise InternalFault(f"plan '{graph.plan.name}': {len(waits) - len(order)} ops wait for one another")
    return order

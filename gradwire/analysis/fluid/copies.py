"""A plan whose multicasts are taken apart: the copy of each receiver passes its ports by itself, as switches with deep
queues let it, and not all of them at the rate of the slowest.

The copy that can be fastest stands for the message on the lines that copies share. Each other one begins with it and passes
only lines that no faster copy passes. So nothing is on a line twice, and what a copy's shared lines delay it by is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from gradwire.analysis.fluid.paths import Paths, SpineOf, paths_of
from gradwire.datatypes.plan import Int64, OpKind, Ops, Plan
from gradwire.network.fabric import Fabric
from gradwire.network.wire.ways import MessageWays


@dataclass(frozen=True)
class _Copy:
    """One receiver's copy of a SEND to a group."""

    send: int
    host: int
    #: The lines that it passes and no faster copy does.
    lines: tuple[int, ...]


def with_separate_copies(plan: Plan, fabric: Fabric, spine_of: SpineOf | None = None) -> tuple[Plan, Paths]:
    """The plan with further ops for the copies of multicast messages, behind its own, and the paths of all its
    messages. Raises InternalFault as `paths_of` does."""
    paths = paths_of(plan, fabric, spine_of)
    ways = MessageWays(plan, fabric, spine_of)
    first, others = _copies(plan, ways, paths)
    whole = _with_ops(plan, others)
    paths = paths_of(whole, fabric, spine_of)
    lines = {int(paths.flow_of_send[each.send]): each.lines for each in first}
    lines |= {int(paths.flow_of_send[len(plan.ops) + number]): each.lines for number, each in enumerate(others)}
    routes = [
        lines.get(flow, tuple(paths.route_port[paths.route_start[flow] : paths.route_start[flow + 1]].tolist()))
        for flow in range(len(paths.route_start) - 1)
    ]
    start: Int64 = np.concatenate([[0], np.cumsum([len(route) for route in routes])]).astype(np.int64)
    ports = np.array([port for route in routes for port in route], np.int64)
    shares = [
        np.ones(len(routes[flow])) if flow in lines else paths.route_share[begin:end]
        for flow, (begin, end) in enumerate(pairwise(paths.route_start.tolist()))
    ]
    return whole, replace(paths, route_start=start, route_port=ports, route_share=np.concatenate(shares))


def _copies(plan: Plan, ways: MessageWays, paths: Paths) -> tuple[list[_Copy], list[_Copy]]:
    """The fastest copy of each SEND to a group, and all others."""
    lines: dict[tuple[int, tuple[int, ...]], list[tuple[int, tuple[int, ...]]]] = {}
    first, others = [], []
    for send in np.flatnonzero(plan.ops.group == 1).tolist():
        source, members = ways.ends(send)[0], ways.members(send)
        if (source, members) not in lines:
            branches = {member: ways.branch(send, member) for member in members if member != source}
            lines[source, members] = list(_apart(branches, paths))
        found = [_Copy(send, host, passed) for host, passed in lines[source, members]]
        first += found[:1]
        others += found[1:]
    return first, others


def _apart(branches: dict[int, list[int]], paths: Paths) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each receiver with the lines that it has for itself, the fastest one first, which has all of its lines."""
    taken: set[int] = set()
    for host in sorted(branches, key=lambda host: (-paths.port_bytes_per_ns[branches[host]].min(), host)):
        yield host, tuple(line for line in branches[host] if line not in taken)
        taken.update(branches[host])


def _with_ops(plan: Plan, copies: list[_Copy]) -> Plan:
    """The plan with a SEND for each copy, in a queue of its receiver, which waits for what the SEND to the group waits for;
    and with RECVs that wait for their own copies."""
    ops, count = plan.ops, len(plan.ops)
    sends = np.array([each.send for each in copies], np.int64)
    columns = {column.name: getattr(ops, column.name) for column in fields(ops)}
    columns = {name: np.concatenate([column, column[sends]]) for name, column in columns.items()}
    queues: dict[tuple[int, int, int], int] = {}
    copy_of: dict[tuple[int, int], int] = {}
    for number, each in enumerate(copies):
        key = int(ops.lane[each.send]), int(ops.peer[each.send]), each.host
        columns["lane"][count + number] = len(plan.queue_rank) + queues.setdefault(key, len(queues))
        columns["message"][count + number] = copy_of[each.send, each.host] = count + number
    for recv in np.flatnonzero(ops.kind == OpKind.RECV).tolist():
        send = int(ops.message[recv])
        columns["message"][recv] = copy_of.get((send, int(plan.rank_host[ops.rank[recv]])), send)
    awaited = np.diff(plan.dep_start)[sends]
    behind = [np.arange(plan.dep_start[send], plan.dep_start[send + 1]) for send in sends.tolist()]
    edges = np.concatenate([np.arange(len(plan.dep_op)), *behind]).astype(np.int64)
    lanes = np.array([lane for lane, _, _ in queues], np.int64)
    return replace(
        plan,
        ops=Ops(**columns),
        queue_rank=np.concatenate([plan.queue_rank, plan.queue_rank[lanes]]),
        queue_discipline=np.concatenate([plan.queue_discipline, plan.queue_discipline[lanes]]),
        dep_start=np.concatenate([plan.dep_start, plan.dep_start[-1] + np.cumsum(awaited)]),
        dep_op=plan.dep_op[edges],
        dep_lag=plan.dep_lag[edges],
    )

"""Divides the messages of a plan over several connections of each pair, as NCCL does with its sockets. Pure.

In NCCL's socket transport (src/transport/net_socket.cc), a message is cut into as many tasks as there are sockets (NCCL_SOCKET_NTHREADS x
NCCL_NSOCKS_PERTHREAD), of at least 64 KiB each; tasks take the sockets in turn; and the message is done when all of them are.

Each connection is a send queue: a queue that sends messages longer than LEAST_PART_BYTES becomes several, side by side, of the same
discipline. A message's first part is the message as it was, with fewer bytes. The others are tokens with bytes: what followed the
message's SEND waits for all parts to be sent, and the RECV of the first part waits for those of the others. So the rest of the plan,
what chunks hold and who holds them are as before.

A message with fewer parts than there are connections takes as many of them, and the next one to the same rank those that follow in
turn. Queues whose order is a promise (Discipline.COUNTER) have every first part on the same connection, so that it holds.

Multicasts, control messages and messages within a host are not divided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradwire.datatypes.plan import OP_DTYPES, Combine, Discipline, Int64, OpKind, Ops, Plan
from gradwire.faults import InputFault
from gradwire.workloads.plan_size import MOST_OPS

MOST_CONNECTIONS = 64
"""MAX_SOCKETS of NCCL's socket transport."""
LEAST_PART_BYTES = 64 << 10
"""MIN_CHUNKSIZE of src/transport/net_socket.cc."""


def divided(plan: Plan, connections: int, least_bytes: int = LEAST_PART_BYTES) -> Plan:
    """The plan with each message over `connections` connections of its pair. least_bytes: of each part but a message's last one.

    Raises InputFault where the plan would become larger than a plan may be.
    """
    if connections == 1:
        return plan
    parts = _parts_of(plan, connections, least_bytes)
    if not len(parts.send):
        return plan
    count = len(plan.ops) + 2 * int((parts.number > 0).sum())
    if count > MOST_OPS:
        raise InputFault(
            f"transport.connections = {connections}: the plan of '{plan.name}' would have {count:,} ops, and may have {MOST_OPS:,}: take "
            "fewer connections, or a smaller job"
        )
    return _with_parts(plan, parts, connections)


@dataclass(frozen=True)
class _Parts:
    """The parts of all messages that take several connections, or another one than the first: a row for each."""

    #: SEND of the message in the plan that is divided.
    send: Int64
    #: Place of the part in its message.
    number: Int64
    #: Connection that it takes, from 0 on.
    connection: Int64
    size_bytes: Int64


def _parts_of(plan: Plan, connections: int, least_bytes: int) -> _Parts:
    ops = plan.ops
    sends = np.flatnonzero(plan.is_remote() & (ops.group == 0) & (ops.traffic_class >= 0))
    sends = sends[~np.isin(sends, plan.end_op)]  # one op ends an iteration
    whole = ops.size_bytes[sends]
    part = np.maximum(least_bytes, -(-whole // connections))
    counts = np.maximum(1, -(-whole // part))
    send, number = np.repeat(sends, counts), _places(counts)
    size = np.repeat(part, counts)
    # What all parts together have too much, a message's last part lacks.
    size[np.cumsum(counts) - 1] -= counts * part - whole
    connection = (np.repeat(_begins(plan, sends, counts), counts) + number) % connections
    return _Parts(send.astype(np.int64), number, connection, size.astype(np.int64))


def _begins(plan: Plan, sends: Int64, counts: Int64) -> Int64:
    """The connection, not yet modulo their number, that each message's first part takes: the one behind the last of the message before."""
    ops = plan.ops
    keys = np.stack([ops.lane[sends], ops.peer[sends], ops.traffic_class[sends]])
    order = np.lexsort((sends, *keys))
    before = np.cumsum(counts[order]) - counts[order]
    begins_pair = np.ones(len(order), np.bool_)
    begins_pair[1:] = (np.diff(keys[:, order], axis=1) != 0).any(axis=0)
    first = np.maximum.accumulate(np.where(begins_pair, np.arange(len(order)), 0))
    found: Int64 = np.zeros(len(sends), np.int64)
    found[order] = before - before[first]
    found[plan.queue_discipline[ops.lane[sends]] == Discipline.COUNTER] = 0
    return found


def _places(counts: Int64) -> Int64:
    """Returns the numbers from 0 up to each of the counts, one after the other."""
    places: Int64 = np.arange(int(counts.sum()), dtype=np.int64)
    return places - np.repeat(np.cumsum(counts) - counts, counts)


def _with_parts(plan: Plan, parts: _Parts, connections: int) -> Plan:
    ops, count = plan.ops, len(plan.ops)
    later = parts.number > 0
    added = int(later.sum())
    queues, lane_of_queue = _widths(plan, parts)
    recv_of: Int64 = np.full(count, -1, np.int64)
    recvs = np.flatnonzero(ops.kind == OpKind.RECV)
    recv_of[ops.message[recvs]] = recvs

    new_sends, new_recvs = count + np.arange(added), count + added + np.arange(added)
    origin = np.concatenate([np.arange(count), parts.send[later], recv_of[parts.send[later]]])
    columns: dict[str, Any] = {name: getattr(ops, name)[origin] for name in OP_DTYPES}
    columns["message"][count:] = np.concatenate([new_sends, new_sends])
    columns["chunk"][count:] = -1
    columns["combine"][new_recvs] = Combine.CONTROL
    for at, chosen in ((parts.send, ~later), (recv_of[parts.send], ~later)):
        columns["size_bytes"][at[chosen]] = parts.size_bytes[chosen]
    columns["size_bytes"][new_sends] = columns["size_bytes"][new_recvs] = parts.size_bytes[later]
    is_send = ops.kind == OpKind.SEND
    columns["lane"][:count][is_send] = lane_of_queue[ops.lane[is_send]]
    columns["lane"][parts.send[~later]] += parts.connection[~later]
    columns["lane"][new_sends] = lane_of_queue[ops.lane[parts.send[later]]] + parts.connection[later]
    dep_start, dep_op, dep_lag = _dependencies(plan, parts.send[later], recv_of, new_sends, new_recvs)
    return replace(
        plan,
        queue_rank=plan.queue_rank[queues],
        queue_discipline=plan.queue_discipline[queues],
        ops=Ops(**{name: column.astype(OP_DTYPES[name]) for name, column in columns.items()}),
        dep_start=dep_start,
        dep_op=dep_op,
        dep_lag=dep_lag,
        notes=(*plan.notes, f"messages are divided over up to {connections} connections per pair and queue"),
    )


def _widths(plan: Plan, parts: _Parts) -> tuple[Int64, Int64]:
    """Returns, for each queue, the plan's queue that it comes from; and for each of the plan's queues, where its queues
    begin. It has as many as its messages take connections."""
    width: Int64 = np.ones(len(plan.queue_rank), np.int64)
    np.maximum.at(width, plan.ops.lane[parts.send], parts.connection + 1)
    return np.repeat(np.arange(len(width)), width), np.cumsum(width) - width


def _dependencies(plan: Plan, of: Int64, recv_of: Int64, sends: Int64, recvs: Int64) -> tuple[Int64, Int64, Any]:
    """The rows of dependencies, with those of later parts.

    of: the SEND that each later part belongs to; `sends` and `recvs` are the part's own ops. A part is sent when the message may be,
    and what waits for the message to be sent, or to have arrived, waits for it.
    """
    count = len(plan.ops)
    waiting = np.repeat(np.arange(count), np.diff(plan.dep_start))
    own, of_part = _matches(waiting, of)
    followers, part = _matches(plan.dep_op, of)
    target = np.concatenate([waiting, sends[of_part], waiting[followers], recv_of[of]])
    source = np.concatenate([plan.dep_op, plan.dep_op[own], sends[part], recvs])
    lag = np.concatenate([plan.dep_lag, plan.dep_lag[own], plan.dep_lag[followers], np.zeros(len(of), np.uint8)])
    # A message that waits for another one to be sent has later parts, which wait for all parts of the other as well.
    follows_part, part_again = _matches(source[len(waiting) : len(waiting) + len(own)], of)
    target = np.concatenate([target, sends[of_part][follows_part]])
    source = np.concatenate([source, sends[part_again]])
    lag = np.concatenate([lag, plan.dep_lag[own][follows_part]])
    order = np.argsort(target, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=count + 2 * len(of)))]).astype(np.int64)
    return start, source[order].astype(np.int64), lag[order].astype(np.uint8)


def _matches(values: Int64, of: Int64) -> tuple[Int64, Int64]:
    """Every pair of a place in `values` and a place in `of`, which is sorted, that have the same number."""
    begin, end = np.searchsorted(of, values, "left"), np.searchsorted(of, values, "right")
    lengths = end - begin
    place = np.repeat(np.arange(len(values)), lengths)
    return place, np.repeat(begin, lengths) + _places(lengths)

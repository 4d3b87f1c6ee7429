"""Writes the measurements of a run as a Chakra trace: a graph of computations and messages, each with its start and
duration, in a file per rank.

Chakra counts whole microseconds. What a rank waits for from the iteration before is not in the file, for it has one
iteration. A collective appears as the messages that it is made of: a plan knows nothing else. Points in time, such as
the beginning of an iteration, are metadata. Traffic classes are `comm_priority`, the larger the more urgent (see
chakra.py); a plan of one class has none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gradwire.datatypes.plan import Int64, OpKind, Plan
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.workloads.traces.formats import chakra_messages as chakra

SCHEMA_VERSION = "0.0.4"
NODE_TYPES = {
    OpKind.COMPUTE: chakra.COMP,
    OpKind.REDUCE: chakra.COMP,
    OpKind.SEND: chakra.SEND,
    OpKind.RECV: chakra.RECV,
}
UNSEEN = -1


def write_chakra(folder: Path, plan: Plan, log: OpLog, iteration: int) -> list[Path]:
    """Writes `rank.N.et` for each rank of an iteration; returns the files.

    Raises InputFault for a plan with multicast messages, which Chakra has no node for, and for an iteration that the
    log lacks a part of.
    """
    if (plan.ops.group == 1).any():
        raise InputFault("Chakra has no node for a message to several ranks, which this strategy sends")
    begin_ns, end_ns = _times_ns(plan, log, iteration)
    priority = _priorities(plan)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank in range(len(plan.rank_role)):
        path = folder / f"rank.{rank}.et"
        with replacing(path) as partial, partial.open("wb") as file:
            file.write(_frame(_metadata(rank, len(plan.rank_role))))
            for op in np.flatnonzero(plan.ops.rank == rank).tolist():
                node = _node(plan, op, int(begin_ns[op]), int(end_ns[op]))
                if len(priority) and NODE_TYPES[OpKind(int(plan.ops.kind[op]))] != chakra.COMP:
                    node.attr.append(chakra.Attribute(name="comm_priority", int32_val=int(priority[op])))
                file.write(_frame(node))
        files.append(path)
    return files


def _times_ns(plan: Plan, log: OpLog, iteration: int) -> tuple[Int64, Int64]:
    """The beginning and end of each op, counted from the beginning of the iteration's first."""
    rows = np.flatnonzero(log.iteration == iteration)
    begin_ns, end_ns = (np.full(len(plan.ops), UNSEEN, np.int64) for _ in range(2))
    begin_ns[log.op[rows]], end_ns[log.op[rows]] = log.start_ns[rows], log.end_ns[rows]
    if len(rows) != len(plan.ops) or (end_ns == UNSEEN).any():
        raise InputFault(f"iteration {iteration}: the run has logged {len(rows)} of its {len(plan.ops)} ops")
    first_ns = int(begin_ns.min())
    return begin_ns - first_ns, end_ns - first_ns


def _priorities(plan: Plan) -> Int64:
    """The priority of each op, 0 for the least urgent messages; of no length where all messages are of one class."""
    classes = plan.ops.traffic_class.astype(np.int64)
    used = np.unique(classes[np.isin(plan.ops.kind, [OpKind.SEND, OpKind.RECV])])
    return np.zeros(0, np.int64) if len(used) < 2 else int(used[-1]) - classes


def _metadata(rank: int, ranks: int) -> Any:
    return chakra.GlobalMetadata(
        version=SCHEMA_VERSION,
        attr=[
            chakra.Attribute(name="schema", string_val="gradwire"),
            chakra.Attribute(name="rank", int64_val=rank),
            chakra.Attribute(name="world_size", int64_val=ranks),
        ],
    )


def _node(plan: Plan, op: int, begin_ns: int, end_ns: int) -> Any:
    ops, kind = plan.ops, OpKind(int(plan.ops.kind[op]))
    edges = slice(int(plan.dep_start[op]), int(plan.dep_start[op + 1]))
    here = plan.dep_op[edges][plan.dep_lag[edges] == 0]
    is_point = kind is OpKind.COMPUTE and not ops.duration_ns[op]
    node = chakra.Node(
        id=op,
        name=f"{kind.name.lower()} {op}",
        type=chakra.METADATA if is_point else NODE_TYPES[kind],
        data_deps=sorted(set(here.tolist())),
        start_time_micros=round(begin_ns / 1e3),
        duration_micros=0 if is_point else round((end_ns - begin_ns) / 1e3),
        attr=[chakra.Attribute(name="is_cpu_op", bool_val=False)],
    )
    if NODE_TYPES[kind] == chakra.COMP and not is_point:
        node.attr.append(chakra.Attribute(name="stream", int64_val=int(ops.lane[op])))
    if kind in (OpKind.SEND, OpKind.RECV):
        rank, peer = int(ops.rank[op]), int(ops.peer[op])
        src, dst = (rank, peer) if kind is OpKind.SEND else (peer, rank)
        numbers = {"comm_size": ops.size_bytes[op], "comm_src": src, "comm_dst": dst, "comm_tag": ops.message[op]}
        node.attr.extend(chakra.Attribute(name=name, int64_val=int(number)) for name, number in numbers.items())
    return node


def _frame(message: Any) -> bytes:
    """A message behind its length."""
    data: bytes = message.SerializeToString()
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])

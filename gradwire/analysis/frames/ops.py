"""Every op of a plan, and what a run's log says of it, as a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gradwire.analysis.names import host_name
from gradwire.analysis.wire import Bool
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.datatypes.records import Int64, OpLog
from gradwire.faults import InternalFault

CONTROL = "control"
"""Tensor of a message that carries none: a request or a token."""


def plan_frame(plan: Plan) -> pd.DataFrame:
    """One row per op, whose number is the index: kind, rank, host, peer, receivers, tensor, chunk, layer, size_bytes, ... and duration_s.

    peer: the other rank of a message; missing for a multicast and for what is not a message. receivers: ranks that a SEND goes to; 0 for
    what is none. tensor: that a message or an addition is about; missing for a COMPUTE. layer, chunk and traffic_class are missing where
    an op has none; the class of control messages is -1. crosses_network: it is a SEND to another host. duration_s: what a COMPUTE or a
    REDUCE takes, and the software latency of a SEND.
    """
    ops = plan.ops
    message = (ops.kind == OpKind.SEND) | (ops.kind == OpKind.RECV)
    frame = pd.DataFrame(
        {
            "kind": _categories(ops.kind, {int(kind): kind.name for kind in OpKind}),
            "rank": ops.rank.astype(np.int32),
            "role": _categories(plan.rank_role[ops.rank], {int(role): role.name.lower() for role in Role}),
            "host": _categories(plan.rank_host[ops.rank], {host: host_name(host) for host in range(plan.hosts)}),
            "peer": _optional(ops.peer, message & (ops.group == 0)),
            "receivers": _receivers(plan),
            "tensor": _tensors(plan, message),
            "chunk": _optional(ops.chunk, ops.chunk >= 0),
            "layer": _optional(ops.layer, ops.layer >= 0),
            "size_bytes": ops.size_bytes,
            "traffic_class": _optional(ops.traffic_class, message),
            "crosses_network": plan.is_remote(),
            "duration_s": ops.duration_ns / 1e9,
        }
    )
    frame.index.name = "op"
    return frame


def logged_frame(plan: Plan, log: OpLog, warmup: int) -> pd.DataFrame:
    """One row per op and iteration, in the order of the log: iteration, warmup, op, the columns of `plan_frame`, and when it was done.

    Times are seconds of the run's clock since the agents' common start. due_s: when its dependencies and its stream allowed it to start, by
    nominal times. start_s: a SEND's first byte handed to the kernel, a RECV's first byte taken from it. end_s: likewise of the last byte.
    Raises InternalFault for an op that the plan does not have.
    """
    if len(log.op) and (log.op.max() >= len(plan.ops) or log.op.min() < 0):
        raise InternalFault(f"the op log has op {int(log.op.max())}, and the plan has {len(plan.ops)}")
    rows = plan_frame(plan).take(log.op).reset_index()
    times = {"due_s": log.nominal_start_ns, "start_s": log.start_ns, "end_s": log.end_ns}
    rows.insert(0, "iteration", log.iteration)
    rows.insert(1, "warmup", log.iteration < warmup)
    return rows.assign(**{name: values / 1e9 for name, values in times.items()})


def _categories(codes: npt.NDArray[Any], names: dict[int, str]) -> pd.Categorical[str]:
    """Numbers by their names; every name is a category, whether it occurs or not."""
    place: Int64 = np.full(max(names) + 1, -1, np.int64)
    place[list(names)] = np.arange(len(names))
    return pd.Categorical.from_codes(place[codes], categories=pd.Index(list(names.values())))


def _optional(values: npt.NDArray[Any], known: Bool) -> pd.Series[Any]:
    """Numbers of which only those where `known` is true are some."""
    return pd.Series(values.astype(np.int64)).astype("Int64").where(pd.Series(known))


def _receivers(plan: Plan) -> Int64:
    ops = plan.ops
    receivers: Int64 = (ops.kind == OpKind.SEND).astype(np.int64)
    grouped = ops.group == 1
    receivers[grouped] = np.diff(plan.group_start)[ops.peer[grouped]]
    return receivers


def _tensors(plan: Plan, message: Bool) -> pd.Categorical[str]:
    """The tensor of each op that has a chunk; CONTROL for other messages."""
    tensor: Int64 = np.full(len(plan.ops), -1, np.int64)
    chunked = plan.ops.chunk >= 0
    tensor[chunked] = plan.chunk_tensor[plan.ops.chunk[chunked]]
    tensor[message & ~chunked] = len(plan.tensors)
    return pd.Categorical.from_codes(tensor, categories=pd.Index([*plan.tensors, CONTROL]))

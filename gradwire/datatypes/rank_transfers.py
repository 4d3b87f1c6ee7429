"""Messages that are under way together at a worker's rank, which slow its computation down."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradwire.datatypes.plan import LATENCY_LANE, Int64, OpKind, Plan, Role


class RankTransfers(NamedTuple):
    """The transfers that may be under way at workers' ranks: a transfer is all messages of one tensor that one rank
    sends and receives in an iteration."""

    #: The transfer that each op's message belongs to; -1 for all ops but workers' SENDs and RECVs of data.
    transfer_of: Int64
    #: 1 for each op that slows down while a transfer of its rank is under way, as workers' COMPUTEs do.
    slows: Int64
    #: The rank of each transfer, and the number of its messages.
    rank: Int64
    messages: Int64


def rank_transfers(plan: Plan) -> RankTransfers:
    """The transfers of a plan, for `Plan.speed_while_communicating`."""
    ops = plan.ops
    is_worker = (plan.rank_role == Role.WORKER)[ops.rank]
    moves = is_worker & ((ops.kind == OpKind.SEND) | (ops.kind == OpKind.RECV)) & (ops.chunk >= 0)
    tensor = plan.chunk_tensor[ops.chunk[moves]].astype(np.int64)
    keys, number, messages = np.unique(
        ops.rank[moves] * (tensor.max(initial=0) + 1) + tensor, return_inverse=True, return_counts=True
    )
    transfer_of: Int64 = np.full(len(ops), -1, np.int64)
    transfer_of[moves] = number
    rank = keys // (tensor.max(initial=0) + 1)
    slows = (is_worker & (ops.kind == OpKind.COMPUTE) & (ops.lane < LATENCY_LANE)).astype(np.int64)
    return RankTransfers(transfer_of, slows, rank.astype(np.int64), messages.astype(np.int64))

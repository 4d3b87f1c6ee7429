"""Computation that is slower while its GPU communicates.

What a worker computes runs at a lower speed while any tensor is under way at its rank. A tensor, which may be a bucket
of several, is under way from when a send queue takes the first of its messages in an iteration, software latency
included, or the first one arrives, until the last message of it that the rank sends or receives in that iteration has
ended: a collective's kernels occupy the GPU's processors and its memory meanwhile. The agents' interpreter keeps the
same rule (agents/contention.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradwire.analysis.fluid.agenda import Agenda, schedule
from gradwire.analysis.fluid.compiled import compiled
from gradwire.analysis.fluid.graph import Float64, Records
from gradwire.datatypes.plan import FULL_SPEED, Int64, Plan
from gradwire.datatypes.rank_transfers import RankTransfers, rank_transfers

RANK = np.dtype(
    [
        ("first_stream", "i8"),  # the lanes of its streams begin here, and end at the first_stream of the next rank
        ("under_way", "i8"),  # how many transfers are
    ]
)
COMPUTING = np.dtype(
    [
        ("left_ns", "f8"),  # work that is left of what the stream computes, as of since_ns; 0 without any
        ("since_ns", "f8"),
    ]
)
TRANSFER = np.dtype(
    [
        ("left", "i8"),  # messages that have not ended
        ("is_under_way", "i8"),
    ]
)


class Contention(NamedTuple):
    """The mutual slowdown of computation and communication. All columns are empty if there is none."""

    #: One element: the speed of computation while its rank communicates, as a share of that of undisturbed computation.
    speed: Float64
    #: A RANK per rank, and one more.
    ranks: Records
    #: A COMPUTING per stream, and its rank.
    streams: Records
    rank_of_stream: Int64
    #: The transfer of each op's message, and whether it slows computation down (RankTransfers).
    transfer_of: Int64
    slows: Int64
    #: The rank of each transfer, and its number of messages.
    rank_of: Int64
    messages: Int64
    #: A TRANSFER per transfer, for each iteration that may be under way.
    transfers: Records


def contention_of(plan: Plan, lane: Int64, streams: int, window: int) -> Contention:
    """Contention of a plan at its beginning, when nothing is under way. lane: for each op, -1 for none. streams: number
    of the first lanes, which are by rank. window: number of iterations that may be under way."""
    none = np.zeros(0, np.int64)
    if plan.speed_permille == FULL_SPEED:
        nothing = RankTransfers(none, none, none, none)
        return _contention(np.zeros(0), np.zeros(0, RANK), np.zeros(0, COMPUTING), none, nothing, 0)
    rank_of_stream: Int64 = np.zeros(streams, np.int64)
    held = (lane >= 0) & (lane < streams)
    rank_of_stream[lane[held]] = plan.ops.rank[held]
    ranks = np.zeros(len(plan.rank_role) + 1, RANK)
    ranks["first_stream"] = np.searchsorted(rank_of_stream, np.arange(len(ranks)))
    speed = np.full(1, plan.speed_permille / FULL_SPEED)
    return _contention(speed, ranks, np.zeros(streams, COMPUTING), rank_of_stream, rank_transfers(plan), window)


def _contention(
    speed: Float64, ranks: Records, streams: Records, rank_of_stream: Int64, of: RankTransfers, window: int
) -> Contention:
    transfers = np.zeros(len(of.rank) * window, TRANSFER)
    transfers["left"] = np.tile(of.messages, window)
    return Contention(speed, ranks, streams, rank_of_stream, of.transfer_of, of.slows, of.rank, of.messages, transfers)


@compiled
def computed_at_ns(contention: Contention, lane: int, work_ns: float, now_ns: float) -> float:
    """Notes that a stream begins to compute; says when it ends if nothing changes meanwhile."""
    stream = contention.streams[lane]
    stream.left_ns, stream.since_ns = work_ns, now_ns
    return float(now_ns + work_ns / _speed(contention, contention.rank_of_stream[lane]))


@compiled
def note_computed(contention: Contention, lane: int) -> None:
    """Notes that a stream has ended its computation."""
    contention.streams[lane].left_ns = 0.0


@compiled
def note_message(contention: Contention, agenda: Agenda, op: int, iteration: int, ended: bool, now_ns: float) -> None:
    """Notes that a message begins or has ended, in an iteration, modulo those that may be under way."""
    number = contention.transfer_of[op]
    if number < 0:
        return
    transfer = contention.transfers[iteration * len(contention.messages) + number]
    rank = contention.rank_of[number]
    if not transfer.is_under_way:
        transfer.is_under_way = 1
        _change(contention, agenda, rank, 1, now_ns)
    if ended:
        transfer.left -= 1
        if transfer.left == 0:
            transfer.left, transfer.is_under_way = contention.messages[number], 0
            _change(contention, agenda, rank, -1, now_ns)


@compiled
def _change(contention: Contention, agenda: Agenda, rank: int, by: int, now_ns: float) -> None:
    """Changes the number of transfers under way at a rank, which moves the ends of its computations."""
    before = _speed(contention, rank)
    contention.ranks[rank].under_way += by
    after = _speed(contention, rank)
    if before == after:
        return
    for number in range(contention.ranks[rank].first_stream, contention.ranks[rank + 1].first_stream):
        stream = contention.streams[number]
        if stream.left_ns > 0.0:
            stream.left_ns = max(0.0, stream.left_ns - (now_ns - stream.since_ns) * before)
            stream.since_ns = now_ns
            schedule(agenda, number, now_ns + stream.left_ns / after)


@compiled
def _speed(contention: Contention, rank: int) -> float:
    return float(contention.speed[0]) if contention.ranks[rank].under_way > 0 else 1.0

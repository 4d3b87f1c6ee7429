"""What the compiled agent found wrong, in the words of the agents in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import assert_never

from gradwire.agents.compiled.failures import (
    Broken,
    BrokenWhileSending,
    CallFailed,
    Closed,
    Contradictory,
    FramingLost,
    HungUp,
    NobodyWaits,
    NotComplete,
    TimestampsUnreadable,
    TimestampWithoutNumber,
)
from gradwire.agents.compiled.structures import ContributionSet, Told
from gradwire.datatypes.plan import Combine, Contributions, Plan, contradiction
from gradwire.faults import Fault, InternalFault, MachineFault


def fault_of(
    told: Told,
    plan: Plan,
    peers: Mapping[tuple[int, bool], str],
    rank_and_chunk: Callable[[int], tuple[int, int]],
    workers: int,
) -> Fault:
    """The fault that ended a replay.

    peers: address of the other end of each connection, by its number and whether it begins here. rank_and_chunk: whose
    a place of the ledger is, and of which chunk.
    """
    match why := told.reason:
        case BrokenWhileSending() | HungUp():
            return _broken(why, peers.get((why.connection, True), "a peer"))
        case Broken() | Closed() | NobodyWaits():
            return _broken(why, peers.get((why.connection, False), "a peer"))
        case FramingLost():
            return _framing_lost(why)
        case Contradictory():
            return _contradictory(why, told, plan, workers)
        case NotComplete():
            return not_complete(why.iteration, why.op, *rank_and_chunk(why.slot), why.held, why.needed)
        case TimestampsUnreadable() | TimestampWithoutNumber() | CallFailed():
            return _of_the_kernel(why)
        case _:
            assert_never(why)


def _of_the_kernel(why: TimestampsUnreadable | TimestampWithoutNumber | CallFailed) -> Fault:
    match why:
        case TimestampsUnreadable():
            return MachineFault(f"a socket's timestamps cannot be read: {os.strerror(why.error)}")
        case TimestampWithoutNumber():
            return InternalFault(
                f"a timestamp came with control message {why.type} of level {why.level} instead of its number"
            )
        case CallFailed():
            return InternalFault(f"system call {why.number} failed in a list of calls: {os.strerror(why.error)}")
        case _:
            assert_never(why)


def _broken(why: BrokenWhileSending | HungUp | Broken | Closed | NobodyWaits, peer: str) -> Fault:
    match why:
        case BrokenWhileSending():
            return MachineFault(f"the connection to {peer} broke while sending: {_error(why.error)}")
        case HungUp():
            return MachineFault(f"the connection to {peer} broke in the middle of the run")
        case Broken():
            return MachineFault(f"the connection from {peer} broke in the middle of the run: {_error(why.error)}")
        case Closed():
            return MachineFault(f"the connection from {peer} closed in the middle of the run")
        case NobodyWaits():
            return InternalFault(
                f"message {why.message} of iteration {why.iteration} came from {peer}, and no RECV waits for it"
            )
        case _:
            assert_never(why)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _framing_lost(why: FramingLost) -> InternalFault:
    what = f"magic {why.magic:#x}, version {why.version}, mask of {why.set_bytes} bytes"
    of = f"a message of {why.size_bytes} bytes" if why.size_bytes < 0 else what
    return InternalFault(f"a connection lost its framing: {of}")


def _contradictory(why: Contradictory, told: Told, plan: Plan, workers: int) -> InternalFault:
    combine = Combine(int(plan.ops.combine[why.op]))
    defect = contradiction(combine, _read(told.arrived, workers), _read(told.total, workers))
    rank, chunk = int(plan.ops.rank[why.op]), int(plan.ops.chunk[why.op])
    return InternalFault(f"iteration {why.iteration}, RECV op {why.op} at rank {rank}, chunk {chunk}: {defect}")


def not_complete(iteration: int, op: int, rank: int, chunk: int, held: int, needed: int) -> InternalFault:
    """An op begins that needs a chunk of one iteration, and its rank holds that of another."""
    of = "this iteration" if needed == iteration else "the iteration before"
    return InternalFault(
        f"iteration {iteration}, op {op} at rank {rank} needs chunk {chunk} of {of}, but holds that of iteration {held}"
    )


def _read(contributions: ContributionSet, workers: int) -> Contributions:
    words = contributions.workers[: (workers + 63) // 64]
    return Contributions(contributions.iteration, sum(word << 64 * place for place, word in enumerate(words)))

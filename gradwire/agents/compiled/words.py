"""What the compiled agent found wrong, in the words of the agents in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import IntEnum

from gradwire.agents.compiled.library import Set, Told
from gradwire.datatypes.plan import Combine, Contributions, Plan, contradiction
from gradwire.faults import Fault, InternalFault, MachineFault


class Failure(IntEnum):
    """enum failure of replay.h, which says what the details of each are."""

    BROKEN_WHILE_SENDING = 1
    BROKEN = 2
    CLOSED = 3
    HUNG_UP = 4
    TIMESTAMPS_UNREADABLE = 5
    TIMESTAMP_WITHOUT_NUMBER = 6
    FRAMING_LOST = 7
    NOBODY_WAITS = 8
    CONTRIBUTIONS = 9
    NOT_COMPLETE = 10
    CALL_FAILED = 11


def fault_of(
    told: Told,
    plan: Plan,
    peers: Mapping[tuple[int, bool], str],
    rank_and_chunk: Callable[[int], tuple[int, int]],
    workers: int,
) -> Fault:
    """The fault that ended a replay.

    peers: address of the other end of each connection, by its number and whether it begins here. rank_and_chunk: whose a place of the
    ledger is, and of which chunk.
    """
    failure, detail = Failure(told.failure), list(told.detail)
    if failure == Failure.CONTRIBUTIONS:
        return _contributions(told, plan, detail[0], detail[1], workers)
    if failure == Failure.NOT_COMPLETE:
        iteration, op, place, held, needed = detail
        return not_complete(iteration, op, *rank_and_chunk(place), held, needed)
    if failure in (Failure.TIMESTAMPS_UNREADABLE, Failure.TIMESTAMP_WITHOUT_NUMBER, Failure.CALL_FAILED):
        return _of_the_kernel(failure, detail)
    begins_here = failure in (Failure.BROKEN_WHILE_SENDING, Failure.HUNG_UP)
    return _of_a_connection(failure, detail, peers.get((detail[0], begins_here), "a peer"))


def _of_a_connection(failure: Failure, detail: list[int], peer: str) -> Fault:
    _, second, third, fourth, fifth = detail
    if failure == Failure.NOBODY_WAITS:
        return InternalFault(f"message {second} of iteration {third} came from {peer}, and no RECV waits for it")
    if failure == Failure.FRAMING_LOST:
        what = f"magic {second:#x}, version {third}, mask of {fourth} bytes"
        return InternalFault(f"a connection lost its framing: {f'a message of {fifth} bytes' if fifth < 0 else what}")
    words = {
        Failure.BROKEN_WHILE_SENDING: f"to {peer} broke while sending: {_error(second)}",
        Failure.BROKEN: f"from {peer} broke in the middle of the run: {_error(second)}",
        Failure.CLOSED: f"from {peer} closed in the middle of the run",
        Failure.HUNG_UP: f"to {peer} broke in the middle of the run",
    }
    return MachineFault(f"the connection {words[failure]}")


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _of_the_kernel(failure: Failure, detail: list[int]) -> Fault:
    match failure:
        case Failure.TIMESTAMPS_UNREADABLE:
            return MachineFault(f"a socket's timestamps cannot be read: {os.strerror(detail[0])}")
        case Failure.TIMESTAMP_WITHOUT_NUMBER:
            return InternalFault(
                f"a timestamp came with control message {detail[1]} of level {detail[0]} instead of its number"
            )
        case _:
            return InternalFault(f"system call {detail[0]} failed in a list of calls: {os.strerror(detail[1])}")


def _contributions(told: Told, plan: Plan, iteration: int, op: int, workers: int) -> Fault:
    combine = Combine(int(plan.ops.combine[op]))
    defect = contradiction(combine, _read(told.arrived, workers), _read(told.total, workers))
    rank, chunk = int(plan.ops.rank[op]), int(plan.ops.chunk[op])
    return InternalFault(f"iteration {iteration}, RECV op {op} at rank {rank}, chunk {chunk}: {defect}")


def not_complete(iteration: int, op: int, rank: int, chunk: int, held: int, needed: int) -> InternalFault:
    """An op begins that needs a chunk of one iteration, and its rank holds that of another."""
    of = "this iteration" if needed == iteration else "the iteration before"
    return InternalFault(
        f"iteration {iteration}, op {op} at rank {rank} needs chunk {chunk} of {of}, but holds that of iteration {held}"
    )


def _read(contributions: Set, workers: int) -> Contributions:
    words = contributions.workers[: (workers + 63) // 64]
    return Contributions(contributions.iteration, sum(word << 64 * place for place, word in enumerate(words)))

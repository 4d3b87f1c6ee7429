"""Computation that is slower while its GPU communicates, without a clock: what an interpreter keeps of it.

What a worker computes runs at `Plan.speed_while_communicating` while any tensor is under way at its rank: from when a
send queue takes the first of its messages in an iteration, software latency included, or the first one arrives, until
the last message of it that the rank sends or receives in that iteration has ended. The second engine has the same rule
(analysis/fluid/contention.py), and the compiled agent the same numbers (compiled/contention.c): they are whole, so that
both interpreters agree to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gradwire.datatypes.plan import FULL_SPEED, Plan
from gradwire.datatypes.rank_transfers import rank_transfers


class Moved(NamedTuple):
    """A timer of something that is computed, which now ends at another time. What computes is a rank's stream."""

    stream: tuple[int, int]
    end_ns: int


@dataclass
class _Computing:
    """A computation that runs on a stream."""

    #: Its remaining work as of `since_ns`, in FULL_SPEEDths of a nanosecond.
    left: int
    since_ns: int


@dataclass
class _Communicating:
    """The transfers that are under way at a rank."""

    transfers: int = 0
    #: The latest nominal end of a message that has ended.
    until_ns: int = 0


class Contention:
    """Says when what ranks compute ends, as transfers begin and end. Time must not go back from one call to the
    next."""

    def __init__(self, plan: Plan) -> None:
        of = rank_transfers(plan)
        self._speed = plan.speed_permille
        self._slows, self._transfer_of = of.slows.tolist(), of.transfer_of.tolist()
        self._rank, self._messages = of.rank.tolist(), of.messages.tolist()
        #: Messages that have not ended, by iteration and transfer, of the transfers under way.
        self._left: dict[tuple[int, int], int] = {}
        self._communicating: dict[int, _Communicating] = {}
        self._computing: dict[int, dict[tuple[int, int], _Computing]] = {}

    def slows(self, op: int) -> bool:
        """Returns whether an op runs more slowly while its rank communicates."""
        return bool(self._slows[op])

    def computes(self, stream: tuple[int, int], start_ns: int, work_ns: int) -> int:
        """Notes that a stream, a rank's, begins something; says when it ends if nothing changes meanwhile."""
        computing = _Computing(work_ns * FULL_SPEED, start_ns)
        self._computing.setdefault(stream[0], {})[stream] = computing
        return self._end_ns(stream[0], computing)

    def computed(self, stream: tuple[int, int]) -> None:
        """Notes that a stream has ended what it computed."""
        self._computing.get(stream[0], {}).pop(stream, None)

    def message(self, iteration: int, op: int, now_ns: int, ended_ns: int | None = None) -> Iterator[Moved]:
        """Notes that a SEND begins, or that a SEND or RECV has ended, nominally at `ended_ns`, which may be a little
        later than now; says which timers move."""
        number = self._transfer_of[op]
        if number < 0:
            return
        rank, key = self._rank[number], (iteration, number)
        of_rank = self._communicating.setdefault(rank, _Communicating())
        if key not in self._left:
            self._left[key] = self._messages[number]
            yield from self._change(rank, of_rank, 1, now_ns)
        if ended_ns is not None:
            of_rank.until_ns = max(of_rank.until_ns, ended_ns)
            self._left[key] -= 1
            if not self._left[key]:
                del self._left[key]
                yield from self._change(rank, of_rank, -1, now_ns)

    def _change(self, rank: int, of_rank: _Communicating, by: int, now_ns: int) -> Iterator[Moved]:
        computing = self._computing.get(rank, {})
        for stream in computing.values():
            self._progress(of_rank, stream, now_ns)
        of_rank.transfers += by
        if of_rank.transfers <= 1:
            for key, stream in computing.items():
                yield Moved(key, self._end_ns(rank, stream))

    def _progress(self, of_rank: _Communicating, computing: _Computing, now_ns: int) -> None:
        """Subtracts the work that a stream has done until now."""
        spent_ns = now_ns - computing.since_ns
        if spent_ns <= 0:
            return
        slow_ns = spent_ns
        if not of_rank.transfers:
            slow_ns = min(spent_ns, max(0, of_rank.until_ns - computing.since_ns))
        done = slow_ns * self._speed + (spent_ns - slow_ns) * FULL_SPEED
        computing.left, computing.since_ns = max(0, computing.left - done), now_ns

    def _end_ns(self, rank: int, computing: _Computing) -> int:
        of_rank = self._communicating.get(rank)
        if of_rank is None:
            return computing.since_ns + _quotient(computing.left, FULL_SPEED)
        slow_ns = _quotient(computing.left, self._speed)
        if not of_rank.transfers:
            slow_ns = min(slow_ns, max(0, of_rank.until_ns - computing.since_ns))
        left = max(0, computing.left - slow_ns * self._speed)
        return computing.since_ns + slow_ns + _quotient(left, FULL_SPEED)


def _quotient(left: int, speed: int) -> int:
    """Returns `left` over `speed`, rounded up."""
    return (left + speed - 1) // speed

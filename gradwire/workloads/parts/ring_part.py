"""A part of a ring of any length: ranks that follow one another, and one stand-in for all others.

The stand-in receives what the rank behind the part would, and sends what the rank in front of it would: both halves of
one port. What it receives in a step it sends as many steps later as there are ranks outside, as long after the arrival
as in the estimate; in the first steps of a call, that is a message of the call before.
So a plan needs an op for each step of the part's ranks alone, whatever the length of the ring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gradwire.datatypes.class_plans import Float64, RingCall, RingSequence
from gradwire.datatypes.plan import LATENCY_LANE, Combine, Int64, OpKind, Role
from gradwire.workloads.builder import Columns, PlanBuilder
from gradwire.workloads.engines.allreduce_plan import COPY_LANE
from gradwire.workloads.parts.causes import NOTHING
from gradwire.workloads.parts.cutting import PartOfPlan


@dataclass(frozen=True)
class RingBorder:
    """The times at which messages pass the border in the estimate of the whole, in two consecutive iterations: by
    iteration, call and step."""

    #: When messages to the part begin to leave, before their latency.
    start_s: Float64
    #: When messages from the part have arrived.
    arrive_s: Float64
    #: When the first rank begins, by iteration.
    begin_s: Float64


def ring_part(sequence: RingSequence, first: int, ranks: int, border: RingBorder) -> PartOfPlan:
    """The part of the ring with so many ranks from `first` on."""
    return _RingPart(sequence, (first + np.arange(ranks)) % sequence.ranks, border).build()


@dataclass(frozen=True)
class _Arrivals:
    """Steps of a call in which messages arrive at the stand-in, of this iteration or, with lag 1, of the one before."""

    call: int
    step: Int64
    lag: int


class _RingPart:
    """The plan under construction. Tables of ops have a row for each step and a column for each rank; -1 where a part of
    a bucket has no bytes."""

    def __init__(self, sequence: RingSequence, members: Int64, border: RingBorder) -> None:
        self.sequence, self.members, self.border = sequence, members, border
        self.builder = PlanBuilder(sequence.name)
        self.steps = 2 * (sequence.ranks - 1)
        nics = sequence.nics_per_host
        own = np.unique(sequence.host_of_rank[members])
        behind = int(sequence.host_of_rank[(members[-1] + 1) % sequence.ranks]) // nics * nics
        #: Hosts of the whole.
        self.hosts: Int64 = np.concatenate([own, behind + np.arange(nics)]).astype(np.int64)
        self.own_hosts = len(own)
        places = np.searchsorted(own, sequence.host_of_rank[members])
        for place in places.tolist():
            self.builder.rank(Role.WORKER, place)
        self.stand_in = self.builder.rank(Role.SERVER, len(own))
        self.queues = np.array([self.builder.queue(rank) for rank in range(len(members) + 1)], np.int64)
        self.delays = 0
        #: For each call, the stand-in's SENDs and RECVs by step.
        self.sent: list[Int64] = []
        self.came: list[Int64] = []

    def build(self) -> PartOfPlan:
        """Builds the part."""
        builder = self.builder
        ends = self._computation()
        done: Int64 | None = None
        first_started: Int64 | None = None
        for number, call in enumerate(self.sequence.calls):
            started = self._gates(call.latency_ns)
            builder.depend_columns(started, ends[number])
            if done is None:
                first_started = started
            else:
                builder.depend_columns(started, done)
            done = self._call(number, call, started)
        assert done is not None
        assert first_started is not None
        builder.depend_columns(first_started, done, lag=1)
        self._follow()
        self._boundaries(ends, done)
        plan = builder.build(self.sequence.compute_s, self.sequence.samples)
        placed = replace(plan, nics_per_host=self.sequence.nics_per_host)
        return PartOfPlan(placed, self.hosts, self.own_hosts)

    def _computation(self) -> list[Int64]:
        """Returns, for each call, the op at each rank after which it may start; last, the ops at which ranks have
        computed."""
        count = len(self.members)
        until_ns = [
            np.broadcast_to(call.ready_ns, (self.sequence.ranks,))[self.members] for call in self.sequence.calls
        ]
        until_ns.append(np.broadcast_to(self.sequence.computed_ns, (self.sequence.ranks,))[self.members])
        self.begins = np.array([self.builder.compute(rank) for rank in range(count)], np.int64)
        before, passed_ns, found = self.begins, np.zeros(count), []
        for ready_ns in until_ns:
            # Buckets may be ready at the same time, and in another order than they are sent.
            longer_ns = np.rint(np.maximum(0.0, ready_ns - passed_ns)).astype(np.int64)
            ops = np.array(
                self.builder.add_columns(OpKind.COMPUTE, count, rank=np.arange(count), duration_ns=longer_ns, lane=0),
                np.int64,
            )
            self.builder.depend_columns(ops, before)
            passed_ns, before = np.maximum(passed_ns, ready_ns), ops
            found.append(ops)
        return found

    def _call(self, number: int, call: RingCall, started: Int64) -> Int64:
        """Adds an all-reduce, and returns the op at each rank at which it is over there."""
        builder, count, ranks = self.builder, len(self.members), self.sequence.ranks
        senders = np.concatenate([[self.members[0] - 1], self.members])
        sizes = call.part_bytes[(senders[None, :] - np.arange(self.steps)[:, None]) % ranks]
        there = sizes > 0
        step, column = np.nonzero(there)
        # Column 0 is what the stand-in sends to the first rank, and column i what rank i - 1 sends.
        source = np.where(column == 0, self.stand_in, column - 1)
        target = np.where(column == count, self.stand_in, column)
        size = sizes[there]
        first = builder.add_columns(OpKind.SEND, 0).start
        shared: dict[str, Columns] = {
            "size_bytes": size,
            "message": first + np.arange(len(size)),
            "traffic_class": 0,
            "order": number * self.steps + step,
        }
        waits_ns = self._waits_ns(senders[column] % ranks, size)
        sends, recvs = (np.full(there.shape, NOTHING, np.int64) for _ in range(2))
        sends[there] = builder.add_columns(
            OpKind.SEND, len(size), rank=source, peer=target, lane=self.queues[source], duration_ns=waits_ns, **shared
        )
        recvs[there] = builder.add_columns(
            OpKind.RECV, len(size), rank=target, peer=source, combine=int(Combine.CONTROL), **shared
        )
        of_ranks, to_ranks = sends[:, 1:], recvs[:, :-1]
        self._depend(of_ranks[0], started)
        self._depend(of_ranks[1:], to_ranks[:-1])
        self._depend(to_ranks[: ranks - 1], np.broadcast_to(started, (ranks - 1, count)))
        self.sent.append(sends[:, 0])
        self.came.append(recvs[:, -1])
        done = self._gates()
        builder.depend_columns(done, started)
        over = np.broadcast_to(done, (ranks - 1, count))
        self._depend(over, of_ranks[ranks - 1 :])
        self._depend(done, to_ranks[-1])
        return done

    def _gates(self, duration_ns: float = 0.0) -> Int64:
        """A point in time at each rank, or so much of it, on a stream that does not compute."""
        ranks = np.arange(len(self.members))
        columns: dict[str, Columns] = {"rank": ranks, "duration_ns": int(duration_ns), "lane": COPY_LANE}
        return np.array(self.builder.add_columns(OpKind.COMPUTE, len(ranks), **columns), np.int64)

    def _depend(self, ops: Int64, on: Int64) -> None:
        """Makes each op of a table wait for that at the same place, where both are there."""
        both = (ops >= 0) & (on >= 0)
        self.builder.depend_columns(ops[both], on[both])

    def _waits_ns(self, senders: Int64, sizes: Int64) -> Int64:
        """Returns the nanoseconds that messages wait before they leave: latency, and the time on a machine's own
        link."""
        sequence = self.sequence
        machine = sequence.host_of_rank // sequence.nics_per_host
        inside = machine[senders] == machine[(senders + 1) % sequence.ranks]
        latency_s = np.where(inside, sequence.local_latency_s, sequence.latency_s)
        link_s = np.where(inside, sizes / sequence.local_bytes_per_s, 0.0)
        found: Int64 = np.rint((latency_s + link_s) * 1e9).astype(np.int64)
        return found

    def _follow(self) -> None:
        """Makes the stand-in's messages follow what came to it: in the call, and before that in those before."""
        outside = self.sequence.ranks - len(self.members)
        for number, sends in enumerate(self.sent):
            passed = np.flatnonzero(sends[outside:] >= 0) + outside
            self._after(number, passed, _Arrivals(number, passed - outside, 0))
            fresh = np.flatnonzero(sends[:outside] >= 0)
            waiting = fresh + self.steps - outside
            for cause in self._before(number, waiting):
                at = np.flatnonzero(cause.step >= 0)
                chosen = replace(cause, step=cause.step[at])
                self._after(number, fresh[at], chosen)

    def _before(self, number: int, waiting: Int64) -> Iterator[_Arrivals]:
        """The last arrivals before these steps, counted in the call before the one of this number; where it has none, in
        those before it, around to the iteration before. Steps that are found elsewhere are NOTHING."""
        open_ones = np.ones(len(waiting), np.bool_)
        for back in range(1, len(self.sent) + 1):
            call, lag = (number - back) % len(self.sent), int(back > number)
            there = np.flatnonzero(self.came[call] >= 0)
            place = np.searchsorted(there, waiting, "right") - 1
            found = open_ones & (place >= 0)
            yield _Arrivals(call, np.where(found, there[np.maximum(place, 0)], NOTHING), lag)
            open_ones &= ~found
            waiting = np.full(len(waiting), self.steps)

    def _after(self, number: int, steps: Int64, cause: _Arrivals) -> None:
        """Makes messages of a call follow arrivals, as long after them as in the estimate."""
        sends, came = self.sent[number][steps], self.came[cause.call][cause.step]
        start_s = self.border.start_s[1, number, steps]
        came_s = self.border.arrive_s[1 - cause.lag, cause.call, cause.step]
        if not cause.lag:
            delays = self._delays(start_s - came_s)
            self.builder.depend_columns(delays, came)
        else:
            # Up to when the iteration begins, and from then on: in the first one, nothing came before.
            begin_s = self.border.begin_s[1]
            delays = self._delays(start_s - np.maximum(begin_s, came_s))
            up_to_begin = self._delays(begin_s - came_s)
            self.builder.depend_columns(up_to_begin, came)
            self.builder.depend_columns(delays, up_to_begin, lag=1)
        self.builder.depend_columns(sends, delays)

    def _delays(self, durations_s: Float64) -> Int64:
        """Ops of the stand-in that pass side by side."""
        count = len(durations_s)
        ops = self.builder.add_columns(
            OpKind.COMPUTE,
            count,
            rank=self.stand_in,
            duration_ns=np.rint(np.maximum(0.0, durations_s) * 1e9).astype(np.int64),
            lane=LATENCY_LANE + self.delays + np.arange(count),
        )
        self.delays += count
        return np.array(ops, np.int64)

    def _boundaries(self, ends: list[Int64], done: Int64) -> None:
        builder = self.builder
        for rank, begin in enumerate(self.begins.tolist()):
            end = builder.compute(rank)
            builder.depend(end, int(ends[-1][rank]), int(done[rank]))
            builder.depend(begin, end, lag=1)
            builder.iteration(rank, begin, end)

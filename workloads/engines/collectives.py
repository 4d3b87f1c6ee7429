"""Allreduce algorithms as schedules: who sends which part of a bucket to whom, in which step, and what the receiver does with it.

Sources: ring and hierarchical ring: GradientFlow, section 2.4 and Fig. 7. Ring over whole parameters ("without messaging") and
butterfly: NetOps, sections 3.3.2, 8.2.1, 8.2.2. Halving-doubling: Rabenseifner's algorithm, which NetOps names in section 1.

A schedule knows no sizes and no time, so that one serves every bucket of a plan: `allreduce_plan` puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt

from gradwire.faults import InputFault
from gradwire.workloads.plan import Combine, Int64

Row = tuple[int, int, int, int, int, int, int]
"""One transfer: src, dst, part, step, combine, phase, opens."""


@dataclass(frozen=True)
class Order:
    """What follows what at a rank, in indices of rows; -1 for nothing."""

    #: The row whose arrival a row's send passes on.
    after: Int64
    #: The row that the receiver itself must have sent before it may add this one: in an exchange, what it sends must not contain what
    #: it gets.
    own_send: Int64
    #: For every rank and part, the row of the last thing that happens to it there, whether that is its sending, and the rank.
    last_row: Int64
    last_is_send: npt.NDArray[np.bool_]
    last_rank: Int64


@dataclass(frozen=True)
class Schedule:
    """An allreduce among `ranks` ranks of a bucket that is cut into `parts` parts, one row per transfer.

    step: a rank passes on in a step what it has received in earlier ones. combine: ADD or COPY. phase: a rank starts a phase
    when it has sent and received everything of the phase before; within a phase, each part moves on by itself. opens: 1 for
    the first part of what is one message in the algorithm, which alone pays the latency.
    """

    ranks: int
    parts: int
    rows: Int64

    @property
    def src(self) -> Int64:
        """Sending rank of each row."""
        return self.rows[:, 0]

    @property
    def dst(self) -> Int64:
        """Receiving rank of each row."""
        return self.rows[:, 1]

    @property
    def part(self) -> Int64:
        """Part of the bucket that each row moves."""
        return self.rows[:, 2]

    @property
    def step(self) -> Int64:
        """Step of each row."""
        return self.rows[:, 3]

    @property
    def combine(self) -> Int64:
        """Combine of each row."""
        return self.rows[:, 4]

    @property
    def phase(self) -> Int64:
        """Phase of each row."""
        return self.rows[:, 5]

    @property
    def opens(self) -> Int64:
        """Whether each row pays the latency."""
        return self.rows[:, 6]

    @property
    def phases(self) -> int:
        """Number of phases."""
        return int(self.phase.max(initial=0)) + 1

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.step.max(initial=-1)) + 1

    def segmented(self, segments: int) -> Schedule:
        """The same with every part cut into `segments`, each a message that moves on by itself as soon as it is there."""
        copies = [self.rows + np.array([0, 0, self.parts * i, 0, 0, 0, 0]) for i in range(segments)]
        rows = np.stack(copies, axis=1).reshape(-1, self.rows.shape[1])
        return Schedule(self.ranks, self.parts * segments, rows)

    def only(self, combine: Combine) -> Schedule:
        """The rows that ADD, or those that COPY, as a schedule of its own: of a ring, its reduce-scatter or its allgather."""
        return Schedule(self.ranks, self.parts, self.rows[self.combine == combine])

    @cached_property
    def order(self) -> Order:
        """What follows what."""
        count = len(self.rows)
        after, own_send = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        arrived: dict[tuple[int, int], int] = {}
        sent: dict[tuple[int, int], int] = {}
        last: dict[tuple[int, int], tuple[int, bool]] = {}
        rows = self.rows.tolist()
        for _, numbers in groupby(np.argsort(self.step, kind="stable").tolist(), key=lambda i: rows[i][3]):
            now = list(numbers)
            for i in now:
                key = rows[i][0], rows[i][2]
                after[i] = arrived.get(key, -1)
                sent[key], last[key] = i, (i, True)
            for i in now:
                key = rows[i][1], rows[i][2]
                if rows[i][4] == Combine.ADD:
                    own_send[i] = sent.get(key, -1)
                arrived[key], last[key] = i, (i, False)
        ends = list(last.values())
        return Order(
            after,
            own_send,
            np.array([row for row, _ in ends], np.int64),
            np.array([is_send for _, is_send in ends], np.bool_),
            np.array([rank for rank, _ in last], np.int64),
        )


def _schedule(ranks: int, parts: int, rows: Iterator[Row]) -> Schedule:
    return Schedule(ranks, parts, np.array(list(rows), np.int64).reshape(-1, 7))


def _around(
    members: Sequence[int], blocks: Sequence[Sequence[int]], combine: Combine, step: int, phase: int = 0
) -> Iterator[Row]:
    """One turn of a ring, len(members) - 1 steps: reduce-scatter (ADD) or allgather (COPY) of one block of parts per member.

    After the reduce-scatter, member i holds block i + 1, which the allgather starts from.
    """
    count, shift = len(members), int(combine == Combine.COPY)
    for hop in range(count - 1):
        for i, member in enumerate(members):
            for k, part in enumerate(blocks[(i + shift - hop) % count]):
                yield member, members[(i + 1) % count], part, step + hop, combine, phase, int(k == 0)


def _ring_rows(members: Sequence[int], blocks: Sequence[Sequence[int]], step: int, phase: int) -> Iterator[Row]:
    yield from _around(members, blocks, Combine.ADD, step, phase)
    yield from _around(members, blocks, Combine.COPY, step + len(members) - 1, phase)


def ring(ranks: int) -> Schedule:
    """Reduce-scatter and allgather around a ring: 2 (N - 1) steps of 1/N of the bucket each."""
    return ring_among(range(ranks), ranks)


def ring_among(members: Sequence[int], ranks: int) -> Schedule:
    """The same around some of the ranks, in as many parts."""
    return _schedule(ranks, len(members), _ring_rows(members, [[part] for part in range(len(members))], 0, 0))


def whole_ring(ranks: int, first: int) -> Schedule:
    """Ring without messaging: the whole bucket goes from rank `first` twice around, sum first: 2 (N - 1) steps one after the other."""

    def rows() -> Iterator[Row]:
        for step in range(2 * (ranks - 1)):
            src = (first + step) % ranks
            yield src, (src + 1) % ranks, 0, step, Combine.ADD if step < ranks - 1 else Combine.COPY, 0, 1

    return _schedule(ranks, 1, rows())


def butterfly(ranks: int) -> Schedule:
    """Recursive doubling: log2(N) steps, in each of which a rank exchanges the whole bucket with another. Raises InputFault."""
    _expect_power_of_two(ranks, "butterfly")

    def rows() -> Iterator[Row]:
        for step in range(ranks.bit_length() - 1):
            for rank in range(ranks):
                yield rank, rank ^ (1 << step), 0, step, Combine.ADD, 0, 1

    return _schedule(ranks, 1, rows())


def halving_doubling(ranks: int) -> Schedule:
    """Rabenseifner: recursive halving (reduce-scatter), then recursive doubling (allgather). Raises InputFault.

    2 log2(N) steps; as many bytes as a ring. A step is one message and ends before the next starts, as MPI's send-receive does.
    """
    _expect_power_of_two(ranks, "halving-doubling")
    levels = ranks.bit_length() - 1

    def rows() -> Iterator[Row]:
        for step in range(levels):
            distance = ranks >> (step + 1)
            for rank in range(ranks):
                partner = rank ^ distance
                start = partner // distance * distance
                for part in range(start, start + distance):
                    yield rank, partner, part, step, Combine.ADD, step, int(part == start)
        for step in range(levels, 2 * levels):
            distance = 1 << (step - levels)
            for rank in range(ranks):
                start = rank // distance * distance
                for part in range(start, start + distance):
                    yield rank, rank ^ distance, part, step, Combine.COPY, step, int(part == start)

    return _schedule(ranks, ranks, rows())


def hierarchical_ring(ranks: int, group: int, *, scatter: bool = False) -> Schedule:
    """Groups of `group` neighbouring ranks reduce among themselves, rings join the groups, and the groups spread the result.

    As GradientFlow defines it (`scatter` False): a chain in each group sums the whole bucket up at its master, the masters
    form one ring, and a chain in each group hands the result down. With `scatter`, a group reduce-scatters, every rank
    forms a ring with its counterparts in the other groups for its share, and the group allgathers: optimal inside as well.
    The three are calls one after the other, as NCCL-H makes them. Raises InputFault if groups do not come out even.
    """
    if group < 1 or ranks % group:
        raise InputFault(f"strategy.options.group = {group}: must divide cluster.workers = {ranks}")
    inner = _scattered_rows if scatter else _master_rows
    return _schedule(ranks, ranks if scatter else ranks // group, inner(ranks // group, group))


def _master_rows(groups: int, size: int) -> Iterator[Row]:
    parts = range(groups)
    for hop in range(size - 1):
        for first in range(0, groups * size, size):
            for part in parts:
                src = first + size - 1 - hop
                yield src, src - 1, part, hop, Combine.ADD, 0, int(part == 0)
    masters = range(0, groups * size, size)
    yield from _ring_rows(masters, [[part] for part in parts], size - 1, 1)
    last = size - 1 + 2 * (groups - 1)
    for hop in range(size - 1):
        for first in masters:
            for part in parts:
                yield first + hop, first + hop + 1, part, last + hop, Combine.COPY, 2, int(part == 0)


def _scattered_rows(groups: int, size: int) -> Iterator[Row]:
    blocks = [range(i * groups, (i + 1) * groups) for i in range(size)]
    members = [range(first, first + size) for first in range(0, groups * size, size)]
    for own in members:
        yield from _around(own, blocks, Combine.ADD, 0, 0)
    for i in range(size):
        counterparts = range(i, groups * size, size)
        yield from _ring_rows(counterparts, [[part] for part in blocks[(i + 1) % size]], size - 1, 1)
    for own in members:
        yield from _around(own, blocks, Combine.COPY, size - 1 + 2 * (groups - 1), 2)


def _expect_power_of_two(ranks: int, name: str) -> None:
    if ranks & (ranks - 1):
        raise InputFault(
            f"cluster.workers = {ranks}: {name} pairs workers and needs a power of two, "
            f"like {1 << (ranks.bit_length() - 1)} or {1 << ranks.bit_length()}; ring takes any number"
        )

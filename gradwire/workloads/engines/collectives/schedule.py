"""Collectives as schedules, and what each kind of collective promises.

A schedule says who sends which part to whom, in which step, and what the receiver does with it. One shape serves every
kind, from an all-reduce to a barrier, among any members. A schedule knows no sizes and no time, so that one serves
every bucket or call that is alike; `BucketTransfers` (workloads/engines/allreduce_transfers.py) makes the messages of it.

A `Promise` says whose contributions a part has, and who receives it. The plan's checker holds schedules to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Combine, Int64
from gradwire.workloads.plan_size import MostOps


class Collective(StrEnum):
    """A kind of collective. For each, the text says which bytes its size counts."""

    ALL_REDUCE = "all-reduce"
    """The buffer that is reduced."""
    REDUCE = "reduce"
    """The buffer that is reduced."""
    BROADCAST = "broadcast"
    """The buffer that is sent to all."""
    ALL_GATHER = "all-gather"
    """The bytes that one member puts in; it gets that times the number of members."""
    REDUCE_SCATTER = "reduce-scatter"
    """The bytes that one member puts in; it gets that over the number of members."""
    ALL_TO_ALL = "all-to-all"
    """The bytes that one member puts in, its own share included."""
    GATHER = "gather"
    """The bytes that one member puts in."""
    SCATTER = "scatter"
    """The bytes that one member gets."""
    BARRIER = "barrier"
    """A barrier has no size."""


PER_MEMBER = (Collective.ALL_GATHER, Collective.GATHER, Collective.SCATTER)
"""Kinds whose size is that of one block; of the others, it is that of all blocks that one member has."""
Members = tuple[int, ...]


@dataclass(frozen=True)
class Promise:
    """Contributors and receivers of each block of the data.

    Part p of a schedule is of block p modulo the number of blocks.
    """

    contributors: tuple[Members, ...]
    receivers: tuple[Members, ...]

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.receivers)


def promise(kind: Collective, members: int, root: int = 0) -> Promise:
    """Returns the result that a kind promises to so many members. A barrier has no data, and so no blocks.

    root: the member that a broadcast, reduction, gather or scatter is from or to.
    """
    everybody = tuple(range(members))
    singles = tuple((member,) for member in everybody)
    promises: dict[Collective, Callable[[], Promise]] = {
        Collective.ALL_REDUCE: lambda: Promise((everybody,), (everybody,)),
        Collective.REDUCE: lambda: Promise((everybody,), ((root,),)),
        Collective.BROADCAST: lambda: Promise(((root,),), (everybody,)),
        Collective.ALL_GATHER: lambda: Promise(singles, (everybody,) * members),
        Collective.REDUCE_SCATTER: lambda: Promise((everybody,) * members, singles),
        Collective.ALL_TO_ALL: lambda: Promise(tuple(one for one in singles for _ in singles), singles * members),
        Collective.GATHER: lambda: Promise(singles, ((root,),) * members),
        Collective.SCATTER: lambda: Promise(((root,),) * members, singles),
        Collective.BARRIER: lambda: Promise((), ()),
    }
    return promises[kind]()


def part_bytes(kind: Collective, members: int, parts: int, size_bytes: int, element_bytes: int = 1) -> Int64:
    """Bytes of each part of a schedule: whole elements, as even as they come; 0 where there are fewer elements than
    parts.

    What a member sends itself in an all-to-all has size 0.
    """
    width = element_bytes if size_bytes % element_bytes == 0 else 1
    values = size_bytes // width
    if kind in (Collective.ALL_REDUCE, Collective.REDUCE, Collective.BROADCAST):
        return _even(np.array([values]), parts) * width
    blocks = _even(np.array([values]), members) if kind not in PER_MEMBER else np.full(members, values, np.int64)
    if kind is Collective.ALL_TO_ALL:
        blocks = np.where(np.eye(members, dtype=np.bool_), 0, blocks[None, :]).ravel()
    return _even(blocks, parts // len(blocks)) * width


def sent_bytes(schedule: Schedule, sizes: Int64) -> Int64:
    """Returns the bytes that are sent for parts with so many bytes of data, which are more if a protocol adds to
    them."""
    if schedule.hops is None or schedule.hops.wire == 1.0:
        return sizes
    sent: Int64 = np.ceil(sizes * schedule.hops.wire).astype(np.int64)
    return sent


def _even(values: Int64, slices: int) -> Int64:
    """Each of `values` cut into slices: all first slices, then all second ones."""
    number = np.arange(slices)[:, None]
    cut: Int64 = (values[None, :] // slices + (number < values[None, :] % slices)).ravel()
    return cut


Row = tuple[int, int, int, int, int, int, int]
"""One transfer: src, dst, part, step, combine, phase, opens."""


@dataclass(frozen=True)
class RowOrder:
    """The order of rows at their ranks, as indices of rows."""

    #: Pairs, shape (n, 2): a row's send passes on what has come by the arrival of the other row, which is of the same
    #: phase.
    passed_on: Int64
    #: Rows whose send passes on nothing: it starts with what the rank has when the phase starts.
    starting: Int64
    #: Pairs: a row's arrival is added when the receiver itself has sent the other row. In an exchange, what it sends
    #: must not contain what it gets.
    exchanged: Int64
    #: Rows whose arrival waits for no sending of the receiver's.
    unexchanged: Int64
    #: For every rank and part, the rows of what happens last to it there, and whether that is the sending.
    last_row: Int64
    last_is_send: npt.NDArray[np.bool_]

    def repeated(self, copies: int) -> RowOrder:
        """The order of as many copies, which know nothing of one another; row i becomes rows i * copies and
        following."""

        def of(rows: Int64) -> Int64:
            shifts = np.arange(copies).reshape(1, -1, *[1] * (rows.ndim - 1))
            spread: Int64 = (rows[:, None] * copies + shifts).reshape(-1, *rows.shape[1:])
            return spread

        return RowOrder(
            of(self.passed_on),
            of(self.starting),
            of(self.exchanged),
            of(self.unexchanged),
            of(self.last_row),
            np.repeat(self.last_is_send, copies),
        )


@dataclass(frozen=True)
class Hops:
    """Rates and latencies of a library's messages, which replace a job's costs. Latencies pass while further messages
    follow: they occupy neither sender nor receiver."""

    #: From the last byte of a message inside a machine to what waits for it.
    inside_s: float
    #: From the last byte of a message between machines to what waits for it, on top of the network's time.
    between_s: float
    #: Rate of one connection inside a machine.
    inside_bytes_per_s: float
    #: Bytes that are sent for each byte of data.
    wire: float = 1.0
    #: Time before a member's first message of a call.
    base_s: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """A collective among ranks below `ranks` of data that are cut into `parts` parts, one row per transfer.

    step: a rank passes on in a step what it has received in earlier ones. combine: ADD or COPY; CONTROL for tokens.
    phase: a rank starts a phase when it has sent and received everything of the phase before; within a phase, each
    part moves on by itself. opens: 1 for the first part of what is one message in the algorithm, which alone pays the
    latency.
    """

    ranks: int
    parts: int
    rows: Int64
    #: By row, the number of its connection where each pair of ranks has separate connections, as in NCCL's channels;
    #: None where all that a rank sends to other hosts takes turns.
    channel: Int64 | None = None
    #: By row, the number of the multicast that it is a copy of, and -1 of none; None where there is none at all.
    #: Copies have their sender, part and step in common: it hands them over once, and switches copy it.
    copies: Int64 | None = None
    #: The schedule that `segmented` or `among` made this one of, and its copies: the order need not be found again.
    origin: tuple[Schedule, int] | None = None
    #: Rates and latencies of messages, if they are not the job's costs.
    hops: Hops | None = None
    #: Pairs, shape (n, 2), besides those of `order`: a row's send waits for the arrival of the other row.
    after: Int64 | None = None
    #: Pairs, shape (n, 2): a row's send waits until the other row, of the same connection, has been sent. Where a message
    #: is divided over several connections, the next one then waits for the last of its parts.
    in_turn: Int64 | None = None
    #: Rings at once, which share the links inside a machine.
    rings: int = 1

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
        """Part that each row moves."""
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
        """Returns, for each row, 1 if it pays the latency and 0 if not."""
        return self.rows[:, 6]

    @property
    def phases(self) -> int:
        """Number of phases."""
        return int(self.phase.max(initial=0)) + 1

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.step.max(initial=-1)) + 1

    @property
    def last_rank(self) -> Int64:
        """The rank of each of `order.last_row`."""
        order = self.order
        return np.where(order.last_is_send, self.src[order.last_row], self.dst[order.last_row])

    def segmented(self, segments: int) -> Schedule:
        """Returns this schedule with every part cut into `segments`, each a message that moves on by itself as soon as
        it is there.

        Segment i of part p is part p + i * parts.
        """
        if segments > 1:
            refuse_rows(len(self.rows) * segments, f"a collective in {segments:,} segments")
        copies = [self.rows + np.array([0, 0, self.parts * i, 0, 0, 0, 0]) for i in range(segments)]
        rows = np.stack(copies, axis=1).reshape(-1, self.rows.shape[1])
        channel = None if self.channel is None else np.repeat(self.channel, segments)
        numbers: Int64 | None = None
        if self.copies is not None:
            copy_of = np.repeat(self.copies, segments)
            numbers = np.where(copy_of < 0, -1, copy_of * segments + np.tile(np.arange(segments), len(self.rows)))
        return Schedule(self.ranks, self.parts * segments, rows, channel, numbers, (self, segments), rings=self.rings)

    def only(self, combine: Combine) -> Schedule:
        """Returns the rows that ADD, or those that COPY, as a separate schedule: a ring's reduce-scatter, or its
        allgather."""
        chosen = self.combine == combine
        channel, copies = (None if column is None else column[chosen] for column in (self.channel, self.copies))
        return Schedule(self.ranks, self.parts, self.rows[chosen], channel, copies, rings=self.rings)

    def connected(self) -> Schedule:
        """Returns this schedule with a separate connection for each pair of ranks."""
        return replace(self, channel=np.zeros(len(self.rows), np.int64))

    def among(self, members: Iterable[int], ranks: int) -> Schedule:
        """Returns this schedule with rank i renamed to the i-th of `members`, which are below `ranks`."""
        names = np.array(list(members), np.int64)
        rows = self.rows.copy()
        rows[:, :2] = names[self.rows[:, :2]]
        return replace(self, ranks=ranks, rows=rows, origin=(self, 1))

    @cached_property
    def order(self) -> RowOrder:
        """Returns the order of the rows at their ranks."""
        if self.origin is not None:
            whole, copies = self.origin
            return whole.order.repeated(copies)
        return _Ordering().of(self.rows)


class _Ordering:
    """Finds what follows what, step by step. A place is a rank and a part."""

    def __init__(self) -> None:
        #: Arrivals at a place that its next sending passes on, and what happened there that nothing else waits for yet.
        self._arrived: dict[tuple[int, int], list[int]] = {}
        self._open: dict[tuple[int, int], list[tuple[int, bool]]] = {}
        #: What each row's send passes on.
        self._passed: dict[int, list[int]] = {}
        self._exchanged: dict[int, list[int]] = {}

    def of(self, numbered: Int64) -> RowOrder:
        """The order of rows."""
        rows = numbered.tolist()
        by_step = np.argsort(numbered[:, 3], kind="stable").tolist()
        for _, numbers in groupby(by_step, key=lambda i: rows[i][3]):
            now = list(numbers)
            for i in now:
                self._send(i, rows)
            sent = {(rows[i][1], rows[i][2]): self._sends((rows[i][1], rows[i][2])) for i in now}
            for i in now:
                self._arrive(i, rows, sent)
        count = len(rows)
        ends = [end for of_part in self._open.values() for end in of_part]
        return RowOrder(
            _pairs(self._passed),
            np.array([i for i in range(count) if not self._passed[i]], np.int64),
            _pairs(self._exchanged),
            np.array([i for i in range(count) if not self._exchanged[i]], np.int64),
            np.array([row for row, _ in ends], np.int64),
            np.array([is_send for _, is_send in ends], np.bool_),
        )

    def _sends(self, key: tuple[int, int]) -> list[int]:
        return [row for row, is_send in self._open.get(key, ()) if is_send]

    def _send(self, i: int, rows: list[list[int]]) -> None:
        """A sending waits for what it passes on. That of an earlier phase is there when the phase starts."""
        key = rows[i][0], rows[i][2]
        self._passed[i] = [row for row in self._arrived.get(key, ()) if rows[row][5] == rows[i][5]]
        before = self._sends(key)
        self._open[key] = [*((row, True) for row in before if rows[row][5] == rows[i][5]), (i, True)]

    def _arrive(self, i: int, rows: list[list[int]], sent: dict[tuple[int, int], list[int]]) -> None:
        """An arrival that is added waits for what the place has sent.

        One that is copied is the whole, so all else went before it.
        """
        _, dst, part, _, combine, phase, _ = rows[i]
        key = dst, part
        self._exchanged[i] = sent[key] if combine == Combine.ADD else []
        if combine == Combine.COPY:
            self._arrived[key], self._open[key] = [i], [(i, False)]
            return
        settled = {row for send in self._exchanged[i] for row in self._passed[send]}
        same = [row for row in self._arrived.get(key, ()) if rows[row][5] == phase and row not in settled]
        waiting = [
            (row, is_send) for row, is_send in self._open.get(key, ()) if row not in self._exchanged[i] or not is_send
        ]
        self._arrived[key], self._open[key] = [*same, i], [*waiting, (i, False)]


def _pairs(waits: dict[int, list[int]]) -> Int64:
    pairs = [(row, on) for row in sorted(waits) for on in waits[row]]
    return np.array(pairs, np.int64).reshape(-1, 2)


def refuse_rows(rows: int, name: str = "") -> None:
    """Raises TooManyOps, before they are made, for so many rows with a SEND and a RECV each."""
    MostOps.here().refuse(name, 2 * rows)


def schedule_of(ranks: int, parts: int, rows: Iterable[Row]) -> Schedule:
    """A schedule of these rows."""
    return Schedule(ranks, parts, np.array(list(rows), np.int64).reshape(-1, 7))

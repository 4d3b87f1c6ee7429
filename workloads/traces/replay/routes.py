"""Which bytes of a collective go from whom to whom, in which step: one route for each kind, algorithm and number of members.

A route knows neither sizes nor ranks, so that one serves all calls that are alike. All-reduces by ring, halving-doubling and butterfly are
those of workloads/engines/collectives.py. The others are the textbook ones (Thakur, Rabenseifner and Gropp, "Optimization of Collective
Communication Operations in MPICH", 2005): rings, binomial trees, the dissemination barrier, and `direct`, in which whoever has something
for another sends it there at once, as NCCL does for all-to-alls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from gradwire.workloads.engines.collectives import Schedule, butterfly, halving_doubling, ring
from gradwire.workloads.plan import Combine, Int64
from gradwire.workloads.traces.workload import Kind

AllReduce = Literal["ring", "halving-doubling", "butterfly", "direct"]
Spread = Literal["ring", "direct"]
Rooted = Literal["tree", "direct"]
Row = tuple[int, int, int, int, int, int]
"""One message: sender and receiver as indices of members, first part, number of parts, step, and whether the receiver adds it."""

SCHEDULES: dict[str, Callable[[int], Schedule]] = {
    "ring": ring,
    "halving-doubling": halving_doubling,
    "butterfly": butterfly,
}
PER_MEMBER = (Kind.ALL_GATHER, Kind.GATHER, Kind.SCATTER)
"""Kinds whose size is that of one part; of the others, it is that of all parts together."""


@dataclass(frozen=True)
class Route:
    """Messages of a collective among `members`, one row each, sorted by step; its bytes are cut into `parts`.

    A member sends in a step when all is there that it receives in earlier steps.
    """

    members: int
    parts: int
    rows: Int64

    @property
    def src(self) -> Int64:
        """Sending member of each row."""
        return self.rows[:, 0]

    @property
    def dst(self) -> Int64:
        """Receiving member of each row."""
        return self.rows[:, 1]

    @property
    def step(self) -> Int64:
        """Step of each row."""
        return self.rows[:, 4]

    @property
    def adds(self) -> npt.NDArray[np.bool_]:
        """Whether the receiver of each row adds it to what it has."""
        found: npt.NDArray[np.bool_] = self.rows[:, 5] == 1
        return found

    def sizes(self, part_bytes: Int64) -> Int64:
        """Bytes of each row, where parts have these bytes."""
        ends = np.concatenate([[0], np.cumsum(part_bytes)])
        found: Int64 = ends[self.rows[:, 2] + self.rows[:, 3]] - ends[self.rows[:, 2]]
        return found

    def only(self, rows: npt.NDArray[np.bool_]) -> Route:
        """The same without the other rows: those that carry nothing."""
        return self if rows.all() else Route(self.members, self.parts, self.rows[rows])

    def waits(self) -> Waits:
        """What each row waits for."""
        arrived: dict[int, list[int]] = {}
        last_step: dict[int, int] = {}
        waits = Waits([], [], [], [], [], [])
        rows = self.rows.tolist()
        steps: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            steps.setdefault(row[4], []).append(number)
        for step in sorted(steps):
            for number in steps[step]:
                waits.add_send(number, arrived.get(rows[number][0], []))
            came: dict[int, list[int]] = {}
            for number in steps[step]:
                dst = rows[number][1]
                waits.add_arrival(number, arrived.get(dst, []) if last_step.get(dst, -1) < step else [])
                came.setdefault(dst, []).append(number)
            for dst, numbers in came.items():
                arrived[dst], last_step[dst] = numbers, step
        return waits


@dataclass(frozen=True)
class Waits:
    """Pairs of rows, as columns: a send waits for an arrival, and an arrival for one of an earlier step; or for the call's start."""

    first_sends: list[int]
    sends: list[int]
    send_waits_for: list[int]
    first_arrivals: list[int]
    arrivals: list[int]
    arrival_waits_for: list[int]

    def add_send(self, number: int, on: list[int]) -> None:
        """Adds what a row's sending waits for."""
        if not on:
            self.first_sends.append(number)
        self.sends.extend([number] * len(on))
        self.send_waits_for.extend(on)

    def add_arrival(self, number: int, on: list[int]) -> None:
        """Adds what a row's arrival takes effect after."""
        if not on:
            self.first_arrivals.append(number)
        self.arrivals.extend([number] * len(on))
        self.arrival_waits_for.extend(on)


@cache
def route_of(kind: Kind, algorithm: str, members: int, root: int) -> Route:
    """The route of a collective. root: index of the member that a broadcast, reduction, gathering or scattering is from or to.

    Raises InputFault where an algorithm does not suit the number of members.
    """
    rows = sorted(_rows(kind, algorithm, members, root), key=lambda row: row[4]) if members > 1 else []
    parts = 1 if kind in (Kind.BROADCAST, Kind.REDUCE, Kind.BARRIER) or algorithm == "butterfly" else members
    return Route(members, parts, np.array(rows, np.int64).reshape(-1, 6))


def _rows(kind: Kind, algorithm: str, members: int, root: int) -> Iterator[Row]:
    if kind is Kind.ALL_REDUCE:
        yield from _direct_all_reduce(members) if algorithm == "direct" else _of_schedule(SCHEDULES[algorithm](members))
    elif kind is Kind.ALL_GATHER:
        yield from _to_all(members, own=True) if algorithm == "direct" else _around(members, shift=0, adds=0)
    elif kind is Kind.REDUCE_SCATTER:
        yield from _to_all(members, own=False, adds=1) if algorithm == "direct" else _around(members, shift=-1, adds=1)
    elif kind is Kind.ALL_TO_ALL:
        yield from _to_all(members, own=False)
    elif kind is Kind.BARRIER:
        yield from _dissemination(members)
    else:
        yield from _rooted(kind, algorithm, members, root)


def _of_schedule(schedule: Schedule) -> Iterator[Row]:
    """The rows of an all-reduce in which neighbouring parts with the same sender, receiver and step are one message."""
    together: dict[tuple[int, int, int, int], list[int]] = {}
    for src, dst, part, step, combine, _, _ in schedule.rows.tolist():
        together.setdefault((src, dst, step, combine), []).append(part)
    for (src, dst, step, combine), parts in together.items():
        yield src, dst, min(parts), len(parts), step, int(combine == Combine.ADD)


def _direct_all_reduce(members: int) -> Iterator[Row]:
    """Everybody sends each part to the member that adds it up, which sends the sum to everybody: two steps."""
    yield from _to_all(members, own=False, adds=1)
    yield from ((src, dst, src, 1, 1, 0) for src, dst, *_ in _to_all(members, own=True))


def _around(members: int, shift: int, adds: int) -> Iterator[Row]:
    """Around a ring: member i passes on part i + shift - step, so that it ends with all parts, or with the sum of part i."""
    for step in range(members - 1):
        for i in range(members):
            yield i, (i + 1) % members, (i + shift - step) % members, 1, step, adds


def _to_all(members: int, *, own: bool, adds: int = 0) -> Iterator[Row]:
    """Everybody to everybody in one step: its own part, or the receiver's. Nobody's first message goes where another's does."""
    for offset in range(1, members):
        for src in range(members):
            dst = (src + offset) % members
            yield src, dst, src if own else dst, 1, 0, adds


def _dissemination(members: int) -> Iterator[Row]:
    """In step k everybody tells the member 2^k further on (Hensgen, Finkel and Manber, 1988)."""
    for step in range((members - 1).bit_length()):
        for src in range(members):
            yield src, (src + (1 << step)) % members, 0, 1, step, 0


def _rooted(kind: Kind, algorithm: str, members: int, root: int) -> Iterator[Row]:
    """From or to one member: whole buffers along a binomial tree or directly, parts directly."""
    others = [(root + offset) % members for offset in range(1, members)]
    if kind is Kind.GATHER:
        yield from ((member, root, member, 1, 0, 0) for member in others)
    elif kind is Kind.SCATTER:
        yield from ((root, member, member, 1, 0, 0) for member in others)
    elif algorithm == "direct":
        adds = int(kind is Kind.REDUCE)
        yield from ((member, root, 0, 1, 0, 1) if adds else (root, member, 0, 1, 0, 0) for member in others)
    else:
        steps = (members - 1).bit_length()
        for step in range(steps):
            for near in range(min(1 << step, members - (1 << step))):
                src, dst = (root + near) % members, (root + near + (1 << step)) % members
                if kind is Kind.BROADCAST:
                    yield src, dst, 0, 1, step, 0
                else:
                    yield dst, src, 0, 1, steps - 1 - step, 1


def part_sizes(kind: Kind, size_bytes: int, element_bytes: int, parts: int) -> Int64:
    """Bytes of each part of a call: whole elements, as even as they come. What a call's size counts: see Kind."""
    if kind in PER_MEMBER:
        return np.full(parts, size_bytes, np.int64)
    width = element_bytes if size_bytes % element_bytes == 0 else 1
    values = size_bytes // width
    found: Int64 = (values // parts + (np.arange(parts) < values % parts)) * width
    return found

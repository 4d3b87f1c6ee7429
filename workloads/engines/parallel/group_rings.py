"""Collectives of several groups of workers side by side, as one schedule, so that a collective of every group is one piece of a plan.

A ring's reduce-scatter leaves member i of a group with part i + 1, from which the allgather starts
(workloads/engines/collectives/allreduces.py). So does every other algorithm here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gradwire.workloads.engines.collectives import Schedule, ring_among
from gradwire.workloads.engines.collectives.among import HALVES, OF_HALVES, RING
from gradwire.workloads.engines.collectives.choice import schedule_for
from gradwire.workloads.plan import Combine, Int64

Groups = Sequence[Sequence[int]]
"""Ranks of each group, all groups of one size."""
Algorithm = Literal["ring", "halving-doubling", "two-level", "direct"]
"""Algorithms that cut what they move into as many parts as members, whatever its size (docs/collectives.md)."""

_PART, _OPENS = 2, 6
"""Columns of `Schedule.rows`."""


@dataclass(frozen=True)
class Way:
    """How members of a group exchange."""

    algorithm: Algorithm
    #: Machine of each rank.
    machines: Sequence[int]

    def rows(self, members: Sequence[int], half: Combine | None) -> Int64:
        """The rows of one allreduce, or of half of one. Raises InputFault where the algorithm does not suit the members."""
        ranks = len(self.machines)
        if self.algorithm == RING:
            ring = ring_among(members, ranks)
            return (ring if half is None else ring.only(half)).rows.copy()
        name = OF_HALVES.get((half, self.algorithm), self.algorithm) if half is not None else self.algorithm
        found = schedule_for(
            HALVES[half], name, members, self.machines, 0, key="strategy.options.algorithm"
        ).rows.copy()
        found[:, _PART] = (found[:, _PART] + 1) % len(members)
        return found


def owner(group: Sequence[int], part: int) -> int:
    """The member that a reduce-scatter leaves a part with."""
    return group[(part - 1) % len(group)]


def allgathers(groups: Groups, way: Way) -> Schedule:
    """An allgather in each group, of parts of its own: those of the first group come first."""
    return _side_by_side([(group, number * len(group)) for number, group in enumerate(groups)], way, Combine.COPY)


def reduce_scatters(groups: Groups, way: Way) -> Schedule:
    """A reduce-scatter in each group, of the same parts in all. Where there are several groups, each part comes in as many pieces, one
    behind the other, so that `allreduces_of_shares` may go on with it."""
    whole = _side_by_side([(group, 0) for group in groups], way, Combine.ADD)
    pieces = len(groups)
    if pieces == 1:
        return whole
    rows = np.repeat(whole.rows, pieces, axis=0)
    piece = np.tile(np.arange(pieces), len(whole.rows))
    rows[:, _PART] = rows[:, _PART] * pieces + piece
    rows[:, _OPENS] *= piece == 0
    return Schedule(whole.ranks, whole.parts * pieces, rows)


def allreduces_of_shares(groups: Groups, way: Way) -> Schedule:
    """An allreduce, among all owners of a part, of the pieces that `reduce_scatters` cuts the part into."""
    size, pieces = len(groups[0]), len(groups)
    owners = [([owner(group, part) for group in groups], part * pieces) for part in range(size)]
    return _side_by_side(owners, way)


def _side_by_side(groups: Sequence[tuple[Sequence[int], int]], way: Way, combine: Combine | None = None) -> Schedule:
    """Members, each group with the number of its first part; of both halves, or of one."""
    found = []
    for members, first_part in groups:
        rows = way.rows(members, combine)
        rows[:, _PART] += first_part
        found.append(rows)
    parts = max(first_part + len(members) for members, first_part in groups)
    return Schedule(len(way.machines), parts, np.concatenate(found))

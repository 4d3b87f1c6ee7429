"""Collectives of several groups of workers side by side, as one schedule, so that a collective of every group is one piece of a plan.

A ring's reduce-scatter leaves member i of a group with part i + 1, from which the allgather starts
(workloads/engines/collectives/allreduces.py). So does every other algorithm here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gradwire.datatypes.plan import Combine, Int64
from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives import Schedule, ring_among
from gradwire.workloads.engines.collectives.among import HALVES, OF_HALVES, RING
from gradwire.workloads.engines.collectives.choice import schedule_for
from gradwire.workloads.engines.collectives.in_network import Switches

Groups = Sequence[Sequence[int]]
"""Ranks of each group, all groups of one size."""
Algorithm = Literal["ring", "halving-doubling", "two-level", "direct", "in-network"]
"""Algorithms that cut what they move into as many parts as members, whatever its size (docs/collectives.md)."""

_PART, _OPENS = 2, 6
"""Columns of `Schedule.rows`."""


@dataclass(frozen=True)
class Way:
    """How members of a group exchange."""

    algorithm: Algorithm
    #: Machine of each rank.
    machines: Sequence[int]
    #: Those of the network, where they add.
    switches: Switches | None = None

    def schedule(self, members: Sequence[int], half: Combine | None, number: int = 0) -> Schedule:
        """One allreduce, or half of one, in as many parts as members, by the set `number` of switches' ranks.

        Raises InputFault where the algorithm does not suit the members.
        """
        ranks, count = len(self.machines), len(members)
        if self.algorithm == RING:
            ring = ring_among(members, ranks)
            return ring if half is None else ring.only(half)
        name = OF_HALVES.get((half, self.algorithm), self.algorithm) if half is not None else self.algorithm
        switches = None if self.switches is None else replace(self.switches, number=number)
        found = schedule_for(
            HALVES[half], name, members, self.machines, 0, key="strategy.options.algorithm", switches=switches
        )
        if count % found.parts:
            raise InputFault(
                f"strategy.options.algorithm = '{name}': divides an {HALVES[half]} among {count} into {found.parts} parts, of which "
                f"{count} are not a multiple; take 'ring'"
            )
        found = found.segmented(count // found.parts)
        rows = found.rows.copy()
        rows[:, _PART] = (rows[:, _PART] + 1) % count
        return replace(found, rows=rows, origin=None)


def owner(group: Sequence[int], part: int) -> int:
    """The member that a reduce-scatter leaves a part with."""
    return group[(part - 1) % len(group)]


def allgathers(groups: Groups, way: Way) -> Schedule:
    """An allgather in each group, of parts of its own: those of the first group come first."""
    first_parts = [(group, number * len(group)) for number, group in enumerate(groups)]
    return _side_by_side(first_parts, way, Combine.COPY, [0] * len(groups))


def reduce_scatters(groups: Groups, way: Way) -> Schedule:
    """A reduce-scatter in each group, of the same parts in all. Where there are several groups, each part comes in as many pieces, one
    behind the other, so that `allreduces_of_shares` may go on with it."""
    whole = _side_by_side([(group, 0) for group in groups], way, Combine.ADD, range(len(groups)))
    pieces = len(groups)
    if pieces == 1:
        return whole
    rows = np.repeat(whole.rows, pieces, axis=0)
    piece = np.tile(np.arange(pieces), len(whole.rows))
    rows[:, _PART] = rows[:, _PART] * pieces + piece
    rows[:, _OPENS] *= piece == 0
    channel = None if whole.channel is None else np.repeat(whole.channel, pieces)
    return Schedule(whole.ranks, whole.parts * pieces, rows, channel)


def allreduces_of_shares(groups: Groups, way: Way) -> Schedule:
    """An allreduce, among all owners of a part, of the pieces that `reduce_scatters` cuts the part into."""
    size, pieces = len(groups[0]), len(groups)
    owners = [([owner(group, part) for group in groups], part * pieces) for part in range(size)]
    return _side_by_side(owners, way, None, [len(groups)] * len(owners))


def _side_by_side(
    groups: Sequence[tuple[Sequence[int], int]], way: Way, combine: Combine | None, sets: Sequence[int]
) -> Schedule:
    """Members, each group with the number of its first part; of both halves, or of one. sets: that of switches' ranks, for each group."""
    found = [way.schedule(members, combine, number) for (members, _), number in zip(groups, sets, strict=True)]
    rows, copies = [], list[Int64]()
    for schedule, (_, first_part) in zip(found, groups, strict=True):
        rows.append(schedule.rows.copy())
        rows[-1][:, _PART] += first_part
        if schedule.copies is not None:
            first = 1 + max((int(each.max(initial=-1)) for each in copies), default=-1)
            copies.append(np.where(schedule.copies < 0, -1, schedule.copies + first))
    whole = Schedule(
        max(len(way.machines), *(schedule.ranks for schedule in found)),
        max(first_part + len(members) for members, first_part in groups),
        np.concatenate(rows),
        copies=np.concatenate(copies) if copies else None,
    )
    return whole if found[0].channel is None else whole.connected()

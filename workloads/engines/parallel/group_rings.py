"""Rings of several groups of workers side by side, as one schedule, so that a collective of every group is one piece of a plan.

A ring's reduce-scatter leaves member i of a group with part i + 1, from which the allgather starts
(workloads/engines/collectives/allreduces.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwire.workloads.engines.collectives import Schedule, ring_among
from gradwire.workloads.plan import Combine

Groups = Sequence[Sequence[int]]
"""Ranks of each group, all groups of one size."""

_PART, _OPENS = 2, 6
"""Columns of `Schedule.rows`."""


def owner(group: Sequence[int], part: int) -> int:
    """The member that a reduce-scatter leaves a part with."""
    return group[(part - 1) % len(group)]


def allgathers(groups: Groups, ranks: int) -> Schedule:
    """An allgather in each group, of parts of its own: those of the first group come first."""
    return _side_by_side([(group, number * len(group)) for number, group in enumerate(groups)], ranks, Combine.COPY)


def reduce_scatters(groups: Groups, ranks: int) -> Schedule:
    """A reduce-scatter in each group, of the same parts in all. Where there are several groups, each part comes in as many pieces, one
    behind the other, so that `allreduces_of_shares` may go on with it."""
    whole = _side_by_side([(group, 0) for group in groups], ranks, Combine.ADD)
    pieces = len(groups)
    if pieces == 1:
        return whole
    rows = np.repeat(whole.rows, pieces, axis=0)
    piece = np.tile(np.arange(pieces), len(whole.rows))
    rows[:, _PART] = rows[:, _PART] * pieces + piece
    rows[:, _OPENS] *= piece == 0
    return Schedule(ranks, whole.parts * pieces, rows)


def allreduces_of_shares(groups: Groups, ranks: int) -> Schedule:
    """An allreduce, among all owners of a part, of the pieces that `reduce_scatters` cuts the part into."""
    size, pieces = len(groups[0]), len(groups)
    owners = [([owner(group, part) for group in groups], part * pieces) for part in range(size)]
    return _side_by_side(owners, ranks)


def _side_by_side(rings: Sequence[tuple[Sequence[int], int]], ranks: int, combine: Combine | None = None) -> Schedule:
    """Rings of members, each with the number of its first part; of both halves, or of one."""
    found = []
    for members, first_part in rings:
        ring = ring_among(members, ranks)
        rows = (ring if combine is None else ring.only(combine)).rows.copy()
        rows[:, _PART] += first_part
        found.append(rows)
    parts = max(first_part + len(members) for members, first_part in rings)
    return Schedule(ranks, parts, np.concatenate(found))

"""What each kind of collective promises: whose contributions a part has, and who receives it. The plan's checker holds schedules to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from gradwire.datatypes.plan import Int64


class Collective(StrEnum):
    """A kind of collective. For each, the text says which bytes its size counts."""

    ALL_REDUCE = "all-reduce"
    """The buffer that is reduced."""
    REDUCE = "reduce"
    """The buffer that is reduced."""
    BROADCAST = "broadcast"
    """The buffer that is sent to all."""
    ALL_GATHER = "all-gather"
    """What one member puts in; it gets that times the number of members."""
    REDUCE_SCATTER = "reduce-scatter"
    """What one member puts in; it gets that over the number of members."""
    ALL_TO_ALL = "all-to-all"
    """What one member puts in, its own share included."""
    GATHER = "gather"
    """What one member puts in."""
    SCATTER = "scatter"
    """What one member gets."""
    BARRIER = "barrier"
    """Of no size."""


PER_MEMBER = (Collective.ALL_GATHER, Collective.GATHER, Collective.SCATTER)
"""Kinds whose size is that of one block; of the others, it is that of all blocks that one member has."""
Members = tuple[int, ...]


@dataclass(frozen=True)
class Promise:
    """Contributors and receivers of each block of the data. Part p of a schedule is of block p modulo the number of blocks."""

    contributors: tuple[Members, ...]
    receivers: tuple[Members, ...]

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.receivers)


def promise(kind: Collective, members: int, root: int = 0) -> Promise:
    """What a kind promises to so many members. A barrier has no data, and so no blocks.

    root: the member that a broadcast, reduction, gather or scatter is from or to.
    """
    everybody = tuple(range(members))
    each = tuple((member,) for member in everybody)
    promises: dict[Collective, Callable[[], Promise]] = {
        Collective.ALL_REDUCE: lambda: Promise((everybody,), (everybody,)),
        Collective.REDUCE: lambda: Promise((everybody,), ((root,),)),
        Collective.BROADCAST: lambda: Promise(((root,),), (everybody,)),
        Collective.ALL_GATHER: lambda: Promise(each, (everybody,) * members),
        Collective.REDUCE_SCATTER: lambda: Promise((everybody,) * members, each),
        Collective.ALL_TO_ALL: lambda: Promise(tuple(one for one in each for _ in each), each * members),
        Collective.GATHER: lambda: Promise(each, ((root,),) * members),
        Collective.SCATTER: lambda: Promise(((root,),) * members, each),
        Collective.BARRIER: lambda: Promise((), ()),
    }
    return promises[kind]()


def part_bytes(kind: Collective, members: int, parts: int, size_bytes: int, element_bytes: int = 1) -> Int64:
    """Bytes of each part of a schedule: whole elements, as even as they come; 0 where there are fewer elements than parts.

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


def _even(values: Int64, slices: int) -> Int64:
    """Each of `values` cut into slices: all first slices, then all second ones."""
    number = np.arange(slices)[:, None]
    cut: Int64 = (values[None, :] // slices + (number < values[None, :] % slices)).ravel()
    return cut

"""The launches of a Kineto profile: when the host launched each row of the GPU, and which rows it had launched before the profile began.

A kernel has the correlation of the call of the runtime that launched it; all kernels of a graph have that of one
`cudaGraphLaunch`. A profile has the kernels that ran while it was recorded, and so also those that the host launched
before: where a GPU is behind its host, they take the beginning of the profile, and what launched them is not in it.

Such a kernel is one whose call is not recorded and that, on its stream, comes before all whose call is. On a stream
without any of those, it is one that began before the GPU came to what was launched in the profile, or whose
correlation is smaller than all of the profile's, since CUPTI numbers the calls of a process upwards. In the profiles
of HolisticTraceAnalysis's and param's tests (1,614 kernels without a call, in five of them), both say the same.

Any other kernel whose call is not recorded was launched between its neighbours on its stream, and between the recorded
calls before and after its own by the numbers: it is put in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gradwire.workloads.traces.workload import Int64

Mask = npt.NDArray[np.bool_]
NEVER = np.iinfo(np.int64).max
"""A time after all others."""


class LaunchedRows(Protocol):
    """Rows of the GPU, as far as their launches depend on them."""

    @property
    def begin_ns(self) -> Int64:
        """When each began."""

    @property
    def correlation(self) -> Int64:
        """The call of the runtime that launched each, or -1."""

    @property
    def stream(self) -> Int64:
        """The stream that each was on."""


@dataclass(frozen=True)
class Launches:
    """Calls of the runtime, sorted by their correlation."""

    correlation: Int64
    at_ns: Int64


@dataclass(frozen=True)
class Launched:
    """The time at which the host launched each row, and how that is known."""

    at_ns: Int64
    #: Rows launched before the profile began.
    before: Mask
    #: Other rows whose call is not recorded.
    unrecorded: Mask
    #: Whether the call of any row is.
    known: bool = True


def launched(rows: LaunchedRows, launches: Launches) -> Launched:
    """Returns when the host launched each row, which has `begin_ns`, `correlation` and `stream`.

    Where a profile has no launches at all, each row counts as launched when it began.
    """
    begin = rows.begin_ns
    none = np.zeros(len(begin), np.bool_)
    if not len(begin):
        return Launched(begin, none, none)
    if not len(launches.correlation):
        return Launched(begin, none, none, known=False)
    at = np.minimum(np.searchsorted(launches.correlation, rows.correlation), len(launches.correlation) - 1)
    known = launches.correlation[at] == rows.correlation
    if not known.any():
        return Launched(begin, none, none, known=False)
    called = launches.at_ns[at]
    behind = launches.correlation[at] < rows.correlation
    between = np.where(behind, called, (launches.at_ns[np.maximum(at, 1) - 1] + called) // 2)
    at_ns = np.minimum(np.where(known, called, between), begin)
    if known.all():
        return Launched(at_ns, none, none)
    earliest, latest, before = _bounds(rows, at_ns, known, launches)
    guessed = np.minimum(np.maximum(at_ns, earliest), np.minimum(latest, begin))
    return Launched(np.where(known, at_ns, guessed), before, ~known & ~before)


def _bounds(rows: LaunchedRows, at_ns: Int64, known: Mask, launches: Launches) -> tuple[Int64, Int64, Mask]:
    """The earliest and latest launch of each row by those of its neighbours on the stream, and whether it was launched
    before the profile began."""
    order = np.lexsort((rows.begin_ns, rows.stream))
    stream, is_known, launch = rows.stream[order], known[order], at_ns[order]
    place = np.arange(len(order))
    opens = np.concatenate([[True], stream[1:] != stream[:-1]])
    first = np.maximum.accumulate(np.where(opens, place, 0))
    last = len(order) - 1 - np.maximum.accumulate(np.where(np.concatenate([opens[1:], [True]])[::-1], place, 0))[::-1]
    previous = np.maximum.accumulate(np.where(is_known, place, -1))
    following = np.minimum.accumulate(np.where(is_known, place, len(order))[::-1])[::-1]
    has_previous, has_following = previous >= first, following <= last
    earliest = np.where(has_previous, launch[np.maximum(previous, 0)], -NEVER)
    latest = np.where(has_following, launch[np.minimum(following, len(order) - 1)], NEVER)
    smaller = (rows.correlation >= 0) & (rows.correlation < launches.correlation[0])
    alone = (rows.begin_ns < rows.begin_ns[known].min()) | smaller
    before = ~is_known & ~has_previous & (has_following | alone[order])
    back = np.argsort(order)
    return earliest[back], latest[back], before[back]

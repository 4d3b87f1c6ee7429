"""Precedence in a graph without cycles: whether one node comes before another in whatever order nodes are taken. For
small graphs in Python's long integers, and for large ones compiled with numba.

Most pairs of a large graph are a few edges apart, and found by a short search. For the others, sets of bits spread
along the edges: one bit for each place from which, or to which, many pairs lead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int32, Int64
from gradwire.workloads.symbolic.loops import Loops
from gradwire.workloads.symbolic.wait_graph import WORD_BITS, UInt64

Bool = npt.NDArray[np.bool_]


class Precedence(Protocol):
    """Tells of pairs of nodes whether the first always comes before the second.

    All questions go by the places of nodes in one order.
    """

    #: Place of each node in an order that the edges permit.
    place: Int32

    def near(self, first: Int32, then: Int32) -> Bool:
        """The pairs of positions that a short way from one to the other shows to be in order."""

    def ordered(self, first: Int32, then: Int32) -> Bool:
        """The pairs of positions of which the first always comes before the second."""


class PrecedenceInPython:
    """Precedence of small graphs, in Python. Edges: a node, and one that comes after it."""

    def __init__(self, count: int, source: Int32, target: Int32) -> None:
        by_source = np.argsort(source, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=count))]).tolist()
        target_of = target[by_source].tolist()
        self._after = [target_of[start[node] : start[node + 1]] for node in range(count)]
        self._order = self._in_order(np.bincount(target, minlength=count).tolist())
        self.place: Int32 = np.empty(count, np.int32)
        self.place[self._order] = np.arange(count)

    def _in_order(self, waits_for: list[int]) -> list[int]:
        ready, order = deque(node for node, others in enumerate(waits_for) if not others), []
        while ready:
            node = ready.popleft()
            order.append(node)
            for after in self._after[node]:
                waits_for[after] -= 1
                if not waits_for[after]:
                    ready.append(after)
        return order

    def near(self, first: Int32, then: Int32) -> Bool:
        """The pairs of positions that are seen at once to be in order: those of the same position."""
        equal: Bool = first == then
        return equal

    def ordered(self, first: Int32, then: Int32) -> Bool:
        """The pairs of positions of which the first always comes before the second."""
        sources, number = np.unique(first, return_inverse=True)
        reached_by = [0] * len(self.place)
        for bit, source in enumerate(sources.tolist()):
            reached_by[source] |= 1 << bit
        position = self.place.tolist()
        for at, node in enumerate(self._order):
            reaching = reached_by[at]
            if reaching:
                for after in self._after[node]:
                    reached_by[position[after]] |= reaching
        pairs = zip(number.tolist(), then.tolist(), strict=True)
        return np.fromiter((reached_by[target] >> bit & 1 for bit, target in pairs), np.bool_, len(first))


MOST_VISITED = 24
MOST_FOLLOWED = 512
"""Nodes that a short search visits from either end, and edges that it follows. Most pairs of the catalogue's
strategies are closer."""
MOST_WORDS = 8
"""Words of bits that spread at once: a line of a processor's cache."""
SPREAD_BYTES = 1 << 27
"""Memory for them, if more than one word fits in."""


_LOOPS = Loops()


class _Edges(NamedTuple):
    """Edges in compressed rows, by place: after it, and before it."""

    after_start: Int64
    after: Int32
    before_start: Int64
    before: Int32


class PrecedenceInCode:
    """Precedence of large graphs, in machine code."""

    def __init__(self, count: int, source: Int32, target: Int32) -> None:
        start, after = _rows(source, target, count)
        waits_for, order = np.bincount(target, minlength=count), np.empty(count, np.int32)
        _LOOPS.in_code(_in_order)(start, after, waits_for, order)
        self.place: Int32 = np.empty(count, np.int32)
        self.place[order] = np.arange(count, dtype=np.int32)
        first, then = self.place[source], self.place[target]
        self._edges = _Edges(*_rows(first, then, count), *_rows(then, first, count))
        self._seen = np.zeros(count, np.int32)

    def near(self, first: Int32, then: Int32) -> Bool:
        """The pairs of positions that a short way from one to the other shows to be in order."""
        precedes = np.zeros(len(first), np.bool_)
        self._seen[:] = 0
        _LOOPS.in_code(_search)(self._edges, self._seen, first, then, precedes, np.empty(MOST_VISITED, np.int32))
        return precedes

    def ordered(self, first: Int32, then: Int32) -> Bool:
        """The pairs of positions of which the first always comes before the second."""
        precedes = np.zeros(len(first), np.bool_)
        forward = np.bincount(first)[first] > np.bincount(then)[then]
        furthest = int((then - first).max(initial=0)) + 1
        words = max(1, min(MOST_WORDS, SPREAD_BYTES // (8 * furthest)))
        for pairs, ends in ((np.flatnonzero(forward), first), (np.flatnonzero(~forward), then)):
            for chosen, number in _batches(pairs, ends, words * WORD_BITS):
                self._spread(chosen, number, first, then, ends is first, precedes)
        return precedes

    def _spread(self, pairs: Int64, number: Int64, first: Int32, then: Int32, forward: bool, precedes: Bool) -> None:
        begin, end = int(first[pairs].min()), int(then[pairs].max()) + 1
        if end <= begin:
            return
        bits = np.zeros((end - begin, int(number.max()) // WORD_BITS + 1), np.uint64)
        word, bit = number // WORD_BITS, np.uint64(1) << (number % WORD_BITS).astype(np.uint64)
        source, target = first[pairs] - begin, then[pairs] - begin
        inside = (source < len(bits)) & (target >= 0)
        marked, asked = (source, target) if forward else (target, source)
        np.bitwise_or.at(bits, (marked[inside], word[inside]), bit[inside])
        _LOOPS.in_code(_spread_on if forward else _spread_back)(self._edges.after_start, self._edges.after, begin, bits)
        precedes[pairs[inside]] = bits[asked[inside], word[inside]] & bit[inside] != 0


def has_cycle(count: int, source: Int64, target: Int64, *, in_code: bool) -> bool:
    """Returns whether nodes wait for each other in a circle. in_code: by machine code."""
    waits_for = np.bincount(target, minlength=count)
    if in_code:
        start, after = _rows(source.astype(np.int32), target.astype(np.int32), count)
        return _LOOPS.in_code(_in_order)(start, after, waits_for, np.empty(count, np.int32)) < count
    starts = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=count))])
    following: Any = target[np.argsort(source, kind="stable")].tolist()
    lists: Any = starts.tolist(), following, waits_for.tolist(), [0] * count
    return _in_order(*lists) < count


def _batches(pairs: Int64, ends: Int32, most: int) -> Iterator[tuple[Int64, Int64]]:
    """Pairs in batches that have no more `ends` than there are bits, and the number of each one's bit."""
    _, number = np.unique(ends[pairs], return_inverse=True)
    batch = number // most
    by_batch = np.argsort(batch, kind="stable")
    for chosen in np.split(by_batch, np.flatnonzero(np.diff(batch[by_batch])) + 1):
        if len(chosen):
            yield pairs[chosen], number[chosen] % most


def _rows(key: Int32, value: Int32, count: int) -> tuple[Int64, Int32]:
    """Compressed rows of pairs by their key: where each key's begin, and the values."""
    start, values = np.zeros(count + 1, np.int64), np.empty(len(key), np.int32)
    np.cumsum(np.bincount(key, minlength=count), out=start[1:])
    _LOOPS.in_code(_sort)(key, value, start[:-1].copy(), values)
    return start, values


@_LOOPS
def _sort(keys: Int32, values: Int32, upcoming: Int64, sorted_values: Int32) -> None:
    for pair in range(len(keys)):
        sorted_values[upcoming[keys[pair]]] = values[pair]
        upcoming[keys[pair]] += 1


@_LOOPS
def _in_order(start: Int64, after: Int32, waits_for: Int64, order: Int32) -> int:
    """Fills `order` with nodes, each behind those that come before it; returns how many, which is all but those in and
    behind circles."""
    ready = 0
    for node in range(len(order)):
        if waits_for[node] == 0:
            order[ready] = node
            ready += 1
    taken = 0
    while taken < ready:
        node = order[taken]
        taken += 1
        for edge in range(start[node], start[node + 1]):
            waits_for[after[edge]] -= 1
            if waits_for[after[edge]] == 0:
                order[ready] = after[edge]
                ready += 1
    return ready


@_LOOPS
def _search(edges: _Edges, seen: Int32, first: Int32, then: Int32, precedes: Bool, stack: Int32) -> None:
    for pair in range(len(first)):
        one, other, number = first[pair], then[pair], 2 * pair + 1
        if one == other:
            precedes[pair] = True
        elif one < other:
            fan_out = edges.after_start[one + 1] - edges.after_start[one]
            fan_in = edges.before_start[other + 1] - edges.before_start[other]
            for attempt in range(2):
                if (attempt == 0) == (fan_out < fan_in):
                    start, following, begin, end = edges.after_start, edges.after, one, other
                else:
                    start, following, begin, end = edges.before_start, edges.before, other, one
                if _on_the_way(start, following, seen, number + attempt, begin, end, stack):
                    precedes[pair] = True
                    break


@_LOOPS
def _on_the_way(start: Int64, following: Int32, seen: Int32, number: int, begin: int, end: int, stack: Int32) -> bool:
    """Returns whether `end` is found from `begin` by visiting no more nodes than `stack` holds, all of them between the
    two."""
    low, high = min(begin, end), max(begin, end)
    stack[0] = begin
    visited, upcoming, followed = 1, 0, 0
    while upcoming < visited and followed < MOST_FOLLOWED:
        node = stack[upcoming]
        upcoming += 1
        followed += start[node + 1] - start[node]
        for edge in range(start[node], start[node + 1]):
            to = following[edge]
            if to == end:
                return True
            if low < to < high and seen[to] != number and visited < len(stack):
                seen[to] = number
                stack[visited] = to
                visited += 1
    return False


@_LOOPS
def _spread_on(start: Int64, after: Int32, begin: int, bits: UInt64) -> None:
    """Every place passes its bits on to those after it. Bits are of the places from `begin` on."""
    for at in range(len(bits)):
        some = False
        for word in range(bits.shape[1]):
            some |= bits[at, word] != 0
        if some:
            for edge in range(start[begin + at], start[begin + at + 1]):
                to = after[edge] - begin
                if to < len(bits):
                    for word in range(bits.shape[1]):
                        bits[to, word] |= bits[at, word]


@_LOOPS
def _spread_back(start: Int64, after: Int32, begin: int, bits: UInt64) -> None:
    """Every place takes over the bits of those after it."""
    for back in range(len(bits)):
        at = len(bits) - 1 - back
        for edge in range(start[begin + at], start[begin + at + 1]):
            to = after[edge] - begin
            if to < len(bits):
                for word in range(bits.shape[1]):
                    bits[at, word] |= bits[to, word]

"""What comes before what in a graph without cycles, in whatever order its nodes are taken: for small graphs, in
Python's long integers."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int32

Bool = npt.NDArray[np.bool_]


class Precedence(Protocol):
    """Tells of pairs of nodes whether the first always comes before the second. All questions go by the places of
    nodes in one order."""

    #: Place of each node in an order that the edges permit.
    place: Int32

    def near(self, first: Int32, then: Int32) -> Bool:
        """Of which pairs of places a short way from one to the other tells that they are in order."""

    def ordered(self, first: Int32, then: Int32) -> Bool:
        """Of which pairs of places the first always comes before the second."""


class PrecedenceInPython:
    """As Precedence. Edges: a node, and one that comes after it."""

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
        """Of which pairs of places it is seen at once that they are in order: those of the same place."""
        equal: Bool = first == then
        return equal

    def ordered(self, first: Int32, then: Int32) -> Bool:
        """Of which pairs of places the first always comes before the second."""
        sources, number = np.unique(first, return_inverse=True)
        reached_by = [0] * len(self.place)
        for bit, source in enumerate(sources.tolist()):
            reached_by[source] |= 1 << bit
        place = self.place.tolist()
        for at, node in enumerate(self._order):
            reaching = reached_by[at]
            if reaching:
                for after in self._after[node]:
                    reached_by[place[after]] |= reaching
        pairs = zip(number.tolist(), then.tolist(), strict=True)
        return np.fromiter((reached_by[target] >> bit & 1 for bit, target in pairs), np.bool_, len(first))

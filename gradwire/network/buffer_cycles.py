"""Circles of buffers that wait for each other (Dally and Seitz, IEEE Transactions on Computers C-36(5), 1987). Pure.

A port's band may have to wait until the next port on a packet's way has room, if switches pause instead of dropping.
So each two ports that follow one another on a way are a dependency. Where dependencies make a circle, all of its ports
can be paused at once, each for the next, and then none will ever continue. Where they make none, that cannot happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise


def circle_of_ways(ways: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Lines of which each depends on the next, and the last on the first; empty if there are none.

    ways: the lines that packets of one class pass, in order. Of several circles, one is found, always the same.
    """
    before: dict[int, set[int]] = {}
    for way in ways:
        for near, far in pairwise(way):
            before.setdefault(far, set()).add(near)
            before.setdefault(near, set())
    left = _in_or_behind_circles(before)
    if not left:
        return ()
    # Whoever is left depends on nobody but those that are left, so going backwards never ends.
    line = min(left)
    seen: dict[int, int] = {}
    passed: list[int] = []
    while line not in seen:
        seen[line] = len(passed)
        passed.append(line)
        line = min(before[line] & left)
    circle = passed[seen[line] :][::-1]
    first = circle.index(min(circle))
    return tuple(circle[first:] + circle[:first])


def _in_or_behind_circles(before: dict[int, set[int]]) -> set[int]:
    """Returns the lines in circles, and those behind them: lines without a line before them are removed until none is
    left."""
    after: dict[int, list[int]] = {line: [] for line in before}
    for line, ahead in before.items():
        for each in ahead:
            after[each].append(line)
    waiting = {line: len(ahead) for line, ahead in before.items()}
    free = [line for line, count in waiting.items() if not count]
    while free:
        for following in after[free.pop()]:
            waiting[following] -= 1
            if not waiting[following]:
                free.append(following)
    return {line for line, count in waiting.items() if count}

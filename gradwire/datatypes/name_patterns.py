"""Finds what is meant by a pattern of a shell's file names, such as "s1-*". Imports only the standard library.

Names are sorted once, so that a pattern is held against those alone that begin as it does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from fnmatch import translate
from itertools import takewhile

_LITERAL = re.compile(r"[^*?\[]*")


class NumberedNames:
    """The names of things that are numbered from 0, by which patterns find them. A thing may have several names."""

    def __init__(self, names_of_things: Iterable[Iterable[str]]) -> None:
        things: dict[str, list[int]] = {}
        for number, names in enumerate(names_of_things):
            for name in set(names):
                things.setdefault(name, []).append(number)
        self._things = things
        self._sorted = sorted(things)
        self._found: dict[str, tuple[int, ...]] = {}

    def called(self, name: str) -> tuple[int, ...]:
        """The things with this very name."""
        return tuple(self._things.get(name, ()))

    def matching(self, pattern: str) -> tuple[int, ...]:
        """The things that have a name which is the pattern, or which it matches, in the order of their numbers."""
        if pattern not in self._found:
            self._found[pattern] = self._matching(pattern)
        return self._found[pattern]

    def _matching(self, pattern: str) -> tuple[int, ...]:
        beginning = _LITERAL.match(pattern)
        assert beginning is not None, "it matches the empty text, too"
        prefix = beginning[0]
        if prefix == pattern:
            return self.called(pattern)
        alike = takewhile(
            lambda name: name.startswith(prefix),
            map(self._sorted.__getitem__, range(bisect_left(self._sorted, prefix), len(self._sorted))),
        )
        matches = re.compile(translate(pattern)).match
        found = {thing for name in alike if matches(name) for thing in self._things[name]}
        return tuple(sorted(found.union(self.called(pattern))))

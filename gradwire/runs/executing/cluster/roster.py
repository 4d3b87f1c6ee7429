"""Which workers of a cluster may run points: those that were refused, and where a point may still go. Decisions only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping


class Roster:
    """The workers that a command refuses, each named once with its reason."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._lock = threading.Lock()
        self._refused: dict[str, str] = {}

    @property
    def refused(self) -> Mapping[str, str]:
        """Reasons by worker."""
        with self._lock:
            return dict(self._refused)

    def refuse(self, worker: str, reason: str) -> None:
        """Gives a worker no more points."""
        with self._lock:
            known = worker in self._refused
            self._refused[worker] = reason
        if not known:
            self._warn(f"worker {worker} runs no points: {reason}")

    def allowed(self, present: Collection[str], unable: Collection[str]) -> list[str] | None:
        """The workers that may run a point, of those that are there; None: any, also one that joins later.

        unable: those that could not run this point. An empty list: nobody is left.
        """
        barred = {*self.refused, *unable}
        if not barred & set(present):
            return None
        return sorted(set(present) - barred)


def listed(reasons: Mapping[str, str]) -> str:
    """Workers and why each runs nothing, in lines."""
    return "\n".join(f"worker {worker}: {reason}" for worker, reason in reasons.items())

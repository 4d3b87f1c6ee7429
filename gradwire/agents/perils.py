"""Conditions that end a replay early: workers that die, and a network on which nothing moves any more.

Without a clock and without I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.datatypes.records import PlannedFault
from gradwire.faults import MachineFault

MOST_AWAITED = 3
"""The most messages that are named of those that ranks wait for."""


class Stalled(MachineFault):
    """Raised when nothing has moved for as long as a scenario allows."""


class Interrupted(MachineFault):
    """A replay that cannot continue.

    awaited: what each rank that lives waits for, in words.
    """

    def __init__(self, reason: str, awaited: Sequence[str]) -> None:
        super().__init__(reason)
        self.awaited = tuple(awaited)


class Perils:
    """Tells a replay loop who dies when, and when to give up.

    ranks: the rank of each worker. own_ranks: those that the loop carries. stall_limit_ns: how long nothing may move
    while no op is computed.
    """

    def __init__(
        self, faults: Sequence[PlannedFault], ranks: Sequence[int], own_ranks: set[int], stall_limit_ns: int
    ) -> None:
        deaths = [fault for fault in faults if fault.kind == "dead-worker" and ranks[fault.worker] in own_ranks]
        self._unborn = {fault.name: (fault, ranks[fault.worker]) for fault in deaths}
        self._due_ns: list[tuple[int, str, int]] = []
        self._stall_limit_ns = stall_limit_ns
        self._seen = -1
        self._moved_ns = 0
        self.iterated(0, 0)

    def iterated(self, done: int, now_ns: int) -> None:
        """Notes that `done` iterations have ended."""
        for name, (fault, rank) in list(self._unborn.items()):
            if fault.iteration <= done:
                del self._unborn[name]
                self._due_ns.append((now_ns + fault.at_ns, name, rank))
        self._due_ns.sort()

    def deaths(self, now_ns: int, iteration: int) -> dict[int, str]:
        """The ranks that die now, in this iteration, each with that in words."""
        dying = [(rank, name) for due_ns, name, rank in self._due_ns if due_ns <= now_ns]
        self._due_ns = [due for due in self._due_ns if due[0] > now_ns]
        when = f"at {now_ns / 1e9:.6f} s, in iteration {iteration}"
        return {rank: f"rank {rank} died {when} (fault.{name})" for rank, name in dying}

    def moved(self, seen: int, now_ns: int) -> None:
        """Notes how much has been logged and received in all, which grows while anything moves."""
        if seen != self._seen:
            self._seen, self._moved_ns = seen, now_ns

    def refuse_stall(self, now_ns: int, *, is_computing: bool) -> None:
        """Raises Stalled if nothing has moved for the limit, and no op is computed that will end."""
        if not is_computing and now_ns - self._moved_ns >= self._stall_limit_ns:
            raise Stalled(
                f"nothing has moved for {self._stall_limit_ns / 1e9:g} s (run.stall_limit), since "
                f"{self._moved_ns / 1e9:.6f} s"
            )

    def next_ns(self) -> int:
        """The latest time to look again."""
        deaths = [due_ns for due_ns, _, _ in self._due_ns]
        return min([self._moved_ns + self._stall_limit_ns, *deaths])


def last_words(reason: str, deaths: Sequence[str], awaited: Sequence[str]) -> str:
    """Returns one sentence that says why a run ended early, who had died, and what other ranks wait for."""
    more = f", and {len(awaited) - MOST_AWAITED} more" if len(awaited) > MOST_AWAITED else ""
    waiting = [f"{', '.join(awaited[:MOST_AWAITED])}{more}"] if awaited else []
    return "; ".join([reason, *deaths, *waiting])

"""The pace at which workers compute while faults slow them down, without a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.datatypes.records import FaultRecord, PlannedFault


@dataclass
class _Slowness:
    """A fault that slows a rank down."""

    fault: PlannedFault
    #: When it begins; None until its iteration does.
    begin_ns: int | None

    @property
    def end_ns(self) -> int | None:
        """The time at which it ends; None if it does not, or has not begun."""
        if self.begin_ns is None or self.fault.duration_ns < 0:
            return None
        return self.begin_ns + self.fault.duration_ns


class ComputePace:
    """Says when what a rank computes ends: each nanosecond of work takes `value` nanoseconds while the rank's fault
    lasts.

    ranks: the rank of each worker. A fault of an iteration counts from the first op of that iteration, or a later one,
    that the rank begins.
    """

    def __init__(self, faults: Sequence[PlannedFault], ranks: Sequence[int]) -> None:
        self._of_rank: dict[int, list[_Slowness]] = {}
        for fault in faults:
            if fault.kind == "slow-worker":
                begin_ns = fault.at_ns if fault.iteration <= 0 else None
                self._of_rank.setdefault(ranks[fault.worker], []).append(_Slowness(fault, begin_ns))

    def end_ns(self, rank: int, iteration: int, start_ns: int, work_ns: int) -> int:
        """The time at which the rank ends something that it begins at `start_ns` and that takes `work_ns` without
        faults."""
        for slowness in self._of_rank.get(rank, ()):
            if slowness.begin_ns is None and iteration >= slowness.fault.iteration:
                slowness.begin_ns = start_ns + slowness.fault.at_ns
        now_ns, left_ns = start_ns, float(work_ns)
        while left_ns > 0:
            factor = self._factor(rank, now_ns)
            until_ns = self._next_change(rank, now_ns)
            if until_ns is None or now_ns + left_ns * factor <= until_ns:
                return round(now_ns + left_ns * factor)
            left_ns -= (until_ns - now_ns) / factor
            now_ns = until_ns
        return now_ns

    def records(self, end_ns: int) -> tuple[FaultRecord, ...]:
        """Returns a record of each fault of these ranks, in a replay that ended at `end_ns`."""
        return tuple(_record(slowness, end_ns) for of_rank in self._of_rank.values() for slowness in of_rank)

    def _factor(self, rank: int, now_ns: int) -> float:
        factor = 1.0
        for slowness in self._of_rank.get(rank, ()):
            begin_ns, end_ns = slowness.begin_ns, slowness.end_ns
            if begin_ns is not None and begin_ns <= now_ns and (end_ns is None or now_ns < end_ns):
                factor *= slowness.fault.value
        return factor

    def _next_change(self, rank: int, now_ns: int) -> int | None:
        times = (
            time_ns for slowness in self._of_rank.get(rank, ()) for time_ns in (slowness.begin_ns, slowness.end_ns)
        )
        return min((time_ns for time_ns in times if time_ns is not None and time_ns > now_ns), default=None)


def _record(slowness: _Slowness, end_ns: int) -> FaultRecord:
    begin_ns = slowness.begin_ns
    if begin_ns is None or begin_ns >= end_ns:
        return FaultRecord(slowness.fault, -1 if begin_ns is None else begin_ns, -1, -1)
    ended_ns = min(end_ns, slowness.end_ns) if slowness.end_ns is not None else end_ns
    return FaultRecord(slowness.fault, begin_ns, begin_ns, ended_ns, 2)

"""The operations of one rank of a GOAL schedule, in text or in binary, and what they become.

A `calc` takes nanoseconds of its CPU, which calculates one after the other (`case OP_LOCOP` of LogGOPSim.cpp). What
`requires` waits for the other's end, what `irequires` for its start. A receive from any rank (-1) or of any tag is
refused: whom it meets depends on the network.
"""

from __future__ import annotations

from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import POINT_STREAM, Call, Findings, RankRecord
from gradwire.workloads.traces.workload import MOST_STREAMS

CPU_STREAMS = [stream for stream in range(MOST_STREAMS) if stream not in (1, POINT_STREAM)]
"""Streams that CPUs become; 1 is that of additions."""


class RankSchedule:
    """The operations of one rank, as they come."""

    def __init__(self, path: Path, format_name: str, rank: int, world: int) -> None:
        self.record = RankRecord(path, format_name, Findings())
        self.record.rank, self.record.world = rank, world
        #: CPU of each calculation, by its task.
        self._cpu: dict[int, int] = {}
        self._dependencies: list[tuple[int, int]] = []
        self._starts: list[tuple[int, int]] = []

    def calculate(self, place: str, duration_ns: int, cpu: int) -> int:
        """Adds a calculation; returns its number. Raises InputFault for a time that cannot be."""
        task = self.record.compute(duration_ns, POINT_STREAM, item=place)
        if duration_ns:
            self._cpu[task] = cpu
        return task

    def exchange(self, call: Call, nic: int) -> int:
        """Adds a message; returns its number. Raises InputFault for a size that cannot be."""
        if min(call.peer, call.tag) < 0:
            any_of = "rank" if call.peer < 0 else "tag"
            what = f"{call.kind.with_article} with any {any_of} (-1): which it meets is not said"
            self.record.findings.refuse(self.record.file, call.place, what)
        if nic:
            what = "nic: which NIC of a rank a message takes is decided by the network of the scenario"
            self.record.findings.note(self.record.file, call.place, what)
        return self.record.call(call)

    def depend(self, task: int, other: int, *, on_start: bool) -> None:
        """Makes an operation wait for the end of another, or for its start."""
        (self._starts if on_start else self._dependencies).append((task, other))

    def close(self) -> None:
        """Adds what waits for what, once all operations are there. Raises InputFault for too many CPUs."""
        record = self.record
        streams = dict(zip(sorted(set(self._cpu.values())), CPU_STREAMS, strict=False))
        if len(streams) < len(set(self._cpu.values())):
            what = f"calculates on {len(set(self._cpu.values())):,} CPUs, and at most {len(CPU_STREAMS)} are read"
            raise InputFault(f"{record.file}: rank {record.rank}: {what}")
        for task, cpu in self._cpu.items():
            record.stream[task] = streams[cpu]
        for task, other in self._dependencies:
            record.depend(task, other)
        self._wait_for_starts()
        if record.calls:
            what = "messages take no time of a CPU: the overheads of LogGOPSim are of its own model"
            record.findings.note(record.file, "", what)
        self._dependencies, self._starts = [], []

    def _wait_for_starts(self) -> None:
        """Has each operation that is to begin with another wait for all that the other waits for."""
        if not self._starts:
            return
        record = self.record
        begins = {other: record.compute(0, POINT_STREAM) for other in dict.fromkeys(other for _, other in self._starts)}
        for task, other in self._dependencies:
            if task in begins:
                record.depend(begins[task], other)
        for task, other in self._starts:
            record.depend(task, begins[other])
            if task in begins:
                record.depend(begins[task], begins[other])
        what = "irequires: an operation begins when all is done that the other waits for, but for the other's CPU"
        record.findings.note(record.file, "", what, len(self._starts))

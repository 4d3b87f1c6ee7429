"""Logs of calls: what a rank told its communication library to do, and perhaps when, with nothing of what it computes.

What waits for what is taken from streams and times:

- Calls of one stream follow one another, and those of a group (ncclGroupStart) begin together.
- Where a log says when a call began and ended on the GPU, a call waits for all that had ended before it began, and the time
  between is a computation.
- Where it says only when the host made a call, the times between are computations of the host, which waits for no call.
- Without times, there is no computation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from pathlib import Path

from gradwire.workloads.traces.record import (
    COMPUTE_STREAM,
    HOST_STREAM,
    Call,
    Findings,
    Membership,
    RankRecord,
    Reading,
)
from gradwire.workloads.traces.workload import POINT_TO_POINT, UNKNOWN


@dataclass(frozen=True)
class LoggedCall:
    """A call of a log."""

    call: Call
    #: Calls of one stream follow one another; None: only times say what it follows.
    stream: str | None
    #: When it began, of any clock; UNKNOWN for all calls of a log without times.
    begun_ns: int = UNKNOWN
    #: When it had ended on the GPU; UNKNOWN where the log has only the host's times.
    ended_ns: int = UNKNOWN
    #: A number that neighbouring calls share that begin together; UNKNOWN for one on its own.
    together: int = UNKNOWN
    #: A number that the same call has in the logs of all ranks of its communicator; UNKNOWN: its number in the log.
    serial: int = UNKNOWN


@dataclass(frozen=True)
class GpuCommunicator:
    """A communicator of a process, and the place of one of its GPUs in it."""

    name: str
    device: int
    membership: Membership


@dataclass
class _GpuCalls:
    """The calls of one GPU, and its places in communicators."""

    calls: list[LoggedCall] = field(default_factory=list)
    memberships: dict[str, Membership] = field(default_factory=dict)


class CallsByGpu:
    """The calls of a log, each with the GPU that it is of."""

    def __init__(self) -> None:
        self._gpus: dict[tuple[str, int], _GpuCalls] = {}

    def __bool__(self) -> bool:
        return bool(self._gpus)

    def add(self, process: str, communicator: GpuCommunicator, logged: LoggedCall) -> None:
        """Adds a call of a communicator; `process` tells those of a log of several apart."""
        gpu = self._gpus.setdefault((process, communicator.device), _GpuCalls())
        gpu.memberships[communicator.name] = communicator.membership
        gpu.calls.append(logged)

    def records(self, path: Path, format_name: str, reading: Reading, findings: Findings) -> list[RankRecord]:
        """The record of each GPU, the first with what was found in the whole log; without calls, a record of that alone.
        Raises InputFault as `fill` does."""
        records: list[RankRecord] = []
        for gpu in self._gpus.values() or [_GpuCalls()]:
            record = RankRecord(path, format_name, Findings() if records else findings)
            record.learn_given(reading)
            record.memberships = gpu.memberships
            fill(record, gpu.calls)
            records.append(record)
        return records


def fill(record: RankRecord, calls: Sequence[LoggedCall]) -> None:
    """Adds the calls of a log to a record, and computations where the log has times. Raises InputFault for sizes and times
    that cannot be."""
    record.timed = bool(calls) and all(logged.begun_ns != UNKNOWN for logged in calls)
    ended = record.timed and all(logged.ended_ns != UNKNOWN for logged in calls)
    ordered = sorted(calls, key=lambda logged: logged.begun_ns) if record.timed else calls
    filling = _Filling(record, COMPUTE_STREAM if ended else HOST_STREAM)
    for batch in _together(ordered):
        filling.take(batch)
    if ended:
        what = "the times between calls are computations, which wait for the calls that had ended; what is computed during "
        record.findings.note(record.file, "", what + "calls is not logged, and takes no time of its own")
    elif record.timed:
        what = "the times between calls are those of the host that made them: it waits for no call, and where it was ahead "
        record.findings.note(record.file, "", what + "of its GPU, they are too short")
    elif calls:
        what = "the log has no times: calls follow one another in their streams, with nothing between"
        record.findings.note(record.file, "", what)


def _together(calls: Iterable[LoggedCall]) -> Iterable[list[LoggedCall]]:
    """Yields calls that begin together; the others alone."""
    for number, batch in groupby(calls, key=lambda logged: logged.together):
        if number == UNKNOWN:
            yield from ([logged] for logged in batch)
        else:
            yield list(batch)


class _Filling:
    """What a rank has begun so far."""

    def __init__(self, record: RankRecord, stream: int) -> None:
        self._record, self._compute_stream = record, stream
        #: The last calls of each stream.
        self._last: dict[str | None, list[int]] = {}
        #: The point in time at which the last calls began, and the task that ends at it.
        self._now_ns, self._point = UNKNOWN, list[int]()
        #: A heap of when each call ended that no computation waits for yet, and its task.
        self._running: list[tuple[int, int]] = []
        self._counts: dict[str, int] = {}

    def take(self, batch: list[LoggedCall]) -> None:
        """Adds calls that begin together: messages at once, collectives of one stream one after the other even so."""
        self._pass_time(batch[0].begun_ns)
        before = {logged.stream: self._last.get(logged.stream, []) for logged in batch}
        added: dict[str | None, list[int]] = {}
        for logged in batch:
            of_stream = added.setdefault(logged.stream, [])
            at_once = logged.call.kind in POINT_TO_POINT
            after = before[logged.stream] if at_once or not of_stream else of_stream
            task = self._record.call(logged.call, sorted({*self._point, *after}))
            if not at_once:
                of_stream.clear()
            of_stream.append(task)
            self._number(task, logged)
            if logged.ended_ns != UNKNOWN:
                heappush(self._running, (logged.ended_ns, task))
        added.pop(None, None)
        self._last |= added

    def _number(self, task: int, logged: LoggedCall) -> None:
        name = logged.call.group
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        self._record.serials[task] = count if logged.serial == UNKNOWN else logged.serial

    def _pass_time(self, begun_ns: int) -> None:
        """Adds the computation before calls that begin at a time."""
        if begun_ns in (UNKNOWN, self._now_ns):
            return
        since_ns, after = self._now_ns, [*self._point]
        while self._running and self._running[0][0] <= begun_ns:
            ended_ns, task = heappop(self._running)
            since_ns = max(since_ns, ended_ns)
            after.append(task)
        if self._now_ns != UNKNOWN:
            self._point = [self._record.compute(begun_ns - since_ns, self._compute_stream, after)]
        self._now_ns = begun_ns

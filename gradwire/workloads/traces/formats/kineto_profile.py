"""Kineto profiles: what torch.profiler exports with `export_chrome_trace`, one file per rank.

What a rank does between its communications follows from the times of its profile. A rank is a chain of what it starts
and what it waits for, in the order in which its host did so. Between two of these lies the recorded time, with all
kernels and all idling in it, except for what the GPU spent waiting for a communication: that is what a replay measures
anew.

- A call may start when the GPU has ended what the host had launched before the call, and the host has come to it.
  (ProcessGroupNCCL.cpp of PyTorch has the stream of NCCL wait for the current stream.)
- A wait is a `wait` of record_param_comms, or a cudaStreamWaitEvent outside of all of those, as DDP's reducer makes
  them. It is for the oldest call that none has waited for, and it holds up the first kernel that is launched after it.
  If that kernel began before the call had ended, the two do not belong together, and no wait of the file is believed.
- What nothing waits for must have ended at the end of the recorded time.
- A step of the host begins on the GPU when that has ended what was launched before, and ends when it has ended what
  was launched in it. How far the GPU is behind the host is not computation: what the host launches in a step may run
  long after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.kineto_events import HostCall, KinetoEvents, TimedRows, read_events
from gradwire.workloads.traces.formats.pytorch_calls import call_of, configured_groups, is_wait
from gradwire.workloads.traces.record import Call, Findings, RankRecord, Reading, Watch
from gradwire.workloads.traces.workload import Int64


def union(begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Returns these times as intervals that neither overlap nor touch, in order."""
    if not len(begin):
        return begin, end
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    opens = np.concatenate([[True], begin[1:] > end[:-1]])
    return begin[opens], end[np.concatenate([opens[1:], [True]])]


def length(begin: Int64, end: Int64) -> int:
    """Sum of the lengths of a union."""
    return int((end - begin).sum())


def length_outside(begin: Int64, end: Int64, other_begin: Int64, other_end: Int64) -> int:
    """Returns the nanoseconds of the first intervals that lie outside of the second ones: for communication and
    computation, the exposed time."""
    both = union(np.concatenate([begin, other_begin]), np.concatenate([end, other_end]))
    return length(*both) - length(*union(other_begin, other_end))


TOLERANCE_NS = 2_000
"""Tolerance between times of the GPU and of the host, whose clocks are aligned to about a microsecond."""


@dataclass(frozen=True)
class ChainPoint:
    """A point of the chain: the start of a call, or the wait for one."""

    #: When the host came to it.
    host_ns: int
    #: When the rank came to it, and when it went on.
    begin_ns: int
    end_ns: int
    call: int
    starts: bool


@dataclass(frozen=True)
class RankChain:
    """A rank's chain."""

    moments: list[ChainPoint]
    #: Time in which the rank computes before each moment, and after the last.
    own_ns: list[int]
    #: NCCL's stream of each call; -1 for none.
    stream: list[int]
    #: How long each call took on the GPU, or on the host where it has no kernel.
    duration_ns: list[int]
    #: Calls that no wait is recorded for.
    unwaited: int
    #: Waits that the recorded times contradict.
    contradicted: int
    #: Kernels of NCCL that belong to no call.
    stray_kernels: int
    #: When the rank begins and ends.
    window: tuple[int, int]


class _Gpu:
    """The computations of the GPU, in the order in which the host launched them."""

    def __init__(self, events: KinetoEvents) -> None:
        work = events.work
        launched = launch_times(events, work)
        order = np.argsort(launched, kind="stable")
        self.launched = launched[order]
        self.begin = work.begin_ns[order]
        self.ended_before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(work.end_ns[order])])

    def free_at(self, host_ns: int) -> int:
        """The time at which all is done that was launched before a time of the host, which it is the earliest for."""
        at = int(np.searchsorted(self.launched, host_ns))
        return max(int(self.ended_before[at]), host_ns)

    def comes_to(self, host_ns: int) -> int:
        """The time at which the GPU comes to what the host launches from a time on.

        If nothing that was launched before is recorded, as in a profile's first step, it is as far behind then as with
        the first that is.
        """
        at = int(np.searchsorted(self.launched, host_ns))
        if at or not len(self.launched):
            return self.free_at(host_ns)
        return host_ns + int(self.begin[0] - self.launched[0])

    def held_up(self, host_ns: int) -> tuple[int, int] | None:
        """Returns, for the first kernel launched after a time, when it could have begun and when it did; None if there
        is none."""
        at = int(np.searchsorted(self.launched, host_ns))
        if at == len(self.launched):
            return None
        return max(int(self.ended_before[at]), int(self.launched[at])), int(self.begin[at])


def launch_times(events: KinetoEvents, columns: TimedRows) -> Int64:
    """The time at which the host launched each row; that of its beginning, where the launch is not recorded."""
    if not len(events.launch_id):
        return np.array(columns.begin_ns, np.int64)
    at = np.minimum(np.searchsorted(events.launch_id, columns.correlation), len(events.launch_id) - 1)
    known = events.launch_id[at] == columns.correlation
    launched_ns: Int64 = np.where(known, np.minimum(events.launch_ns[at], columns.begin_ns), columns.begin_ns)
    return launched_ns


def timeline(
    events: KinetoEvents, calls: list[HostCall], waits: list[HostCall], window: tuple[int, int], *, of_host: bool
) -> RankChain:
    """The chain of a rank from the beginning to the end of `window`; of_host: of what its host did then, which is a
    step."""
    gpu = _Gpu(events)
    kernels, stray = _kernels(events, calls)
    waited = _host_waits(events, calls, waits)
    if of_host:
        waited = [at for at in waited if window[0] <= at <= window[1]]
        window = gpu.comes_to(window[0]), gpu.free_at(window[1])
    computing = _computing_stream(events)
    moments, contradicted = _moments(gpu, calls, kernels, waited, computing, window)
    if contradicted:
        moments, _ = _moments(gpu, calls, kernels, [], computing, window)
    moments.sort(key=lambda moment: moment.host_ns)
    edges = [
        window[0],
        *(max(window[0], at) for moment in moments for at in (moment.begin_ns, moment.end_ns)),
        window[1],
    ]
    own_ns = [max(0, after - before) for before, after in list(pairwise(edges))[::2]]
    unwaited = len(calls) - sum(not moment.starts for moment in moments)
    lasting = [end - begin for begin, end in zip(kernels.begins_ns, kernels.ends_ns, strict=True)]
    return RankChain(moments, own_ns, kernels.stream, lasting, unwaited, contradicted, stray, window)


def _computing_stream(events: KinetoEvents) -> int | None:
    """The stream that most of the work is on; others may have a copy now and then. None without any work."""
    streams, counts = np.unique(events.work.stream, return_counts=True)
    return int(streams[counts.argmax()]) if len(streams) else None


@dataclass(frozen=True)
class _Kernels:
    """The times at which each call was on the GPU, and its stream."""

    begins_ns: list[int]
    ends_ns: list[int]
    #: -1 for a call without a kernel.
    stream: list[int]


def _kernels(events: KinetoEvents, calls: list[HostCall]) -> tuple[_Kernels, int]:
    """The time and stream of each call on the GPU, and how many kernels belong to none."""
    begins, ends = [call.begin_ns for call in calls], [call.end_ns for call in calls]
    stream = [-1] * len(calls)
    host_begins = np.array(begins, np.int64)
    stray = 0
    for row, launched in enumerate(launch_times(events, events.nccl).tolist()):
        at = int(np.searchsorted(host_begins, launched, side="right")) - 1
        if at > 0 and calls[at].end_ns < launched <= calls[at - 1].end_ns:
            at -= 1  # another thread's call that has not ended
        if at < 0 or calls[at].end_ns < launched:
            stray += 1
            continue
        begin, end = int(events.nccl.begin_ns[row]), int(events.nccl.end_ns[row])
        first = stream[at] < 0
        begins[at] = begin if first else min(begin, begins[at])
        ends[at] = end if first else max(end, ends[at])
        stream[at] = int(events.nccl.stream[row])
    return _Kernels(begins, ends, stream), stray


def _host_waits(events: KinetoEvents, calls: list[HostCall], waits: list[HostCall]) -> list[int]:
    """The times at which the host had the GPU wait, in order."""
    spans: dict[int | str, list[tuple[int, int]]] = {}
    for call in sorted((*calls, *waits), key=lambda call: call.begin_ns):
        spans.setdefault(call.tid, []).append((call.begin_ns, call.end_ns))
    outside = [at for at, tid in events.stream_waits if not _is_inside(spans.get(tid, []), at)]
    return sorted([*outside, *(wait.begin_ns for wait in waits)])


def _is_inside(spans: list[tuple[int, int]], at: int) -> bool:
    """Returns whether a time is in one of the spans, which are sorted and do not overlap: calls in calls have been
    dropped."""
    before = bisect_right(spans, at, key=lambda span: span[0])
    return before > 0 and at <= spans[before - 1][1]


def _moments(
    gpu: _Gpu,
    calls: list[HostCall],
    kernels: _Kernels,
    waited: list[int],
    computing: int | None,
    window: tuple[int, int],
) -> tuple[list[ChainPoint], int]:
    """The moments, and how many waits the times contradict."""
    moments: list[ChainPoint] = []
    pending: deque[int] = deque()
    contradicted = 0
    happened = sorted([*((call.begin_ns, number) for number, call in enumerate(calls)), *((at, -1) for at in waited)])
    for host_ns, number in happened:
        if number >= 0:
            ready = min(gpu.free_at(host_ns), max(kernels.begins_ns[number], host_ns))
            moments.append(ChainPoint(host_ns, ready, ready, number, starts=True))
            # What is launched next on the stream waits for the kernel.
            if computing is not None and kernels.stream[number] == computing:
                moments.append(_wait(gpu, host_ns, calls[number].end_ns, number, kernels.ends_ns[number], window))
            else:
                pending.append(number)
        elif pending:
            oldest = pending.popleft()
            moments.append(_wait(gpu, host_ns, host_ns, oldest, kernels.ends_ns[oldest], window))
            contradicted += moments[-1].end_ns < kernels.ends_ns[oldest] - TOLERANCE_NS
    return moments, contradicted


def _wait(gpu: _Gpu, host_ns: int, from_ns: int, number: int, ended_ns: int, window: tuple[int, int]) -> ChainPoint:
    held = gpu.held_up(from_ns)
    if held is None:
        begin = gpu.free_at(from_ns)
        return ChainPoint(host_ns, begin, max(begin, min(ended_ns, window[1])), number, starts=False)
    return ChainPoint(host_ns, held[0], held[1], number, starts=False)


NAME = "Kineto profile"


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a Kineto profile."""
    return b'"traceEvents"' in beginning


def read(path: Path, reading: Reading, watch: Watch) -> RankRecord:
    """Reads a profile. Raises InputFault for what is not one."""
    events = read_events(path, watch)
    record = RankRecord(path, NAME, Findings())
    _say_who(events, record, reading)
    if events.head.gradwire:
        record.findings.note(
            record.file,
            "",
            "written by gradwire: collectives are in it as the messages that they were made of, and "
            "what a computation "
            "waited for is not; `gradwire trace --chakra` writes that as well",
        )
    window, host_calls = _time_and_calls(events, record, reading)
    calls, listed, waits = _calls(host_calls, record)
    if len(events.nccl) and not events.calls:
        record.findings.refuse(
            record.file,
            "",
            f"kernels of NCCL, such as {events.nccl_name[:60]}, and no record_param_comms that says "
            "their sizes; torch "
            "records those from 2.2 on",
            len(events.nccl),
        )
        return record
    chain = timeline(events, listed, waits, window, of_host=reading.step is not None)
    _fill(record, calls, chain)
    _judge(record, events, chain, whole=reading.step is None)
    return record


def _say_who(events: KinetoEvents, record: RankRecord, reading: Reading) -> None:
    """The rank, the number of ranks and the groups, as far as the profile says them."""
    said = events.head.distributedInfo or {}
    rank, world = said.get("rank"), said.get("world_size")
    record.rank = rank if type(rank) is int and rank >= 0 else None
    record.world = world if type(world) is int and world > 0 else None
    record.learn_given(reading)
    record.learn_groups(configured_groups(said.get("pg_config"), record.world, record.room))


def _time_and_calls(
    events: KinetoEvents, record: RankRecord, reading: Reading
) -> tuple[tuple[int, int], list[HostCall]]:
    """The host's time to read, and the calls that begin in it. Raises InputFault for a step that is not there."""
    if reading.step is not None:
        if reading.step not in events.steps:
            there = ", ".join(map(str, sorted(events.steps))) or "none"
            raise InputFault(
                f"{record.path}: --step {reading.step}: it has no such step (ProfilerStep#N); it has {there}"
            )
        begin, end = events.steps[reading.step]
        return (begin, end), [call for call in events.calls if begin <= call.begin_ns <= end]
    begins = [call.begin_ns for call in events.calls[:1]] + [begin for begin, _ in events.steps.values()]
    ends = [call.end_ns for call in events.calls] + [end for _, end in events.steps.values()]
    for columns in (events.work, events.nccl):
        if len(columns):
            ends.append(int(columns.end_ns.max()))
            begins.append(int(columns.begin_ns.min()))
    return (min(begins, default=0), max(ends, default=0)), events.calls


def _calls(host_calls: list[HostCall], record: RankRecord) -> tuple[list[Call], list[HostCall], list[HostCall]]:
    """The communications, the events that they come from, and the waits.

    A call in a call of the same kind and size is the same one.
    """
    calls: list[Call] = []
    listed: list[HostCall] = []
    waits: list[HostCall] = []
    for host_call in _without_nested(host_calls, record):
        if is_wait(host_call.arguments):
            waits.append(host_call)
        call = call_of(host_call.arguments, host_call.place, record)
        if call is not None:
            calls.append(call)
            listed.append(host_call)
    return calls, listed, waits


def _without_nested(host_calls: list[HostCall], record: RankRecord) -> Iterator[HostCall]:
    """Yields the calls that do not lie within another call of the same thread: torch from 2.4 on records a call at two
    levels."""
    last: dict[int | str, HostCall] = {}
    for call in host_calls:
        outer = last.get(call.tid)
        if outer is not None and call.end_ns <= outer.end_ns:
            if call.arguments.collective == outer.arguments.collective:
                record.findings.note(
                    record.file, call.place, "record_param_comms in one of the same kind: counted once"
                )
            else:
                record.findings.refuse(
                    record.file,
                    call.place,
                    f"'{call.arguments.collective}' in '{outer.arguments.collective}': which of them communicates?",
                )
            continue
        last[call.tid] = call
        yield call


def _fill(record: RankRecord, calls: list[Call], chain: RankChain) -> None:
    """Adds the chain: the rank's own time, what it starts, and what it waits for."""
    last = record.compute(chain.own_ns[0])
    task_of: dict[int, int] = {}
    on_stream: dict[int, int] = {}
    waiting: list[int] = []
    for moment, own_ns in zip(chain.moments, chain.own_ns[1:], strict=True):
        if moment.starts:
            call, stream = calls[moment.call], chain.stream[moment.call]
            before = [on_stream[stream]] if stream in on_stream else []
            timed = replace(call, duration_ns=chain.duration_ns[moment.call])
            task_of[moment.call] = on_stream[stream] = record.call(timed, [last, *before])
        else:
            waiting.append(task_of[moment.call])
        if own_ns or waiting:
            last = record.compute(own_ns, after=[last, *waiting])
            waiting = []


def _judge(record: RankRecord, events: KinetoEvents, chain: RankChain, *, whole: bool) -> None:
    """Notes the assumptions that the reading rests on, and how much communication was exposed."""
    findings, file = record.findings, record.file
    if not len(events.work):
        findings.note(
            file, "", "no work of a GPU is recorded: the time between calls on the host counts as computation"
        )
    if chain.contradicted:
        findings.note(
            file,
            "",
            "waits whose computation began before the communication had ended: none of the file's waits is "
            "believed, and "
            "everything is waited for at the end",
            chain.contradicted,
        )
    if chain.unwaited:
        findings.note(
            file, "", "communications without a recorded wait: they are waited for at the end", chain.unwaited
        )
    if chain.stray_kernels and whole and not findings.refused:  # the kernels of refused calls are stray as well
        findings.refuse(
            file,
            "",
            f"kernels of NCCL, such as {events.nccl_name[:60]}, outside of any record_param_comms: what "
            "they send is not said",
            chain.stray_kernels,
        )
    if len(events.nccl):
        busy = union(events.work.begin_ns, events.work.end_ns)
        begin, end = (np.clip(column, *chain.window) for column in (events.nccl.begin_ns, events.nccl.end_ns))
        record.exposed_s = length_outside(begin, end, *busy) / 1e9

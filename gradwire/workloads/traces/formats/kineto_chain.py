"""The work and the waits of a rank of a Kineto profile, in order: the chain that kineto_profile.py describes."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gradwire.workloads.traces.formats.kineto_events import HostCall, KinetoEvents, TimedRows
from gradwire.workloads.traces.formats.kineto_kernels import NCCL
from gradwire.workloads.traces.record import OtherCommunication, Reading
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


def covered(begin: Int64, end: Int64, times: Int64) -> Int64:
    """Returns how many nanoseconds of a union lie before each of these times."""
    before = np.concatenate([[0], np.cumsum(end - begin)])
    at = np.searchsorted(begin, times, side="right")
    over = (
        np.where(at > 0, np.maximum(0, end[np.maximum(at, 1) - 1] - times), 0)
        if len(begin)
        else np.zeros(len(times), np.int64)
    )
    lengths: Int64 = before[at] - over
    return lengths


TOLERANCE_NS = 2_000
"""Tolerance between times of the GPU and of the host, whose clocks are aligned to about a microsecond."""
LAUNCH_NS = 50_000
"""The longest that an idle GPU takes to begin a kernel. In the profiles of steps of DDP of HolisticTraceAnalysis's
tests, 99 in 100 kernels that found it idle began 21 us after the host called the runtime, the last 52 us."""


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
    #: The time of the host that it is of.
    host: tuple[int, int]


class _Gpu:
    """The computations of the GPU, in the order in which the host launched them."""

    def __init__(self, events: KinetoEvents) -> None:
        work = events.work
        order = np.lexsort((work.begin_ns, work.launched_ns))
        self.launched = work.launched_ns[order]
        self.begin = work.begin_ns[order]
        computed_before = events.before.end_ns[events.before.library != NCCL]
        before_ns = int(computed_before.max(initial=np.iinfo(np.int64).min))
        self.busy_before = bool(len(computed_before))
        self.ended_before = np.maximum.accumulate(np.concatenate([[before_ns], work.end_ns[order]]))

    def free_at(self, host_ns: int) -> int:
        """The time at which all is done that was launched before a time of the host, which it is the earliest for."""
        at = int(np.searchsorted(self.launched, host_ns))
        return max(int(self.ended_before[at]), host_ns)

    def comes_to(self, host_ns: int) -> int:
        """The time at which the GPU comes to what the host launches from a time on.

        If nothing that was launched before is recorded, as it may be in a profile's first step, the GPU was busy until
        it began the first that is, unless that came as soon as on an idle one.
        """
        at = int(np.searchsorted(self.launched, host_ns))
        if at or self.busy_before or not len(self.launched) or self.begin[0] - self.launched[0] <= LAUNCH_NS:
            return self.free_at(host_ns)
        return max(host_ns, int(self.begin[0]))

    def held_up(self, host_ns: int) -> tuple[int, int] | None:
        """Returns, for the first kernel launched after a time, when it could have begun and when it did; None if there
        is none."""
        at = int(np.searchsorted(self.launched, host_ns))
        if at == len(self.launched):
            return None
        return max(int(self.ended_before[at]), int(self.launched[at])), int(self.begin[at])


def timeline(
    events: KinetoEvents, calls: list[HostCall], waits: list[HostCall], host: tuple[int, int], reading: Reading
) -> RankChain:
    """The chain of a rank from the beginning to the end of a time of its host, which is a step or all of it."""
    window = host
    gpu = _Gpu(events)
    kernels, stray = _kernels(events, calls, window)
    waited = _host_waits(events, calls, waits)
    if reading.step is not None:
        waited = [at for at in waited if window[0] <= at <= window[1]]
        window = gpu.comes_to(host[0]), max(gpu.comes_to(host[0]), gpu.free_at(host[1]))
    elif gpu.busy_before:
        window = gpu.free_at(host[0]), max(gpu.free_at(host[0]), host[1])
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
    spared = _left_out(events.work, edges) if reading.other_communication is OtherCommunication.LEFT_OUT else edges
    own_ns = [max(0, after - before) for before, after in list(pairwise(spared))[::2]]
    unwaited = len(calls) - sum(not moment.starts for moment in moments)
    lasting = [end - begin for begin, end in zip(kernels.begins_ns, kernels.ends_ns, strict=True)]
    return RankChain(moments, own_ns, kernels.stream, lasting, unwaited, contradicted, stray, window, host)


def _left_out(work: TimedRows, times: list[int]) -> list[int]:
    """Times, each less what passed before it while a GPU did nothing but communicate without NCCL."""
    busy = union(work.begin_ns, work.end_ns)
    computing = work.chosen(work.library < 0)
    at = np.array(times, np.int64)
    alone = covered(*busy, at) - covered(*union(computing.begin_ns, computing.end_ns), at)
    shorter: list[int] = (at - alone).tolist()
    return shorter


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


def _kernels(events: KinetoEvents, calls: list[HostCall], host: tuple[int, int]) -> tuple[_Kernels, int]:
    """The time and stream of each call on the GPU, and how many kernels that were launched in a time of the host belong
    to none."""
    begins, ends = [call.begin_ns for call in calls], [call.end_ns for call in calls]
    stream = [-1] * len(calls)
    host_begins = np.array(begins, np.int64)
    stray = 0
    earlier_ns = max((call.end_ns for call in events.calls if call.begin_ns < host[0]), default=host[0] - 1)
    for row, launched in enumerate(events.nccl.launched_ns.tolist()):
        at = int(np.searchsorted(host_begins, launched, side="right")) - 1
        if at > 0 and calls[at].end_ns < launched <= calls[at - 1].end_ns:
            at -= 1  # another thread's call that has not ended
        if at < 0 or calls[at].end_ns < launched:
            stray += earlier_ns < launched <= host[1]
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

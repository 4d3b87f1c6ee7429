"""The urgency of a workload's calls: by the priorities that were recorded, or by how soon something waits for them.

Both give every call a traffic class of the fabric, of which 0 is the most urgent, and which switches and hosts serve
strictly in order.
"""

from __future__ import annotations

import heapq

import numpy as np

from gradwire.datatypes.plan import Int64
from gradwire.faults import InputFault
from gradwire.network.fabric import MAX_BANDS
from gradwire.workloads.traces.workload import Kind, Workload

MOST_CLASSES = MAX_BANDS - 1
"""Bands of a port, but for the one that control messages have."""
OPTION = "strategy.options.priorities"


def recorded_priorities(workload: Workload) -> Int64:
    """The distinct priorities of a workload's calls, the most urgent first. A call without one has 0, as in ASTRA-sim.

    Raises InputFault where none is recorded, or more than a fabric has classes.
    """
    tasks = workload.tasks
    if not len(tasks.priority):
        raise InputFault(
            f"{OPTION} = 'recorded': the trace has no priorities (comm_priority of Chakra's nodes); take "
            "'needed-first' or 'none'"
        )
    of_calls = (tasks.kind != Kind.COMPUTE) & (tasks.kind != Kind.RECV) & (tasks.kind != Kind.BARRIER)
    distinct: Int64 = np.unique(np.maximum(tasks.priority[of_calls], 0))[::-1]
    if len(distinct) > MOST_CLASSES:
        raise InputFault(
            f"{OPTION} = 'recorded': the trace has {len(distinct):,} distinct priorities, and a fabric at most "
            f"{MOST_CLASSES} classes; "
            "take 'needed-first', which divides calls among as many as you like"
        )
    return distinct


def classes_as_recorded(workload: Workload) -> Int64:
    """The class of each task: the place of its call's priority among the distinct ones; of a message, its sender's.

    Raises InputFault.
    """
    distinct = recorded_priorities(workload)
    tasks = workload.tasks
    of_call = np.zeros(int(tasks.call.max(initial=-1)) + 1, np.int64)
    decides = (tasks.call >= 0) & (tasks.kind != Kind.RECV)
    level = np.searchsorted(-distinct, -np.maximum(tasks.priority[decides], 0))
    of_call[tasks.call[decides]] = np.minimum(
        level, max(0, len(distinct) - 1)
    )  # a barrier has the class of control messages anyway
    return _of_tasks(workload, of_call)


def classes_by_need(workload: Workload, classes: int) -> Int64:
    """The class of each task: its call's place among all calls by their slack, which are divided evenly; equal slack
    is the same class."""
    tasks = workload.tasks
    slack_ns = slacks_ns(workload)
    ranked = np.unique(tasks.call[(tasks.call >= 0) & (tasks.kind != Kind.BARRIER)])
    of_call = np.zeros(len(slack_ns), np.int64)
    ordered = np.sort(slack_ns[ranked])
    of_call[ranked] = np.searchsorted(ordered, slack_ns[ranked]) * classes // max(1, len(ranked))
    return _of_tasks(workload, of_call)


def _of_tasks(workload: Workload, of_call: Int64) -> Int64:
    call = workload.tasks.call
    of_task: Int64 = np.where(call >= 0, np.append(of_call, 0)[call], 0)
    return of_task


def slacks_ns(workload: Workload) -> Int64:
    """Returns the slack of each call: how long after its start something waits for it, by the recorded durations and
    with communication that takes no time.

    A call starts when all of its ranks have come to it, and a message when its sender has. What waits for it is the
    first computation that depends on it, directly or through other communication and through tasks that take no time.
    Between the two is the time that the network may take without holding anything up. For a call that nothing waits
    for, it is the time until the schedule's end.
    """
    return _Schedule(workload).slacks_ns()


class _Schedule:
    """The recorded tasks, each as early as it can be on a network that takes no time.

    A stream computes one task at a time.
    """

    def __init__(self, workload: Workload) -> None:
        tasks = workload.tasks
        self._count = len(tasks)
        self._kind, self._call = tasks.kind.tolist(), tasks.call.tolist()
        self._duration = np.where(tasks.kind == Kind.COMPUTE, tasks.duration_ns, 0).tolist()
        self._stream = (tasks.rank * (int(tasks.stream.max(initial=0)) + 1) + np.maximum(tasks.stream, 0)).tolist()
        waits = np.diff(workload.dep_start)
        by_dependency = np.argsort(workload.dep_task, kind="stable")
        self._dependents: list[int] = np.repeat(np.arange(self._count), waits)[by_dependency].tolist()
        ends = np.cumsum(np.bincount(workload.dep_task, minlength=self._count))
        self._dependents_end = [0, *ends.tolist()]
        self._waiting = waits.tolist()
        self._members: list[list[int]] = [[] for _ in range(int(tasks.call.max(initial=-1)) + 1)]
        for task in np.flatnonzero(tasks.call >= 0).tolist():
            self._members[self._call[task]].append(task)
        self._absent = [len(members) for members in self._members]
        self._start = [0] * self._count
        self._order: list[int] = []
        self._end = 0

    def slacks_ns(self) -> Int64:
        """The slack of each call."""
        self._forward()
        need = [self._end] * self._count
        of_call = [self._end] * len(self._members)
        for task in reversed(self._order):
            call = self._call[task]
            soonest = self._end
            for dependent in self._dependents_of(task):
                other = self._call[dependent]
                soonest = min(soonest, need[dependent] if other < 0 else of_call[other])
            if call >= 0:
                of_call[call] = min(of_call[call], soonest)
            else:
                need[task] = self._start[task] if self._duration[task] else soonest
        starts = [0] * len(self._members)
        for task, call in enumerate(self._call):
            if call >= 0 and self._kind[task] != Kind.RECV:
                starts[call] = max(starts[call], self._start[task])
        return np.array(of_call, np.int64) - np.array(starts, np.int64)

    def _dependents_of(self, task: int) -> list[int]:
        return self._dependents[self._dependents_end[task] : self._dependents_end[task + 1]]

    def _forward(self) -> None:
        """Starts everything in the order of time, and notes the order."""
        free: dict[int, int] = {}
        ready = [(0, task) for task in range(self._count) if not self._waiting[task]]
        heapq.heapify(ready)
        while ready:
            time_ns, task = heapq.heappop(ready)
            if self._call[task] >= 0:
                self._come_to_call(task, time_ns, ready)
                continue
            if self._duration[task]:
                time_ns = max(time_ns, free.get(self._stream[task], 0))
                free[self._stream[task]] = time_ns + self._duration[task]
            self._ends(task, time_ns, time_ns + self._duration[task], ready)

    def _come_to_call(self, task: int, time_ns: int, ready: list[tuple[int, int]]) -> None:
        """A rank has come to a call, which takes no time once all have; a message leaves its sender without waiting
        for anybody."""
        call = self._call[task]
        self._start[task] = time_ns
        self._absent[call] -= 1
        if self._kind[task] == Kind.SEND:
            self._ends(task, time_ns, time_ns, ready)
        if self._absent[call]:
            return
        begin_ns = max(self._start[member] for member in self._members[call])
        for member in self._members[call]:
            if self._kind[member] != Kind.SEND:
                self._ends(member, self._start[member], begin_ns, ready)

    def _ends(self, task: int, start_ns: int, end_ns: int, ready: list[tuple[int, int]]) -> None:
        self._start[task] = start_ns
        self._order.append(task)
        self._end = max(self._end, end_ns)
        for other in self._dependents_of(task):
            self._waiting[other] -= 1
            self._start[other] = max(self._start[other], end_ns)
            if not self._waiting[other]:
                heapq.heappush(ready, (self._start[other], other))

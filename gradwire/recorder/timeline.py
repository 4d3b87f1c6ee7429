"""The timeline of a rank: what it computes and calls, in order, and its dependencies, found by the data that each task
reads and writes.

A script runs here on one process, operation after operation. On a device, computations are in one stream, and the host
runs ahead of it: a collective begins when its input is there, while the stream is still computing. What waits for what
is therefore taken from the data.

- A computation that reads what a collective wrote waits for it, and so do all computations after it.
- A collective waits for the computation, and the collectives, that its input comes from.
- A collective also waits for what the last waiting computation before it waited for. FSDP calls for the parameters of
  the next layer while this one computes, and not earlier, because the memory for them is taken then.
- Collectives of one process group run in the order of their calls, as those of one NCCL communicator do.
- Where the host needs a value (`.item()`) or a barrier, what it does next waits for that.

Operations without a formula for their FLOPs take no time, and hand on what their inputs come from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

NOTHING = -1
"""Stands for a computation where content comes from none."""


@dataclass(frozen=True)
class MemoryOrigin:
    """The tasks that the content of some memory depends on."""

    #: Task that computed it.
    computed: int = NOTHING
    #: Collectives since.
    calls: frozenset[int] = frozenset()


UNWRITTEN = MemoryOrigin()


def together(origins: Iterable[MemoryOrigin]) -> MemoryOrigin:
    """Returns the origin of content that is made of several contents."""
    computed, calls = NOTHING, UNWRITTEN.calls
    for origin in origins:
        computed = max(computed, origin.computed)
        if origin.calls:
            calls = calls | origin.calls
    return MemoryOrigin(computed, calls)


@dataclass
class TimelineTask:
    """A computation, or a rank's part in a communication: `said` is what the file says of it."""

    said: dict[str, Any]
    after: set[int] = field(default_factory=set)


class Timeline:
    """The tasks of a rank. Memory is known by keys that the caller chooses, such as addresses of storages."""

    def __init__(self) -> None:
        self.tasks: list[TimelineTask] = []
        #: Where each iteration ends, as a number of tasks.
        self.marks: list[int] = []
        self._origin: dict[int, MemoryOrigin] = {}
        #: The computation to which more may be added.
        self._open = NOTHING
        self._last_computed = NOTHING
        #: Calls that computations have waited for.
        self._waited: set[int] = set()
        #: What must have ended before anything that the host calls for now.
        self._floor: set[int] = set()
        self._last_of_group: dict[str, int] = {}
        #: What the next computation waits for, besides its data.
        self._held: set[int] = set()

    def compute(self, reads: Collection[int], writes: Iterable[int], flops: int) -> None:
        """Adds a computation of `flops` FLOPs."""
        self.wait(reads)
        if self._open == NOTHING:
            before = {self._last_computed} - {NOTHING}
            self._last_computed = self._open = self._add(
                TimelineTask({"kind": "compute", "flops": 0}, before | self._held)
            )
            self._held = set()
        self.tasks[self._open].said["flops"] += flops
        origin = MemoryOrigin(self._open)
        for key in writes:
            self._origin[key] = origin

    def pass_on(self, reads: Collection[int], writes: Collection[int]) -> None:
        """An operation that takes no time."""
        if writes:
            origin = self._content([*reads, *writes])
            for key in writes:
                self._origin[key] = origin

    def overwrite(self, reads: Collection[int], writes: Collection[int]) -> None:
        """Notes an operation that takes no time, and replaces all content of the memory that it writes."""
        origin = self._content(reads)
        for key in writes:
            self._origin[key] = origin

    def call(self, said: dict[str, Any], reads: Collection[int], writes: Iterable[int]) -> int:
        """A communication. said: with its kind, its size, and its group unless it is a message."""
        content = self._content(reads)
        after = set(content.calls - self._waited) | self._floor  # for those waited for, the floor stands
        if content.computed != NOTHING:
            after.add(content.computed)
        if content.computed == self._open:
            self._open = NOTHING  # what is computed from now on is not what it waits for
        group = said.get("group")
        if group is not None and "peer" not in said:
            after |= {self._last_of_group[group]} if group in self._last_of_group else set()
            self._last_of_group[group] = len(self.tasks)
        number = self._add(TimelineTask(said, after))
        origin = MemoryOrigin(NOTHING, frozenset([number]))
        for key in writes:
            self._origin[key] = origin
        if said["kind"] == "barrier":
            self._hold({number})
        return number

    def wait(self, reads: Collection[int]) -> None:
        """The device's stream waits for the calls that some memory comes from."""
        unwaited = self._content(reads).calls - self._waited
        if unwaited:
            self._wait(set(unwaited))

    def see(self, reads: Collection[int]) -> None:
        """The host reads a value, and does nothing until it is there."""
        content = self._content(reads)
        if content.computed != NOTHING or content.calls:
            self._hold(set(content.calls) | ({content.computed} - {NOTHING}))

    def mark(self) -> None:
        """Ends an iteration."""
        self._open = NOTHING
        self.marks.append(len(self.tasks))

    def forget(self, keys: Iterable[int]) -> None:
        """Forgets the origin of memory that is gone."""
        for key in keys:
            self._origin.pop(key, None)

    def _content(self, reads: Iterable[int]) -> MemoryOrigin:
        origin = self._origin
        return together([origin[key] for key in reads if key in origin])

    def _wait(self, calls: Iterable[int]) -> None:
        """Makes the next computation wait for these tasks, and with it whatever the host calls for from now on."""
        calls = set(calls)
        self._open = NOTHING
        self._held |= calls
        self._waited |= calls
        self._floor = ({self._last_computed} - {NOTHING}) | self._held

    def _hold(self, tasks: set[int]) -> None:
        self._open = NOTHING
        self._held |= tasks
        self._waited |= tasks
        self._floor = set(self._held)

    def _add(self, task: TimelineTask) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1


def steady(timeline: Timeline, wanted: int) -> tuple[int, int]:
    """The tasks of the iteration that stands for all, from and to: the last one; of a script without optimizer steps,
    the last of `wanted` equal parts, or everything."""
    marks = timeline.marks
    if marks:
        return (marks[-2] if len(marks) > 1 else 0), marks[-1]
    calls = [number for number, task in enumerate(timeline.tasks) if task.said["kind"] != "compute"]
    if wanted > 1 and len(calls) % wanted == 0 and calls:
        per = len(calls) // wanted
        shapes = [_shape(timeline.tasks[number]) for number in calls]
        if all(shapes[:per] == shapes[at : at + per] for at in range(per, len(calls), per)):
            return calls[-per - 1] + 1, len(timeline.tasks)
    return 0, len(timeline.tasks)


def shapes(timeline: Timeline, first: int, end: int) -> list[Any]:
    """Returns the calls of an iteration in order, and last its FLOPs, for comparing it with another iteration."""
    tasks = timeline.tasks[first:end]
    flops = sum(task.said.get("flops", 0) for task in tasks)
    return [*(_shape(task) for task in tasks if task.said["kind"] != "compute"), flops]


def _shape(task: TimelineTask) -> Any:
    return sorted((name, str(value)) for name, value in task.said.items())


def excerpt(timeline: Timeline, first: int, end: int) -> list[dict[str, Any]]:
    """The tasks of an iteration as the file has them: numbered from 0, each after what it waits for within it."""
    after = {number: _nearest(timeline, number, first) for number in range(first, end)}
    begins_with = _continued(timeline, after)
    numbers: dict[int, int] = {}
    said: list[dict[str, Any]] = []
    for number, waits_for in after.items():
        own = timeline.tasks[number].said
        if number in begins_with:
            numbers[number] = numbers[begins_with[number]]
            said[numbers[number]]["flops"] += own["flops"]
        else:
            numbers[number] = len(said)
            said.append({**own, "after": sorted(numbers[other] for other in waits_for)})
    return said


def _continued(timeline: Timeline, after: dict[int, set[int]]) -> dict[int, int]:
    """Computations that only continue the one before, for which nothing else waits; and that one."""
    waiting: dict[int, int] = {}
    for waits_for in after.values():
        for other in waits_for:
            waiting[other] = waiting.get(other, 0) + 1
    found: dict[int, int] = {}
    for number, waits_for in after.items():
        before = next(iter(waits_for)) if len(waits_for) == 1 else NOTHING
        computes = timeline.tasks[number].said["kind"] == "compute"
        if computes and before != NOTHING and timeline.tasks[before].said["kind"] == "compute" and waiting[before] == 1:
            found[number] = before
    return found


def _nearest(timeline: Timeline, number: int, first: int) -> set[int]:
    """Returns the tasks of an iteration, which begins with task `first`, that a task waits for directly: without those
    that one of them waits for."""
    inside = {other for other in timeline.tasks[number].after if other >= first}
    for other in sorted(inside, reverse=True):
        if other in inside:
            inside -= timeline.tasks[other].after
    return inside

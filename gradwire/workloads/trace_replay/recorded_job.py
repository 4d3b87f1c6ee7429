"""A recorded workload as a job: what stands in a model's place where reports and limits ask for a model.

A recorded job on more ranks
============================

It consists of copies of the job side by side, joined by the groups that grow, as data parallelism does.

Rank r of copy c becomes rank c * recorded + r, and does what rank r does. A group that grows has the ranks of all
copies, and each of its calls is one call of all of them; its root, where it has one, is that of the first copy. All
other groups, and messages, are copied with each copy. What becomes of a call's size in a group that grows follows from
what data parallelism divides:

- An all-reduce, reduction, broadcast or reduce-scatter keeps its buffer: gradients and parameters are as large on any
  number of ranks.
- An all-to-all keeps what a rank puts in, and a gathering or scattering keeps a rank's amount: samples of a rank are
  as many as before.
- An all-gather in a group that also has reduce-scatters is of divided state, as in ZeRO and FSDP (Rajbhandari et al.,
  "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020, section 5): what comes out stays as
  large, so a rank puts in less by the number of copies, rounded up to whole elements. In any other group it keeps what
  a rank puts in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.job import Job
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.trace_replay.compiler import busiest_s
from gradwire.workloads.traces.record import MOST_TASKS
from gradwire.workloads.traces.workload import FILE_NAME, Int64, Kind, Tasks, Workload

KEY = "model.grow"
ALL_RANKS = "all-ranks"
MOST_NAMED = 8
"""Groups that a refusal lists."""


def growing_groups(workload: Workload, wanted: Iterable[str | int]) -> tuple[int, ...]:
    """The numbers of the groups that grow: those named, and for ALL_RANKS those of all recorded ranks.

    Raises InputFault.
    """
    everyone = set(range(workload.ranks))
    chosen: set[int] = set()
    for choice in wanted:
        if isinstance(choice, str):
            numbers = {number for number, ranks in enumerate(workload.groups) if set(ranks) == everyone}
        else:
            numbers = {choice} & set(range(len(workload.groups)))
            if not numbers:
                raise InputFault(f"{KEY}: the trace has no group {choice}; it has {_groups_in_words(workload)}")
        if not numbers:
            raise InputFault(
                f"{KEY} = '{choice}': no group of the trace has all of its {workload.ranks} ranks: give the numbers "
                "of those that grow "
                f"({_groups_in_words(workload)})"
            )
        chosen |= numbers
    return tuple(sorted(chosen))


def _groups_in_words(workload: Workload) -> str:
    named = [f"{number}: ranks {_ranks_in_words(ranks)}" for number, ranks in enumerate(workload.groups[:MOST_NAMED])]
    more = len(workload.groups) - len(named)
    return "; ".join([*named, *([f"and {more} more, which `gradwire import` lists"] if more else [])]) or "no groups"


def _ranks_in_words(ranks: Collection[int]) -> str:
    return ", ".join(map(str, list(ranks)[:4])) + (", ..." if len(ranks) > 4 else "")


@lru_cache(maxsize=2)
def grow_job(workload: Workload, copies: int, groups: tuple[int, ...]) -> Workload:
    """The workload of `copies` times as many ranks, in which these groups grow; its `notes` say by which rule.

    Raises InputFault where it would be larger than what is read.
    """
    if copies == 1:
        return workload
    if len(workload.tasks) * copies > MOST_TASKS:
        raise InputFault(
            f"{KEY}: {len(workload.tasks):,} tasks, {copies} times, are more than the {MOST_TASKS:,} that are "
            "replayed: use fewer workers"
        )
    if len(workload.splits) and np.isin(workload.tasks.group[workload.tasks.split >= 0], groups).any():
        raise InputFault(
            f"{KEY}: a group that grows has all-to-alls with parts of different sizes, and nothing says how they are "
            "divided among more "
            "ranks; leave it out"
        )
    return _Growth(workload, copies, groups).workload()


class _Growth:
    """The copies under construction: columns of one copy after the other."""

    def __init__(self, workload: Workload, copies: int, groups: tuple[int, ...]) -> None:
        self._of, self._copies, self._groups = workload, copies, groups
        grows = np.zeros(len(workload.groups) + 1, np.bool_)  # the last is for tasks of no group
        grows[list(groups)] = True
        self._in_growing = grows[workload.tasks.group]
        self._grows = grows[:-1]

    def workload(self) -> Workload:
        """The grown workload."""
        of, copies, count = self._of, self._copies, len(self._of.tasks)
        columns = {field.name: np.tile(getattr(of.tasks, field.name), copies) for field in fields(Tasks)}
        copy = np.repeat(np.arange(copies), count)
        moved = ~np.tile(self._in_growing, copies)
        columns["rank"] = columns["rank"] + copy * of.ranks
        columns["peer"] = np.where(moved & (columns["peer"] >= 0), columns["peer"] + copy * of.ranks, columns["peer"])
        calls = int(of.tasks.call.max(initial=-1)) + 1
        columns["call"] = np.where(moved & (columns["call"] >= 0), columns["call"] + copy * calls, columns["call"])
        columns["group"] = self._group_column(columns["group"], copy)
        size, divided = self._sizes()
        columns["size_bytes"] = np.tile(size, copies)
        edges = len(of.dep_task)
        return replace(
            of,
            ranks=of.ranks * copies,
            groups=tuple(self._grown_groups()),
            tasks=Tasks(**columns),
            dep_start=np.concatenate(
                [[0], (of.dep_start[1:][None, :] + edges * np.arange(copies)[:, None]).ravel()]
            ).astype(np.int64),
            dep_task=np.tile(of.dep_task, copies) + np.repeat(np.arange(copies), edges) * count,
            notes=(*of.notes, *self._notes(size, divided)),
        )

    def _grown_groups(self) -> Iterator[tuple[int, ...]]:
        """The recorded groups by their numbers, those that grow with all copies' ranks; then the further copies of the
        others."""
        recorded = self._of.ranks
        for number, ranks in enumerate(self._of.groups):
            over = range(self._copies) if self._grows[number] else range(1)
            yield tuple(copy * recorded + rank for copy in over for rank in ranks)
        for copy in range(1, self._copies):
            for number in np.flatnonzero(~self._grows).tolist():
                yield tuple(copy * recorded + rank for rank in self._of.groups[number])

    def _group_column(self, group: Int64, copy: Int64) -> Int64:
        """The number of each task's group, as `_grown_groups` numbers them."""
        others_before = np.cumsum(~self._grows) - 1
        further = len(self._grows) + (copy - 1) * int((~self._grows).sum()) + np.append(others_before, 0)[group]
        copied = (group >= 0) & ~np.append(self._grows, True)[group]
        column: Int64 = np.where(copied & (copy > 0), further, group)
        return column

    def _sizes(self) -> tuple[Int64, int]:
        """The sizes of a copy's tasks, and how many of them are all-gathers of divided state."""
        tasks = self._of.tasks
        scattering = np.unique(tasks.group[self._in_growing & (tasks.kind == Kind.REDUCE_SCATTER)])
        divided = self._in_growing & (tasks.kind == Kind.ALL_GATHER) & np.isin(tasks.group, scattering)
        width = np.where(tasks.size_bytes % tasks.element_bytes == 0, tasks.element_bytes, 1)
        less = -(-(tasks.size_bytes // width) // self._copies) * width
        sizes: Int64 = np.where(divided, less, tasks.size_bytes)
        return sizes, int(divided.sum())

    def _notes(self, size: Int64, divided: int) -> Iterator[str]:
        """Yields notes on how the trace was grown, for readers of the plan."""
        numbers = ", ".join(map(str, self._groups))
        yield (
            f"grown: the {self._of.ranks} recorded ranks, {self._copies} times; "
            f"group{'s' if len(self._groups) > 1 else ''} {numbers} "
            f"of the trace with the ranks of all copies, other groups and messages copied"
        )
        if divided:
            rounded = int(
                ((size * self._copies > self._of.tasks.size_bytes) & (size < self._of.tasks.size_bytes)).sum()
            )
            up = ", rounded up to whole elements" if rounded else ""
            yield (
                f"grown: all-gathers beside reduce-scatters in a group that grows are of divided state ({divided:,} "
                "of a copy): a rank "
                f"puts in 1/{self._copies} of what is recorded{up}"
            )
        gathers = self._in_growing & (self._of.tasks.kind == Kind.ALL_GATHER)
        if int(gathers.sum()) > divided:
            yield "grown: all-gathers in groups that grow and have no reduce-scatters keep what a rank puts in"
        yield "grown: other calls in groups that grow keep the size that is recorded of a rank"


def trace_of(path: str) -> Workload:
    """The workload at a path, read again only when the file has changed. Raises InputFault."""
    file = Path(path) / FILE_NAME if Path(path).is_dir() else Path(path)
    changed_ns = file.stat().st_mtime_ns if file.exists() else 0
    return _read(file, changed_ns)


@lru_cache(maxsize=4)
def _read(file: Path, _: int) -> Workload:
    return Workload.load(file)


def recorded_profile(name: str, trace: Workload) -> Profile:
    """One layer with all that is reduced in the recorded time, as one tensor: a trace does not say which layers there
    are."""
    tasks = trace.tasks
    _, first = np.unique(tasks.call, return_index=True)
    reduced = first[np.isin(tasks.kind[first], [Kind.ALL_REDUCE, Kind.REDUCE_SCATTER])]
    elements = int((tasks.size_bytes[reduced] // tasks.element_bytes[reduced]).sum())
    layer = Layer("recorded", LayerKind.OTHER, (Tensor("reduced in the recorded time", max(1, elements)),), 0.0, ())
    return Profile(name, (layer,), batch=1, source=f"trace {trace.name}")


def recorded_times(trace: Workload, source: str) -> ComputeTime:
    """Returns the time that ranks computed in the recorded time: the mean of each rank's busiest stream, as one
    layer."""
    return ComputeTime((sum(busiest_s(trace)) / trace.ranks,), (0.0,), f"recorded: {source}")


def replaying(job: Job, trace: Workload, grow: Sequence[str | int] | None = None) -> Job:
    """The job of a trace, on as many ranks as are recorded, or on a multiple of them.

    grow: which groups then have the ranks of all copies (growth.py); None: the job must have as many ranks as the
    trace.

    Raises InputFault for settings that do not suit the trace.
    """
    trace = _on_workers(trace, job.cluster.workers, grow)
    if job.relative_times:
        raise InputFault("costs.compute_variation: computation takes as long as the trace says; leave it out")
    busiest = busiest_s(trace)
    mean_s = sum(busiest) / trace.ranks
    relative = tuple(own_s / mean_s for own_s in busiest) if mean_s else ()
    return replace(job, trace=trace, relative_times=() if len(set(busiest)) == 1 else relative)


def _on_workers(trace: Workload, workers: int, grow: Sequence[str | int] | None) -> Workload:
    """The trace on this many ranks. Raises InputFault."""
    recorded = trace.ranks
    if grow is None and workers != recorded:
        more = (
            f"; to grow it to {workers} by data parallelism, say which groups of ranks grow ({KEY})"
            if workers % recorded == 0
            else ""
        )
        raise InputFault(
            f"cluster.workers = {workers}: the trace has {recorded} ranks, and is replayed with as many{more}"
        )
    if grow is None:
        return trace
    groups = growing_groups(trace, grow)
    if workers % recorded:
        raise InputFault(
            f"cluster.workers = {workers}: the trace has {recorded} ranks, and grows to a multiple of them ({KEY})"
        )
    return grow_job(trace, workers // recorded, groups)

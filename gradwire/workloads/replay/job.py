"""A recorded workload as a job: what stands in a model's place where reports and limits ask for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.job import Job
from gradwire.workloads.models.devices import ComputeTime
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.replay.compiler import busiest_s
from gradwire.workloads.traces.growth import KEY, growing_groups, grown
from gradwire.workloads.traces.workload import FILE_NAME, Kind, Workload


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
    """What ranks compute in the recorded time: the mean of what each one's busiest stream takes."""
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
    return grown(trace, workers // recorded, groups)

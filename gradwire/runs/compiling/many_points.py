"""Plans of many points: compiled once where points share them, and side by side in processes.

Most plans do not depend on the network's rate, and a sweep over rates compiles them once. Processes give results in
the order of the parts, and leave nothing that outlives an interrupt.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields, replace
from typing import Any, TypeVar

from gradwire.datatypes.plan import Plan
from gradwire.faults import MachineFault
from gradwire.runs.compiling.job_plans import plans_of_jobs
from gradwire.scenario.loading import Point
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_plans
from gradwire.workloads.job import Job

Part = TypeVar("Part")
Result = TypeVar("Result")


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def side_by_side(
    function: Callable[[Part], Result],
    parts: Sequence[Part],
    jobs: int,
    on_begun: Callable[[], None] = lambda: None,
) -> Iterator[Result]:
    """`function` of each part, in up to `jobs` processes: results as soon as all before them are there. `on_begun` is
    called when all processes have been started.

    Processes are forked, so that they have what is imported, and end when the caller stops asking. Raises what
    `function` raises for the first part that fails, and MachineFault if a process is killed.
    """
    if jobs == 1 or len(parts) < 2:
        on_begun()
        yield from map(function, parts)
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(jobs, len(parts)), multiprocessing.get_context("fork"), initializer=_leave_interrupts_to_the_parent
    )
    finished = False
    try:
        futures = [pool.submit(function, part) for part in parts]
        _leave_results_to_the_processes(pool)
        on_begun()
        for future in futures:
            yield future.result()
        finished = True
    except BrokenProcessPool as error:
        raise MachineFault(
            f"one of {jobs} processes was killed while it worked; if memory ran out, try fewer of them with --jobs, or "
            "a smaller plan"
        ) from error
    finally:
        # Whoever stops asking does not wait for parts that are under way.
        pool.shutdown(wait=finished, cancel_futures=True)
        if not finished:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()


def _leave_results_to_the_processes(pool: ProcessPoolExecutor) -> None:
    """Closes the end of the pipe of results that only the processes write to, which are all there once something is
    submitted. A pool keeps it open: where a process was ended within a result, such as a plan of 100 MB, the thread
    that reads it would wait for the rest for ever, and this process with it when it is to end."""
    pool._result_queue._writer.close()  # type: ignore[attr-defined]


def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches all processes of a terminal; only the parent has something to say about it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _WatchedJob(Job):
    """A job that notes whether a strategy looks at the network's rate, on which its plan may then depend."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("rate_bps", "fabric"):
            object.__setattr__(self, "looked_at_rate", True)
        return super().__getattribute__(name)


class SharedPlans:
    """The plans that were compiled last, for the next point if it needs them too."""

    def __init__(self) -> None:
        self._key = ""
        self._plans: Mapping[str, Plan] = {}

    def of(self, point: ResolvedPoint, job: Job) -> Mapping[str, Plan]:
        """The plans of a point, whose job has its fabric: the latest ones, if they are of the same job and did not
        depend on the rate.

        Raises InputFault.
        """
        if point.jobs:
            return plans_of_jobs(point)
        chosen = point.strategy
        connections = point.section.transport.connections
        key = f"{chosen.name} {point.options!r} {replace(job, rate_bps=None, fabric=None)!r} {connections}"
        if key == self._key:
            return self._plans
        watched = _WatchedJob(**{field.name: getattr(job, field.name) for field in fields(job)})
        plans = compile_plans(point, watched)
        self._key, self._plans = ("" if "looked_at_rate" in vars(watched) else key), plans
        return plans


def sharing_key(point: Point) -> str:
    """Key that is equal for points that differ only in the rate of their links."""
    section = point.section.model_dump(mode="json")
    section["fabric"].pop("rate")
    return json.dumps(section, sort_keys=True)

"""Work of many parts in processes of its own: results in the order of the parts, and nothing that outlives an interrupt."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from gradwire.faults import MachineFault

Part = TypeVar("Part")
Result = TypeVar("Result")


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def side_by_side(function: Callable[[Part], Result], parts: Sequence[Part], jobs: int) -> Iterator[Result]:
    """`function` of each part, in up to `jobs` processes: results as soon as all before them are there.

    Processes are forked, so that they have what is imported, and end when the caller stops asking. Raises what `function` raises for the
    first part that fails, and MachineFault if a process is killed.
    """
    if jobs == 1 or len(parts) < 2:
        yield from map(function, parts)
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(jobs, len(parts)), multiprocessing.get_context("fork"), initializer=_leave_interrupts_to_the_parent
    )
    finished = False
    try:
        for future in [pool.submit(function, part) for part in parts]:
            yield future.result()
        finished = True
    except BrokenProcessPool as error:
        raise MachineFault(
            f"one of {jobs} processes was killed while it worked; if memory ran out, try fewer of them with --jobs, or a smaller plan"
        ) from error
    finally:
        # Whoever stops asking does not wait for parts that are under way.
        pool.shutdown(wait=finished, cancel_futures=True)
        if not finished:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()


def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches all processes of a terminal; only the parent has something to say about it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

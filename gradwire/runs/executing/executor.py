"""The interface through which the run loop has points carried out, whatever runs in them, with this machine's cores as the
nearest executor; and work side by side in threads.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from typing_extensions import TypeVar

from gradwire.faults import MachineFault
from gradwire.inside.point_protocol import Event
from gradwire.runs.planned import PlannedRun
from gradwire.runs.planned_point import PlannedPoint
from gradwire.runs.point_machine import MachineEnd

Task = Callable[[threading.Event], None]
"""Work of one point, given the event that tells it to stop."""
N = TypeVar("N", bound=PlannedPoint)
N_contra = TypeVar("N_contra", default=PlannedRun, contravariant=True)
Trial = Callable[[int], object]
"""Tries the machine before the first point, given the memory in MiB that points ask for; raises what would hit all of
them."""


class MachineWatcher(Protocol[N_contra]):
    """Hears of machines; called from several threads."""

    def started(self, planned: N_contra) -> None:
        """A machine boots for the point; again, if the one before was lost."""

    def heard(self, planned: N_contra, event: Event) -> None:
        """The point's machine reported an event."""


class ElsewhereFault(MachineFault):
    """A fault of other machines than this one: a message about disks is not about the disk here."""


class Executor(Protocol):
    """A place where machines of points run."""

    @property
    def jobs(self) -> int:
        """Number of points that are under way at a time."""

    def try_machines(self, memory_mb: int) -> None:
        """Tries machines with this much memory before the first point; raises faults that would hit all points."""

    def carry_out(self, planned: N, watcher: MachineWatcher[N], stop: threading.Event) -> MachineEnd:
        """Boots a machine for the task in the point's folder, and returns when what it leaves is there.

        Called from `jobs` threads. Raises Fault or OSError for what goes wrong with this point; MachineFault too when
        `stop` was set.
        """


def do_all(tasks: Sequence[Task], jobs: int) -> None:
    """Does the tasks in order, `jobs` at a time. An exception of one of them, Ctrl-C included, stops all others and is
    raised here."""
    stop = threading.Event()
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(task, stop) for task in tasks]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


class Cpus:
    """A CPU for each of `jobs` machines on this machine; two share one where there are fewer."""

    def __init__(self, jobs: int) -> None:
        self._free: queue.Queue[int] = queue.Queue()
        cpus = sorted(os.sched_getaffinity(0))
        for job in range(jobs):
            # The highest first: a lone point leaves CPU 0, which serves most interrupts, to the rest of the machine.
            self._free.put(cpus[-1 - job % len(cpus)])

    @contextmanager
    def taken(self) -> Iterator[int]:
        """One of them, for this block alone."""
        cpu = self._free.get()
        try:
            yield cpu
        finally:
            self._free.put(cpu)


def no_trial(_: int) -> None:
    """Does nothing, as the trial of machines that need none."""


class LocalPool:
    """An Executor: this machine, `jobs` points at a time."""

    def __init__(self, jobs: int, trial: Trial = no_trial) -> None:
        self.jobs = jobs
        self._trial = trial
        self._cpus = Cpus(jobs)

    def try_machines(self, memory_mb: int) -> None:
        """Tries the machine once."""
        self._trial(memory_mb)

    def carry_out(self, planned: N, watcher: MachineWatcher[N], stop: threading.Event) -> MachineEnd:
        """Boots a machine in the point's own folder."""
        with self._cpus.taken() as cpu:
            watcher.started(planned)
            return planned.on_machine(cpu, partial(watcher.heard, planned), stop)

"""What carries out points, as the run loop sees it, with this machine's cores as the nearest; and work side by side in
threads."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

from typing_extensions import TypeVar

from gradwire.analysis.fluid.steady import Window
from gradwire.datatypes.fabric import Fabric
from gradwire.runs.executing.point_machine import Ended, Limits, run_machine
from gradwire.runs.planned import PlannedRun
from gradwire.runs.point_protocol import Event
from gradwire.runs.stored.stored_run import StoredRun

Task = Callable[[threading.Event], None]
"""Work of one point, given the event that tells it to stop."""


class Planned(Protocol):
    """A point made ready to run."""

    @property
    def point(self) -> Any:
        """The point: a ScenarioPoint of its kind."""

    @property
    def fabric(self) -> Fabric:
        """Its network, as the machine builds it."""

    @property
    def folder(self) -> Path:
        """Where its run lies."""

    @property
    def key(self) -> str:
        """Hash of everything that decides the result, as far as gradwire can see it."""

    @property
    def label(self) -> str:
        """The point in a few words."""

    @property
    def stored(self) -> StoredRun[Any]:
        """What the run leaves, or has left."""

    @property
    def memory_mb(self) -> int:
        """What its machine may use."""

    @property
    def cost_bytes(self) -> int:
        """What its wall time is about proportional to; 0 where it is not known."""

    @property
    def iterations(self) -> int:
        """How many times its plan is replayed; 0 if it has none."""

    @property
    def window(self) -> Window:
        """Which of them are measured."""

    @property
    def iteration_bytes(self) -> int:
        """Payload that crosses the network in an iteration; 0 where it is not known."""

    @property
    def iteration_messages(self) -> int:
        """Messages of an iteration; 0 where it is not known."""

    def keyed_anew(self) -> Self:
        """The same run with its key of today: the kernel is a part of it, and may have been built since."""


N_contra = TypeVar("N_contra", default=PlannedRun, contravariant=True)


class MachineWatcher(Protocol[N_contra]):
    """Hears of machines; called from several threads."""

    def started(self, planned: N_contra) -> None:
        """A machine boots for the point; again, if the one before was lost."""

    def heard(self, planned: N_contra, event: Event) -> None:
        """The point's machine reported an event."""


class Executor(Protocol):
    """Where machines that replay plans run."""

    @property
    def jobs(self) -> int:
        """How many points are under way at a time."""

    def try_machines(self, memory_mb: int) -> None:
        """Tries machines with so much memory before the first point; raises what would hit all points."""

    def replay(self, planned: PlannedRun, watcher: MachineWatcher, stop: threading.Event) -> Ended:
        """Boots a machine for the task in the point's folder, and returns when its log and record are there.

        Called from `jobs` threads. Raises Fault or OSError for what goes wrong with this point; MachineFault too when
        `stop` was set.
        """


def do_all(tasks: Sequence[Task], jobs: int) -> None:
    """Does the tasks in order, `jobs` at a time. What one of them raises, Ctrl-C included, stops all others and is
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


Trial = Callable[[int], object]
"""Tries the machine before the first point, given the memory in MiB that points ask for; raises what would hit all of
them."""


def no_trial(_: int) -> None:
    """For machines that need none."""


class LocalPool:
    """An Executor: this machine, `jobs` points at a time. For points of programs too, which take one of its CPUs
    each."""

    def __init__(self, jobs: int, trial: Trial = no_trial) -> None:
        self.jobs = jobs
        self._trial = trial
        self.cpus = Cpus(jobs)

    def try_machines(self, memory_mb: int) -> None:
        """Tries the machine once."""
        self._trial(memory_mb)

    def replay(self, planned: PlannedRun, watcher: MachineWatcher, stop: threading.Event) -> Ended:
        """Boots a machine in the point's own folder."""
        run = planned.point.section.run
        limits = Limits(run.memory_mb, run.time_limit)
        with self.cpus.taken() as cpu:
            watcher.started(planned)
            hear = partial(watcher.heard, planned)
            return run_machine(planned.folder, planned.clock, limits, cpu=cpu, hear=hear, stop=stop)

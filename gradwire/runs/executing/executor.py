"""The interface through which the run loop has points carried out, with this machine's cores as the nearest executor;
and work side by side in threads.

Includes the machine of one point, wherever it runs: it is booted in a folder with a task, and its messages are noted
with their times.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

from typing_extensions import TypeVar

from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.faults import MachineFault
from gradwire.inside.point_protocol import Event, Faulted, FirstByte, PointRecorded, ReplayEnded, ReplayStarted, heard
from gradwire.inside.program_protocol import PROGRAMS_FILE
from gradwire.network.fabric import Fabric
from gradwire.runs.planned import PlannedRun
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.vm.kernel_death import unless_stopped
from gradwire.vm.machines import Clock, run_job

Task = Callable[[threading.Event], None]
"""Work of one point, given the event that tells it to stop."""
N_contra = TypeVar("N_contra", default=PlannedRun, contravariant=True)
Trial = Callable[[int], object]
"""Tries the machine before the first point, given the memory in MiB that points ask for; raises what would hit all of
them."""
OUTPUT_FILE = "log.txt"
"""File with the machine's output, line by line, with the wall time of each."""


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
        """Folder of the point's run."""

    @property
    def key(self) -> str:
        """Hash of everything that decides the result, as far as gradwire can see it."""

    @property
    def label(self) -> str:
        """The point in a few words."""

    @property
    def stored(self) -> StoredRun[Any]:
        """The files that the run leaves, or has left."""

    @property
    def memory_mb(self) -> int:
        """Memory that its machine may use, in MB."""

    @property
    def cost_bytes(self) -> int:
        """Bytes to which its wall time is about proportional; 0 if they are not known."""

    @property
    def iterations(self) -> int:
        """Number of times that its plan is replayed; 0 if it has none."""

    @property
    def window(self) -> MeasuredIterations:
        """The iterations that are measured."""

    @property
    def iteration_bytes(self) -> int:
        """Payload that crosses the network in an iteration; 0 where it is not known."""

    @property
    def iteration_messages(self) -> int:
        """Messages of an iteration; 0 where it is not known."""

    def keyed_anew(self) -> Self:
        """Returns this run with its present key: the kernel is a part of it, and may have been built since."""


class MachineWatcher(Protocol[N_contra]):
    """Hears of machines; called from several threads."""

    def started(self, planned: N_contra) -> None:
        """A machine boots for the point; again, if the one before was lost."""

    def heard(self, planned: N_contra, event: Event) -> None:
        """The point's machine reported an event."""


class ElsewhereFault(MachineFault):
    """A fault of other machines than this one: a message about disks is not about the disk here."""


class Executor(Protocol):
    """A place where machines that replay plans run."""

    @property
    def jobs(self) -> int:
        """Number of points that are under way at a time."""

    def try_machines(self, memory_mb: int) -> None:
        """Tries machines with this much memory before the first point; raises faults that would hit all points."""

    def replay(self, planned: PlannedRun, watcher: MachineWatcher, stop: threading.Event) -> MachineEnd:
        """Boots a machine for the task in the point's folder, and returns when its log and record are there.

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
    """An Executor: this machine, `jobs` points at a time. For points of programs too, which take one of its CPUs
    each."""

    def __init__(self, jobs: int, trial: Trial = no_trial) -> None:
        self.jobs = jobs
        self._trial = trial
        self.cpus = Cpus(jobs)

    def try_machines(self, memory_mb: int) -> None:
        """Tries the machine once."""
        self._trial(memory_mb)

    def replay(self, planned: PlannedRun, watcher: MachineWatcher, stop: threading.Event) -> MachineEnd:
        """Boots a machine in the point's own folder."""
        run = planned.point.section.run
        limits = MachineLimits(run.memory_mb, run.time_limit)
        with self.cpus.taken() as cpu:
            watcher.started(planned)
            hear = partial(watcher.heard, planned)
            return run_machine(planned.folder, planned.clock, limits, cpu=cpu, hear=hear, stop=stop)


@dataclass(frozen=True)
class MachineLimits:
    """Limits on the resources of a machine."""

    memory_mb: int
    #: Limit of wall time.
    time_limit_s: float


@dataclass(frozen=True)
class MachineEnd:
    """The end of a point's machine. Times are wall time since it was asked for, on the machine that it ran on."""

    #: Exit status of its job.
    status: int
    total_s: float
    #: Label of the plan that was replayed; "" if it did not come to that.
    chosen: str = ""
    #: The job's message about its failure; "" if there is none.
    fault: str = ""
    first_byte_s: float = 0.0
    replay_s: float = 0.0
    #: Worker that ran it; "" for this machine.
    worker: str = ""
    #: Number of machines before this one that were stopped by a signal.
    stopped: int = 0


def run_machine(
    folder: Path,
    clock: Clock,
    limits: MachineLimits,
    *,
    cpu: int,
    hear: Callable[[Event], None],
    stop: threading.Event,
    kernel: Path | None = None,
) -> MachineEnd:
    """Carries out the task in `folder` on a machine with the CPU `cpu`, and keeps every line that it prints in log.txt.

    A machine that dies of a signal that stopped it is booted again (`unless_stopped`), and finds the folder as the
    first one did.

    hear: gets each event at once. kernel: the virtual-time kernel to boot, by default the cached one. Raises what
    `run_job` raises.
    """
    there = frozenset(_paths(folder))
    boot = partial(_run_once, folder, clock, limits, cpu=cpu, hear=hear, stop=stop, kernel=kernel)
    ended, stopped = unless_stopped(boot, lambda: _remove_new(folder, there), lambda: not stop.is_set())
    return replace(ended, stopped=stopped)


def _paths(folder: Path) -> list[Path]:
    """All that is in a folder, the content of each folder before the folder itself. Links are not followed."""
    return [
        Path(place) / name for place, folders, files in os.walk(folder, topdown=False) for name in (*files, *folders)
    ]


def _remove_new(folder: Path, there: Container[Path]) -> None:
    """Removes all that is in a folder and was not there before."""
    for path in _paths(folder):
        if path not in there:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()


def _run_once(
    folder: Path,
    clock: Clock,
    limits: MachineLimits,
    *,
    cpu: int,
    hear: Callable[[Event], None],
    stop: threading.Event,
    kernel: Path | None,
) -> MachineEnd:
    with _Listener(folder, hear) as listener:
        status = run_job(
            "gradwire.inside.point",
            folder,
            clock,
            cpu=cpu,
            memory_mb=limits.memory_mb,
            time_limit_s=limits.time_limit_s,
            on_line=listener.line,
            stop=stop,
            kernel=kernel,
            programs=(folder / PROGRAMS_FILE).exists(),
        )
    return listener.ended(status)


class _Listener:
    """Reads the output of a point's machine, notes the wall time of its stages, and keeps every line in log.txt."""

    def __init__(self, folder: Path, hear: Callable[[Event], None]) -> None:
        self._hear = hear
        self._log = (folder / OUTPUT_FILE).open("w", encoding="utf-8")
        self._start_s = time.monotonic()
        self._first_at_s: dict[type[Event], float] = {}
        self._chosen = ""
        self._fault = ""

    def __enter__(self) -> _Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def line(self, line: str) -> None:
        """Takes a line of the machine's output."""
        elapsed_s = time.monotonic() - self._start_s
        self._log.write(f"{elapsed_s:9.3f} {line}\n")
        self._log.flush()
        event = heard(line)
        if event is None:
            return
        self._first_at_s.setdefault(type(event), elapsed_s)
        match event:
            case PointRecorded(plan=label):
                self._chosen = label
            case Faulted(kind=kind, message=message):
                self._fault = f"{kind}: {message}"
        self._hear(event)

    def ended(self, status: int) -> MachineEnd:
        """Returns how the machine ended, given its exit status."""
        at_s = self._first_at_s
        return MachineEnd(
            status,
            time.monotonic() - self._start_s,
            self._chosen,
            self._fault,
            first_byte_s=at_s.get(FirstByte, 0.0),
            replay_s=at_s.get(ReplayEnded, 0.0) - at_s.get(ReplayStarted, 0.0),
        )

"""Points on this machine: side by side, each with a core for its machine alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from gradwire.runs.executing.executor import Cpus, MachineWatcher
from gradwire.runs.executing.machine import Ended, Limits, run_machine
from gradwire.runs.planned import PlannedRun

Trial = Callable[[int], object]
"""Tries the machine before the first point, given the memory in MiB that points ask for; raises what would hit all of them."""


def no_trial(_: int) -> None:
    """For machines that need none."""


class LocalPool:
    """An Executor: this machine, `jobs` points at a time. For points of programs too, which take one of its CPUs each."""

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

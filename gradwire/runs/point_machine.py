"""The machine of one point, wherever it runs: it is booted in a folder with a task, and its messages are noted with their
times."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gradwire.inside.point_protocol import Event, Faulted, FirstByte, PointRecorded, ReplayEnded, ReplayStarted, heard
from gradwire.inside.program_protocol import PROGRAMS_FILE
from gradwire.vm.kernel_death import unless_stopped
from gradwire.vm.machines import Clock, run_job

OUTPUT_FILE = "log.txt"
"""File with the machine's output, line by line, with the wall time of each."""


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
    status: int = 0
    total_s: float = 0.0
    #: Label of the plan that was replayed; "" if it did not come to that, and for programs.
    chosen: str = ""
    #: The job's message about its failure; "" if there is none.
    fault: str = ""
    first_byte_s: float = 0.0
    replay_s: float = 0.0
    #: Worker that ran it; "" for this machine.
    worker: str = ""
    #: Number of machines before this one that were stopped by a signal.
    stopped: int = 0


def booted_to_its_end(folder: Path, boot: Callable[[], MachineEnd], stop: threading.Event) -> MachineEnd:
    """Boots a point's machine, and again if a signal that stopped it was its death (`unless_stopped`). Each finds the folder
    as the first one did. Raises what `boot` raises."""
    there = frozenset(_paths(folder))
    ended, stopped = unless_stopped(boot, lambda: _remove_new(folder, there), lambda: not stop.is_set())
    return replace(ended, stopped=stopped)


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

    hear: gets each event at once. kernel: the virtual-time kernel to boot, by default the cached one. Raises what
    `run_job` raises.
    """
    boot = partial(_run_once, folder, clock, limits, cpu=cpu, hear=hear, stop=stop, kernel=kernel)
    return booted_to_its_end(folder, boot, stop)


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

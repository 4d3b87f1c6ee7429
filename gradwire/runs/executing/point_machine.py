"""One point's machine, wherever it runs: boots it in a folder with a task, and notes what it says and when."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gradwire.programs.program_protocol import PROGRAMS_FILE
from gradwire.runs.point_protocol import Event, Faulted, FirstByte, PointRecorded, ReplayEnded, ReplayStarted, heard
from gradwire.vm.code_digest import RUN_MODULES
from gradwire.vm.kernel_death import unless_stopped
from gradwire.vm.machines import Clock, run_job

OUTPUT_FILE = "log.txt"
"""What the machine printed, line by line, with the wall time of each."""


@dataclass(frozen=True)
class Limits:
    """What a machine may use."""

    memory_mb: int
    #: Of wall time.
    time_limit_s: float


@dataclass(frozen=True)
class Ended:
    """How a point's machine ended. Times are wall time since it was asked for, on the machine that it ran on."""

    #: Exit status of its job.
    status: int
    total_s: float
    #: Label of the plan that was replayed; "" if it did not come to that.
    chosen: str = ""
    #: What the job says of its failure; "" if it says nothing.
    fault: str = ""
    first_byte_s: float = 0.0
    replay_s: float = 0.0
    #: Which worker ran it; "" for this machine.
    worker: str = ""
    #: How many machines before this one were stopped by a signal.
    stopped: int = 0


def run_machine(
    folder: Path,
    clock: Clock,
    limits: Limits,
    *,
    cpu: int,
    hear: Callable[[Event], None],
    stop: threading.Event,
    kernel: Path | None = None,
) -> Ended:
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
    limits: Limits,
    *,
    cpu: int,
    hear: Callable[[Event], None],
    stop: threading.Event,
    kernel: Path | None,
) -> Ended:
    with _Listener(folder, hear) as listener:
        status = run_job(
            "gradwire.runs.point",
            folder,
            clock,
            imports=RUN_MODULES,
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
    """Reads what a point's machine prints, notes the wall time of its stages, and keeps every line in log.txt."""

    def __init__(self, folder: Path, hear: Callable[[Event], None]) -> None:
        self._hear = hear
        self._log = (folder / OUTPUT_FILE).open("w")
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

    def ended(self, status: int) -> Ended:
        """How the machine ended, with this exit status."""
        at_s = self._first_at_s
        return Ended(
            status,
            time.monotonic() - self._start_s,
            self._chosen,
            self._fault,
            first_byte_s=at_s.get(FirstByte, 0.0),
            replay_s=at_s.get(ReplayEnded, 0.0) - at_s.get(ReplayStarted, 0.0),
        )

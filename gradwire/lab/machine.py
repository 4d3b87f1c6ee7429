"""The machine that a lab runs in, and the conversation with it: it answers one command after the other.

The kernel is stopped between commands (SIGSTOP), so that it takes no CPU while Python thinks, and its clock stands
still whether it is stopped yet or not (vm/answers.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from gradwire.datatypes.records import CAPTURE_FOLDER
from gradwire.faults import InputFault
from gradwire.inside.program_protocol import (
    TASK_FILE,
    Begin,
    ClockHeld,
    Conclude,
    Count,
    Counted,
    Event,
    JobTask,
    LabCommand,
    Output,
    OutputFull,
    ProgramEnded,
    line_of,
    write_task,
)
from gradwire.lab.drawing import seconds, size_bytes
from gradwire.lab.programs import LimitReached, ProgramState
from gradwire.lab.settings import Settings
from gradwire.network.fabric import Fabric
from gradwire.programs.conversation import conversation
from gradwire.programs.program_file import check_folder, covered_folders
from gradwire.vm.owners import temporary_folder
from gradwire.vm.session import LimitNames, SessionLimits, last_cpu

BOOT_LIMIT_S = 120.0
CONCLUDE_LIMIT_S = 120.0
WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
LIMIT_NAMES = LimitNames("timeout", "wall_limit", "stall_limit", "memory", "process_limit")


def own_cpu() -> int:
    """The CPU for a kernel: of test processes side by side (pytest-xdist), each has another."""
    worker = os.environ.get(WORKER_VARIABLE, "").removeprefix("gw")
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[int(worker) % len(cpus)] if worker.isdigit() else last_cpu()


class LabMachine:
    """A booted network. Raises a Fault if it cannot be built; `end` leaves no process and no file."""

    def __init__(self, fabric: Fabric, labels: Mapping[str, str], settings: Settings) -> None:
        check_folder(Path.cwd())
        self._settings, self._begin_s = settings, time.monotonic()
        self.programs: dict[str, ProgramState] = {}
        self.now_ns = 0
        self.is_output_full = False
        self._held: ClockHeld | None = None
        self._counted: Counted | None = None
        self._ended = ""
        self._stack = ExitStack()
        try:
            self.folder = self._stack.enter_context(temporary_folder())
            task = JobTask(
                fabric_json=fabric.to_json(),
                folder=str(Path.cwd()),
                covered=covered_folders(self.folder, Path.cwd()),
                capture=("all",) if settings.captures else (),
                snaplen_bytes=settings.snaplen_bytes,
                output_limit_bytes=size_bytes("output_limit", settings.output_limit),
                any_fault=True,
                labels=dict(labels),
                cpu_time=settings.cpu_time,
            )
            write_task(self.folder / TASK_FILE, task)
            cpu = own_cpu() if settings.cpu is None else settings.cpu
            self._job = self._stack.enter_context(
                conversation("lab_job", self.folder, memory_mb=settings.memory_mb, cpu=cpu)
            )
            self._follow(BOOT_LIMIT_S, "the network was not built")
            self._job.raise_refused()
        except BaseException as error:  # noqa: BLE001 (whatever it is, nothing may be left)
            self._end_after(error)
        self.boot_s = time.monotonic() - self._begin_s

    def ask(self, command: LabCommand) -> ClockHeld:
        """Has a command carried out. Raises a Fault if it is refused; if the machine is at an end after it, the lab is
        as well."""
        if self._ended:
            raise InputFault(f"the lab has ended: {self._ended}")
        if isinstance(command, Begin):
            self.programs[command.name] = ProgramState(self.now_ns)
        limit_s = CONCLUDE_LIMIT_S if isinstance(command, Conclude) else self._wall_limit_s
        try:
            self._job.running.go_on()
            self._job.running.answer(line_of(command))
            held = self._follow(limit_s, "programs had not ended")
        except BaseException as error:  # noqa: BLE001 (whatever it is, nothing may be left)
            self._end_after(error)
        self._job.raise_refused()
        return held

    def count(self) -> Counted:
        """Returns what the network has carried so far. Raises what `ask` raises."""
        self.ask(Count())
        assert self._counted is not None
        return self._counted

    @property
    def is_alive(self) -> bool:
        """Whether the machine still answers."""
        return not self._ended

    @property
    def captures(self) -> Path:
        """The folder of captured packets, which are whole after a Conclude."""
        return self.folder / CAPTURE_FOLDER

    @property
    def memory_bytes(self) -> int:
        """The most memory that the kernel has used."""
        return self._job.running.memory_bytes()

    def end(self, why: str = "its block is over") -> None:
        """Ends the kernel with all that runs in it, and removes its files."""
        if not self._ended:
            self._ended = why
            self._stack.close()

    def _end_after(self, error: BaseException) -> NoReturn:
        """Ends the machine after `error`, and raises it, or the error that leaving the machine's contexts makes of
        it."""
        self._ended = str(error).splitlines()[0] if str(error) else type(error).__name__
        self._stack.__exit__(type(error), error, error.__traceback__)
        raise error

    def _follow(self, limit_s: float, what: str) -> ClockHeld:
        self._held = self._job.refused = None
        limits = SessionLimits(
            limit_s, seconds("stall_limit", self._settings.stall_limit), self._settings.process_limit, LIMIT_NAMES
        )
        if not self._job.follow(self._take, self._is_answered, limits):
            raise LimitReached(f"after {limit_s:g} s of wall time {what}; give more with wall_limit")
        self._job.running.hold()
        return self._held or ClockHeld(self.now_ns)

    def _is_answered(self) -> bool:
        """Returns whether the job has carried out the command, or will not say more."""
        return self._held is not None or (self._job.refused is not None and not self.now_ns)

    def _take(self, event: Event) -> None:
        match event:
            case Output(stream=stream, data=data, program=name):
                self.programs[name].written[stream] += data
            case ProgramEnded(status=status, program=name, time_ns=time_ns):
                self.programs[name].status, self.programs[name].ended_ns = status, time_ns
            case OutputFull():
                self.is_output_full = True
            case Counted():
                self._counted = event
            case ClockHeld(time_ns=time_ns):
                self._held, self.now_ns = event, time_ns

    @property
    def _wall_limit_s(self) -> float:
        return seconds("wall_limit", self._settings.wall_limit)

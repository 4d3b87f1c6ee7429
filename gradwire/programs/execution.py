"""`gradwire exec`: boots a network in virtual time, runs a program on its hosts, and reports the traffic that the
network carried."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TextIO

import msgspec

from gradwire.datatypes.records import PlannedFault
from gradwire.faults import MachineFault
from gradwire.files import replacing
from gradwire.gpus.device_use import DeviceUse, device_uses
from gradwire.gpus.invented_calls import InventedCalls, invented_calls
from gradwire.inside.program_protocol import (
    FIGURES_FOLDER,
    TASK_FILE,
    Event,
    JobTask,
    Output,
    OutputFull,
    ProgramEnded,
    Ready,
    Report,
    make_figures_folders,
    place_name,
    write_task,
)
from gradwire.network.fabric import Fabric
from gradwire.programs.conversation import conversation
from gradwire.programs.launch import Launch, Started, calls_file, programs
from gradwire.programs.outputs import OUTPUT_LIMIT_BYTES, Outputs
from gradwire.programs.program_file import covered_folders
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machine import JOB_FOLDER
from gradwire.vm.session import LimitNames, PaceListener, SessionLimits
from gradwire.vm.watching import unwatched

SUMMARY_FILE = "summary.json"
ROOT_WARNING = (
    "you are root, so programs may change every file of this machine except those in /dev, /proc, /run and /sys"
)


@dataclass(frozen=True)
class JobRequest:
    """The programs to run, the network, and all limits."""

    fabric: Fabric
    programs: Sequence[Started]
    memory_mb: int
    #: Virtual seconds that the programs may take.
    time_limit_s: float
    #: Wall seconds that the whole run may take.
    wall_limit_s: float
    #: Wall seconds that the virtual clock may stand still.
    stall_limit_s: float
    capture: Sequence[str]
    folder: Path
    #: Faults of the network during the run.
    faults: Sequence[PlannedFault] = ()
    #: Folder for results that programs see empty; by default `folder`.
    covered: Path | None = None
    #: Terminals that also show the output, by stream.
    terminal: Mapping[int, TextIO] = field(default_factory=dict)
    #: Largest size of the output of programs that is kept; 0: everything.
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    #: Hears once, with the place of the program that wrote last, that no more is kept.
    on_output_full: Callable[[str], None] = lambda _: None
    #: Hears how the run is getting on.
    listener: PaceListener | None = None
    #: The CPU that the kernel is pinned to; by default the last that this process may use.
    cpu: int | None = None
    #: Tells from another thread that the run is not wanted any more.
    stop: threading.Event = field(default_factory=threading.Event)
    limit_names: LimitNames = field(default_factory=LimitNames)
    #: Virtual time that computation takes, as a multiple of programs' CPU time.
    cpu_time: float = 0.0

    @property
    def places(self) -> list[str]:
        """Every program on every host that it is started on, as messages name them."""
        names = self.fabric.host_names()
        return [place_name(each.name, names[host]) for each in self.programs for host in each.started_on]


class ProgramRunSummary(msgspec.Struct, frozen=True):
    """The result of a run, as it is kept in its folder."""

    #: Command of each program.
    command: tuple[tuple[str, ...], ...]
    #: Exit status, or 128 + n after signal n, by host, or program and host (`place_name`); none for a program that was
    #: ended.
    statuses: dict[str, int]
    #: The program that failed first, or "".
    failed: str
    wall_s: float
    memory_bytes: int
    report: Report
    #: Calls to GPUs whose answers were invented.
    invented: tuple[InventedCalls, ...] = ()
    #: What scripts of PyTorch had their GPUs do, by process.
    device_use: tuple[DeviceUse, ...] = ()

    @property
    def exit_status(self) -> int:
        """Exit status of the program that failed first; 0 if none did."""
        return self.statuses[self.failed] if self.failed else 0


@dataclass
class JobEvents:
    """The events of the job in the kernel so far."""

    ready: Ready | None = None
    report: Report | None = None
    #: Exit statuses by program and host, in the order in which they ended.
    statuses: dict[tuple[str, int], int] = field(default_factory=dict)
    #: The first that failed.
    failed: tuple[str, int] | None = None

    def take(self, event: Event) -> None:
        """Notes an event."""
        match event:
            case Ready():
                self.ready = event
            case Report():
                self.report = event
            case ProgramEnded(host=host, status=status, program=program):
                self.statuses[program, host] = status
                if status and self.failed is None:
                    self.failed = program, host


def new_folders(runs: Path, argv: Sequence[str]) -> Iterator[Path]:
    """Those of runs/exec-PROGRAM, runs/exec-PROGRAM.2, ... that are not there yet."""
    name = f"exec-{Path(argv[0]).name}"
    candidates = (runs / (name if number == 1 else f"{name}.{number}") for number in count(1))
    return (folder for folder in candidates if not folder.exists())


def execute(request: JobRequest) -> ProgramRunSummary:
    """Runs the programs, with their output on the terminal and in the folder, which must exist, and leaves a summary
    there.

    A program that fails ends the others. Raises MachineFault if a limit is reached or the kernel dies, InputFault for
    a program that cannot be executed or stops the virtual clock. Whatever happens, what was written is kept, and no
    process is left.
    """
    fabric = request.fabric
    task = JobTask(
        fabric_json=fabric.to_json(),
        folder=str(Path.cwd()),
        programs=programs(request.programs, fabric, os.environ, Path(JOB_FOLDER)),
        hosts={each.name: tuple(each.hosts) for each in request.programs},
        time_limit_s=request.time_limit_s,
        output_limit_bytes=request.output_limit_bytes,
        capture=tuple(request.capture),
        covered=covered_folders(request.covered or request.folder, Path.cwd()),
        enters=any(each.launch is Launch.MPI for each in request.programs),
        faults=tuple(request.faults),
        cpu_time=request.cpu_time,
    )
    write_task(request.folder / TASK_FILE, task)
    make_figures_folders(request.folder, request.places)
    begin_s, heard = time.monotonic(), JobEvents()
    limits = SessionLimits(request.wall_limit_s, request.stall_limit_s, names=request.limit_names)
    with (
        Outputs(request.folder, fabric.host_names(), request.terminal) as outputs,
        conversation(
            "exec_job",
            request.folder,
            memory_mb=request.memory_mb,
            job_name="the programs",
            cpu=request.cpu,
            listener=request.listener,
        ) as job,
    ):

        def take(event: Event) -> None:
            if isinstance(event, Output):
                outputs.take(event)
            elif isinstance(event, OutputFull):
                request.on_output_full(place_name(event.program, fabric.host_names()[event.host]))
            else:
                heard.take(event)

        in_time = job.follow(
            take, lambda: heard.report is not None or job.refused is not None, limits, stop=request.stop
        )
        memory_bytes = job.running.memory_bytes()
    of_gpus = _take_calls(request)
    with suppress(OSError):  # programs have left figures there
        (request.folder / FIGURES_FOLDER).rmdir()
    if not in_time:
        waiting = _unended(request, heard) if heard.ready else "the network"
        raise MachineFault(
            f"after {request.wall_limit_s:g} s of wall time {waiting} had not ended and was stopped; give more with "
            f"{request.limit_names.wall}"
        )
    job.raise_refused()
    summary = _summary(request, heard, memory_bytes, time.monotonic() - begin_s, of_gpus)
    with replacing(request.folder / SUMMARY_FILE) as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n")
    if summary.report.timed_out:
        raise MachineFault(
            f"after {request.time_limit_s:g} s of virtual time {_unended(request, heard)} had not ended and was "
            f"stopped; give more with {request.limit_names.virtual}, or see what it waits for in {request.folder}"
        )
    return summary


@dataclass(frozen=True)
class _CallsToGpus:
    """What programs left about their GPUs."""

    invented: tuple[InventedCalls, ...]
    device_use: tuple[DeviceUse, ...]


def _take_calls(request: JobRequest) -> _CallsToGpus:
    """Reads what programs left about calls to GPUs, and removes their files."""
    files = {place: calls_file(request.folder, place) for place in request.places}
    found = _CallsToGpus(invented_calls(files.values()), device_uses(files))
    for file in files.values():
        with suppress(OSError):  # mostly none is there; and a program may have made a folder of that name
            file.unlink()
    return found


def _summary(
    request: JobRequest, heard: JobEvents, memory_bytes: int, wall_s: float, of_gpus: _CallsToGpus
) -> ProgramRunSummary:
    assert heard.report is not None
    names = request.fabric.host_names()
    return ProgramRunSummary(
        command=tuple(tuple(each.argv) for each in request.programs),
        statuses={place_name(name, names[host]): status for (name, host), status in heard.statuses.items()},
        failed="" if heard.failed is None else place_name(heard.failed[0], names[heard.failed[1]]),
        wall_s=wall_s,
        memory_bytes=memory_bytes,
        report=heard.report,
        invented=of_gpus.invented,
        device_use=of_gpus.device_use,
    )


def _unended(request: JobRequest, heard: JobEvents) -> str:
    """The programs that have not ended by themselves, and were to."""
    names = request.fabric.host_names()
    left: dict[str, list[str]] = {}
    for program in request.programs:
        if not program.background:
            waiting = [names[host] for host in program.started_on if (program.name, host) not in heard.statuses]
            left.setdefault(program.name or program.argv[0], []).extend(waiting)
    return " and ".join(f"{name} on {', '.join(hosts)}" for name, hosts in left.items() if hosts)


def root_warnings() -> Iterator[str]:
    """Yields a warning if programs run as root."""
    if os.geteuid() == 0:
        yield ROOT_WARNING


def kernel_warnings() -> Iterator[str]:
    """Yields a warning about what programs lack on the kernel in the cache."""
    kernel = cached_kernel()
    if kernel is not None and (warning := unwatched(kernel)):
        yield warning

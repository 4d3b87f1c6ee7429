"""Commands that run users' own code: programs (`exec` and `shell`), and Mininet's own scripts (`mininet` and
`mn`)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer
from rich.markup import escape

from gradwire.analysis.pause_report import pause_lines
from gradwire.analysis.port_traffic import ports_traffic
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.network_checks import DROPS, RETRANSMITS, network_checks
from gradwire.analysis.verdict.program_checks import CARRIED
from gradwire.cli import terminal
from gradwire.cli.traffic_tables import ports_table
from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import InputFault
from gradwire.gpus.choice import MOST_DEVICES, GpuChoice
from gradwire.gpus.device_use import use_text
from gradwire.gpus.hip_devices import DEFAULT_DEVICE, hip_device
from gradwire.gpus.invented_calls import invented_text
from gradwire.gpus.stand_ins import stand_ins_folder
from gradwire.inside.program_protocol import how_it_ended, output_file
from gradwire.network.fabric import Fabric
from gradwire.programs.clock_pace import complete_with
from gradwire.programs.cpu_time import charged_cpu_time
from gradwire.programs.execution import (
    JobRequest,
    ProgramRunSummary,
    execute,
    kernel_warnings,
    new_folders,
    root_warnings,
)
from gradwire.programs.interpreter import MN, PythonInterpreter, interpreter_of, own_interpreter
from gradwire.programs.keyboard import NOT_DECODED
from gradwire.programs.launch import Launch, Started, path_on_hosts, warm_start
from gradwire.programs.mininet_script import (
    LinePrompt,
    ScriptRequest,
    ScriptSummary,
    check_link_rate,
    check_script,
    run_script,
)
from gradwire.programs.network_shell import run_shell
from gradwire.programs.outputs import OUTPUT_LIMIT_BYTES
from gradwire.programs.outside import NO_WAY_OUT, tail_of, wanted_outside
from gradwire.programs.program_file import check_folder, check_program
from gradwire.programs.reported import network_state
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.network_size import (
    WALL_LIMIT_S,
    NetworkOptions,
    SizedNetwork,
    bench_of,
    chosen_hosts,
    memory_mb,
    output_limit_bytes,
    seconds,
)
from gradwire.runs.launch.other_user import OtherUser, going_on_as
from gradwire.runs.launch.place import empty_folder, refuse_filled, writing
from gradwire.runs.stored.provenance import typed_command
from gradwire.runs.stored.run_folder import RUNS
from gradwire.scenario.sections.program import class_alone
from gradwire.vm.code_digest import machine_modules
from gradwire.workloads.units import rate_bps

NOT_CARRIED = "The network did not carry all that it was given:"
NO_LIMIT = "100000h"
"""Eleven years, which no clock here reaches."""


@dataclass(frozen=True)
class ProgramLimits:
    """Limits of programs' resources, as they were typed."""

    memory: str | None
    time_limit: str = "1h"
    wall_limit: str | None = None
    stall_limit: str = "20s"
    output_limit: str | None = None
    cpu_time: float = 0.0


@dataclass(frozen=True)
class UserProgram:
    """The program to run, as the command line gives it."""

    argv: Sequence[str]
    #: Hosts to run it on, as in "h1,h4", and how it is started there.
    hosts: str
    launch: str
    #: Modules that are imported once for all, as in "torch,numpy".
    warm_imports: str = ""
    #: User that everything runs as from then on; None for the caller.
    user: str | None = None
    #: GPUs of each host, which they are, and whether they move data.
    gpus: int = 0
    gpu: str = DEFAULT_DEVICE
    gpu_data: bool = False


def execute_program(
    size: NetworkOptions, wanted: UserProgram, limits: ProgramLimits, capture: Sequence[str], out: Path | None
) -> None:
    """`gradwire exec`."""
    argv = wanted.argv
    if not argv:
        raise InputFault(
            "which program? Give it after --, such as: gradwire exec --workers 2 --rate 10gbit -- hostname"
        )
    other = None if wanted.user is None else OtherUser.named(wanted.user)
    bench = bench_of(size)
    check_program(argv, path_on_hosts(os.environ.get("PATH", os.defpath)))
    check_folder(Path.cwd())
    folder = out or next(new_folders(RUNS, argv))
    refuse_filled(folder)
    request = JobRequest(
        fabric=bench.fabric,
        programs=[_started(wanted, bench.fabric)],
        memory_mb=bench.memory_mb if limits.memory is None else memory_mb(limits.memory),
        time_limit_s=seconds("--time-limit", limits.time_limit),
        wall_limit_s=seconds("--wall-limit", limits.wall_limit) if limits.wall_limit else bench.wall_limit_s,
        stall_limit_s=seconds("--stall-limit", limits.stall_limit),
        capture=[port.interface for port in bench.fabric.ports_named(capture)],
        folder=folder,
        terminal={1: sys.stdout, 2: sys.stderr},
        output_limit_bytes=OUTPUT_LIMIT_BYTES
        if limits.output_limit is None
        else output_limit_bytes(limits.output_limit),
        on_output_full=lambda place: _tell_output_full(request, place),
        listener=terminal.pace_listener(),
        cpu_time=charged_cpu_time(limits.cpu_time),
    )
    _get_ready(bench, warns_of_root=other is None)
    with ExitStack() as held:
        with writing(folder):
            if other is not None:
                stand_ins = [each.gpus.stand_ins for each in request.programs if each.gpus]
                held.enter_context(going_on_as(other, folder, machine_modules(), stand_ins))
                request = replace(request, programs=[_started(wanted, bench.fabric)])  # whose files lie elsewhere now
            place = out or (folder if other else None)  # which was made for the other user
            folder = held.enter_context(empty_folder(place, new_folders(RUNS, argv), typed_command(sys.argv)))
        request = replace(request, folder=folder)
        with terminal.interruptible(f"interrupted; what was written is in {folder}"):
            summary = execute(request)
    is_sound = _show(summary, request)
    if summary.exit_status or not is_sound:
        raise typer.Exit(summary.exit_status or 1)


def _tell_output_full(request: JobRequest, place: str) -> None:
    terminal.screen().warn(
        f"programs have written {request.output_limit_bytes:,} bytes, {place} the last of them: nothing that they "
        "write from now on is kept or shown; --output-limit keeps more"
    )


def shell(size: NetworkOptions, memory: str | None) -> None:
    """`gradwire shell`."""
    bench = bench_of(size)
    check_folder(Path.cwd())
    chosen_mb = bench.memory_mb if memory is None else memory_mb(memory)
    _get_ready(bench, warns_of_root=True)
    _end_when_told()
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    if is_typed:
        terminal.errors.print(f"booting a machine and building the network of {bench.fabric.hosts} hosts ...")
    with terminal.interruptible("interrupted"):
        read_line = _typed if is_typed else _read
        status = run_shell(bench.fabric, chosen_mb, sys.stdout.buffer, read_line, typed=is_typed)
    if status:
        raise typer.Exit(status)


def _end_when_told() -> None:
    """Has the signals that end a command do so as if its input had ended, so that nothing is left."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _end)


def _end(number: int, _: FrameType | None) -> NoReturn:
    """Ends the command as if its input had ended, so that its folder is removed."""
    sys.exit(128 + number)


def _get_ready(bench: SizedNetwork, *, warns_of_root: bool) -> None:
    for warning in bench.warnings():
        terminal.screen().warn(warning)
    if warns_of_root:
        for warning in root_warnings():
            terminal.screen().warn(warning)
    make_kernel_ready(terminal.screen())
    for warning in kernel_warnings():
        terminal.screen().warn(warning)


def _started(wanted: UserProgram, fabric: Fabric) -> Started:
    """Raises InputFault for options that do not fit."""
    imports = tuple(name.strip() for name in wanted.warm_imports.split(",") if name.strip())
    hosts = chosen_hosts(fabric, wanted.hosts)
    started = Started(
        wanted.argv,
        hosts,
        _launch(wanted.launch),
        traffic_class=class_alone(None, fabric),
        warm_imports=imports,
        gpus=_gpus(wanted),
    )
    try:
        warm_start(started, os.environ)
    except InputFault as fault:
        raise InputFault(f"--warm-imports {wanted.warm_imports}: {fault}") from fault
    return started


def _gpus(wanted: UserProgram) -> GpuChoice | None:
    """The GPUs of each host. Raises InputFault for a wrong number or name, and UnfitMachine where there is no compiler."""
    device = hip_device(wanted.gpu)
    if not 0 <= wanted.gpus <= MOST_DEVICES:
        raise InputFault(f"--gpus {wanted.gpus}: must be 0 to {MOST_DEVICES}")
    if not wanted.gpus and (wanted.gpu_data or wanted.gpu != DEFAULT_DEVICE):
        raise InputFault("--gpu and --gpu-data are of hosts that have GPUs: give their number with --gpus")
    return GpuChoice(wanted.gpus, device, wanted.gpu_data, stand_ins_folder()) if wanted.gpus else None


def _launch(name: str) -> Launch:
    if name not in list(Launch):
        raise InputFault(f"--launch {name}: must be one of {', '.join(Launch)}")
    return Launch(name)


def _show(summary: ProgramRunSummary, request: JobRequest) -> bool:
    """Prints the results of the run; returns whether the network carried the traffic as it should."""
    report, folder = summary.report, request.folder
    terminal.console.print(
        f"{report.duration_s:.6f} s of virtual time in {summary.wall_s:.1f} s; memory used: "
        f"{summary.memory_bytes / 2**30:.2f} GiB of {request.memory_mb / 1024:.2f}",
        highlight=False,
    )
    terminal.show(ports_table(request.fabric, ports_traffic(request.fabric, report.counts), report.duration_s))
    made = network_checks(network_state(report, request.fabric))
    failed = [check for check in made if not check.ok]
    terminal.console.print(_held(made), highlight=False)
    of_gpus = filter(None, [use_text(summary.device_use), invented_text(summary.invented)])
    for line in (*pause_lines(request.fabric, report.pauses), *of_gpus):
        terminal.console.print(line, markup=False, highlight=False)
    _tell_state(summary, request, failed)
    terminal.name_files({"outputs": folder / "output", "summary": folder / "summary.json"})
    return not failed


def _held(made: Sequence[Check]) -> str:
    """Returns the checks that hold in a line: what TCP had to make up for with its numbers, and the others by name."""
    holding = [check for check in made if check.ok]
    told = [f"{check.name} {check.value}" for check in holding if check.name in (DROPS, RETRANSMITS)]
    others = [check.name for check in holding if check.name not in (DROPS, RETRANSMITS)]
    return f"{', '.join([*told, f'{len(others)} other checks hold'])}: {', '.join(others)}"


def _tell_state(summary: ProgramRunSummary, request: JobRequest, wrong: Sequence[Check]) -> None:
    """Prints the state of the run, and whether the network carried the traffic as it should: the failure of a program
    does not tell that."""
    said = [f"{check.name} {check.value} (limit {check.limit}). {check.meaning}" for check in wrong]
    if summary.failed:
        terminal.console.print(f"{CARRIED[0].upper()}{CARRIED[1:]}." if not wrong else NOT_CARRIED, highlight=False)
        for line in said:
            terminal.errors.print(line, markup=False, highlight=False)
        _tell_failure(summary, request)
    elif wrong:
        for line in said:
            terminal.errors.print(f"[red]invalid[/red]: {escape(line)}", highlight=False)
    else:
        terminal.console.print(f"valid: {CARRIED}", highlight=False)


def _tell_failure(summary: ProgramRunSummary, request: JobRequest) -> None:
    status, folder = summary.exit_status, request.folder
    how = how_it_ended(status)
    if summary.report.killed_for_memory:
        how += f": the kernel's {request.memory_mb} MiB of memory were full; give more with --memory"
    errors = output_file(folder, summary.failed, 2)
    if wanted_outside(tail_of(errors)):
        how += f": {NO_WAY_OUT}"
    where = f"; its errors are in {errors}" if errors.exists() else ""
    terminal.errors.print(
        f"[red]failed[/red]: {escape(f'{request.programs[0].argv[0]} on {summary.failed} {how}{where}')}",
        highlight=False,
    )


@dataclass(frozen=True)
class ScriptLimits:
    """Limits and options of a script's run, as they were typed."""

    rate: str = "10gbit"
    python: str | None = None
    memory: str | None = None
    #: An hour, or none where a person types.
    time_limit: str | None = None
    wall_limit: str | None = None
    stall_limit: str = "20s"
    output_limit: str | None = None
    cpu_time: float = 0.0


def run_mininet(script: str, arguments: list[str], limits: ScriptLimits, out: Path | None) -> None:
    """`gradwire mininet` and `gradwire mn`."""
    link_rate_bps = _rate_bps(limits.rate)
    python = interpreter_of(limits.python, os.environ.get("PATH", os.defpath)) if limits.python else own_interpreter()
    path = _script(script, python)
    check_folder(Path.cwd())
    folder = out or next(_new_folders(path.stem))
    refuse_filled(folder)
    most_bytes = output_limit_bytes(limits.output_limit) if limits.output_limit else OUTPUT_LIMIT_BYTES
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    time_limit = limits.time_limit or (NO_LIMIT if is_typed else "1h")
    request = ScriptRequest(
        interpreter=python,
        script=path,
        arguments=arguments,
        link_rate_bps=link_rate_bps,
        memory_mb=DEFAULT_MEMORY_MB if limits.memory is None else memory_mb(limits.memory),
        time_limit_s=seconds("--time-limit", time_limit),
        wall_limit_s=seconds("--wall-limit", limits.wall_limit) if limits.wall_limit else WALL_LIMIT_S,
        stall_limit_s=seconds("--stall-limit", limits.stall_limit),
        folder=folder,
        shown={1: sys.stdout.buffer, 2: sys.stderr.buffer},
        read_line=_typed if is_typed else _read,
        typed=is_typed,
        output_limit_bytes=most_bytes,
        on_output_full=lambda: _tell_script_output_full(most_bytes),
        listener=terminal.pace_listener(),
        one_output=_is_one_output(),
        cpu_time=charged_cpu_time(limits.cpu_time),
    )
    for warning in (*root_warnings(),):
        terminal.screen().warn(warning)
    make_kernel_ready(terminal.screen())
    for warning in kernel_warnings():
        terminal.screen().warn(warning)
    with ExitStack() as held:
        with writing(folder):
            folder = held.enter_context(empty_folder(out, _new_folders(path.stem), typed_command(sys.argv)))
        request = replace(request, folder=folder)
        _end_when_told()
        with terminal.interruptible(f"interrupted; what was written is in {folder}"):
            summary = run_script(request)
    _tell(summary, request)
    if summary.report.status:
        raise typer.Exit(summary.report.status)


def _rate_bps(text: str) -> float:
    try:
        value = rate_bps(text)
    except ValueError as error:
        raise InputFault(f"--rate {text}: {error}") from error
    check_link_rate(value)
    return value


def _script(name: str, python: PythonInterpreter) -> Path:
    if name != MN or Path(name).is_file():
        return check_script(Path(name))
    if python.mn is None:
        raise InputFault("mn: Mininet's program of that name is not there; pip install mininet brings it")
    return check_script(python.mn)


def _new_folders(name: str) -> Iterator[Path]:
    """Those of runs/mininet-NAME, runs/mininet-NAME.2, ... that are not there yet."""
    own = f"mininet-{name}"
    candidates = (RUNS / (own if number == 1 else f"{own}.{number}") for number in count(1))
    return (folder for folder in candidates if not folder.exists())


def _is_one_output() -> bool:
    """Returns whether both outputs go to the same place, where their order is seen."""
    try:
        return os.path.samestat(os.fstat(1), os.fstat(2))
    except OSError:
        return False


def _read(_: LinePrompt) -> bytes:
    """The next line of an input that is not typed."""
    return b"" if sys.stdin is None else sys.stdin.buffer.readline()


def _typed(question: LinePrompt) -> bytes:
    """A line that a person types, with the keys of readline; "" for Ctrl-D."""
    shown = question.prompt.decode(errors="replace")
    complete_with(question.asked)
    sys.stdout.write("\r")
    try:
        return f"{input(shown)}\n".encode()
    except EOFError:
        print()
        return b""
    except UnicodeError:
        print(NOT_DECODED)
        return b"\n"


def _tell_script_output_full(limit_bytes: int) -> None:
    terminal.screen().warn(
        f"the script has written {limit_bytes:,} bytes: nothing that it writes from now on is kept or shown; "
        "--output-limit keeps more"
    )


def _tell(summary: ScriptSummary, request: ScriptRequest) -> None:
    report, name = summary.report, request.script.name
    took = f"{report.duration_s:.6f} s of virtual time in {summary.wall_s:.1f} s"
    if not report.status:
        terminal.errors.print(f"{name}: {took}; files: {request.folder}", markup=False, highlight=False)
        return
    how = f"{name} {how_it_ended(report.status)} after {took}"
    if report.killed_for_memory:
        how += f": the kernel's {request.memory_mb} MiB of memory were full; give more with --memory"
    elif summary.wanted_the_internet:
        how += f": {NO_WAY_OUT}"
    terminal.errors.print(f"[red]failed[/red]: {escape(f'{how}; files: {request.folder}')}", highlight=False)

"""Commands that run Mininet's own scripts: `mininet` and `mn`."""

from __future__ import annotations

import os
import readline
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import typer
from rich.markup import escape

from gradwire.cli import terminal
from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import InputFault
from gradwire.programs.mininet_script import (
    ScriptRequest,
    ScriptSummary,
    check_link_rate,
    check_script,
    run_script,
)
from gradwire.programs.outputs import OUTPUT_LIMIT_BYTES
from gradwire.programs.program_file import check_folder
from gradwire.programs.program_protocol import how_it_ended
from gradwire.programs.stock_mininet.interpreter import MN, Interpreter, interpreter_of, own_interpreter
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.network_size import WALL_LIMIT_S, memory_mb, output_limit_bytes, seconds
from gradwire.runs.launch.place import refuse_unusable, writing
from gradwire.runs.program_work import kernel_warnings, root_warnings
from gradwire.runs.stored.run_folder import RUNS
from gradwire.workloads.units import rate_bps


@dataclass(frozen=True)
class ScriptLimits:
    """What the command line says of a script's run, as it was typed."""

    rate: str = "10gbit"
    python: str | None = None
    memory: str | None = None
    time_limit: str = "1h"
    wall_limit: str | None = None
    stall_limit: str = "20s"
    output_limit: str | None = None


def run_mininet(script: str, arguments: list[str], limits: ScriptLimits, out: Path | None) -> None:
    """`gradwire mininet` and `gradwire mn`."""
    link_rate_bps = _rate_bps(limits.rate)
    python = interpreter_of(limits.python, os.environ.get("PATH", os.defpath)) if limits.python else own_interpreter()
    path = _script(script, python)
    check_folder(Path.cwd())
    folder = out or _new_folder(path.stem)
    if out is not None and out.exists() and any(out.iterdir()):
        raise InputFault(f"--out {out}: is not empty, and no other run's files are overwritten; give another")
    refuse_unusable(folder)
    most_bytes = output_limit_bytes(limits.output_limit) if limits.output_limit else OUTPUT_LIMIT_BYTES
    request = ScriptRequest(
        interpreter=python,
        script=path,
        arguments=arguments,
        link_rate_bps=link_rate_bps,
        memory_mb=DEFAULT_MEMORY_MB if limits.memory is None else memory_mb(limits.memory),
        time_limit_s=seconds("--time-limit", limits.time_limit),
        wall_limit_s=seconds("--wall-limit", limits.wall_limit) if limits.wall_limit else WALL_LIMIT_S,
        stall_limit_s=seconds("--stall-limit", limits.stall_limit),
        folder=folder,
        shown={1: sys.stdout.buffer, 2: sys.stderr.buffer},
        read_line=_typed if sys.stdin is not None and sys.stdin.isatty() else _read,
        output_limit_bytes=most_bytes,
        on_output_full=lambda: _tell_output_full(most_bytes),
        one_output=_is_one_output(),
    )
    for warning in (*root_warnings(),):
        terminal.screen().warn(warning)
    make_kernel_ready(terminal.errors)
    for warning in kernel_warnings():
        terminal.screen().warn(warning)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
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


def _script(name: str, python: Interpreter) -> Path:
    if name != MN or Path(name).is_file():
        return check_script(Path(name))
    if python.mn is None:
        raise InputFault("mn: Mininet's program of that name is not there; pip install mininet brings it")
    return check_script(python.mn)


def _new_folder(name: str) -> Path:
    """The first of runs/mininet-NAME, runs/mininet-NAME.2, ... that is not there yet."""
    own = f"mininet-{name}"
    candidates = (RUNS / (own if number == 1 else f"{own}.{number}") for number in count(1))
    return next(folder for folder in candidates if not folder.exists())


def _is_one_output() -> bool:
    """Whether both outputs go to the same place, where their order is seen."""
    try:
        return os.path.samestat(os.fstat(1), os.fstat(2))
    except OSError:
        return False


def _read(_: bytes) -> bytes:
    """The next line of an input that nobody types."""
    return b"" if sys.stdin is None else sys.stdin.buffer.readline()


def _typed(prompt: bytes) -> bytes:
    """A line that a person types, with the keys of readline; "" for Ctrl-D."""
    shown = prompt.decode(errors="replace")
    readline.set_auto_history(True)
    sys.stdout.write("\r")
    try:
        return f"{input(shown)}\n".encode()
    except EOFError:
        print()
        return b""


def _tell_output_full(limit_bytes: int) -> None:
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
        how += ": it wanted an address outside; an emulated network has no way to the machine's network or the internet"
    terminal.errors.print(f"[red]failed[/red]: {escape(f'{how}; files: {request.folder}')}", highlight=False)

"""The command that records PyTorch scripts: `record`."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from gradwire.cli import terminal, trace_import
from gradwire.faults import InputFault
from gradwire.programs.script_recording import RecordingRequest, check_program, record
from gradwire.runs.launch.network_size import seconds
from gradwire.runs.launch.place import refuse_run_folder, writing
from gradwire.runs.stored.provenance import typed_command
from gradwire.runs.stored.run_folder import locked
from gradwire.workloads import units
from gradwire.workloads.installed_packages import installed_catalogue
from gradwire.workloads.traces.record import MOST_RANKS, ImportFinding, Reading
from gradwire.workloads.traces.trace_import import import_traces

MOST_ITERATIONS = 8
"""Unless the user says another number: DDP's second differs from its first, and few scripts have later ones that do."""
RECORDINGS = "recordings"
"""Folder of the recordings, in that of the workload."""


@dataclass(frozen=True)
class RecordingOptions:
    """The options of a recording, as they were typed."""

    program: Sequence[str]
    world: int
    ranks: str
    gpus_per_host: int
    iterations: int | None
    values: bool
    time_limit: str


def record_script(asked: RecordingOptions, device: str | None, flop_rate: str | None, out: Path | None) -> None:
    """`gradwire record`."""
    flops_per_s, whence = _rate(device, flop_rate)
    check_program(asked.program)
    ranks = _ranks(asked.ranks, asked.world)
    folder = out or trace_import.FOLDER / _name(asked.program)
    refuse_run_folder(folder)
    request = RecordingRequest(
        asked.program,
        ranks,
        asked.world,
        asked.gpus_per_host,
        asked.iterations or MOST_ITERATIONS,
        asked.values,
        seconds("--time-limit", asked.time_limit),
        folder / RECORDINGS,
    )
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _end)
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, typed_command(sys.argv)))
        _keep(_recorded(request), request, flops_per_s, whence, folder)


def _recorded(request: RecordingRequest) -> list[Path]:
    """Runs the script as each of its ranks; returns the recordings."""
    paths = []
    with terminal.interruptible("interrupted: no workload was made"), writing(request.folder):
        for rank, path in zip(request.ranks, record(request), strict=True):
            paths.append(path)
            terminal.errors.print(f"recorded: rank {rank} of {request.world}", highlight=False)
    return paths


def _keep(paths: Sequence[Path], request: RecordingRequest, flops_per_s: float, whence: str, folder: Path) -> None:
    """Makes a workload of the recordings. Raises InputFault."""
    with trace_import.progress() as watch:
        imported = import_traces(paths, folder.name, Reading(flops_per_s=flops_per_s, ranks=request.world), watch)
    silent = [source.file for source in imported.sources if not source.calls]
    if silent:
        raise InputFault(
            f"{' '.join(request.program)}: communicated nothing in the iteration that was recorded ({silent[0]}): does it "
            "call torch.distributed.init_process_group, and train in parallel, where RANK and WORLD_SIZE are set?"
        )
    trace_import.keep(replace(imported, findings=(*imported.findings, ImportFinding("", "", whence))), folder)


def _end(number: int, _: FrameType | None) -> NoReturn:
    """Ends the command in an orderly way, and the script with it."""
    sys.exit(128 + number)


def _rate(device: str | None, flop_rate: str | None) -> tuple[float, str]:
    """FLOPs per second, and where they are from. Raises InputFault."""
    if (device is None) == (flop_rate is None):
        raise InputFault("say how fast ranks compute: either --device h100, or --flop-rate 150TFLOP/s")
    if flop_rate is not None:
        try:
            value = units.FLOP_RATE.parse(flop_rate)
        except ValueError as error:
            raise InputFault(f"--flop-rate {flop_rate}: {error}") from error
        if value <= 0:
            raise InputFault(f"--flop-rate {flop_rate}: must be above 0")
        return value, f"computation at {flop_rate}, as the command line says"
    assert device is not None
    catalogue = installed_catalogue()
    listed = catalogue.device(device)
    if listed.flops_per_s is None:
        rated = ", ".join(name for name in catalogue.devices if _is_rated(name))
        raise InputFault(
            f"--device {device}: only times of some models are known of it, and no rate; with one: {rated}"
        )
    return listed.flops_per_s * listed.efficiency, (
        f"computation at {listed.efficiency:.0%} of {listed.description}: {listed.efficiency_source}"
    )


def _is_rated(device: str) -> bool:
    try:
        return installed_catalogue().device(device).flops_per_s is not None
    except InputFault:
        return False  # a package's, which does not load


def _ranks(text: str, world: int) -> list[int]:
    """Ranks to record, from the text of `--ranks`. Raises InputFault."""
    if world > MOST_RANKS:
        raise InputFault(f"--world-size {world}: at most {MOST_RANKS:,}")
    words = text.split(",")
    if not all(re.fullmatch(r"\s*\d{1,6}\s*", word) for word in words):
        raise InputFault(f"--ranks {text}: must be numbers of ranks, such as 0 or 0,8,16")
    ranks = sorted({int(word) for word in words})
    if ranks[-1] >= world:
        raise InputFault(
            f"--ranks {text}: there is no rank {ranks[-1]} in a job of {world}, whose ranks are 0 to {world - 1}"
        )
    return ranks


def _name(program: Sequence[str]) -> str:
    """Name of the workload: that of the script, or of the module that is run."""
    scripts = [word for word in program[1:] if word.endswith(".py")]
    named = scripts[0] if scripts else program[program.index("-m") + 1] if "-m" in program[:-1] else program[0]
    return re.sub(r"\W+", "-", Path(named).stem).strip("-") or "script"

"""One interface to both kinds of machine: the virtual-time kernel, and this machine's own kernel as root."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwire import PACKAGE
from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import UnfitMachine
from gradwire.vm.byte_code import FOLDER_VARIABLE, byte_code_folder, is_filled
from gradwire.vm.code_digest import machine_modules
from gradwire.vm.host import run_on_host
from gradwire.vm.machine import JOB_FOLDER, run_virtual

MEASURED = 0
"""Scale of a wall clock that is to be measured (runs/wall_scale.py)."""


@dataclass(frozen=True)
class Clock:
    """The clock that a point runs on."""

    #: "virtual" or "wall".
    name: str = "virtual"
    #: Divisor of bytes and rates; MEASURED until it is known.
    scale: int = 1


def run_job(
    module: str,
    folder: Path,
    clock: Clock,
    *,
    time_limit_s: float,
    on_line: Callable[[str], None],
    cpu: int | None = None,
    memory_mb: int = DEFAULT_MEMORY_MB,
    stop: threading.Event | None = None,
    kernel: Path | None = None,
    programs: bool = False,
) -> int:
    """Runs `python -m module folder` on a machine of the given clock; returns its exit status. Raises what the machine
    raises.

    In virtual time the folder has another name inside, which is replaced by the real one in the lines that `on_line`
    gets. Lines are JSON.

    kernel: what to boot on the virtual clock, by default the cached one. programs: as for `run_virtual`.
    """
    program = [sys.executable, "-m", module]
    # Needed because the source folder may not be where packages are installed, and the job starts in another folder.
    common: dict[str, Any] = {
        "env": {"PYTHONPATH": str(PACKAGE.parent)},
        "memory_mb": memory_mb,
        "time_limit_s": time_limit_s,
        "workdir": folder,
        "stop": stop,
    }
    path = str(folder.absolute())
    if clock.name == "virtual":
        byte_code = byte_code_folder(machine_modules())
        common["env"][FOLDER_VARIABLE] = str(byte_code)
        outside = json.dumps(path)[1:-1]
        status = run_virtual(
            [*program, JOB_FOLDER],
            cpu=max(os.sched_getaffinity(0)) if cpu is None else cpu,
            on_line=lambda line: on_line(line.replace(JOB_FOLDER, outside)),
            kernel=kernel,
            programs=programs,
            **common,
        )
        if not is_filled(byte_code):  # a job that compiles its modules itself has other virtual times
            raise UnfitMachine(
                f"{byte_code}: was removed while a job ran; leave the cache alone, and give the command again"
            )
        return status
    return run_on_host([*program, path], on_line=on_line, **common)

"""One interface to both kinds of machine: the virtual-time kernel, and this machine's own kernel as root."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradwire import PACKAGE
from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import UnfitMachine
from gradwire.vm.batch_job import run_virtual
from gradwire.vm.byte_code import FOLDER_VARIABLE, byte_code_folder, is_filled
from gradwire.vm.code_digest import machine_modules
from gradwire.vm.host import run_on_host
from gradwire.vm.machine import JOB_FOLDER, Boot
from gradwire.vm.session import last_cpu

MEASURED = 0
"""Scale of a wall clock that is to be measured (runs/wall_scale.py)."""


@dataclass(frozen=True)
class Clock:
    """The clock that a point runs on."""

    #: "virtual" or "wall".
    name: str = "virtual"
    #: Divisor of bytes and rates; MEASURED until it is known.
    scale: int = 1


PACKAGE_PATH = {"PYTHONPATH": str(PACKAGE.parent)}
"""Needed because the source folder may not be where packages are installed, and the job starts in another folder."""


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

    kernel: what to boot on the virtual clock, by default the cached one. programs: as for `Boot`.
    """
    program, path = [sys.executable, "-m", module], str(folder.absolute())
    if clock.name != "virtual":
        return run_on_host(
            [*program, path], env=PACKAGE_PATH, time_limit_s=time_limit_s, on_line=on_line, workdir=folder, stop=stop
        )
    outside = json.dumps(path)[1:-1]
    with compiled_modules() as env:
        return run_virtual(
            Boot(
                [*program, JOB_FOLDER],
                env,
                last_cpu() if cpu is None else cpu,
                folder,
                memory_mb,
                kernel,
                programs=programs,
            ),
            time_limit_s=time_limit_s,
            on_line=lambda line: on_line(line.replace(JOB_FOLDER, outside)),
            stop=stop,
        )


@contextmanager
def compiled_modules() -> Iterator[dict[str, str]]:
    """The environment in which a job finds its modules, compiled. Raises UnfitMachine if somebody has removed these when
    the job has ended: one that compiles its modules itself has other virtual times."""
    byte_code = byte_code_folder(machine_modules())
    yield {**PACKAGE_PATH, FOLDER_VARIABLE: str(byte_code)}
    if not is_filled(byte_code):
        raise UnfitMachine(
            f"{byte_code}: was removed while a job ran; leave the cache alone, and give the command again"
        )

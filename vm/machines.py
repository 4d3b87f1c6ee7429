"""The two kinds of machine, called alike: the virtual-time kernel, and this machine's own as root."""

from __future__ import annotations

import compileall
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gradwire import PACKAGE
from gradwire.vm.host import run_on_host
from gradwire.vm.machine import JOB_FOLDER, run_virtual

DEFAULT_MEMORY_MB = 3072


@dataclass(frozen=True)
class Clock:
    """Which clock a point runs on. scale: bytes and rates are divided by it."""

    name: str = "virtual"
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
) -> int:
    """Runs `python -m module folder` on a machine of the given clock; returns its exit status. Raises a Fault of the machine.

    In virtual time the folder has a name of its own, which `on_line` hears as the folder's real one. Lines are JSON.
    """
    program = [sys.executable, "-m", module]
    # The source folder may not be where packages are installed, and the machine starts elsewhere.
    common: dict[str, Any] = {
        "env": {"PYTHONPATH": str(PACKAGE.parent)},
        "memory_mb": memory_mb,
        "time_limit_s": time_limit_s,
        "workdir": folder,
        "stop": stop,
    }
    path = str(folder.absolute())
    _write_byte_code()
    if clock.name == "virtual":
        outside = json.dumps(path)[1:-1]
        return run_virtual(
            [*program, JOB_FOLDER],
            cpu=max(os.sched_getaffinity(0)) if cpu is None else cpu,
            on_line=lambda line: on_line(line.replace(JOB_FOLDER, outside)),
            **common,
        )
    return run_on_host([*program, path], on_line=on_line, **common)


@lru_cache
def _write_byte_code() -> None:
    """For the job, which writes none itself, so that all jobs find the same. Where it cannot be written, they all compile."""
    # Each by its name: what follows folders does not follow the links to them.
    for folder in (".", "agents", "controller", "run", "topo", "vm", "workloads"):
        compileall.compile_dir(PACKAGE / folder, quiet=2)

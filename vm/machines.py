"""The two kinds of machine, called alike: the virtual-time kernel, and this machine's own as root."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vm.host import run_on_host
from vm.machine import run_virtual

DEFAULT_MEMORY_MB = 3072
SOURCE_ROOT = Path(__file__).resolve().parent.parent


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
    """Runs `python -m module folder` on a machine of the given clock; returns its exit status. Raises a Fault of the machine."""
    argv = [sys.executable, "-m", module, str(folder.absolute())]
    # The source folder may not be where packages are installed, and the machine starts elsewhere.
    common: dict[str, Any] = {
        "env": {"PYTHONPATH": str(SOURCE_ROOT)},
        "memory_mb": memory_mb,
        "time_limit_s": time_limit_s,
        "on_line": on_line,
        "workdir": folder,
        "stop": stop,
    }
    if clock.name == "virtual":
        return run_virtual(argv, cpu=max(os.sched_getaffinity(0)) if cpu is None else cpu, **common)
    return run_on_host(argv, **common)

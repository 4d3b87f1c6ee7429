"""Workers of a Dask cluster whose machines are stood in for: a made-up replay in place of a kernel's."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

from gradwire.runner.executing import machine
from gradwire.runner.executing.cluster import identity, orders, worker
from gradwire.runner.executing.cluster.identity import Identity
from gradwire.vm.machines import Clock
from tests.unit.runner.test_run_loop import good_job

LONG_S = 60.0
TRUE_IDENTITY, TRUE_DONE = Identity.here, worker._done
habits: set[str] = set()
"""What is wrong with this worker: "full", "other kernel"; "slow" points run until they are stopped."""


class StandIns(WorkerPlugin):
    """Puts the stand-in into every worker, also into those that start anew. notes: a folder for what points note."""

    name = "stand-ins"

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def setup(self, worker: Any) -> None:
        replace_machines(self.notes)


def replace_machines(notes: Path) -> None:
    def run_job(_: str, folder: Path, __: Clock, *, on_line: Callable[[str], None], stop: Any, **___: Any) -> int:
        point = (folder / "task.json").stat().st_size
        with (notes / "begun").open("a") as file:
            file.write(f"{os.getpid()} {get_worker().address} {point}\n")
        if "full" in habits:
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        if "slow" in habits:
            stopped = stop.wait(LONG_S)
            (notes / f"stopped-{os.getpid()}").write_text(str(stopped))
        time.sleep(0.1)  # so that both workers get points
        return good_job(folder, on_line)

    machine.run_job = run_job  # type: ignore[assignment]
    worker.try_kernel = lambda *_: 0.0  # type: ignore[assignment]
    worker.kernel_named = lambda name: Path("/kernels") / name
    habits.clear()


def take_habit(habit: str) -> None:
    """Makes this worker behave so; "" makes it as good as any."""
    habits.clear()
    habits.add(habit)
    version = {"version": "9.9"} if habit == "other gradwire" else {}
    Identity.here = staticmethod(lambda: replace(TRUE_IDENTITY(), **version))  # type: ignore[assignment]
    worker.kernel_named = lambda name: None if habit == "no kernel" else Path("/kernels") / name
    worker._done = _mixed if habit == "mixed" else TRUE_DONE


def _mixed(*arguments: Any) -> orders.Done:
    return replace(TRUE_DONE(*arguments), kernel="kernel-of-another")


assert identity.Identity is Identity

"""Workers of a Dask cluster whose machines are stood in for: a made-up replay in place of a kernel's."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import get_worker

from gradwire.files import replacing
from gradwire.runs import point_machine
from gradwire.runs.executing.cluster import orders, worker
from gradwire.vm.machines import Clock
from tests.unit.runs.test_campaign import good_job

LONG_S = 600.0
TRUE_HERE, TRUE_DONE = orders.Identity.here, worker._done
of_machine: Any = point_machine
of_worker: Any = worker
of_identity: Any = orders.Identity
habits: set[str] = set()
"""What is wrong with this worker: it is "full", or "slow", so that points run until they are stopped, or it has something else."""


def replace_machines(notes: Path) -> None:
    """Puts the stand-in into this worker. notes: a folder for what points note."""

    def run_job(_: str, folder: Path, __: Clock, *, on_line: Callable[[str], None], stop: Any, **___: Any) -> int:
        with (notes / "begun").open("a") as file:
            file.write(f"{os.getpid()} {get_worker().address}\n")
        if "full" in habits:
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        if "slow" in habits:
            told = stop.wait(LONG_S)
            with replacing(
                notes / f"stopped-{os.getpid()}"
            ) as partial:  # whole at once: a test reads it as soon as it is there
                partial.write_text(str(told))
        time.sleep(0.1)  # so that both workers get points
        return good_job(folder, on_line)

    of_machine.run_job = run_job
    of_worker.try_kernel = lambda *_: 0.0
    take_habit("")


def take_habit(habit: str) -> None:
    """Makes this worker behave so; "" makes it as good as any."""
    habits.clear()
    habits.add(habit)
    changed = {"version": "9.9"} if habit == "other gradwire" else {}
    of_identity.here = staticmethod(lambda: replace(TRUE_HERE(), **changed))
    of_worker.kernel_named = lambda name: None if habit == "no kernel" else Path("/kernels") / name
    of_worker._done = _mixed if habit == "mixed" else TRUE_DONE


def _mixed(*arguments: Any) -> orders.Done:
    return replace(TRUE_DONE(*arguments), kernel="kernel-of-another")

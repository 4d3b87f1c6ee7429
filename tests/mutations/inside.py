"""A point's job inside the machine, with a fault: `python -m tests.mutations.inside FOLDER`, like gradwire.inside.point.

Faults of agents and of the controller are put into these processes (agent_processes.py), which are started through it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import IO

import gradwire.agents.agent_processes
import gradwire.controller.process
from gradwire import child_process
from gradwire.inside.point import run_inside, run_point
from tests.mutations.fault import FAMILIES, FOLDER, NOTHING, Place, faults_of

FAULT_FILE = "fault.txt"
"""Two lines: the fault's family and its name."""
STARTERS: dict[Place, tuple[ModuleType, str]] = {
    Place.AGENTS: (gradwire.agents.agent_processes, "gradwire.agents"),
    Place.CONTROLLER: (gradwire.controller.process, "gradwire.controller"),
}


def start_through(starter: ModuleType, module: str, family: str, name: str) -> None:
    """Has a module of ours start its process with the fault in it."""

    def started(
        started_module: str,
        arguments: Sequence[str],
        errors: IO[bytes],
        *,
        by_fork: bool = False,
        talks: bool = False,
    ) -> child_process.Child:
        assert started_module == module
        faulty = [family, name, module, *arguments]
        return child_process.start("tests.mutations.process", faulty, errors, by_fork=False, talks=talks)

    starter.start = started  # type: ignore[attr-defined]


def main(folder: Path) -> None:
    """Puts the fault in, and runs the point."""
    family, name = (folder / FAULT_FILE).read_text().splitlines()
    os.environ[FOLDER] = str(folder.resolve())
    if FAMILIES[family] in STARTERS:
        start_through(*STARTERS[FAMILIES[family]], family, name)
    elif name != NOTHING:
        faults_of(family)[name].inject()
    run_point(folder)


if __name__ == "__main__":
    sys.exit(run_inside(main))

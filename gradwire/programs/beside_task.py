"""Programs that run with a strategy: what the machine is to run while it replays a plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gradwire.datatypes.fabric import Fabric
from gradwire.programs.commands import started_beside
from gradwire.programs.launch import Launch, programs
from gradwire.programs.outputs import OUTPUT_LIMIT_BYTES
from gradwire.programs.program_file import covered_folders
from gradwire.programs.program_protocol import PROGRAMS_FILE, Task, make_figures_folders, place_name, write_task
from gradwire.scenario.sections.program import ProgramSection
from gradwire.vm.machine import JOB_FOLDER


def write_programs(folder: Path, sections: Mapping[str, ProgramSection], fabric: Fabric) -> None:
    """Writes what a point's machine is to run during the replay into its folder."""
    started, names = started_beside(sections, fabric), fabric.host_names()
    task = Task(
        fabric_json=fabric.to_json(),
        folder=str(Path.cwd()),
        programs=programs(started, fabric, os.environ, Path(JOB_FOLDER)),
        hosts={each.name: tuple(each.hosts) for each in started},
        output_limit_bytes=OUTPUT_LIMIT_BYTES,
        covered=covered_folders(folder.parent, Path.cwd()),  # with other points, which run at the same time
        enters=any(each.launch is Launch.MPI for each in started),
    )
    write_task(folder / PROGRAMS_FILE, task)
    make_figures_folders(folder, [place_name(each.name, names[host]) for each in started for host in each.started_on])

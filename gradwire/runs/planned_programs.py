"""Points of programs made ready to run: each with a folder, and a key that names everything that decides its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.network.fabric import Fabric
from gradwire.programs.commands import named_files, refuse_wrong_commands, started, told
from gradwire.programs.cpu_time import charged_cpu_time
from gradwire.programs.launch import Started
from gradwire.runs.stored.run_folder import folder_name
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.scenario.loading import origin_named
from gradwire.scenario.program_scenarios import ProgramPoint
from gradwire.vm.code_digest import run_digest
from gradwire.vm.kernel import cached_kernel

LIMITS = {"time_limit", "memory_mb", "stall_limit"}
"""Keys of a run that decide whether it comes to its end, and not its result."""


@dataclass(frozen=True)
class PlannedPrograms:
    """A point of programs ready to run."""

    point: ProgramPoint
    folder: Path
    #: Hash of everything that decides the result, as far as gradwire can see it.
    key: str

    #: Not known: only the programs know what they will send.
    cost_bytes = iteration_bytes = iteration_messages = 0
    #: They have none.
    iterations = 0
    window = MeasuredIterations(0, 0)

    @property
    def fabric(self) -> Fabric:
        """The network of the point."""
        return self.point.fabric

    @property
    def stored(self) -> StoredRun[ProgramPoint]:
        """The files that the run leaves, or has left."""
        return StoredRun(self.folder, self.point)

    @property
    def label(self) -> str:
        """The point in a few words."""
        return self.stored.label

    @property
    def memory_mb(self) -> int:
        """Memory that its machine may use, in MB."""
        return self.point.memory_mb

    @property
    def started(self) -> list[Started]:
        """The programs to start, with their hosts and times."""
        return started(self.point.programs, self.fabric)

    def keyed_anew(self) -> PlannedPrograms:
        """Returns this run with its present key: the kernel is a part of it, and may have been built since."""
        return replace(self, key=key_of(self.point))


def plan_programs(points: Sequence[ProgramPoint], folder: Path) -> list[PlannedPrograms]:
    """Makes points ready for a run folder. Raises InputFault for a command that this machine cannot execute."""
    for point in points:
        with origin_named(point):
            refuse_wrong_commands(point.programs)
            charged_cpu_time(point.section.run.cpu_time, "run.cpu_time")
    return [PlannedPrograms(point, folder / "points" / folder_name(point), key_of(point)) for point in points]


def key_of(point: ProgramPoint) -> str:
    """Hash of the point, of the code and kernel that carry it out, and of the files that its commands name.

    What programs read besides, such as libraries and data, is not seen: remove the point's folder to run it again.
    """
    kernel = cached_kernel()
    decisive = {
        "section": point.section.model_dump(mode="json", exclude={"run": LIMITS}),
        "fabric": point.fabric.to_json(),
        "kernel": kernel.name if kernel else "",
        "code": run_digest(),
        "files": named_files(point.section.program),
        "told": told(started(point.section.program, point.fabric), point.fabric),
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

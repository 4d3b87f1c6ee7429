"""Points of programs made ready to run: each with a folder, and a key that names everything that decides its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.analysis.programs.results import ProgramResult
from gradwire.programs.commands import named_files, refuse_wrong_commands, started, told
from gradwire.programs.launch import Started
from gradwire.runs.program_points.judged import JudgedPrograms
from gradwire.runs.stored.point_folders import folder_name
from gradwire.runs.stored.stored_run import in_words
from gradwire.scenario.loading import origin_named
from gradwire.scenario.program_scenarios import ProgramPoint
from gradwire.vm.code_digest import sources_digest
from gradwire.vm.kernel import cached_kernel

INSIDE_MODULES = ("gradwire.programs.inside.exec_job", "gradwire.controller.__main__", "gradwire.devices")
"""What the machine boots with, and what scripts import. With all that they import, they are the code that carries programs out."""
LIMITS = {"time_limit", "memory_mb", "stall_limit"}
"""Keys of a run that decide whether it comes to its end, and not its result."""


@dataclass(frozen=True)
class PlannedPrograms:
    """What a machine will run for a point."""

    point: ProgramPoint
    folder: Path
    #: Hash of everything that decides the result, as far as gradwire can see it.
    key: str

    @property
    def label(self) -> str:
        """The point in a few words."""
        return in_words(self.point.parameters) or self.folder.name

    @property
    def memory_mb(self) -> int:
        """What its machine may use."""
        return self.point.section.run.memory_mb

    @property
    def cost_bytes(self) -> int:
        """Not known: only the programs know what they will send."""
        return 0

    def judged(self, result: ProgramResult, *, reused: bool = False) -> JudgedPrograms:
        """The point with what its run is worth."""
        return JudgedPrograms(self.folder, self.label, result, reused)

    @property
    def started(self) -> list[Started]:
        """What to start where, and when."""
        return started(self.point.section.program, self.point.fabric)


def plan_programs(points: Sequence[ProgramPoint], folder: Path) -> list[PlannedPrograms]:
    """Makes points ready for a run folder. Raises InputFault for a command that this machine cannot execute."""
    for point in points:
        with origin_named(point):
            refuse_wrong_commands(point.section.program)
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
        "code": sources_digest(INSIDE_MODULES),
        "files": named_files(point.section.program),
        "told": told(started(point.section.program, point.fabric), point.fabric),
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

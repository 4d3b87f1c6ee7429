"""Points of programs made ready to run: each with a folder, and a key that names everything that decides its result."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from typing_extensions import override

from gradwire.inside.point_protocol import Event
from gradwire.programs.commands import named_files, refuse_wrong_commands, started, told
from gradwire.programs.cpu_time import charged_cpu_time
from gradwire.programs.execution import JobRequest, execute
from gradwire.runs.planned_point import PlannedPoint
from gradwire.runs.point_machine import MachineEnd, booted_to_its_end
from gradwire.runs.stored.run_folder import folder_name
from gradwire.scenario.loading import origin_named
from gradwire.scenario.program_scenarios import ProgramPoint
from gradwire.vm.code_digest import run_digest
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.session import LimitNames

LIMITS = {"time_limit", "memory_mb", "stall_limit"}
"""Keys of a run that decide whether it comes to its end, and not its result."""
RUN_KEYS = LimitNames("run.virtual_limit", "run.time_limit", "run.stall_limit", "run.memory_mb", "run.memory_mb")
"""Keys of a scenario that raise the limits of a point."""


class PlannedPrograms(PlannedPoint[ProgramPoint]):
    """A point of programs, ready to run."""

    @override
    def keyed_anew(self) -> PlannedPrograms:
        """Returns this run with its present key."""
        return replace(self, key=key_of(self.point))

    @override
    def on_machine(self, cpu: int, hear: Callable[[Event], None], stop: threading.Event) -> MachineEnd:
        """Runs the programs, of which nobody hears before they have ended."""

        def boot() -> MachineEnd:
            execute(self.request(cpu, stop))
            return MachineEnd()

        return booted_to_its_end(self.folder, boot, stop)

    def request(self, cpu: int, stop: threading.Event) -> JobRequest:
        """The programs to run, and their limits."""
        run = self.point.section.run
        return JobRequest(
            fabric=self.fabric,
            programs=started(self.point.programs, self.fabric),
            memory_mb=run.memory_mb,
            time_limit_s=run.virtual_limit,
            wall_limit_s=run.time_limit,
            stall_limit_s=run.stall_limit,
            faults=self.point.faults,
            capture=[port.interface for port in self.fabric.ports_named(run.capture)],
            folder=self.folder,
            covered=self.folder.parent,  # with other points, which run at the same time
            cpu=cpu,
            stop=stop,
            limit_names=RUN_KEYS,
            cpu_time=run.cpu_time,
        )


def plan_programs(points: Sequence[ProgramPoint], folder: Path) -> list[PlannedPrograms]:
    """Makes points ready for a run folder. Raises InputFault for a command that this machine cannot execute."""
    for point in points:
        with origin_named(point):
            refuse_wrong_commands(point.programs)
            charged_cpu_time(point.section.run.cpu_time, "run.cpu_time")
    return [
        PlannedPrograms(point, point.fabric, folder / "points" / folder_name(point), key_of(point)) for point in points
    ]


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

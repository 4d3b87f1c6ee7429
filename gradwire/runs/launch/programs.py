"""Scenarios of programs, carried out: from a file to judged points in a run folder. `gradwire run` and `gradwire.run` share it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from gradwire.analysis.programs.results import ProgramResult
from gradwire.faults import InputFault
from gradwire.programs.points.campaign import OnEnded, run_programs
from gradwire.programs.points.planned import plan_programs
from gradwire.programs.points.reporting import report_programs
from gradwire.programs.size import capacity_warning
from gradwire.runs.compiling.processes import cores
from gradwire.runs.executing.choice import LOCAL, Where
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.out_paths import refuse_unusable, writing
from gradwire.runs.launch.scenario_files import scenario_path
from gradwire.runs.proof import trial_on
from gradwire.runs.stored.lock import locked
from gradwire.runs.stored.place import Place, place_for
from gradwire.runs.stored.provenance import note_start
from gradwire.runs.stored.run_folder import write_run_folder
from gradwire.runs.terminal.screen import Screen
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import Clock
from gradwire.vm.watching import unwatched
from gradwire.workloads.programs.loading import ProgramScenario, load_programs, programs_of
from gradwire.workloads.scenario.reading import has_programs, read_document

ROOT_WARNING = (
    "you are root, so programs may change every file of this machine except those in /dev, /proc, /run and /sys"
)


@dataclass(frozen=True)
class ProgramsDone:
    """A run of programs that has ended, and whose report is written."""

    results: Sequence[ProgramResult]
    #: What a terminal shows of the report.
    shown: RenderableType


def is_of_programs(source: Path | Mapping[str, Any]) -> bool:
    """Whether a scenario, given by path, name or content, is one of programs. Raises InputFault for what is none."""
    return has_programs(source if isinstance(source, Mapping) else read_document(scenario_path(source)))


def loaded_programs(source: Path | Mapping[str, Any], settings: Sequence[str]) -> ProgramScenario:
    """The scenario of programs at a path, of a shipped one's name, or with this content, with settings. Raises InputFault."""
    if isinstance(source, Mapping):
        return programs_of(source, settings)
    return load_programs(scenario_path(source), settings)


def refuse_elsewhere(where: Where) -> None:
    """Raises InputFault where programs, which are files of this machine, are to run on others."""
    if where.executor != LOCAL:
        raise InputFault(f"--executor {where.executor}: scenarios of programs run on this machine; leave it out")


def place_of_programs(scenario: ProgramScenario, out: Path | None, screen: Screen) -> Place:
    """The run folder of a scenario whose commands this machine can execute; makes nothing. Raises InputFault."""
    place = place_for(scenario, Clock(), out)
    refuse_unusable(place.folder)
    if place.others:
        held = ", ".join(map(str, place.others))
        screen.results.print(f"{held}: other settings ran there; this goes to {place.folder}", highlight=False)
    plan_programs(scenario.points, place.folder)
    return place


def carry_out_programs(
    scenario: ProgramScenario, folder: Path, jobs: int | None, command: str, screen: Screen, on_ended: OnEnded
) -> ProgramsDone:
    """Runs the points that are not there yet, by default one per core, and writes the report.

    command: what began the run, as its report shows it. Raises Fault for what concerns more than one point; what goes wrong with one is
    its verdict. On Ctrl-C, what is complete is kept, KeyboardInterrupt is raised, and the same call goes on from there.
    """
    clock = Clock()
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, command))
            place_for(scenario, clock, folder)  # which another command may have taken since
            write_run_folder(folder, scenario.document, clock)
        _warn_of_programs(scenario, screen)
        make_kernel_ready(screen.errors)
        warn_of_kernel(screen)
        with writing(folder):
            note_start(folder, clock, command)
        planned = plan_programs(scenario.points, folder)
        with screen.results.status(f"{len(planned)} points"):
            results = run_programs(planned, min(jobs or cores(), len(planned)), on_ended, trial_on(clock))
        with writing(folder):
            return ProgramsDone(results, report_programs(scenario, results, folder))


def warn_of_kernel(screen: Screen) -> None:
    """Says what programs lack on the kernel that is there."""
    kernel = cached_kernel()
    if kernel is not None and (warning := unwatched(kernel)):
        screen.warn(warning)


def _warn_of_programs(scenario: ProgramScenario, screen: Screen) -> None:
    of_networks = [capacity_warning(point.fabric) for point in scenario.points]
    for warning in dict.fromkeys(filter(None, [*of_networks, ROOT_WARNING if os.geteuid() == 0 else ""])):
        screen.warn(warning)

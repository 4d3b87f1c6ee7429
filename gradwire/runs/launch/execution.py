"""Carries out a prepared run: locks its folder, builds the kernel if there is none, runs what is missing, and reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, overload

from rich.console import RenderableType

from gradwire.runs.agreement.comparing import compared
from gradwire.runs.campaign import Campaign
from gradwire.runs.comparing.whole import estimate_whole
from gradwire.runs.compiling.processes import cores
from gradwire.runs.executing.choice import Where
from gradwire.runs.executing.local import LocalPool
from gradwire.runs.expected_cost import Expectation, announcement, warnings
from gradwire.runs.judged import JudgedRun
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.network_size import capacity_warning
from gradwire.runs.launch.out_paths import writing
from gradwire.runs.launch.place import place_for, take_over
from gradwire.runs.launch.preparation import Prepared, PreparedPrograms
from gradwire.runs.program_points.campaign import ProgramCampaign
from gradwire.runs.program_points.judged import JudgedPrograms
from gradwire.runs.program_points.planned import plan_programs
from gradwire.runs.program_points.reporting import report_programs
from gradwire.runs.proof import trial_on
from gradwire.runs.reporting import write_report
from gradwire.runs.stored.lock import locked
from gradwire.runs.stored.provenance import note_start
from gradwire.runs.stored.run_folder import write_run_folder
from gradwire.runs.terminal.progress import LiveProgress
from gradwire.runs.terminal.screen import Screen
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import MEASURED
from gradwire.vm.watching import unwatched

ROOT_WARNING = (
    "you are root, so programs may change every file of this machine except those in /dev, /proc, /run and /sys"
)
J = TypeVar("J", JudgedRun, JudgedPrograms)


@dataclass(frozen=True)
class CarriedOut(Generic[J]):
    """A run that has ended, and whose report is written."""

    runs: Sequence[J]
    #: What a terminal shows of the report.
    shown: RenderableType

    @property
    def valid(self) -> bool:
        """Whether every point's verdict is valid."""
        return all(run.valid for run in self.runs)


@overload
def carry_out(prepared: Prepared, where: Where, command: str, screen: Screen) -> CarriedOut[JudgedRun]: ...


@overload
def carry_out(prepared: PreparedPrograms, where: Where, command: str, screen: Screen) -> CarriedOut[JudgedPrograms]: ...


def carry_out(
    prepared: Prepared | PreparedPrograms, where: Where, command: str, screen: Screen
) -> CarriedOut[JudgedRun] | CarriedOut[JudgedPrograms]:
    """Runs the points that are not there yet, side by side and by default one per core, and writes the report.

    command: what began the run, as its report shows it. Raises Fault for what concerns more than one point; what goes wrong with one is
    its verdict. On Ctrl-C, what is complete is kept, KeyboardInterrupt is raised, and the same call goes on from there.
    """
    folder, clock = prepared.place.folder, prepared.clock
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, command))
            # Another command may have taken it since.
            place_for(prepared.scenario, replace(clock, scale=MEASURED) if prepared.scale_from else clock, folder)
            write_run_folder(folder, prepared.scenario.document, clock)
        built = clock.name == "virtual" and make_kernel_ready(screen.errors)
        with writing(folder):
            note_start(folder, clock, command, prepared.scale_from)
        if isinstance(prepared, PreparedPrograms):
            return _programs_carried_out(prepared, where, screen)
        if built:
            prepared = replace(prepared, planned=[run.keyed_anew() for run in prepared.planned])
        return _plans_carried_out(prepared, where, screen)


def _plans_carried_out(prepared: Prepared, where: Where, screen: Screen) -> CarriedOut[JudgedRun]:
    folder, clock, planned = prepared.place.folder, prepared.clock, prepared.planned
    with writing(folder):
        take_over(planned)
    to_run = [run for run in planned if not run.stored.is_of(run.key)]
    for warning in warnings(to_run):
        screen.warn(warning)
    with where.opened(clock, trial_on(clock), screen.warn, len(planned)) as executor:
        screen.results.print(announcement(to_run, executor.jobs), highlight=False)
        expected = Expectation(to_run, executor.jobs)
        with LiveProgress(screen.results, len(planned), expected) as progress, writing(folder):
            runs = Campaign(planned, folder, executor, progress).run()
    runs = compared(runs, screen.errors)
    if prepared.scenario.chart == "ranking":
        with screen.errors.status("estimating the whole model"), writing(folder):
            estimate_whole(planned, folder, min(where.jobs or cores(), cores()))
    with writing(folder):
        return CarriedOut(runs, write_report(prepared.scenario, runs, folder))


def _programs_carried_out(prepared: PreparedPrograms, where: Where, screen: Screen) -> CarriedOut[JudgedPrograms]:
    folder, scenario = prepared.place.folder, prepared.scenario
    of_networks = [capacity_warning(point.fabric) for point in scenario.points]
    for warning in dict.fromkeys(filter(None, [*of_networks, ROOT_WARNING if os.geteuid() == 0 else ""])):
        screen.warn(warning)
    warn_of_kernel(screen)
    planned = plan_programs(
        scenario.points, folder
    )  # anew: the kernel is a part of their keys, and may have been built since
    pool = LocalPool(min(where.jobs or cores(), len(planned)), trial_on(prepared.clock))
    with LiveProgress(screen.results, len(planned)) as progress:
        runs = ProgramCampaign(planned, folder, pool, progress).run()
    with writing(folder):
        return CarriedOut(runs, report_programs(scenario, [run.result for run in runs], folder))


def warn_of_kernel(screen: Screen) -> None:
    """Says what programs lack on the kernel that is there."""
    kernel = cached_kernel()
    if kernel is not None and (warning := unwatched(kernel)):
        screen.warn(warning)

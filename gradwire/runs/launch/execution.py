"""Carries out a prepared run: locks its folder, builds the kernel if there is none, runs what is missing, and
reports."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from gradwire.runs.campaign import Campaign
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.executing.choice import Where
from gradwire.runs.executing.executor import Planned
from gradwire.runs.expected_cost import Expectation, announcement
from gradwire.runs.judged import JudgedRun
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.place import place_for, take_over, writing
from gradwire.runs.launch.preparation import Prepared
from gradwire.runs.progress import LiveProgress
from gradwire.runs.proof import trial_on
from gradwire.runs.screen import Screen
from gradwire.runs.stored.provenance import note_start
from gradwire.runs.stored.run_folder import locked, write_run_folder
from gradwire.runs.work import Work
from gradwire.runs.works import work_of_scenario
from gradwire.vm.machines import MEASURED, Clock


@dataclass(frozen=True)
class CarriedOut:
    """A run that has ended, and whose report is written."""

    runs: Sequence[JudgedRun[Any, Any]]
    #: What a terminal shows of the report.
    shown: RenderableType

    @property
    def valid(self) -> bool:
        """Whether every point's verdict is valid."""
        return all(run.valid for run in self.runs)


def carry_out(prepared: Prepared, where: Where, command: str, screen: Screen) -> CarriedOut:
    """Runs the points that are not there yet, side by side and by default one per core, and writes the report.

    command: what began the run, as its report shows it. Raises Fault for what concerns more than one point; what goes
    wrong with one is its verdict. On Ctrl-C, what is complete is kept, KeyboardInterrupt is raised, and the same call
    continues from there.
    """
    scenario, folder, clock = prepared.scenario, prepared.place.folder, prepared.clock
    work = work_of_scenario(scenario)
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, command))
            # Another command may have taken it since.
            place_for(scenario, replace(clock, scale=MEASURED) if prepared.scale_from else clock, folder)
            write_run_folder(folder, scenario.document, clock)
        built = clock.name == "virtual" and make_kernel_ready(screen.errors)
        with writing(folder):
            note_start(folder, clock, command, prepared.scale_from)
        planned = [run.keyed_anew() for run in prepared.planned] if built else prepared.planned
        if work.taken_over:
            with writing(folder):
                take_over(planned)
        runs = work.compared(_run(work, planned, folder, clock, where, screen), screen)
        with screen.errors.status("estimating the whole model"), writing(folder):
            work.finish(scenario, planned, folder, min(where.jobs or cores(), cores()))
        with writing(folder):
            return CarriedOut(runs, work.write_report(scenario, runs, folder, folder))


def _run(
    work: Work[Any, Any, Any], planned: Sequence[Planned], folder: Path, clock: Clock, where: Where, screen: Screen
) -> list[JudgedRun[Any, Any]]:
    """Runs what is not there yet, and shows how it is getting on."""
    to_run = [run for run in planned if not run.stored.is_of(run.key)]
    for warning in work.warnings(to_run):
        screen.warn(warning)
    with where.opened(clock, trial_on(clock), screen.warn, len(planned)) as executor:
        screen.results.print(announcement(to_run, executor.jobs), highlight=False)
        expected = Expectation(to_run, executor.jobs)
        with LiveProgress(screen.results, len(planned), expected) as progress, writing(folder):
            return Campaign(planned, folder, executor, progress).run()

"""Carries out a prepared run: locks its folder, builds the kernel if there is none, runs what is missing, and reports."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from rich.console import RenderableType

from gradwire.runs.agreement.comparing import compared
from gradwire.runs.campaign import Campaign
from gradwire.runs.comparing.whole import estimate_whole
from gradwire.runs.compiling.processes import cores
from gradwire.runs.executing.choice import Where
from gradwire.runs.expected_cost import Expectation, announcement, warnings
from gradwire.runs.judged import JudgedRun
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.out_paths import writing
from gradwire.runs.launch.preparation import Prepared
from gradwire.runs.proof import trial_on
from gradwire.runs.reporting import write_report
from gradwire.runs.stored.lock import locked
from gradwire.runs.stored.place import place_for, take_over
from gradwire.runs.stored.provenance import note_start
from gradwire.runs.stored.run_folder import write_run_folder
from gradwire.runs.terminal.progress import LiveProgress
from gradwire.runs.terminal.screen import Screen
from gradwire.vm.machines import MEASURED


@dataclass(frozen=True)
class CarriedOut:
    """A run that has ended, and whose report is written."""

    runs: Sequence[JudgedRun]
    #: What a terminal shows of the report.
    shown: RenderableType


def carry_out(prepared: Prepared, where: Where, command: str, screen: Screen) -> CarriedOut:
    """Runs the points that are not there yet, side by side and by default one per core, and writes the report.

    command: what began the run, as its report shows it. Raises Fault for what concerns more than one point; what goes wrong with one is
    its verdict. On Ctrl-C, what is complete is kept, KeyboardInterrupt is raised, and the same call goes on from there.
    """
    folder, clock, planned = prepared.place.folder, prepared.clock, prepared.planned
    with ExitStack() as held:
        with writing(folder):
            held.enter_context(locked(folder, command))
            # Another command may have taken it since.
            place_for(prepared.scenario, replace(clock, scale=MEASURED) if prepared.scale_from else clock, folder)
            write_run_folder(folder, prepared.scenario.document, clock)
        if clock.name == "virtual" and make_kernel_ready(screen.errors):
            planned = [run.keyed_anew() for run in planned]
        with writing(folder):
            note_start(folder, clock, command, prepared.scale_from)
            take_over(planned)
        to_run = [run for run in planned if not run.stored.is_of(run.key)]
        for warning in warnings(to_run):
            screen.warn(warning)
        executor = held.enter_context(where.opened(clock, trial_on(clock), screen.warn, len(planned)))
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

"""The command that compiles points and shows their plans: `plan`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradwire.cli import terminal
from gradwire.runs.compiling.processes import cores
from gradwire.runs.expected_cost import announcement, warnings
from gradwire.runs.launch.scenario_files import scenario_path
from gradwire.runs.planned import PlannedRun, planning, virtual_clock
from gradwire.runs.stored.run_folder import RUNS
from gradwire.runs.terminal.plan_listing import plan_lines, settings_lines, shared_settings
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.program_scenarios import load_programs
from gradwire.scenario.reading import has_programs, read_document
from gradwire.scenario.resolution.compilation import ResolvedPoint


def plan(scenario: Path, settings: Sequence[str], draw: Path | None = None) -> None:
    """`gradwire plan`."""
    file = scenario_path(scenario)
    if draw is not None:
        from gradwire.cli import drawing

        drawing.refuse_other_kinds(draw)
    if has_programs(read_document(file)):
        from gradwire.cli import program_points

        program_points.plan(file, settings)
        if draw is not None:
            drawing.draw(draw, [point.fabric for point in load_programs(file, settings).points])
        return
    found = load_scenario(file, settings)
    runs: list[PlannedRun] = []
    shared = shared_settings(found.points)
    with terminal.interruptible("interrupted"):
        for planned in planning(found.points, RUNS / found.name, virtual_clock(found.points), cores()):
            heading = () if runs else settings_lines(shared, len(found.points))
            terminal.console.print(*heading, *plan_lines(planned, shared), sep="\n", highlight=False)
            runs.append(planned)
    for warning in warnings(runs):
        terminal.screen().warn(warning)
    terminal.console.print(announcement(runs, cores()), highlight=False)
    if draw is not None:
        drawing.draw(draw, [ResolvedPoint(point.section).fabric for point in found.points])

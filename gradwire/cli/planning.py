"""The command that compiles points and shows their plans: `plan`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.markup import escape

from gradwire.cli import terminal
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.expected_cost import announcement, warnings
from gradwire.runs.plan_listing import plan_lines, settings_lines, shared_settings
from gradwire.runs.planned import PlannedRun, planning, virtual_clock
from gradwire.runs.planned_programs import plan_programs
from gradwire.runs.stored.run_folder import RUNS
from gradwire.scenario.loading import Point, Scenario
from gradwire.scenario.program_scenarios import AnyScenario, ProgramPoint, ProgramScenario
from gradwire.workloads.units import rate_text


def plan(scenario: AnyScenario, draw: Path | None = None) -> None:
    """`gradwire plan`."""
    if draw is not None:
        from gradwire.cli import drawing

        drawing.refuse_other_kinds(draw)
    LISTINGS[type(scenario.points[0])](scenario)
    if draw is not None:
        drawing.draw(draw, [point.fabric for point in scenario.points])


def _list_plans(scenario: Scenario) -> None:
    """Every point's candidates and settings, and what they will take."""
    runs: list[PlannedRun] = []
    shared = shared_settings(scenario.points)
    with terminal.interruptible("interrupted"):
        for planned in planning(scenario.points, RUNS / scenario.name, virtual_clock(scenario.points), cores()):
            heading = () if runs else settings_lines(shared, len(scenario.points))
            terminal.console.print(*heading, *plan_lines(planned, shared), sep="\n", highlight=False)
            runs.append(planned)
    for warning in warnings(runs):
        terminal.screen().warn(warning)
    terminal.console.print(announcement(runs, cores()), highlight=False)


def _list_programs(scenario: ProgramScenario) -> None:
    """What would run where, for programs have no plan."""
    for planned in plan_programs(scenario.points, RUNS / scenario.name):
        fabric = planned.point.fabric
        terminal.console.print(
            f"[bold]{escape(planned.label)}[/bold]: {fabric.hosts} hosts at {rate_text(fabric.rate_bps)}",
            highlight=False,
        )
        for name, program in planned.point.section.program.items():
            hosts = ", ".join(fabric.host_names()[host] for host in planned.point.hosts_of(program))
            when = f" after {program.start:g} s" if program.start else ""
            terminal.console.print(f"  {escape(name)} on {hosts}{when}: {escape(program.command)}", highlight=False)


LISTINGS: dict[type, Callable[[Any], None]] = {Point: _list_plans, ProgramPoint: _list_programs}
"""How points of each work are listed."""

"""Commands that run points: `run` and `compare`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from gradwire.cli import terminal
from gradwire.faults import InputFault
from gradwire.runs.comparing.questions import Asked
from gradwire.runs.executing.choice import Where
from gradwire.runs.launch.execution import (
    Prepared,
    carry_out,
    prepare,
    prepare_comparison,
)
from gradwire.runs.stored.provenance import typed_command
from gradwire.scenario.program_scenarios import AnyScenario
from gradwire.vm.machines import MEASURED, Clock


def run(scenario: AnyScenario, where: Where, out: Path | None, clock_name: str, scale: int | None) -> None:
    """`gradwire run`."""
    clock = chosen_clock(clock_name, scale)
    where.refuse_what_cannot_be(clock)
    with terminal.interruptible("interrupted; nothing has run"):
        where.refuse_what_cannot_be(clock, scenario.points)
        prepared = prepare(scenario, clock, out, terminal.screen())
    _run(prepared, where)


def compare(
    question: Asked,
    strategies: Sequence[str],
    seeds: int,
    where: Where,
    out: Path | None,
    *,
    estimate_first: bool,
) -> None:
    """`gradwire compare`."""
    where.refuse_what_cannot_be(Clock())
    with terminal.interruptible("interrupted; nothing has run"):
        prepared = prepare_comparison(
            question, strategies, seeds, out, terminal.screen(), estimate_first=estimate_first
        )
    _run(prepared, where)


def _run(prepared: Prepared, where: Where) -> None:
    with terminal.interruptible(terminal.RESUMES):
        done = carry_out(prepared, where, typed_command(sys.argv), terminal.screen())
    terminal.show_report(done.shown, prepared.place.folder)
    if not done.valid:
        raise typer.Exit(1)


def chosen_clock(name: str, scale: int | None) -> Clock:
    """The clock of `--clock` and `--scale`; without a scale, the wall clock's is to be measured. Raises InputFault if
    they name none."""
    if name not in ("virtual", "wall"):
        raise InputFault(f"--clock {name}: must be virtual or wall")
    if name == "virtual":
        if scale is not None:
            raise InputFault("--scale belongs to --clock wall: the virtual clock chooses its own")
        return Clock()
    return Clock(name, MEASURED if scale is None else scale)

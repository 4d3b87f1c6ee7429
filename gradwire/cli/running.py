"""Commands that run points: `run` and `compare`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from gradwire.cli import terminal
from gradwire.cli.clock import chosen_clock
from gradwire.runs.comparing.questions import Asked
from gradwire.runs.executing.choice import Where
from gradwire.runs.launch.execution import carry_out
from gradwire.runs.launch.preparation import (
    Prepared,
    PreparedPrograms,
    loaded_either,
    prepare,
    prepare_comparison,
    prepare_programs,
)
from gradwire.runs.stored.provenance import typed_command
from gradwire.vm.machines import Clock
from gradwire.workloads.programs.loading import ProgramScenario


def run(
    scenario: Path, settings: Sequence[str], where: Where, out: Path | None, clock_name: str, scale: int | None
) -> None:
    """`gradwire run`."""
    clock = chosen_clock(clock_name, scale)
    where.refuse_what_cannot_be(clock)
    with terminal.interruptible("interrupted; nothing has run"):
        loaded = loaded_either(scenario, settings)
        where.refuse_what_cannot_be(clock, loaded.points)
        prepared = (
            prepare_programs(loaded, clock, out, terminal.screen())
            if isinstance(loaded, ProgramScenario)
            else prepare(loaded, clock, out, terminal.screen())
        )
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


def _run(prepared: Prepared | PreparedPrograms, where: Where) -> None:
    with terminal.interruptible(terminal.RESUMES):
        done = carry_out(prepared, where, typed_command(sys.argv), terminal.screen())
    terminal.show_report(done.shown, prepared.place.folder)
    if not done.valid:
        raise typer.Exit(1)

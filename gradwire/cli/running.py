"""Commands that run points: `run` and `compare`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from gradwire.cli import program_points, terminal
from gradwire.cli.clock import chosen_clock
from gradwire.runs.comparing.questions import Asked
from gradwire.runs.executing.choice import Where
from gradwire.runs.launch.execution import carry_out
from gradwire.runs.launch.preparation import Prepared, loaded, prepare, prepare_comparison
from gradwire.runs.launch.programs import refuse_elsewhere
from gradwire.runs.launch.scenario_files import scenario_path
from gradwire.runs.stored.provenance import typed_command
from gradwire.scenario.reading import has_programs, read_document
from gradwire.vm.machines import Clock


def run(
    scenario: Path, settings: Sequence[str], where: Where, out: Path | None, clock_name: str, scale: int | None
) -> None:
    """`gradwire run`."""
    clock = chosen_clock(clock_name, scale)
    where.refuse_what_cannot_be(clock)
    file = scenario_path(scenario)
    if has_programs(read_document(file)):
        refuse_elsewhere(where)
        program_points.run(file, settings, where.jobs, out, clock)
        return
    with terminal.interruptible("interrupted; nothing has run"):
        scenario_read = loaded(file, settings)
        where.refuse_what_cannot_be(clock, scenario_read.points)
        prepared = prepare(scenario_read, clock, out, terminal.screen())
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
    if not all(judged.result.valid for judged in done.runs):
        raise typer.Exit(1)

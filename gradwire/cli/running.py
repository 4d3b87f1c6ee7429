"""Commands that run points: `run` and `compare`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from gradwire.analysis.parameters import as_number
from gradwire.analysis.point_frames import read_texts
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
from gradwire.runs.screen import Screen
from gradwire.runs.stored.provenance import typed_command
from gradwire.scenario.program_scenarios import AnyScenario
from gradwire.vm.machines import MEASURED, Clock


def run(
    scenario: AnyScenario,
    where: Where,
    out: Path | None,
    clock_name: str,
    scale: int | None,
    *,
    as_json: bool = False,
) -> None:
    """`gradwire run`."""
    screen = Screen(terminal.errors, terminal.errors) if as_json else terminal.screen()
    clock = chosen_clock(clock_name, scale)
    where.refuse_what_cannot_be(clock)
    with terminal.interruptible("interrupted; nothing has run"):
        where.refuse_what_cannot_be(clock, scenario.points)
        prepared = prepare(scenario, clock, out, screen)
    _run(prepared, where, screen, as_json=as_json)


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
    _run(prepared, where, terminal.screen())


def _run(prepared: Prepared, where: Where, screen: Screen, *, as_json: bool = False) -> None:
    with terminal.interruptible(terminal.RESUMES):
        done = carry_out(prepared, where, typed_command(sys.argv), screen)
    if as_json:
        print(json.dumps(_as_json(prepared.place.folder), indent=1, ensure_ascii=False))
    else:
        terminal.show_report(done.shown, prepared.place.folder)
    if not done.valid:
        raise typer.Exit(1)


def _as_json(folder: Path) -> dict[str, Any]:
    """What a program wants to know of a run: its folder, and the rows of its tables, numbers as numbers."""
    tables = {name: folder / f"{name}.csv" for name in ("points", "figures")}
    rows = {
        name: [{key: _value(text) for key, text in row.items()} for row in read_texts(path)]
        for name, path in tables.items()
        if path.exists()
    }
    return {"folder": str(folder), **rows}


def _value(text: str) -> str | int | float | None:
    """A cell as JSON has it: a number where it is one, null where it is empty."""
    if text == "" or text.isdigit():
        return int(text) if text else None
    number = as_number(text)
    return text if number is None or not math.isfinite(number) else number


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

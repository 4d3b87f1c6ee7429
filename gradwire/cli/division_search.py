"""`gradwire compare --gpus`: the fastest ways to divide a large model."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from gradwire.cli import division_answer, terminal
from gradwire.console.terminal_screen import TerminalScreen
from gradwire.faults import InputFault
from gradwire.files import as_one_set, replace_text
from gradwire.runs.comparing import division_packets
from gradwire.runs.comparing.division_packets import Chosen
from gradwire.runs.comparing.division_question import MACHINE_GPUS, RATE, DivisionQuestion
from gradwire.runs.comparing.division_search import FoundDivisions, search
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.executing.executor_choice import LOCAL, Where
from gradwire.runs.launch.place import place_from, refuse_run_folder, writing
from gradwire.runs.launch.scenario_run import Prepared, carry_out, loaded, prepare, refused_points
from gradwire.runs.reporting import notes_of_parts
from gradwire.runs.screen import Screen
from gradwire.runs.stored.provenance import typed_command
from gradwire.runs.stored.run_folder import RUNS
from gradwire.vm.machines import Clock
from gradwire.workloads.units import size_bytes


def refuse_others(given: Mapping[str, object], when: str) -> None:
    """Raises InputFault for options that are given and cannot be."""
    if wrong := [name for name, value in given.items() if value]:
        raise InputFault(f"{', '.join(wrong)}: cannot be given {when}")


def asked_of(
    model: str | None,
    gpus: int,
    rate: str | None,
    device: str | None,
    given: Mapping[str, Any],
    settings: tuple[str, ...],
) -> DivisionQuestion:
    """The question, with its defaults. Raises InputFault."""
    if model is None:
        raise InputFault("--gpus: give --model, a large language model such as llama3-405b")
    memory = given["--memory"]
    try:
        memory_bytes = None if memory is None else float(size_bytes(memory))
    except ValueError as error:
        raise InputFault(f"--memory {memory}: {error}") from error
    return DivisionQuestion(
        model=model,
        gpus=gpus,
        rate=rate or RATE,
        device=device,
        machine_gpus=given["--machine-gpus"] or MACHINE_GPUS,
        tokens=given["--seq"],
        samples=given["--global-batch"],
        memory_bytes=memory_bytes,
        settings=settings,
    )


@dataclass(frozen=True)
class ByPackets:
    """The part of the answer that runs by packets."""

    #: Number of the fastest divisions that run; None: none of them.
    count: int | None
    #: Number of copies of each class of ranks; None: the fewest.
    copies: int | None
    where: Where

    def __post_init__(self) -> None:
        """Raises InputFault for options that say how to run, if nothing runs."""
        given = {
            "--copies": self.copies is not None,
            "--executor": self.where.executor != LOCAL,
            "--scheduler": self.where.scheduler is not None,
        }
        if self.count is None and (said := ", ".join(name for name, is_given in given.items() if is_given)):
            raise InputFault(f"{said}: say how many divisions run by packets (--run 3)")


def search_divisions(question: DivisionQuestion, by_packets: ByPackets, out: Path | None, *, as_json: bool) -> None:
    """Searches, prints the best divisions, and writes them into a folder; then runs some of them in part."""
    folder = out or RUNS / question.name
    refuse_run_folder(folder)
    print_to = terminal.errors
    with terminal.interruptible("interrupted; nothing is written"):
        answer = search(
            question, by_packets.where.jobs or cores(), lambda what: print_to.print(what, style="dim", highlight=False)
        )
    with writing(folder), as_one_set(folder):
        division_answer.write_files(answer, folder)
    if not as_json:
        _show(answer, folder)
    measured: list[dict[str, Any]] = []
    if by_packets.count is not None:
        measured = _run_in_part(answer, by_packets, folder, as_json=as_json)
    if as_json:
        more = {} if by_packets.count is None else {"by_packets": measured}
        print(json.dumps(division_answer.as_json(answer) | more, indent=1))
    if any(row["measured_s"] is None for row in measured):
        raise typer.Exit(1)


def _show(answer: FoundDivisions, folder: Path) -> None:
    terminal.show(division_answer.make_table(answer))
    for paragraph in division_answer.describe(answer):
        terminal.console.print(paragraph, highlight=False, markup=False)
    terminal.name_files(
        {
            "rows": folder / division_answer.CSV_FILE,
            "everything": folder / division_answer.JSON_FILE,
            "chart": folder / "chart.png",
            "scenario of the fastest": folder / division_answer.SCENARIO_FILE,
        }
    )


def prepared_divisions(answer: FoundDivisions, chosen: Chosen, folder: Path, screen: Screen) -> tuple[Chosen, Prepared]:
    """Prepares those of these divisions that can run, in a folder, or in the next one if others ran there. Raises
    Fault, also if none can run."""
    if not chosen.parts:
        reasons = "; ".join(dict.fromkeys(each.reason for each in chosen.refused))
        raise InputFault(f"--run {len(chosen.refused)}: none of these divisions can run in part: {reasons}")
    scenario, clock = loaded(division_packets.scenario_of(answer, chosen.parts), ()), Clock()
    place = place_from(folder, scenario, clock).folder
    try:
        return chosen, prepare(scenario, clock, place, screen)
    except InputFault:
        refused = refused_points(scenario, place, clock, screen)
        if not refused:
            raise
    return prepared_divisions(answer, chosen.without(refused), folder, screen)


def _run_in_part(answer: FoundDivisions, by_packets: ByPackets, folder: Path, *, as_json: bool) -> list[dict[str, Any]]:
    """Runs the fastest divisions in part, shows what was measured and estimated, and returns the rows."""
    assert by_packets.count is not None
    screen = TerminalScreen(terminal.errors, terminal.errors) if as_json else terminal.screen()
    with terminal.interruptible("interrupted; the estimates are written, and nothing has run"):
        with screen.working("compiling") as status:
            chosen = division_packets.chosen_divisions(answer, by_packets.count, by_packets.copies, status.update)
        chosen, prepared = prepared_divisions(answer, chosen, folder / division_packets.PACKETS, screen)
    with terminal.interruptible(terminal.RESUMES):
        done = carry_out(prepared, by_packets.where, typed_command(sys.argv), screen)
    rows = division_packets.measured_rows(chosen, done.runs)
    with writing(folder):
        replace_text(folder / division_packets.JSON_FILE, json.dumps(rows, indent=1) + "\n")
    if not as_json:
        terminal.show(division_answer.make_measured_table(rows))
        notes = [note for _, note in notes_of_parts(done.runs)]
        for paragraph in division_answer.describe_measured(rows, notes):
            terminal.console.print(paragraph, highlight=False, markup=False)
        terminal.name_files({"report of the runs": prepared.place.folder / "report.html"})
    return rows

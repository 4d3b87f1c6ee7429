"""`gradwire compare --gpus`: the fastest ways to divide a large model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradwire.cli import terminal
from gradwire.faults import InputFault
from gradwire.runs.comparing.division_question import MACHINE_GPUS, RATE, DivisionQuestion
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.launch.place import refuse_unusable, writing
from gradwire.runs.stored.run_folder import RUNS
from gradwire.workloads.units import size_bytes


def refuse_others(given: Mapping[str, Any], when: str) -> None:
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


def search_divisions(question: DivisionQuestion, jobs: int | None, out: Path | None, *, as_json: bool) -> None:
    """Searches, prints the best divisions, and writes them into a folder."""
    from gradwire.analysis.report.tables import rich_table
    from gradwire.runs.comparing import division_answer
    from gradwire.runs.comparing.division_search import search

    folder = out or RUNS / question.name
    refuse_unusable(folder)
    print_to = terminal.errors
    with terminal.interruptible("interrupted; nothing is written"):
        answer = search(question, jobs or cores(), lambda what: print_to.print(what, style="dim", highlight=False))
    with writing(folder):
        division_answer.write(answer, folder)
    if as_json:
        print(json.dumps(division_answer.as_json(answer), indent=1))
        return
    terminal.console.print(rich_table(division_answer.table(answer)))
    for paragraph in division_answer.words(answer):
        terminal.console.print(paragraph, highlight=False, markup=False)
    terminal.name_files(
        {
            "rows": folder / division_answer.CSV_FILE,
            "everything": folder / division_answer.JSON_FILE,
            "chart": folder / "chart.png",
            "scenario of the fastest": folder / division_answer.SCENARIO_FILE,
        }
    )

"""`gradwire init`: a scenario from five questions, with a comment on each line that is likely to change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradwire.cli import terminal
from gradwire.faults import InputFault

if TYPE_CHECKING:
    from gradwire.scenario.questions import ScenarioQuestion

Target = Annotated[Path, typer.Argument(metavar="FILE", help="the file to write, which must not exist yet")]
Model = Annotated[str | None, typer.Option(help="as `gradwire models` lists them")]
Device = Annotated[str | None, typer.Option(help="as `gradwire devices` lists them")]
Workers = Annotated[int | None, typer.Option(help="how many")]
Rate = Annotated[str | None, typer.Option(help="line rate of a host's port, e.g. 25gbit")]
Topology = Annotated[str | None, typer.Option(help="single: one switch; leaf-spine: two racks")]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command()
    def init(
        file: Target = Path("scenario.toml"),
        model: Model = None,
        device: Device = None,
        workers: Workers = None,
        rate: Rate = None,
        topology: Topology = None,
    ) -> None:
        """Writes a commented scenario from five questions: model, device, workers, line rate and network. What an
        option answers is not asked; without a terminal, the rest is as suggested."""
        from gradwire.scenario.questions import QUESTIONS, checked, commented_scenario

        if file.exists() or file.is_symlink():
            raise InputFault(f"{file}: exists, and stays as it is; give another name")
        given = {"model": model, "device": device, "workers": workers, "rate": rate, "topology": topology}
        answers = {question.name: _answer(question, given[question.name]) for question in QUESTIONS}
        _write_new(file, commented_scenario(file.stem, checked(answers)).encode())
        terminal.console.print(f"scenario: {file}", markup=False, highlight=False, soft_wrap=True)
        terminal.console.print(
            f"next: gradwire plan {file}; gradwire estimate {file}; gradwire run {file}", markup=False, highlight=False
        )


def _write_new(file: Path, content: bytes) -> None:
    """Writes a file that is not there yet, completely or not at all."""
    from gradwire.runs.launch.place import writing

    with writing(file), file.open("xb") as made:
        try:
            made.write(content)
            made.flush()
        except BaseException:
            file.unlink(missing_ok=True)
            raise


def _answer(question: ScenarioQuestion, given: str | int | None) -> str:
    if given is not None:
        return str(given)
    if not sys.stdin.isatty():
        return question.suggestion
    answer: str = typer.prompt(question.text, default=question.suggestion)
    return answer

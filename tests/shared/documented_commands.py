"""Commands that the documentation shows: each is carried out where that is cheap, and otherwise checked by what it names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from gradwire.cli import command_line
from gradwire.cli.division_search import asked_of
from gradwire.runs.comparing.questions import AskedNetwork, QuestionOptions, question_of
from gradwire.runs.mapping.axes import parse_axes
from gradwire.scenario.loading import Scenario, load_scenario
from gradwire.scenario.program_scenarios import ProgramScenario
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.scenario_files import scenario_path
from gradwire.scenario.toml_documents import has_programs
from gradwire.workloads.units import rate_bps
from reproduction.gathering import wanted_scenarios
from reproduction.world.cells import load_given
from reproduction.world.command import chosen_cells, is_of_world
from tests.shared.program_scenario_files import load_programs
from tests.shared.snippets import (
    ROOT,
)


def make_targets() -> set[str]:
    """Targets of the Makefile."""
    return set(re.findall(r"^([\w-]+)(?=[\w -]*:(?!=))", (ROOT / "Makefile").read_text(), re.MULTILINE))


def parsed(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The verb and the parameters of a call of the command line, by its own parser; a wrong one raises."""
    group: Any = typer.main.get_command(command_line.app)
    verb, *arguments = words
    return verb, group.commands[verb].make_context(verb, arguments).params


def loaded(parameters: dict[str, Any]) -> Scenario | ProgramScenario:
    """The scenario of a call, with models, strategies and options that exist."""
    path, settings = scenario_path(parameters["scenario"].expanduser()), parameters["settings"] or []
    if has_programs(tomllib.loads(path.read_text())):
        return load_programs(path, settings)
    scenario = load_scenario(path, settings)
    for point in scenario.points:
        resolved = ResolvedPoint(point.section)
        assert resolved.options is not None
        assert resolved.compute.iteration_s > 0
    return scenario


def carry_out_gradwire(words: list[str], call: Any) -> None:
    """As `carry_out`, for commands of gradwire."""
    verb, parameters = parsed(words)
    if parameters.get("scenario"):
        assert loaded(parameters).points
    if parameters.get("rate"):
        assert rate_bps(parameters["rate"]) > 0
    if verb == "reproduce":
        names, quick = parameters["names"] or [], parameters["quick"]
        is_world = any(map(is_of_world, names))
        assert chosen_cells(names, load_given()) if is_world else wanted_scenarios(names, quick=quick)
    if verb == "map":
        assert all(len(axis.texts) > 1 for axis in parse_axes(parameters["over"]))
    if verb == "compare" and parameters["gpus"]:
        options = {"--machine-gpus": None, "--seq": None, "--global-batch": None, "--memory": None}
        assert asked_of(parameters["model"], parameters["gpus"], parameters["rate"], parameters["device"], options, ())
    elif verb == "compare":
        given = QuestionOptions(**{field.name: parameters[field.name] for field in fields(QuestionOptions)})
        model = parameters["model"] and str(Path(parameters["model"]).expanduser())
        question = question_of(model, parameters["trace"], AskedNetwork(parameters["rate"]), given, ())
        assert parameters["trace"] or question.document()["model"]["device"]
    if verb in ("plan", "strategies", "models", "devices", "doctor"):
        status, out, err = call(*(str(Path(word).expanduser()) if word.startswith("~") else word for word in words))
        assert status == 0 or (verb == "doctor" and "virtual-time kernel" in out), out + err


def carry_out(words: list[str], call: Any) -> None:
    """Carries a command out where that is cheap, and otherwise checks all that it names; fails for one that it does not know."""
    program, *rest = words
    if program in ("sudo", "nice"):
        carry_out(rest, call)
    elif program == "make":
        assert rest
        assert set(rest) <= make_targets(), rest
    elif program.endswith("gradwire"):
        carry_out_gradwire(rest, call)
    elif program.startswith("tests/"):
        assert (ROOT / program).exists(), program
    elif program.endswith("python"):
        assert (ROOT / rest[0]).exists(), rest[0]
    elif program == "pipx":
        assert rest == ["install", "./gradwire-*.whl"]
    elif program.endswith("pip"):
        assert rest[:2] == ["install", "--editable"]
        assert (Path(rest[2]).expanduser() / "pyproject.toml").exists()
    else:
        assert program in ("cd", "export", "git", "vagrant", "wireshark", "tshark", ".venv/bin/dask"), (
            f"no test knows what `{' '.join(words)}` does"
        )

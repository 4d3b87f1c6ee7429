"""Scenario files by their paths, or by the names of those that gradwire brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradwire import PACKAGE
from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.nearest_names import question
from gradwire.reading_budget import reading_budget

if TYPE_CHECKING:
    from gradwire.scenario.loading import Scenario, ScenarioOrigin
    from gradwire.scenario.program_scenarios import AnyScenario

SCENARIOS = PACKAGE / "scenarios"


def scenario_names() -> list[str]:
    """Names of the scenarios that gradwire brings, sorted."""
    return sorted(file.stem for file in SCENARIOS.glob("*.toml"))


def scenario_path(path: Path) -> Path:
    """The file at a path, or of that name in scenarios/. Raises InputFault, with the nearest name, if there is none."""
    built_in = SCENARIOS / f"{path.name.removesuffix('.toml')}.toml"
    if path.exists():
        return path
    if path.name != str(path) or not built_in.exists():
        meant = question(path.stem, scenario_names())
        hint = f"; {meant}" if meant else "."
        raise InputFault(
            f"{path}: no such file, and no such scenario{hint} `gradwire scenarios` lists those that gradwire brings"
        )
    return built_in


def read_scenario(source: Path | Mapping[str, object], settings: Sequence[str]) -> AnyScenario:
    """The scenario, of plans or of programs, at a path, of a shipped one's name, or with this content, with settings.

    A command reads it first, and imports what runs it afterwards: that takes seconds, and a wrong key should be
    reported before. Raises InputFault for everything that is wrong.
    """
    from gradwire.scenario.loading import ScenarioOrigin, toml_content  # noqa: PLC0415 (`--help` does not need them)
    from gradwire.scenario.program_scenarios import programs_of_document  # noqa: F401, PLC0415 (not within the budget)
    from gradwire.scenario.toml_documents import read_document  # noqa: PLC0415

    if isinstance(source, Mapping):
        document = toml_content(source)
        return resolved_scenario(document, ScenarioOrigin.given(document), settings)
    path = scenario_path(source)
    with reading_budget(path):
        return resolved_scenario(read_document(path), ScenarioOrigin.of_file(path), settings)


def resolved_scenario(document: Document, origin: ScenarioOrigin, settings: Sequence[str] = ()) -> AnyScenario:
    """The scenario, of plans or of programs, with this content and `key=value` settings. Raises InputFault for
    everything that is wrong."""
    from gradwire.scenario.loading import scenario_of_document  # noqa: PLC0415 (`--help` does not need it)
    from gradwire.scenario.program_scenarios import programs_of_document  # noqa: PLC0415
    from gradwire.scenario.toml_documents import has_programs  # noqa: PLC0415

    resolve = programs_of_document if has_programs(document) else scenario_of_document
    return resolve(document, origin, settings)


def read_scenario_of_strategies(path: Path, settings: Sequence[str]) -> Scenario:
    """Reads a scenario as `read_scenario` does, but raises InputFault for a scenario of programs too."""
    from gradwire.scenario.loading import load_scenario  # noqa: PLC0415 (`--help` does not need it)

    return load_scenario(scenario_path(path), settings)

"""Scenario files by their paths, or by the names of those that gradwire brings."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from gradwire import PACKAGE
from gradwire.faults import InputFault

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
        near = difflib.get_close_matches(path.stem, scenario_names(), 1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        raise InputFault(
            f"{path}: no such file, and no such scenario{hint} `gradwire scenarios` lists those that gradwire brings"
        )
    return built_in


def refuse_unreadable(path: Path, settings: Sequence[str]) -> None:
    """Raises InputFault for a scenario that is wrong: before a command loads all that it runs one with, which takes seconds."""
    from gradwire.scenario.reading import has_programs, read_document  # noqa: PLC0415 (`--help` does not need it)

    file = scenario_path(path)
    if has_programs(read_document(file)):
        from gradwire.scenario.program_scenarios import load_programs  # noqa: PLC0415

        load_programs(file, settings)
        return
    from gradwire.scenario.loading import load_scenario  # noqa: PLC0415

    load_scenario(file, settings)

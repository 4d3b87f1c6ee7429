"""Scenario files by their paths, or by the names of those that gradwire brings."""

from __future__ import annotations

import difflib
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

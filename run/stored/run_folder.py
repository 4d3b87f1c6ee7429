"""A run folder by its path or name, and what it says of the run as a whole: its scenario and its clock."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.run.stored.files import reading
from gradwire.vm.machines import Clock
from gradwire.workloads.scenario.loading import Scenario, load_scenario

RUNS = Path("runs")
"""Where run folders are made unless told otherwise."""


def run_folder(run: Path) -> Path:
    """The run folder at a path, or of that name in runs/. Raises InputFault, with what there is, if it is none."""
    for path in (run, RUNS / run):
        if (path / "scenario.toml").exists():
            return path
    raise InputFault(f"{run}: no run folder (it has no scenario.toml); `gradwire run` makes one{_what_there_is(run)}")


def _what_there_is(run: Path) -> str:
    """The runs that a reproduction's folder holds, if it is one; else those in runs/."""
    for path in (run, RUNS / run):
        if held := _names(path / "runs"):
            return f"; {run} holds those of a reproduction, each by its path: {run / 'runs' / held[0]}" + _more(
                held[1:]
            )
    there = _names(RUNS)
    return f"; in runs/ there are {', '.join(there)}" if there else ""


def _more(names: list[str]) -> str:
    return f", and likewise {', '.join(names)}" if names else ""


def _names(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/scenario.toml"))


def stored_scenario(folder: Path) -> Scenario:
    """The scenario of a run folder. Raises InputFault if it cannot be read, or says what this version does not know."""
    path = folder / "scenario.toml"
    try:
        return replace(load_scenario(path), name=folder.name)
    except InputFault as fault:
        raise InputFault(
            f"{fault}\nThis is the copy that a run left: it was changed, or made by another version of gradwire; "
            f"`gradwire run` of the scenario with --out {folder} writes it anew"
        ) from fault


def stored_clock(folder: Path) -> Clock:
    """The clock of a run folder. Raises InputFault if it cannot be read, or no run has begun."""
    path = folder / "clock.json"
    if not path.exists():
        raise InputFault(f"{folder}: has no clock.json, so no run of it has begun; `gradwire run` completes the folder")
    with reading(path, f"`gradwire run` of the scenario with --out {folder} writes it anew"):
        return Clock(**json.loads(path.read_text()))

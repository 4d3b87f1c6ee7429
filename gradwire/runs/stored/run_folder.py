"""A run folder by its path or name, and the scenario and clock of its runs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w

from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.regular_files import MESSAGE_BYTES, read_bytes, read_text
from gradwire.runs.protocol import write_json
from gradwire.runs.stored.files import read_message, reading
from gradwire.runs.stored.links import refuse_links
from gradwire.runs.stored.soundness.tasks import refuse_unsound_clock
from gradwire.scenario.loading import Scenario, load_scenario
from gradwire.scenario.program_scenarios import ProgramScenario, load_programs
from gradwire.scenario.toml_documents import has_programs
from gradwire.vm.machines import Clock

SCENARIO_FILE = "scenario.toml"
CLOCK_FILE = "clock.json"
RUNS = Path("runs")
"""Where run folders are made by default."""


def run_folder(run: Path) -> Path:
    """The run folder at a path, or of that name in runs/.

    Raises InputFault, with the run folders that there are, if there is none, and for a link in it that gradwire has not made.
    """
    for path in (run, RUNS / run):
        if (path / SCENARIO_FILE).exists():
            refuse_links(path)
            return path
    raise InputFault(f"{run}: no run folder (it has no scenario.toml); `gradwire run` makes one{_others(run)}")


def _others(run: Path) -> str:
    """The runs in a reproduction's folder, if `run` is one; else those in runs/."""
    for path in (run, RUNS / run):
        if names := _names(path / "runs"):
            return f"; {run} holds those of a reproduction, each by its path: {run / 'runs' / names[0]}" + _more(
                names[1:]
            )
    names = _names(RUNS)
    return f"; in runs/ there are {', '.join(names)}" if names else ""


def _more(names: list[str]) -> str:
    return f", and likewise {', '.join(names)}" if names else ""


def _names(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob(f"*/{SCENARIO_FILE}"))


def write_run_folder(folder: Path, document: Mapping[str, Any], clock: Clock) -> None:
    """Makes a run folder, with the resolved scenario's content and the clock of its runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / CLOCK_FILE) as partial:
        write_json(partial, clock)
    with replacing(folder / SCENARIO_FILE) as partial:
        partial.write_text(tomli_w.dumps(document), encoding="utf-8")


def stored_scenario(folder: Path) -> Scenario:
    """The scenario of a run folder. Raises InputFault if it cannot be read, or has keys that this version does not know."""
    if holds_programs(folder):
        raise InputFault(
            f"{folder}: holds runs of programs, which have no plan to look into; `gradwire report {folder}` shows them"
        )
    with _copy_in(folder) as path:
        return replace(load_scenario(path, as_run=True), name=folder.name)


def stored_programs(folder: Path) -> ProgramScenario:
    """The scenario of a run folder with runs of programs. Raises InputFault as `stored_scenario` does."""
    with _copy_in(folder) as path:
        return replace(load_programs(path, as_run=True), name=folder.name)


def holds_programs(folder: Path) -> bool:
    """Whether a run folder's runs are of programs."""
    try:
        return has_programs(tomllib.loads(read_text(folder / SCENARIO_FILE, MESSAGE_BYTES)))
    except (OSError, ValueError, RecursionError):  # what is wrong with it is told where it is read
        return False


@contextmanager
def _copy_in(folder: Path) -> Iterator[Path]:
    """The scenario of a run folder. What is wrong with it is told with how to mend it."""
    try:
        yield folder / SCENARIO_FILE
    except InputFault as fault:
        raise InputFault(
            f"{fault}\nThis is the copy that a run left: it was changed, or made by another version of gradwire; "
            f"`gradwire run` of the scenario with --out {folder} writes it anew"
        ) from fault


def stored_clock(folder: Path) -> Clock:
    """The clock of a run folder. Raises InputFault if it cannot be read, or no run has begun."""
    path = folder / CLOCK_FILE
    if not path.exists() and not path.is_symlink():
        raise InputFault(f"{folder}: has no clock.json, so no run of it has begun; `gradwire run` completes the folder")
    with reading(path, f"`gradwire run` of the scenario with --out {folder} writes it anew"):
        clock = Clock(**read_message(path, dict[str, Any]))
        refuse_unsound_clock(clock)
        return clock


def has_valid_points(folder: Path) -> bool:
    """Whether a run folder has a point whose verdict is valid. A verdict that cannot be read is none."""
    for file in (folder / "points").glob("*/verdict.json"):
        with suppress(OSError, ValueError, RecursionError):
            verdict = json.loads(read_bytes(file, MESSAGE_BYTES))
            if isinstance(verdict, dict) and verdict.get("valid") is True:
                return True
    return False

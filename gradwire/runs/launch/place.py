"""Chooses and checks the folders of a scenario's runs, and other places that a command was asked to write to.

A run folder belongs to one resolved scenario on one clock, and no other overwrites it. A place that cannot be written
is rejected in one message, before long work if possible.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from gradwire.faults import InputFault, MachineFault
from gradwire.files import NO_ROOM, TOO_MANY, unfit_for_writing, without_links
from gradwire.input_files import refuse_input
from gradwire.runs.stored.run_folder import (
    CLOCK_FILE,
    HOLDER_FILE,
    LOCK_FILE,
    RUNS,
    SCENARIO_FILE,
    locked,
    stored_clock,
    stored_scenario,
)
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.runs.stored.symbolic_links import copy_of_run, refuse_links
from gradwire.scenario.program_scenarios import AnyScenario
from gradwire.vm.machines import MEASURED, Clock

if TYPE_CHECKING:
    from gradwire.runs.planned_point import PlannedPoint


def refuse_unusable(folder: Path, option: str = "--out") -> None:
    """Raises InputFault if no folder can be made at a path, or written; makes nothing. option: the option that named
    the path."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        what = "is a file" if there.exists() else "is a link that leads nowhere"
        raise InputFault(f"{there}: {what}, where a folder is wanted; give another {option}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputFault(f"{there}: may not be written; give another {option}, or make it writable")


def refuse_run_folder(folder: Path, option: str = "--out") -> None:
    """Raises InputFault as `refuse_unusable` does, and for a folder of runs, none of which is to be written."""
    refuse_unusable(folder, option)
    if (folder / CLOCK_FILE).exists():
        raise InputFault(f"{option} {folder}: is a run folder, whose files stay as they are; give another")


def refuse_others(folder: Path, mark: str, option: str = "--out") -> None:
    """Raises InputFault as `refuse_run_folder` does, and if the folder has a file that a report would replace or remove
    and that none has left there. mark: a file that is there if one has."""
    refuse_run_folder(folder, option)
    if others := _others(folder, mark):
        raise InputFault(f"{option} {folder}: {others}, which stay as they are; give another, like {folder / 'report'}")


def _others(folder: Path, mark: str) -> str:
    """Words for a user's files that a report would replace; "" if there are none, or gradwire has left `mark` with them."""
    names = [] if (folder / mark).exists() else [name for name in REPORT_FILES if (folder / name).exists()]
    return f"has files of yours ({', '.join(names)})" if names else ""


def refuse_filled(folder: Path, option: str = "--out") -> None:
    """Raises InputFault as `refuse_unusable` does, and for a folder that has something in it."""
    refuse_unusable(folder, option)
    if folder.exists() and _is_filled(folder):
        raise InputFault(f"{option} {folder}: is not empty, and no other run's files are overwritten; give another")


def _is_filled(folder: Path) -> bool:
    """Returns whether a folder has more in it than the lock of a command."""
    return any(each.name not in (LOCK_FILE, HOLDER_FILE) for each in folder.iterdir())


@contextmanager
def empty_folder(out: Path | None, candidates: Iterable[Path], command: str) -> Iterator[Path]:
    """Makes the folder of a run of programs, and keeps other commands from it until the block ends: `out`, or else the
    first of `candidates` that nobody has. Raises InputFault and MachineFault if `out` was taken since it was looked at."""
    for folder in candidates if out is None else [out]:
        with ExitStack() as held:
            try:
                held.enter_context(locked(folder, command))
            except MachineFault:
                if out is not None:
                    raise
                continue
            if out is not None:
                refuse_filled(out)
            elif _is_filled(folder):
                continue
            yield folder
            return


def refuse_unusable_file(file: Path, option: str = "--out") -> None:
    """Raises InputFault if a path is anything but a file, or lies in a folder that cannot be made or written; makes
    nothing. And if it is what the command was given to read.

    What is written replaces the file as a whole, and so would a link, such as /dev/stdout, and a device. option: that names it.
    """
    if file.is_symlink():
        raise InputFault(
            f"{option} {file}: is a link, which would be replaced; give the file that it leads to, {without_links(file)}"
        )
    if file.is_dir():
        raise InputFault(f"{option} {file}: is a folder; give the name of a file in it")
    if file.exists() and not file.is_file():
        raise InputFault(
            f"{option} {file}: is not a regular file, and would be replaced by one; give the name of a file"
        )
    refuse_unusable(file.parent, option)
    refuse_input(file, option)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Context manager around code that writes to `path`, or into it. Raises InputFault or MachineFault instead of
    OSError, unless the reader of output is gone."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        where = error.filename or path
        if error.errno in NO_ROOM:
            raise unfit_for_writing(error, path) from error
        if error.errno in TOO_MANY:
            raise MachineFault(f"the machine refuses: {error.strerror}; see `ulimit -a`, and what else runs") from error
        raise InputFault(
            f"{where}: cannot be written: {error.strerror}; give another place, or make it writable"
        ) from error


REPORT_FILE = "report.html"
REPORT_FILES = (
    *(REPORT_FILE, "points.csv", "points.parquet", "findings.csv", "figures.csv", "table.md", "chart.png", "chart.svg"),
)
"""Files that a report of runs has, or removes."""
SET_WORDS_MAX = 60
"""Characters of a folder's name that say what `--set` has set."""


@dataclass(frozen=True)
class NewRunFolder:
    """A run folder for a scenario, which may not exist yet."""

    folder: Path
    #: Folders of the same name that hold the runs of other scenarios.
    others: tuple[Path, ...] = ()


def place_for(scenario: AnyScenario, clock: Clock, out: Path | None = None) -> NewRunFolder:
    """The run folder of a scenario: `out`, or in runs/ the first of NAME, NAME.2, NAME.3, ... that is free or holds
    this scenario.

    Makes nothing. Raises InputFault if `out` holds the runs of another scenario, or of this one on another clock, and
    for a link below it or below one of these folders.
    """
    if out is not None:
        refuse_links(out)
        difference = _others(out, CLOCK_FILE) if _is_free(out) else _difference(out, scenario, clock)
        if difference:
            raise InputFault(f"--out {out}: {difference}, which stay as they are; give another --out, like {out}-2")
        return NewRunFolder(out)
    return place_from(RUNS / default_name(scenario, clock), scenario, clock)


def place_from(first: Path, scenario: AnyScenario, clock: Clock) -> NewRunFolder:
    """The first of FOLDER, FOLDER.2, FOLDER.3, ... that is free or holds this scenario. Makes nothing. Raises InputFault for a
    link below one of these."""
    others: list[Path] = []
    for folder in _candidates(first):
        refuse_links(folder)
        if _is_free(folder) or not _difference(folder, scenario, clock):
            return NewRunFolder(folder, tuple(others))
        others.append(folder)
    raise AssertionError("numbers do not end")


def default_name(scenario: AnyScenario, clock: Clock) -> str:
    """The scenario's name, its settings, and the clock if it is not the virtual one: geryon-table2-vgg19-25gbit."""
    words = [scenario.name, *map(_set_word, scenario.settings)]
    name = "-".join(word for word in words if word)[: len(scenario.name) + SET_WORDS_MAX].rstrip("-.")
    if clock.name == "virtual":
        return name
    return f"{name}-{clock.name}" if clock.scale == MEASURED else f"{name}-{clock.name}-{clock.scale}"


def _set_word(setting: str) -> str:
    """A setting's value, after its key's last part if the value is a number, which says nothing by itself."""
    key, _, value = setting.partition("=")
    value = Path(value).stem if value.endswith((".toml", ".json", ".py")) else value
    value = re.sub(r"[^\w.+]+", "+", value.strip()).strip("+")
    return value if value[:1].isalpha() or value.endswith("bit") else f"{key.strip().rpartition('.')[2]}{value}"


def _candidates(first: Path) -> Iterator[Path]:
    yield first
    yield from (first.with_name(f"{first.name}.{number}") for number in count(2))


def _is_free(folder: Path) -> bool:
    return not (folder / SCENARIO_FILE).exists()


def _difference(folder: Path, scenario: AnyScenario, clock: Clock) -> str:
    """Words for the runs in a folder if they are not those of `scenario` on `clock`; "" if they are."""
    if not (folder / CLOCK_FILE).exists():
        return f"has files of yours ({SCENARIO_FILE}, and no run)"
    try:
        held, held_clock = stored_scenario(folder), stored_clock(folder)
    except InputFault:
        return "holds runs of a scenario that this version of gradwire cannot read"
    if _sections(held) != _sections(scenario):
        return f"holds the runs of another scenario, '{held.title}'"
    if held_clock.name != clock.name or clock.scale not in (held_clock.scale, MEASURED):
        return f"holds runs of this scenario on another clock ({held_clock.name}, scale {held_clock.scale})"
    return ""


def _sections(scenario: AnyScenario) -> set[str]:
    return {point.section.model_dump_json() for point in scenario.points}


def take_over(planned: Sequence[PlannedPoint]) -> Counter[Path]:
    """Copies points that ran before in other folders of runs/, so that they need not run again; returns from which folders
    how many.

    What else lies in the folder of a point that is replaced is removed: files of another run would be read as this
    one's.
    """
    taken: Counter[Path] = Counter()
    has_no_links: dict[Path, bool] = {}
    for run in planned:
        if run.stored.is_of(run.key):
            continue
        for there in sorted(RUNS.glob(f"*/points/{glob.escape(run.folder.name)}")):
            if without_links(there) == without_links(run.folder):
                continue
            folder = there.parents[1]
            if folder not in has_no_links:
                has_no_links[folder] = _has_no_links(folder)
            if has_no_links[folder] and _can_be_taken(there, run):
                copy_of_run(there, run.folder)
                taken[folder] += 1
                break
    return taken


def taken_words(taken: Mapping[Path, int]) -> str:
    """A line about points that are copied, with the folders that they come from and the command that would run them
    instead."""
    folders = ", ".join(f"{count} from {folder}" for folder, count in taken.items())
    return f"points that have run before are copied: {folders}; `gradwire run --fresh` runs them here"


def _has_no_links(folder: Path) -> bool:
    try:
        refuse_links(folder)
    except InputFault:  # which concerns only those who read it
        return False
    return True


def _can_be_taken(there: Path, run: PlannedPoint) -> bool:
    try:
        return StoredRun(there).is_of(run.key)
    except InputFault:  # it is damaged, which concerns only those who read it
        return False

"""A run folder by its path or name: its scenario and clock, the folder of each point's run, and a run by the name of
its point.

Points' folders are named after what the scenario sets, so that a new key with a default renames none of them.

A command that runs points in a folder locks it: two commands in one folder would damage each other's runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomli_w
from filelock import FileLock, Timeout

from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.parameters import Where, describe, fits
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.documents import DocumentTable
from gradwire.faults import InputFault, MachineFault
from gradwire.files import replacing
from gradwire.input_files import forget_input
from gradwire.inside.point_protocol import TASK_FILE, write_json
from gradwire.named_code import MARK
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_bytes, read_text
from gradwire.runs.stored.run_files import read_message, reading
from gradwire.runs.stored.soundness import refuse_unsound_clock
from gradwire.runs.stored.stored_run import COMPLETION_FILE, NEEDED_FILES, VERDICT_FILE, StoredRun
from gradwire.runs.stored.symbolic_links import refuse_links
from gradwire.scenario.loading import Scenario, ScenarioOrigin, ScenarioPoint
from gradwire.scenario.program_scenarios import AnyScenario, ProgramPoint, has_plans, of_plans
from gradwire.scenario.scenario_files import resolved_scenario
from gradwire.scenario.toml_documents import read_document
from gradwire.strict_json import parse_json
from gradwire.typed_json import decoded
from gradwire.vm.machines import Clock

SCENARIO_FILE = "scenario.toml"
CLOCK_FILE = MARK
RUNS = Path("runs")
"""Folder in which run folders are made by default."""
WORDS_MAX = 80
"""Characters of a name's readable part."""
HASH_DIGITS = 8
P = TypeVar("P", bound=ScenarioPoint)
LOCK_FILE = ".lock"
HOLDER_FILE = ".lock.json"
"""File that names the holder of the lock. The lock's own file does not, because a command that tries for the lock may
empty that."""


def run_folder(run: Path) -> Path:
    """The run folder at a path, or of that name in runs/.

    Raises InputFault, with the run folders that there are, if there is none, and for a link in it that gradwire has
    not made.
    """
    for path in (run, RUNS / run):
        if (path / SCENARIO_FILE).exists():
            refuse_links(path)
            return path
        if (path / TASK_FILE).exists():
            raise InputFault(
                f"{path}: holds programs that `gradwire exec`, a lab or `gradwire mininet` ran, and no points of a scenario; of those "
                "of `exec`, `gradwire why` and `gradwire trace` show the network"
            )
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


def write_run_folder(folder: Path, document: DocumentTable, clock: Clock) -> None:
    """Makes a run folder, with the resolved scenario's content and the clock of its runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / CLOCK_FILE) as partial:
        write_json(partial, clock)
    write_scenario(folder, document)


def write_scenario(folder: Path, document: DocumentTable) -> None:
    """Writes the resolved scenario's content into a run folder."""
    forget_input(folder / SCENARIO_FILE)  # a run of this copy, in the folder that it belongs to
    with replacing(folder / SCENARIO_FILE) as partial:
        partial.write_text(tomli_w.dumps(document), encoding="utf-8")


def stored_scenario(folder: Path) -> AnyScenario:
    """The scenario of a run folder. Raises InputFault if it cannot be read, or has keys that this version does not
    know."""
    with _copy_in(folder) as path:
        origin = replace(ScenarioOrigin.of_file(path, as_run=True), name=folder.name)
        return resolved_scenario(read_document(path, follow=False), origin)


def stored_plans(folder: Path) -> Scenario:
    """The scenario of a run folder whose points have plans. Raises InputFault as `stored_scenario` does, and for one
    of programs."""
    return of_plans(
        stored_scenario(folder),
        f"{folder}: holds runs of programs, which have no plan to look into; `gradwire report {folder}` shows them",
    )


@contextmanager
def _copy_in(folder: Path) -> Iterator[Path]:
    """The scenario of a run folder. Defects of it are reported with advice on how to mend them."""
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
    """Returns whether a run folder has a point whose verdict is valid. A verdict that cannot be read does not
    count."""
    for file in (folder / "points").glob("*/verdict.json"):
        with suppress(OSError, ValueError, RecursionError, InputFault), reading_budget(file):
            verdict = parse_json(read_text(file, MESSAGE_BYTES))
            if isinstance(verdict, dict) and verdict.get("valid") is True:
                return True
    return False


def folder_name(point: ScenarioPoint) -> str:
    """A readable name that does not depend on the other points of the scenario. A hash of the settings tells apart
    points that read alike."""
    text = json.dumps(point.section.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
    return f"{_words(point)}-{hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]}"


def _words(point: ScenarioPoint) -> str:
    words = "_".join(value for value in point.parameters.values() if value)
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in words)[:WORDS_MAX]


def runs_of(run: Path, points: Sequence[P]) -> list[StoredRun[P]]:
    """The run of each of the scenario's points in a run folder, whether it exists or not."""
    return [StoredRun(run / "points" / folder_name(point), point) for point in points]


def named_run(run: Path, wanted: str | Where) -> StoredRun:
    """The run of the point `wanted` in a run folder: its folder's name or a unique part of it, or `key=value,...` as
    in points.csv.

    A mapping of parameters stands for the latter, and compares numbers as numbers. Raises InputFault for a name of no
    point or of several, with the points that there are, and for a run that did not come to its end.
    """
    run = run_folder(run)
    chosen = _chosen(run, _all_runs(run), wanted)
    _refuse_unfinished(chosen)
    return chosen


def named_programs(run: Path, wanted: str | Where) -> StoredRun[ProgramPoint] | None:
    """The run of the point `wanted` in a run folder of programs, as `named_run` finds it; None if its points have plans."""
    run = run_folder(run)
    scenario = stored_scenario(run)
    if has_plans(scenario):
        return None
    chosen = _chosen(run, {stored.folder.name: stored for stored in runs_of(run, scenario.points)}, wanted)
    _refuse_unfinished(chosen, (COMPLETION_FILE,))
    return chosen


def _all_runs(run: Path) -> dict[str, StoredRun]:
    """The runs by their folders' names: those of the scenario's points first, then those of other folders."""
    runs = {stored.folder.name: stored for stored in runs_of(run, stored_plans(run).points)}
    folders = sorted(entry for entry in (run / "points").glob("*") if entry.is_dir())
    return {**runs, **{folder.name: StoredRun(folder) for folder in folders if folder.name not in runs}}


def _chosen(run: Path, runs: Mapping[str, StoredRun[P]], wanted: str | Where) -> StoredRun[P]:
    named = isinstance(wanted, str) and wanted in runs
    names = [str(wanted)] if named else [name for name, stored in runs.items() if _fits(stored, wanted)]
    # A point that was run again may leave a folder that no scenario has: a part of the name means the scenario's.
    names = [name for name in names if runs[name].parameters] or names
    if len(names) == 1:
        return runs[names[0]]
    fault = f"fits {len(names)} points" if names else "fits no point"
    listed = "\n".join(f"  {name}   {_parameters_text(runs[name].parameters)}" for name in (names or runs))
    asked = wanted if isinstance(wanted, str) else describe(wanted)
    raise InputFault(f"point '{asked}' {fault} of {run}; {'it could be' if names else 'there are'}:\n{listed}")


def _fits(stored: StoredRun[ScenarioPoint], wanted: str | Where) -> bool:
    if not isinstance(wanted, str):
        return fits(stored.parameters, wanted)
    if "=" not in wanted:
        return wanted in stored.folder.name
    pairs = [part.partition("=") for part in wanted.split(",")]
    return all(stored.parameters.get(key.strip()) == value.strip() for key, _, value in pairs)


def _parameters_text(parameters: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in parameters.items() if value)


def _refuse_unfinished(stored: StoredRun[ScenarioPoint], needed: Sequence[str] = NEEDED_FILES) -> None:
    missing = [name for name in needed if not (stored.folder / name).exists()]
    if not missing:
        return
    if not stored.folder.is_dir():
        raise InputFault(stored.absence)
    judged = (stored.folder / VERDICT_FILE).exists()
    why = f": {stored.last_verdict().summary}" if judged else f" (it has no {missing[0]})"
    raise InputFault(f"{stored.folder}: this point has not come to its end{why}; `gradwire run` completes the folder")


def slowest_iteration(plan: Plan, log: OpLog, record: PointRecord) -> int:
    """Number of the measured iteration that took longest."""
    times_s = iteration_times_s(plan, log, record.iterations)
    return record.warmup + int(times_s[record.warmup :].argmax())


def chosen_iteration(wanted: int | None, label: str, plan: Plan, log: OpLog, record: PointRecord) -> int:
    """The wanted iteration; by default the slowest measured one. Raises InputFault for a number that the run does not
    have."""
    if wanted is None:
        return slowest_iteration(plan, log, record)
    if not 0 <= wanted < record.iterations:
        raise InputFault(
            f"--iteration {wanted}: {label} has iterations 0 to {record.iterations - 1}, of which {record.warmup} are "
            "warm-up"
        )
    return wanted


class FolderHolder(msgspec.Struct, frozen=True):
    """The command that runs points in a folder."""

    pid: int
    host: str
    #: Local time at which the command began, to the second.
    since: str
    #: The command's words.
    command: str

    @classmethod
    def this(cls, command: str) -> FolderHolder:
        """This process, which carries out `command`."""
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        return cls(os.getpid(), platform.node(), now, command)


@contextmanager
def locked(folder: Path, command: str) -> Iterator[None]:
    """Makes the folder and keeps every other command from running points in it. The lock ends with the process,
    however that ends.

    command: what runs points there, for the message to others.

    Raises MachineFault, with who holds the lock, if another has it, and InputFault for a link in the folder.
    """
    refuse_links(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE, fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except Timeout as taken:
        raise MachineFault(_taken(folder)) from taken
    try:
        with replacing(folder / HOLDER_FILE) as partial:
            write_json(partial, FolderHolder.this(command))
        yield
    finally:
        (folder / HOLDER_FILE).unlink(missing_ok=True)
        lock.release()


def _taken(folder: Path) -> str:
    who = "another command"
    try:
        with reading_budget(folder / HOLDER_FILE):
            holder = decoded(read_bytes(folder / HOLDER_FILE, MESSAGE_BYTES), FolderHolder)
        who = f"process {holder.pid} on {holder.host} since {holder.since} (`{holder.command}`)"
    except (OSError, msgspec.DecodeError):
        pass  # it has just begun, or has just ended
    return f"{folder}: is in use by {who}; wait until that ends, or give another --out"

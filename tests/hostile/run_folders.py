"""Hostile run folders: files of a small run that are cut off, overwritten, exchanged, missing, or of another version."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console

from gradwire.analysis.difference import differences
from gradwire.api.running import open as open_run
from gradwire.commands.difference import facts_of
from gradwire.faults import InputFault
from gradwire.runner.judged import judge_kept, judge_stored
from gradwire.runner.stored.files import SEALS_FILE
from gradwire.runner.stored.named_run import named_run
from gradwire.runner.stored.point_folders import runs_of
from gradwire.runner.stored.provenance import facts, provenance
from gradwire.runner.stored.run_folder import run_folder, stored_clock, stored_scenario
from gradwire.runner.stored.stored_run import COMPLETION_FILE, StoredRun
from gradwire.runner.stored.timeline import timeline_of
from gradwire.runner.terminal.listings import critical_path_shown
from tests.hostile.damage import damaged
from tests.hostile.limits import Outcome, outcome

SOUND = Path(__file__).with_name("two_points.zip")
"""A run of two points on the virtual clock, of 3 iterations each."""
POINT = "strategy=ring"
Times = dict[str, float | None]


def report(folder: Path) -> Times:
    """What `gradwire report` reads; the iteration times of valid points."""
    scenario, clock = stored_scenario(run_folder(folder)), stored_clock(folder)
    facts(provenance(folder), clock)
    points = zip(scenario.points, runs_of(folder, scenario.points), strict=True)
    judged = [judge_stored(stored, point, clock) for point, stored in points]
    return {each.folder.name: each.result.iteration_time_s for each in judged if each.result.valid}


def why(folder: Path) -> Times:
    """What `gradwire why` reads and prints."""
    console = Console(file=None, record=True, quiet=True)
    for part in critical_path_shown(named_run(folder, POINT), None, every=False):
        console.print(part)
    return {}


def trace(folder: Path) -> Times:
    """What `gradwire trace` reads and writes."""
    timeline_of(named_run(folder, POINT), None).write(folder / "trace.json")
    return {}


def opened(folder: Path) -> Times:
    """What `gradwire.open` reads in Python."""
    points = open_run(folder).points
    return {str(name): float(row["iteration_time_s"]) for name, row in points.iterrows() if row["valid"]}


def resumed(folder: Path) -> Times:
    """What `gradwire run` reads to see which points need not run again."""
    found: Times = {}
    for point in stored_scenario(run_folder(folder)).points:
        for kept in sorted((folder / "points").iterdir()):
            judged = judge_kept(StoredRun(kept, point), point, keys()[kept.name])
            if judged is not None and judged.result.valid and kept.name.startswith(point.parameters["strategy"]):
                found[kept.name] = judged.result.iteration_time_s
    return found


def compared(folder: Path) -> Times:
    """What `gradwire diff` reads, beside the sound run."""
    for each in (folder, folder.parent / "sound"):
        differences(facts_of(each), facts_of(folder))
    return {}


READERS: tuple[Callable[[Path], Times], ...] = (report, why, trace, opened, resumed, compared)


@cache
def sound() -> dict[str, bytes]:
    """The run's files by their paths."""
    with zipfile.ZipFile(SOUND) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@cache
def keys() -> dict[str, str]:
    """What points are resumed by."""
    return {
        Path(name).parent.name: json.loads(content)["key"]
        for name, content in sound().items()
        if Path(name).name == COMPLETION_FILE
    }


def times(place: Path) -> Times:
    """The iteration times of the sound run."""
    folder = place / "sound"
    if not folder.exists():
        _write(folder, sound())
    return report(folder)


def tried(number: int, place: Path) -> Outcome:
    """Reads the run folder of this number. A valid point with another time than the sound one's is as bad as a traceback."""
    random = Random(f"run/{number}")
    files = dict(sound())
    is_sealed = random.random() < 0.8
    if not is_sealed:
        files = {name: content for name, content in files.items() if Path(name).name != SEALS_FILE}
    _spoil(files, random)
    folder = place / "hostile"
    shutil.rmtree(folder, ignore_errors=True)
    _write(folder, files)
    reader = random.choice(READERS)
    known = _known(place)

    def read() -> None:
        for name, time_s in reader(folder).items():
            if is_sealed and known.get(name) != time_s:
                raise AssertionError(f"{reader.__name__}: {name} took {time_s}, and {known.get(name)} before")

    return outcome(read, (InputFault,))


@cache
def _known(place: Path) -> Times:
    return times(place)


def _spoil(files: dict[str, bytes], random: Random) -> None:
    """One kind of damage, to one file or two."""
    name = random.choice(sorted(files))
    how = random.random()
    if how < 0.5:
        files[name] = damaged(files[name], random)
    elif how < 0.65:
        other = random.choice(sorted(each for each in files if Path(each).suffix == Path(name).suffix))
        files[name], files[other] = files[other], files[name]
    elif how < 0.75:
        del files[name]
    elif name.endswith(".json"):
        files[name] = json.dumps(_otherwise(json.loads(files[name]), random)).encode()
    else:
        files[name] = files[name].replace(b"1", random.choice((b"2", b"-1", b"1e9", b"")), 1)


def _otherwise(value: Any, random: Random) -> Any:
    """A JSON value as another version may write it: with a field more, one less, or one of another type."""
    if isinstance(value, dict) and value:
        key = random.choice(sorted(value))
        how = random.random()
        if how < 0.2:
            return {name: item for name, item in value.items() if name != key}
        if how < 0.3:
            return {**value, "since_then": [1]}
        return {**value, key: _otherwise(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.6:
        index = random.randrange(len(value))
        return [*value[:index], _otherwise(value[index], random), *value[index + 1 :]]
    return random.choice((None, -1, 0, 1.5, 10**30, "", "x" * 3000, [], {}, [[1]], True))


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

"""Hostile run folders: files of a small run that are cut off, overwritten, exchanged, missing, of another version, edited with care, or no
files at all. In half of them, hashes are computed anew after the damage, as whoever means harm does."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

from rich.console import Console

from gradwire.analysis.run_difference import differences
from gradwire.analysis.run_frames import logged_frame
from gradwire.api.run import SILENT
from gradwire.api.running import open as open_run
from gradwire.cli.run_explanation import explain as explain_run
from gradwire.cli.run_timeline import make_timeline
from gradwire.cli.stored_runs import facts_of
from gradwire.console.parts import print_parts
from gradwire.faults import InputFault
from gradwire.runs.agreement import compared
from gradwire.runs.judged import JudgedRun
from gradwire.runs.stored.explanation import captured_use, explain
from gradwire.runs.stored.provenance import facts, provenance
from gradwire.runs.stored.run_files import SEALS_FILE
from gradwire.runs.stored.run_folder import named_run, run_folder, stored_clock, stored_plans, stored_scenario
from gradwire.runs.stored.stored_run import COMPLETION_FILE, StoredRun
from gradwire.runs.works import judge_folder, judge_kept, work_of_scenario
from tests.hostile.changes import changed
from tests.hostile.limits import MOST_S, Outcome, outcome
from tests.hostile.stand_ins import put

SOUNDS = ("two_points.zip", "two_points_of_all_kinds.zip")
"""Runs of two points on the virtual clock, of 3 and 2 iterations each. The second has captures, queues' lengths, a fault and a program."""
OF_PROGRAMS = "two_points_of_programs.zip"
"""A run of two points of programs alone, whose files have no hashes."""
SHARES = {SOUNDS[0]: 6, SOUNDS[1]: 3, OF_PROGRAMS: 1}
"""Of all run folders that are tried."""
POINT = "strategy=ring"
Times = dict[str, float | None]


def report(folder: Path) -> Times:
    """What `gradwire report` reads; the iteration times of valid points."""
    judged = _judged(folder)
    for each in compared(judged):
        each.stored.queues()
    return {each.folder.name: each.result.iteration_time_s for each in judged if each.result.valid}


def explained(folder: Path) -> Times:
    """What a report says of a point beside its numbers, with the use of a captured port as a drawing."""
    explain(named_run(folder, POINT))
    return {}


def written(folder: Path) -> Times:
    """What `gradwire report` reads and writes."""
    scenario = stored_scenario(run_folder(folder))
    work = work_of_scenario(scenario)
    runs = work.compared(judge_folder(folder, scenario.points), SILENT)
    work.write_report(scenario, runs, folder, folder)
    return {}


def _judged(folder: Path) -> list[JudgedRun]:
    scenario, clock = stored_plans(run_folder(folder)), stored_clock(folder)
    facts(provenance(folder), clock)
    return judge_folder(folder, scenario.points)


def why(folder: Path) -> Times:
    """What `gradwire why` reads and prints."""
    console = Console(file=None, record=True, quiet=True)
    print_parts(console, explain_run(named_run(folder, POINT), None, every=False))
    return {}


def trace(folder: Path) -> Times:
    """What `gradwire trace` reads and writes."""
    make_timeline(named_run(folder, POINT), None).write(folder / "trace.json")
    return {}


def opened(folder: Path) -> Times:
    """What `gradwire.open` reads in Python."""
    points = open_run(folder).points
    return {str(name): float(row["iteration_time_s"]) for name, row in points.iterrows() if row["valid"]}


def resumed(folder: Path) -> Times:
    """What `gradwire run` reads to see which points need not run again."""
    found: Times = {}
    for point in stored_plans(run_folder(folder)).points:
        for kept in sorted((folder / "points").iterdir()):
            judged = judge_kept(StoredRun(kept, point), point, keys()[kept.name])
            if judged is not None and judged.result.valid and kept.name.startswith(point.parameters["strategy"]):
                found[kept.name] = judged.result.iteration_time_s
    return found


def differing(folder: Path) -> Times:
    """What `gradwire diff` reads, beside the run itself."""
    differences(facts_of(folder), facts_of(folder))
    return {}


def used(folder: Path) -> Times:
    """What `gradwire utilisation` and `Run.ops` read."""
    stored = named_run(folder, POINT)
    if stored.record().captures:
        captured_use(stored)
    logged_frame(stored.plan(), stored.log(), stored.record().warmup)
    return {}


def programs(folder: Path) -> Times:
    """What `gradwire report` reads of a run of programs."""
    facts(provenance(folder), stored_clock(folder))
    judge_folder(folder, stored_scenario(folder).points)
    return {}


def opened_programs(folder: Path) -> Times:
    """What `gradwire.open` reads of a run of programs in Python."""
    found = open_run(folder)
    _ = found.points, found.verdicts
    return {}


READERS: tuple[Callable[[Path], Times], ...] = (report, why, trace, opened, resumed, differing, used)
OF_RUNS_OF_PROGRAMS = (programs, opened_programs)
WRITES = 0.004
"""Share of folders of which a whole report is written, which takes some seconds."""
DRAW = (explained, written)
DRAWING_S = 30.0
"""Of the processor's time, for those: the sound runs take 5."""
EXPLAINS = 0.05
"""Up to which a point is explained, which takes a second."""


@cache
def sound(which: str = SOUNDS[0]) -> dict[str, bytes]:
    """The files of a sound run by their paths."""
    with zipfile.ZipFile(Path(__file__).with_name(which)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@cache
def keys() -> dict[str, str]:
    """What points are resumed by."""
    return {
        Path(name).parent.name: json.loads(content)["key"]
        for which in SOUNDS
        for name, content in sound(which).items()
        if Path(name).name == COMPLETION_FILE
    }


def times(place: Path, which: str = SOUNDS[0]) -> Times:
    """The iteration times of a sound run."""
    folder = place / Path(which).stem
    if not folder.exists():
        write_files(folder, sound(which))
    return report(folder)


def tried(number: int, place: Path) -> Outcome:
    """Reads the run folder of this number. A valid point with another time than the sound one's is as bad as a traceback, unless whoever
    damaged the folder computed its hashes anew."""
    random = Random(f"run/{number}")
    which = random.choices(list(SHARES), list(SHARES.values()))[0]
    known = {} if which == OF_PROGRAMS else _known(place, which)
    files = dict(sound(which))
    is_sealed = random.random() < 0.9
    if not is_sealed:
        files = {name: content for name, content in files.items() if Path(name).name != SEALS_FILE}
    for _ in range(random.choice((1, 1, 1, 2))):
        _spoil(files, random)
    is_resealed = is_sealed and random.random() < 0.6
    if is_resealed:
        seal_again(files)
    folder = place / "hostile"
    shutil.rmtree(folder, ignore_errors=True)
    write_files(folder, files)
    if random.random() < 0.2:
        put(folder / random.choice(sorted(sound(which))), random)
    reader = _reader(which, random)

    def read() -> None:
        for name, time_s in reader(folder).items():
            if is_sealed and not is_resealed and known.get(name) != time_s:
                raise AssertionError(f"{reader.__name__}: {name} took {time_s}, and {known.get(name)} before")

    return outcome(read, (InputFault,), DRAWING_S if reader in DRAW else MOST_S)


def _reader(which: str, random: Random) -> Callable[[Path], Times]:
    rare = random.random()
    if which == OF_PROGRAMS:
        return written if rare < WRITES else random.choice(OF_RUNS_OF_PROGRAMS)
    return written if rare < WRITES else explained if rare < EXPLAINS else random.choice(READERS)


@cache
def _known(place: Path, which: str) -> Times:
    return times(place, which)


def _spoil(files: dict[str, bytes], random: Random) -> None:
    """One kind of damage to one file, or to two."""
    name = random.choice(sorted(files))
    how = random.random()
    if how < 0.1:
        other = random.choice(sorted(each for each in files if Path(each).suffix == Path(name).suffix))
        files[name], files[other] = files[other], files[name]
    elif how < 0.15:
        del files[name]
    else:
        files[name] = changed(name, files[name], random)


def seal_again(files: dict[str, bytes]) -> None:
    """Computes the hashes of all sealed files anew."""
    for name in [each for each in files if Path(each).name == SEALS_FILE]:
        folder = Path(name).parent
        with suppress(ValueError, TypeError, AttributeError, KeyError, RecursionError):
            sealed = json.loads(files[name])["sha256"]
            anew = {each: str(folder / each) for each in sealed}
            hashes = {each: hashlib.sha256(files[path]).hexdigest() for each, path in anew.items() if path in files}
            files[name] = json.dumps({"sha256": hashes}).encode()


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

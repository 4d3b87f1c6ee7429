"""Predicts rows: runs or estimates each scenario once, whichever rows share it, and nothing that has been before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gradwire.faults import Fault
from gradwire.files import replace_text
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.runs.ccl_packets import call_times_s
from gradwire.runs.compiling.ideal_times import fluid_digest
from gradwire.runs.compiling.many_points import side_by_side
from gradwire.runs.estimation import estimate_points
from gradwire.runs.executing.executor import Executor
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import source_key, virtual_clock
from gradwire.runs.stored.symbolic_links import store_folder
from gradwire.scenario.loading import Point, load_scenario
from gradwire.vm.machines import Clock
from reproduction.stored_points import Progress, StoredPoints
from reproduction.world.cells import By, Planned, Timed

ESTIMATES = "estimates"


@dataclass(frozen=True)
class Predicted:
    """What a scenario came to."""

    #: In the row's unit; None where the run is not a result.
    value: float | None
    #: Why not; or, of a result, where its time goes, as the run or the estimate has it.
    seen: str
    #: Wall time of the run; 0 for an estimate.
    wall_s: float = 0.0


@dataclass(frozen=True)
class _Time:
    """Of an iteration, and of the call in it."""

    iteration_s: float
    call_s: float | None
    seen: str


class Predictions:
    """The scenarios of rows, of which each is run or estimated once. `root` is the store of runs."""

    def __init__(self, wanted: Iterable[Planned], root: Path | None = None) -> None:
        self._root = root or store_folder()
        self._planned = {_name(planned): planned for planned in wanted}
        self._points = {name: _point(planned) for name, planned in self._planned.items()}
        self._runs: dict[str, JudgedRun] = {}
        self._estimates: dict[str, _Time] = {}

    @property
    def points(self) -> int:
        """Number of points to run."""
        return sum(planned.by is By.PACKETS for planned in self._planned.values())

    @property
    def estimates(self) -> int:
        """Number of points to estimate."""
        return len(self._planned) - self.points

    def estimate(self, jobs: int) -> None:
        """Estimates what has not been estimated before, in up to `jobs` processes, which are forked: no other thread may
        run. On Ctrl-C, what is complete is kept. Raises the Fault of a scenario that is wrong."""
        missing = []
        for name, planned in self._planned.items():
            if planned.by is By.ESTIMATE and not self._read_estimate(name):
                missing.append(name)
        # The first one is made here: processes that are forked afterwards have the engine's machine code.
        for names in (missing[:1], missing[1:]):
            points = [self._points[name] for name in names]
            for name, time in zip(names, side_by_side(_estimated, points, jobs), strict=True):
                path = self._path_of_estimate(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_text(path, json.dumps({"iteration_s": time.iteration_s, "seen": time.seen}))
                self._estimates[name] = time

    def gather(self, executor: Executor, watcher: Progress) -> None:
        """Runs what has not run before. On Ctrl-C, what is complete is kept. Raises the Fault of a scenario that is wrong."""
        tasks = {
            name: (self._points[name], virtual_clock([self._points[name]]))
            for name, planned in self._planned.items()
            if planned.by is By.PACKETS
        }
        self._runs = StoredPoints(self._root).measure(tasks, executor, watcher)

    def of(self, planned: Planned) -> Predicted:
        """What a scenario that has been gathered or estimated came to, in the unit of a row."""
        name = _name(planned)
        if planned.by is By.ESTIMATE:
            time = self._estimates[name]
            return Predicted(planned.value(time.iteration_s), time.seen)
        run = self._runs[name]
        if not run.result.valid:
            return Predicted(None, run.result.verdict, run.result.wall_s)
        return Predicted(planned.value(_time_s(planned, run)), _seen(run), run.result.wall_s)

    def _read_estimate(self, name: str) -> bool:
        """Takes an estimate from the store, if it has been made by the same code."""
        path = self._path_of_estimate(name)
        if not path.exists():
            return False
        with reading_budget(path):
            kept = json.loads(read_text(path, MESSAGE_BYTES))
        self._estimates[name] = _Time(float(kept["iteration_s"]), None, str(kept["seen"]))
        return True

    def _path_of_estimate(self, name: str) -> Path:
        told = f"{source_key(self._points[name], Clock())} {fluid_digest()}"
        return self._root / ESTIMATES / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"


def _estimated(point: Point) -> _Time:
    (found,) = estimate_points([point], jobs=1)
    seen = (
        f"on an ideal network, {found.x_bound:.2f} times its bound ({found.lower_bound_kind}) of "
        f"{found.lower_bound_s:.4g} s"
    )
    return _Time(found.iteration_time_s, None, seen)


def _name(planned: Planned) -> str:
    return " ".join((planned.scenario, *planned.settings, planned.by))


def _point(planned: Planned) -> Point:
    """The one point of a scenario with its settings. Raises InputFault, with the command, for what is wrong."""
    try:
        (point,) = load_scenario(planned.path, planned.settings).points
    except Fault as fault:
        fault.add_note(planned.command())
        raise
    return replace(point, parameters={"run": planned.scenario, "row": " ".join(planned.settings), **point.parameters})


def _time_s(planned: Planned, run: JudgedRun) -> float:
    if planned.timed is Timed.ITERATION:
        return run.result.iteration_time_s
    stored = run.stored
    times_s = call_times_s(stored.plan(), stored.log(), stored.record().iterations)[run.warmup :]
    return sum(times_s) / len(times_s)


def _seen(run: JudgedRun) -> str:
    """Where the time of a run goes."""
    result = run.result
    over = result.iteration_time_s / result.lower_bound_s if result.lower_bound_s else float("nan")
    busy = f"computation takes {result.scaling_efficiency:.0%} of the iteration, which " if run.compute_s > 0 else ""
    return (
        f"in the run, {busy or 'an iteration '}takes {over:.2f} times its bound ({result.lower_bound_kind}) of "
        f"{result.lower_bound_s:.4g} s"
    )

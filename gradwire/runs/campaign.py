"""The outer half of the run loop: runs missing points side by side, one machine for each, and keeps valid runs.

A run folder holds scenario.toml (resolved), points.csv, the report, and per point a folder with its task, the files
that its machine left, and its verdict. A valid run that is there already with the same key is not repeated. Their work
(runs/work.py) knows what points do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from gradwire.analysis.verdict.verdict import failed_run
from gradwire.faults import Fault, InternalFault, MachineFault, UnfitMachine
from gradwire.files import refuse_full_disk, unfit_for_writing
from gradwire.runs.executing.executor import ElsewhereFault, Executor, MachineWatcher, do_all
from gradwire.runs.judged import JudgedRun, write_judgement
from gradwire.runs.planned import PlannedRun
from gradwire.runs.planned_point import PlannedPoint
from gradwire.runs.point_machine import OUTPUT_FILE, MachineEnd
from gradwire.runs.screen import Watcher
from gradwire.runs.stored.stored_run import write_completion
from gradwire.runs.stored.symbolic_links import make_empty
from gradwire.runs.works import judge_kept, work_of

N = TypeVar("N", bound=PlannedPoint, default=PlannedRun)
NOTE_PERIODS = 20
"""Time until points.csv is written again, as a multiple of the time that writing it took: this costs 5 % of a core,
however many points there are."""
Judged = JudgedRun[Any, Any]
Judge = Callable[[N], JudgedRun[Any, Any] | None]
"""Judges the run in the folder of a planned point; returns None if no run with its key came to its end."""


def judge_planned(planned: PlannedPoint) -> Judged | None:
    """Judges the run of a planned point as `judge_kept` does."""
    return judge_kept(planned.stored, planned.point, planned.key)


class Campaign(Generic[N]):
    """Runs planned points where `executor` has machines for them."""

    def __init__(
        self,
        planned: Sequence[N],
        out: Path,
        executor: Executor,
        watcher: Watcher[N],
        judge: Judge[N] = judge_planned,
        *,
        fresh: bool = False,
    ) -> None:
        self._planned = planned
        self._out = out
        self._executor = executor
        self._watcher = watcher
        self._judge = judge
        #: Runs what is there already as well.
        self._fresh = fresh
        self._done: list[Judged | None] = [None] * len(planned)
        self._place = {run.folder.name: index for index, run in enumerate(planned)}
        self._lock = threading.Lock()
        #: On the monotonic clock: when points.csv is written again.
        self._next_note_s = 0.0

    def run(self) -> list[Judged]:
        """Runs the missing points, or all points of a fresh campaign, in `running_order`; returns all runs in the
        scenario's order.

        On Ctrl-C every machine is ended, what is complete is kept, and KeyboardInterrupt is raised. What the trial of
        machines raises comes before any point has started.
        """
        (ended,) = run_side_by_side([self], self._executor)
        return ended

    def missing(self) -> list[N]:
        """The points that have to run; the others are done by this."""
        waiting = []
        for planned in self._planned:
            kept = None if self._fresh else self._judge(planned)
            if kept is not None:
                write_judgement(kept)
            if kept is not None and kept.valid:
                self._finish(replace(kept, reused=True))
            else:
                waiting.append(planned)
        return waiting

    def make_folder(self) -> None:
        """Makes the run folder, if it is not there."""
        self._out.mkdir(parents=True, exist_ok=True)

    def note_ended(self) -> None:
        """Writes points.csv, if any point is done."""
        if self.ended:
            self._note()

    def run_one(self, planned: N, stop: threading.Event) -> None:
        """Runs one of the points that are missing."""
        judged = carry_out(planned, self._executor, self._watcher, stop, self._judge)
        if not stop.is_set():
            self._finish(judged)

    @property
    def ended(self) -> list[Judged]:
        """The runs that are done so far, in the scenario's order."""
        return [run for run in self._done if run is not None]

    def _finish(self, judged: Judged) -> None:
        with self._lock:
            self._done[self._place[judged.folder.name]] = judged
            if time.monotonic() >= self._next_note_s:
                self._note()
        self._watcher.ended(judged)

    def _note(self) -> None:
        """Writes down how the points are that are done so far, all anew, and so the less often the longer that
        takes."""
        begin_s = time.monotonic()
        work_of(self._planned[0].point).write_points(self._out, self.ended)
        end_s = time.monotonic()
        self._next_note_s = end_s + NOTE_PERIODS * (end_s - begin_s)


def run_side_by_side(campaigns: Sequence[Campaign[N]], executor: Executor) -> list[list[Judged]]:
    """Runs the points of several scenarios, each in its run folder, as if they were of one, as `Campaign.run` does;
    returns the runs of each."""
    for campaign in campaigns:
        campaign.make_folder()
    try:
        of = [(planned, campaign) for campaign in campaigns for planned in campaign.missing()]
        if of:
            executor.try_machines(max(planned.memory_mb for planned, _ in of))
        in_turn = running_order([planned for planned, _ in of])
        owner = {id(planned): campaign for planned, campaign in of}
        do_all([partial(owner[id(planned)].run_one, planned) for planned in in_turn], executor.jobs)
    finally:
        for campaign in campaigns:
            campaign.note_ended()
    return [campaign.ended for campaign in campaigns]


def running_order(runs: Sequence[N]) -> list[N]:
    """The shortest run first, whose result soon shows that all is well, and then the longest, so that all cores are
    busy to the end.

    Runs of which that is not known keep their order.
    """
    if not any(planned.cost_bytes for planned in runs):
        return list(runs)
    ordered = sorted(runs, key=lambda planned: -planned.cost_bytes)
    return ordered[-1:] + ordered[:-1]


def carry_out(
    planned: N,
    executor: Executor,
    watcher: MachineWatcher[N],
    stop: threading.Event,
    judge: Judge[N] = judge_planned,
) -> Judged:
    """Runs a point in its folder, which is emptied before, and judges it. The caller reports that it ended.

    A Fault is the run's verdict. Raises UnfitMachine for what would go wrong with every point, such as a full disk.
    """
    begin_s = time.monotonic()
    try:
        try:
            judged = _run_until_steady(planned, executor, watcher, stop, judge)
        except UnfitMachine:
            raise
        except Fault as fault:
            refuse_full_disk(planned.folder, "" if isinstance(fault, ElsewhereFault) else str(fault))
            verdict, elapsed_s = failed_run(str(fault)), time.monotonic() - begin_s
            judged = work_of(planned.point).judge_failure(planned.stored, planned.point, verdict, elapsed_s, planned)
        write_judgement(judged)
    except BrokenPipeError:  # who read the command's output is gone
        raise
    except OSError as error:
        raise unfit_for_writing(error, planned.folder) from error
    return judged


def _run_until_steady(
    planned: N, executor: Executor, watcher: MachineWatcher[N], stop: threading.Event, judge: Judge[N]
) -> Judged:
    """Runs a point, and runs it again with a longer warm-up as long as its iterations were not steady.

    A command that ends between two tries leaves a run that is not valid, and the next command begins with the first
    try.
    """
    work = work_of(planned.point)
    unsteady: list[tuple[int, int]] = []
    while True:
        make_empty(planned.folder)  # a machine that finds files where it makes its own takes other virtual times
        work.write_task(planned)
        ended = executor.carry_out(planned, watcher, stop)
        _refuse_failed(planned, ended)
        completion = work.completion(planned, ended)
        write_completion(planned.folder, msgspec.structs.replace(completion, unsteady=tuple(unsteady)), work.left)
        judged = judge(planned)
        if judged is None:
            raise InternalFault(f"{planned.folder}: the result of a run that just ended is not there")
        longer = work.longer(planned, judged)
        if longer is None or stop.is_set():
            return judged
        unsteady.append((planned.window.warmup, planned.window.iterations))
        planned = longer


def _refuse_failed(planned: PlannedPoint, ended: MachineEnd) -> None:
    """Raises MachineFault for a machine whose job has failed, and UnfitMachine if the disk here is full."""
    if not ended.status:
        return
    if not ended.worker:  # a worker has told of its own disk
        refuse_full_disk(planned.folder, ended.fault)
    raise MachineFault(ended.fault or f"the point ended with status {ended.status}; see {planned.folder / OUTPUT_FILE}")

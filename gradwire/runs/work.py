"""The work of points, as everything sees it that runs, judges and reports them.

A point's work is a strategy's plan (runs/plan_work.py) or programs that users bring (runs/program_work.py). `work_of`
(runs/works.py) decides which it is, and nothing else asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pandas as pd

from gradwire.analysis.report.text_table import Part, TextTable
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned_point import PlannedPoint
from gradwire.runs.point_machine import MachineEnd
from gradwire.runs.screen import Screen
from gradwire.runs.stored.stored_run import Completion, StoredRun
from gradwire.scenario.loading import Scenario
from gradwire.vm.machines import Clock

P = TypeVar("P")
N = TypeVar("N", bound=PlannedPoint)
R = TypeVar("R")


class Work(ABC, Generic[P, N, R]):
    """The work of points of a type P. They are made ready as N, and their result is R, a row of points.csv."""

    taken_over: ClassVar[bool]
    """Whether a run with the same key in another folder of runs/ is as good as one in the point's own."""

    @abstractmethod
    def clock_for(self, scenario: Scenario[Any], clock: Clock, screen: Screen) -> Clock:
        """The clock that a scenario's points run on where the user chose this one. Raises InputFault for one that they
        cannot run on."""

    def with_own_values(self, scenario: Scenario[Any]) -> Scenario[Any]:
        """The scenario without printed values that belong to other settings than its own. Raises InputFault."""
        return scenario

    def refuse_unfit(self, scenario: Scenario[Any]) -> None:
        """Raises InputFault for settings of a scenario that do not go together and were not found when it was read."""

    @abstractmethod
    def planning(self, points: Sequence[P], out: Path, clock: Clock) -> Iterator[N]:
        """Points made ready for the run folder `out`, one after the other. Raises Fault."""

    @abstractmethod
    def warnings(self, planned: Sequence[N]) -> Iterator[str]:
        """Warnings to read before these points run."""

    def write_task(self, planned: N) -> None:
        """Writes what the point's machine reads into its folder, which is empty."""

    def completion(self, planned: N, ended: MachineEnd) -> Completion:
        """How a run ended, which the caller writes down."""
        return Completion(planned.key, stopped=ended.stopped)

    left: ClassVar[tuple[str, ...]]
    """The files of a run that came to its end, whose hashes are kept."""

    def longer(self, planned: N, judged: JudgedRun[Any, Any]) -> N | None:  # noqa: ARG002 (programs run once)
        """The run with a longer warm-up; None unless the measured iterations show that it needs one."""
        return None

    @abstractmethod
    def judge(self, stored: StoredRun[Any], point: P, completion: Completion) -> JudgedRun[Any, Any]:
        """Judges a run that came to its end. Raises InputFault for a file that cannot be read."""

    @abstractmethod
    def judge_failure(
        self, stored: StoredRun[Any], point: P, verdict: Verdict, wall_s: float, planned: N | None = None
    ) -> JudgedRun[Any, Any]:
        """Judges a run that did not come to its end. planned: what was to run; by default it is read from the
        folder."""

    def write_points(self, out: Path, runs: Sequence[JudgedRun[Any, Any]]) -> None:
        """Writes points.csv of the points that are done so far."""

    def compared(
        self,
        runs: Sequence[JudgedRun[Any, Any]],
        screen: Screen,  # noqa: ARG002 (programs have no ideal network)
    ) -> Sequence[JudgedRun[Any, Any]]:
        """The runs with how far they are from an ideal network, where points have one."""
        return runs

    def finish(self, scenario: Scenario[Any], planned: Sequence[N], out: Path, jobs: int) -> None:
        """Adds files to the run folder that the report needs besides its points."""

    @abstractmethod
    def write_report(
        self, scenario: Scenario[Any], runs: Sequence[JudgedRun[Any, Any]], folder: Path, out: Path
    ) -> list[Part]:
        """Writes the report of the runs in a run folder into `out`; returns the terminal's version of it."""

    @abstractmethod
    def conclusion(self, scenario: Scenario[Any], runs: Sequence[JudgedRun[Any, Any]], folder: Path) -> str:
        """The conclusion of the runs, in a sentence or two."""

    @abstractmethod
    def points_frame(self, runs: Sequence[JudgedRun[Any, Any]]) -> pd.DataFrame:
        """points.csv with types, indexed by the names of folders."""

    @abstractmethod
    def points_table(self, scenario: Scenario[Any], runs: Sequence[JudgedRun[Any, Any]]) -> TextTable:
        """The points as a report shows them."""

"""Live progress in the terminal: points that are done, the stage and iterations of each running point, and the kernel
that is built."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from gradwire.inside.point_protocol import (
    AgentsStarted,
    CandidateIterated,
    Event,
    FirstByte,
    Iterated,
    NetworkStarted,
    ReplayStarted,
)
from gradwire.runs.expected_cost import TimeLeft, in_words
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned_point import PlannedPoint

STAGES: dict[type[Event], str] = {
    NetworkStarted: "building the network",
    AgentsStarted: "starting agents",
    FirstByte: "probing the rate",
    CandidateIterated: "searching",
    ReplayStarted: "replaying",
}
"""Text of a point's bar from an event on."""
BAR_COLUMNS, COUNT_COLUMNS, STAGE_COLUMNS, CLOCK_COLUMNS = 16, 9, 20, 7
MOST_LABEL_COLUMNS, FEWEST_LABEL_COLUMNS = 44, 14
FEWEST_BAR_COLUMNS = 4


class LiveProgress:
    """A Watcher that draws progress bars; without a terminal, it prints one line per finished point."""

    def __init__(
        self,
        console: Console,
        points: int,
        expectation: TimeLeft | None = None,
        titles: Mapping[Path, str] | None = None,
    ) -> None:
        self._console = console
        self._expectation = expectation
        #: Words before a point's label, by the point's folder, if points are of several scenarios.
        self._titles = titles or {}
        self._lock = threading.Lock()
        self._running: dict[Path, _Bar] = {}
        label, bar = label_and_bar_columns(console.width)
        self._progress = Progress(
            TextColumn("{task.description}", table_column=_fixed(label)),
            BarColumn(bar_width=bar),
            MofNCompleteColumn(table_column=_fixed(COUNT_COLUMNS)),
            TextColumn("{task.fields[stage]}", table_column=_fixed(STAGE_COLUMNS)),
            TimeElapsedColumn(table_column=_fixed(CLOCK_COLUMNS)),
            console=console,
            transient=True,
        )
        self._all = self._progress.add_task("points", total=points, stage="")

    def __enter__(self) -> Self:
        """Starts drawing."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops drawing."""
        self._progress.stop()

    def already(self, points: int) -> None:
        """Counts points that are there already and need no run."""
        self._progress.advance(self._all, points)

    def started(self, planned: PlannedPoint) -> None:
        """A point's machine boots; once more, if the worker that had it died."""
        with self._lock:
            if lost := self._running.pop(planned.folder, None):
                self._progress.remove_task(lost.task)
            total, stage = (planned.iterations, "booting") if planned.iterations else (None, "running")
            task = self._progress.add_task(self._named(planned), total=total, stage=stage)
            self._running[planned.folder] = _Bar(task, planned)
            self._show_time_left()

    def heard(self, planned: PlannedPoint, event: Event) -> None:
        """Updates the bar of a point by an event of its machine."""
        with self._lock:
            bar = self._running[planned.folder]
            if isinstance(event, ReplayStarted):
                bar.replay_began_s = time.monotonic()
            if isinstance(event, Iterated):
                bar.done = event.done
                self._progress.update(bar.task, completed=event.done, stage=bar.rate_text())
                self._show_time_left()
            elif type(event) in STAGES:
                self._progress.update(bar.task, stage=STAGES[type(event)])

    def ended(self, judged: JudgedRun[Any, Any]) -> None:
        """Counts a point that is done, and prints its result."""
        with self._lock:
            bar = self._running.pop(judged.folder, None)
            if bar is not None:
                self._progress.remove_task(bar.task)
            self._progress.advance(self._all)
            if self._expectation:
                self._expectation.ended(judged.folder, 0.0 if judged.reused else judged.took_s)
            self._show_time_left()
            self._console.print(_line(judged, self._named(judged)), highlight=False)

    def _named(self, point: PlannedPoint | JudgedRun[Any, Any]) -> str:
        title = self._titles.get(point.folder)
        return escape(f"{title}: {point.label}" if title else point.label)

    def _show_time_left(self) -> None:
        if self._expectation is None:
            return
        share_done = {
            name: bar.done / bar.planned.iterations for name, bar in self._running.items() if bar.planned.iterations
        }
        left_s = self._expectation.left_s(share_done)
        self._progress.update(self._all, stage=f"{in_words(left_s)} left" if left_s else "")


@dataclass
class _Bar:
    """The bar of a point under way."""

    task: TaskID
    planned: PlannedPoint
    #: On the monotonic clock; 0 before the replay.
    replay_began_s: float = 0.0
    #: Iterations done.
    done: int = 0

    def rate_text(self) -> str:
        """Emulated payload per second of wall time."""
        payload_bytes = self.planned.iteration_bytes * self.done
        return f"{payload_bytes / max(time.monotonic() - self.replay_began_s, 1e-3) / 1e9:.2f} GB/s"


def label_and_bar_columns(terminal_columns: int) -> tuple[int, int]:
    """Returns the widths of a point's name and of its bar, which share what the other columns leave of the terminal's width.

    A bar gets no more than its least width before the name has its most, since names tell points apart.
    """
    gaps = 4
    left = terminal_columns - COUNT_COLUMNS - STAGE_COLUMNS - CLOCK_COLUMNS - gaps
    label = min(MOST_LABEL_COLUMNS, max(FEWEST_LABEL_COLUMNS, left - FEWEST_BAR_COLUMNS))
    return label, min(BAR_COLUMNS, max(FEWEST_BAR_COLUMNS, left - label))


def _fixed(columns: int) -> Column:
    """A column that keeps its width with any content."""
    return Column(width=columns, no_wrap=True, overflow="ellipsis")


def _line(judged: JudgedRun[Any, Any], name: str) -> str:
    if not judged.valid:
        first_line, _, _ = judged.verdict.summary.partition("\n")  # the report has the rest
        return f"[red]✗[/red] {name}: {escape(first_line)}"
    return f"[green]✓[/green] {name}: {judged.summary} ({_how(judged)})"


def _how(judged: JudgedRun[Any, Any]) -> str:
    """Words for the duration of a run, and for repetitions of it."""
    how = "already there"
    if judged.speed is not None and not judged.reused:
        how = f"{judged.took_s:.0f} s of wall time"
        if judged.speed.payload_bytes:
            how += f", {judged.speed.payload_bytes_per_s / 1e9:.2f} GB/s"
    if judged.unsteady:
        how += f", not steady before {judged.warmup} iterations"
    return how + (
        f", begun {judged.completion.stopped + 1} times" if judged.completion and judged.completion.stopped else ""
    )

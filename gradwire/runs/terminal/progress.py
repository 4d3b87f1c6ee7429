"""Live progress in the terminal: how many points are done, and the stage and iterations of each running point."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from gradwire.runs.expected_cost import Expectation, in_words
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun
from gradwire.runs.program_points.judged import JudgedPrograms
from gradwire.runs.program_points.planned import PlannedPrograms
from gradwire.runs.protocol import AgentsStarted, Event, FirstByte, Iterated, NetworkStarted, ReplayStarted, Searched
from gradwire.runs.stored.stored_run import Speed

STAGES: dict[type[Event], str] = {
    NetworkStarted: "building the network",
    AgentsStarted: "starting agents",
    FirstByte: "probing the rate",
    Searched: "searching",
    ReplayStarted: "replaying",
}
"""What the bar of a point says from an event on."""
LABEL_COLUMNS, STAGE_COLUMNS = 44, 20


class LiveProgress:
    """A Watcher that draws progress bars; without a terminal, it prints one line per finished point."""

    def __init__(self, console: Console, points: int, expectation: Expectation | None = None) -> None:
        self._console = console
        self._expectation = expectation
        self._lock = threading.Lock()
        self._running: dict[str, _Bar] = {}
        self._progress = Progress(
            TextColumn("{task.description}", table_column=_fixed(LABEL_COLUMNS)),
            BarColumn(bar_width=16),
            MofNCompleteColumn(table_column=_fixed(9)),
            TextColumn("{task.fields[stage]}", table_column=_fixed(STAGE_COLUMNS)),
            TimeElapsedColumn(),
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
        """So many points are there already and need no run."""
        self._progress.advance(self._all, points)

    def started(self, planned: PlannedRun | PlannedPrograms) -> None:
        """A point's machine boots; once more, if the worker that had it died."""
        with self._lock:
            if lost := self._running.pop(planned.folder.name, None):
                self._progress.remove_task(lost.task)
            total, stage = (planned.iterations, "booting") if isinstance(planned, PlannedRun) else (None, "running")
            task = self._progress.add_task(escape(planned.label), total=total, stage=stage)
            self._running[planned.folder.name] = _Bar(task, planned)
            self._show_time_left()

    def heard(self, planned: PlannedRun, event: Event) -> None:
        """A point moved on."""
        with self._lock:
            bar = self._running[planned.folder.name]
            if isinstance(event, ReplayStarted):
                bar.replay_began_s = time.monotonic()
            if isinstance(event, Iterated):
                bar.done = event.done
                self._progress.update(bar.task, completed=event.done, stage=bar.rate_text())
                self._show_time_left()
            elif type(event) in STAGES:
                self._progress.update(bar.task, stage=STAGES[type(event)])

    def ended(self, judged: JudgedRun | JudgedPrograms) -> None:
        """A point is done."""
        with self._lock:
            bar = self._running.pop(judged.folder.name, None)
            if bar is not None:
                self._progress.remove_task(bar.task)
            self._progress.advance(self._all)
            if self._expectation:
                self._expectation.ended(judged.folder.name, 0.0 if judged.reused else judged.took_s)
            self._show_time_left()
            self._console.print(_line(judged), highlight=False)

    def _show_time_left(self) -> None:
        if self._expectation is None:
            return
        share_done = {
            name: bar.done / bar.planned.iterations
            for name, bar in self._running.items()
            if isinstance(bar.planned, PlannedRun)
        }
        left_s = self._expectation.left_s(share_done)
        self._progress.update(self._all, stage=f"{in_words(left_s)} left" if left_s else "")


@dataclass
class _Bar:
    """The bar of a point under way."""

    task: TaskID
    planned: PlannedRun | PlannedPrograms
    #: On the monotonic clock; 0 before the replay.
    replay_began_s: float = 0.0
    #: Iterations done.
    done: int = 0

    def rate_text(self) -> str:
        """Emulated payload per second of wall time."""
        assert isinstance(self.planned, PlannedRun), "programs do not tell of iterations"
        plan = max(self.planned.plans.values(), key=lambda plan: len(plan.ops))
        payload_bytes = int(plan.ops.size_bytes[plan.is_remote()].sum()) * self.done
        return f"{payload_bytes / max(time.monotonic() - self.replay_began_s, 1e-3) / 1e9:.2f} GB/s"


def _fixed(columns: int) -> Column:
    """A column that keeps its width, whatever is written in it."""
    return Column(width=columns, no_wrap=True, overflow="ellipsis")


def _line(judged: JudgedRun | JudgedPrograms) -> str:
    if not judged.valid:
        first_line, _, _ = judged.verdict.summary.partition("\n")  # the report has the rest
        return f"[red]✗[/red] {escape(judged.label)}: {escape(first_line)}"
    said = _of_plan(judged) if isinstance(judged, JudgedRun) else _of_programs(judged)
    return f"[green]✓[/green] {escape(judged.label)}: {said}"


def _of_programs(judged: JudgedPrograms) -> str:
    result = judged.result
    how = "already there" if judged.reused else f"{judged.took_s:.0f} s of wall time"
    rows = f"{len(result.figures)} {'row' if len(result.figures) == 1 else 'rows'} of figures"
    return f"{result.duration_s or 0.0:.6f} s of virtual time, {rows} ({how})"


def _of_plan(judged: JudgedRun) -> str:
    how = "already there" if judged.reused or judged.speed is None else _speed_text(judged.speed)
    if judged.unsteady:
        how += f", not steady before {judged.warmup} iterations"
    return f"{judged.result.iteration_time_s:.4f} s per iteration ({how})"


def _speed_text(speed: Speed) -> str:
    return f"{speed.total_s:.0f} s of wall time, {speed.payload_bytes_per_s / 1e9:.2f} GB/s"


@contextmanager
def kernel_progress(console: Console) -> Iterator[Callable[[int, int, str], None]]:
    """A bar for building the virtual-time kernel; yields the function that takes steps done, steps in all, and what is being done."""
    columns = (
        TextColumn("building the virtual-time kernel, once"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("kernel", total=1, text="")
        yield lambda done, total, text: progress.update(task, completed=done, total=total, text=text[-40:])

"""Live progress in the terminal: how many points are done, and the stage and iterations of each running point."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gradwire.run.judged import JudgedRun
from gradwire.run.planned import PlannedRun
from gradwire.run.protocol import AgentsStarted, Event, FirstByte, Iterated, NetworkStarted, Searched
from gradwire.run.stored.stored_run import Speed

STAGES: dict[type[Event], str] = {
    NetworkStarted: "building the network",
    AgentsStarted: "starting agents",
    FirstByte: "probing the rate",
    Searched: "searching",
}
"""What the bar of a point says from an event on."""


class LiveProgress:
    """A Watcher that draws progress bars; without a terminal, it prints one line per finished point."""

    def __init__(self, console: Console, points: int) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[stage]}"),
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

    def started(self, planned: PlannedRun) -> None:
        """A point's machine boots."""
        with self._lock:
            bar = self._progress.add_task(planned.label, total=planned.iterations, stage="booting")
            self._bars[planned.folder.name] = bar

    def heard(self, planned: PlannedRun, event: Event) -> None:
        """A point moved on."""
        with self._lock:
            bar = self._bars[planned.folder.name]
            if isinstance(event, Iterated):
                self._progress.update(bar, completed=event.done, stage="iterations")
            elif type(event) in STAGES:
                self._progress.update(bar, stage=STAGES[type(event)])

    def ended(self, judged: JudgedRun) -> None:
        """A point is done."""
        with self._lock:
            bar = self._bars.pop(judged.folder.name, None)
            if bar is not None:
                self._progress.remove_task(bar)
            self._progress.advance(self._all)
            self._console.print(_line(judged), highlight=False)


def _line(judged: JudgedRun) -> str:
    result = judged.result
    if not result.valid:
        first_line, _, _ = result.verdict.partition("\n")  # the report has the rest
        return f"[red]✗[/red] {escape(judged.label)}: {escape(first_line)}"
    how = "already there" if judged.reused or judged.speed is None else _speed_text(judged.speed)
    return f"[green]✓[/green] {escape(judged.label)}: {result.iteration_time_s:.4f} s an iteration ({how})"


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

"""Live progress in the terminal: points done, and for each running point its stage and iterations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gradwire.run.outcome import Outcome, Prepared

STAGES = {"network": "building the network", "agents": "starting agents", "first_byte": "probing the rate"}


class LiveProgress:
    """A Watcher that draws progress bars; without a terminal it prints a line a finished point."""

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
        """So many points need not run."""
        self._progress.advance(self._all, points)

    def started(self, prepared: Prepared) -> None:
        """A point's machine boots."""
        with self._lock:
            bar = self._progress.add_task(prepared.label, total=prepared.iterations, stage="booting")
            self._bars[prepared.folder.name] = bar

    def heard(self, prepared: Prepared, event: Mapping[str, Any]) -> None:
        """A point moved on."""
        with self._lock:
            bar = self._bars[prepared.folder.name]
            kind = event["event"]
            if kind == "iteration":
                self._progress.update(bar, completed=event["done"], stage="iterations")
            elif kind == "search":
                self._progress.update(bar, stage="searching")
            elif kind in ("stage", "first_byte"):
                self._progress.update(bar, stage=STAGES[event.get("stage", kind)])

    def ended(self, outcome: Outcome) -> None:
        """A point is done."""
        with self._lock:
            bar = self._bars.pop(outcome.prepared.folder.name, None)
            if bar is not None:
                self._progress.remove_task(bar)
            self._progress.advance(self._all)
            self._console.print(_line(outcome), highlight=False)


def _line(outcome: Outcome) -> str:
    result = outcome.result
    if not result.valid:
        first_line, _, _ = result.verdict.partition("\n")  # the report has the rest
        return f"[red]✗[/red] {escape(outcome.prepared.label)}: {escape(first_line)}"
    how = "already there" if outcome.reused or outcome.speed is None else _speed_text(outcome)
    return f"[green]✓[/green] {escape(outcome.prepared.label)}: {result.iteration_time_s:.4f} s an iteration ({how})"


def _speed_text(outcome: Outcome) -> str:
    assert outcome.speed is not None
    speed = outcome.speed
    return f"{speed.total_s:.0f} s of wall time, {speed.payload_bytes_per_s / 1e9:.2f} GB/s"


@contextmanager
def kernel_progress(console: Console) -> Iterator[Callable[[int, int, str], None]]:
    """A bar for the building of the virtual-time kernel: gives the function that is told done, total, and what goes on."""
    columns = (
        TextColumn("building the virtual-time kernel, once"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("kernel", total=1, text="")
        yield lambda done, total, text: progress.update(task, completed=done, total=total, text=text[-40:])

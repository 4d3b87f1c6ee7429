"""How the building of the virtual-time kernel is getting on: a bar, or a few lines where none can be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

LINES_OF_COMPILING = 10
"""Number of lines about compiled files that are printed if no bar can be drawn."""


class _Lines:
    """Says on lines how a build is getting on: minutes of silence would look like a failure."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._parts = 0
        console.print("building the virtual-time kernel, once: this takes 4 to 8 minutes")

    def take(self, done: int, total: int, text: str) -> None:
        """Hears of a step: one without files to compile is named, and the others are counted."""
        parts = done * LINES_OF_COMPILING // total
        if not done or parts > self._parts:
            self._console.print(f"  compiled {100 * parts // LINES_OF_COMPILING} %" if done else f"  {text}")
        self._parts = parts


@contextmanager
def show_kernel_build(console: Console) -> Iterator[Callable[[int, int, str], None]]:
    """Shows a bar for building the virtual-time kernel, or a few lines if none can be drawn, as on a dumb terminal.
    Yields the function to call with the steps done, all steps, and the present one in words."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(console).take
        return
    columns = (
        TextColumn("building the virtual-time kernel, once"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("kernel", total=1, text="")
        yield lambda done, total, text: progress.update(task, completed=done, total=total, text=text[-40:])

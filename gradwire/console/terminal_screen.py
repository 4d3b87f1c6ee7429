"""A run's progress on the consoles of a terminal: the Screen (gradwire/runs/screen.py) of commands and of Python's users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from gradwire.console.kernel_build import show_kernel_build

if TYPE_CHECKING:
    from gradwire.console.live_progress import LiveProgress
    from gradwire.runs.expected_cost import TimeLeft
    from gradwire.runs.screen import OnStep


@dataclass(frozen=True)
class StatusLine:
    """A line that says how far something is."""

    status: Status

    def update(self, text: str) -> None:
        """Changes the line, or shows it again."""
        self.status.update(escape(text))
        self.status.start()

    def rest(self) -> None:
        """Takes the line and its thread away: a process with several threads must not fork."""
        self.status.stop()


@dataclass(frozen=True)
class TerminalScreen:
    """The consoles on which a run reports its progress."""

    #: Each point as it ends, with bars while points run, if it is a terminal.
    results: Console
    #: Warnings and what else is not a result.
    errors: Console

    def warn(self, warning: str) -> None:
        """Prints a warning to read before the results are trusted."""
        self.errors.print(f"WARNING: {warning}", markup=False, highlight=False)

    def note(self, line: str) -> None:
        """Prints a line among the results."""
        self.results.print(line, markup=False, highlight=False)

    @contextmanager
    def working(self, what: str) -> Iterator[StatusLine]:
        """Says at once what is being done, and then how far it is, on a line of a terminal that changes and disappears
        at the end. Elsewhere it writes nothing, so that errors are the first line of the output."""
        status = self.errors.status(escape(what))
        status.start()
        try:
            yield StatusLine(status)
        finally:
            status.stop()

    def building_kernel(self) -> AbstractContextManager[OnStep]:
        """Shows how the building of the virtual-time kernel is getting on."""
        return show_kernel_build(self.errors)

    def running(self, points: int, expectation: TimeLeft, titles: Mapping[Path, str]) -> LiveProgress:
        """Shows how points are getting on, with bars if the results go to a terminal."""
        # Imported here: commands that run no points begin sooner without it.
        from gradwire.console.live_progress import LiveProgress  # noqa: PLC0415

        return LiveProgress(self.results, points, expectation, titles)

"""The two consoles on which a run tells how it is getting on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.status import Status

from gradwire.terminal_text import visible


class PlainConsole(Console):
    """A console that shows control characters of what is printed instead of sending them: others may have chosen names
    and titles.

    rich strips some, and lets the escape character through.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As of rich, which renders everything by this."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


SILENT_S = 10.0
"""How long a command may say nothing, where there is no terminal."""


@dataclass(frozen=True)
class Working:
    """A line that says how far something is: in a terminal one that changes; elsewhere it is said once, if the work
    takes longer than SILENT_S."""

    status: Status
    said_late: Timer | None = None

    def start(self) -> None:
        """Shows the line, or waits with it."""
        self.status.start()
        if self.said_late is not None:
            self.said_late.start()

    def update(self, text: str) -> None:
        """Changes the line, or shows it again."""
        self.status.update(escape(text))
        self.status.start()

    def rest(self) -> None:
        """Takes the line and its threads away: a process with several threads must not fork."""
        self.status.stop()
        if self.said_late is not None:
            self.said_late.cancel()
            self.said_late.join()


@dataclass(frozen=True)
class Screen:
    """Where a run tells how it is getting on."""

    #: Each point as it ends, with bars while points run, if it is a terminal.
    results: Console
    #: Warnings and what else is not a result.
    errors: Console

    def warn(self, warning: str) -> None:
        """Says what should be checked before the results are trusted."""
        self.errors.print(f"WARNING: {warning}", markup=False, highlight=False)

    @contextmanager
    def working(self, what: str) -> Iterator[Working]:
        """Says what is being done, and how far it is: in a terminal at once, on a line that changes and that is gone at
        the end; elsewhere once, and only of what takes long, so that logs are not full of it."""
        late = None
        if not self.errors.is_terminal:
            late = Timer(
                SILENT_S, self.errors.print, [visible(what)], {"style": "dim", "markup": False, "highlight": False}
            )
            late.daemon = True
        working = Working(self.errors.status(escape(what)), late)
        working.start()
        try:
            yield working
        finally:
            working.rest()

"""The two consoles on which a run reports its progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.status import Status

from gradwire.terminal_text import visible

UNBOUNDED_COLUMNS = 100_000
"""The width of what goes into a pipe or a file, which have none: lines and tables in them are whole."""


class PlainConsole(Console):
    """A console that shows control characters in texts instead of sending them: names and titles may come from others.
    rich strips some, and lets the escape character through.

    It crops nothing: a word that is longer than a terminal's line continues on the next.
    """

    def print(self, *objects: Any, crop: bool = False, **options: Any) -> None:
        """Prints as rich does, but by default does not crop lines that are longer than the terminal is wide."""
        super().print(*objects, crop=crop, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders as rich does, with characters that would act on the terminal made visible. rich renders everything by
        this method."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


@dataclass(frozen=True)
class Working:
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
class Screen:
    """The consoles on which a run reports its progress."""

    #: Each point as it ends, with bars while points run, if it is a terminal.
    results: Console
    #: Warnings and what else is not a result.
    errors: Console

    def warn(self, warning: str) -> None:
        """Prints a warning to read before the results are trusted."""
        self.errors.print(f"WARNING: {warning}", markup=False, highlight=False)

    @contextmanager
    def working(self, what: str) -> Iterator[Working]:
        """Says at once what is being done, and then how far it is, on a line of a terminal that changes and disappears
        at the end. Elsewhere it writes nothing, so that errors are the first line of the output."""
        status = self.errors.status(escape(what))
        status.start()
        try:
            yield Working(status)
        finally:
            status.stop()

"""The two consoles on which a run tells how it is getting on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

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

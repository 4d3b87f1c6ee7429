"""A console of rich for texts that others have written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from gradwire.terminal_text import visible

UNBOUNDED_COLUMNS = 100_000
"""The width of what goes into a pipe or a file, which have none: lines and tables in them are whole."""


class PlainConsole(Console):
    """A console that shows control characters in texts instead of sending them: names and titles may come from others.
    rich strips some, and lets the escape character through.

    It crops nothing: a word that is longer than a terminal's line continues on the next.
    """

    def print(self, *objects: object, crop: bool = False, **options: Any) -> None:
        """Prints as rich does, but by default does not crop lines that are longer than the terminal is wide."""
        super().print(*objects, crop=crop, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders as rich does, with characters that would act on the terminal made visible. rich renders everything by
        this method."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

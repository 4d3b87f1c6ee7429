"""Tables and lines of a report as text, from which they are rendered on pages, in Markdown and on a terminal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """A table as text."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: Number of columns, from the first, that are words and stand left; the others are numbers and stand right.
    left: int
    #: Colour of each row's last column: "good", "doubtful", "bad", "quiet" or "".
    tone: tuple[str, ...]
    #: A paragraph below the table.
    foot: str = ""
    #: Headers of the columns that a terminal which is too narrow leaves out, in this order.
    gives_way: tuple[str, ...] = ()
    #: The column that has the colour on a terminal, if it is not the last.
    toned: int = -1


@dataclass(frozen=True)
class TextLine:
    """A line of text beside tables."""

    text: str
    #: How it is to be read: "strong", "quiet", "doubtful", "bad" or "".
    tone: str = ""


Part = TextTable | TextLine
"""A part of what a terminal shows."""

"""The parts of what a command shows, which are data, as a terminal has them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from gradwire.analysis.report.text_table import Part, TextLine
from gradwire.console.terminal_tables import TerminalTable

LINE_STYLE = {"strong": "bold", "quiet": "dim", "doubtful": "bold yellow", "bad": "red", "": ""}
"""Styles of rich, by the tones of lines."""


def print_parts(console: Console, parts: Iterable[Part]) -> None:
    """Prints lines and tables, one below the other. Nothing in them is markup."""
    for part in parts:
        console.print(Text(part.text, LINE_STYLE[part.tone]) if isinstance(part, TextLine) else TerminalTable(part))

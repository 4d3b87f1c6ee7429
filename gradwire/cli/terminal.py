"""The terminal: where commands print their results and their errors, and how Ctrl-C ends one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from gradwire.analysis.report.text_table import Part
from gradwire.console.parts import print_parts
from gradwire.console.plain_console import UNBOUNDED_COLUMNS, PlainConsole
from gradwire.console.terminal_screen import TerminalScreen
from gradwire.terminal_text import replace_closed_streams
from gradwire.vm.session import PaceListener

RESUMES = "interrupted; what was complete is kept, and the same command continues from there"

PACE_PERIOD_S, PACE_PERIOD_ELSEWHERE_S = 10.0, 300.0
"""Wall time after which a command that runs programs says how far it is: at a terminal, and elsewhere."""

replace_closed_streams()  # before anything here asks what they are
console = PlainConsole(width=None if sys.stdout.isatty() else UNBOUNDED_COLUMNS)
errors = PlainConsole(stderr=True, soft_wrap=True)


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Ends the command with status 130 and a one-line message on Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        if errors.is_terminal:
            errors.print()  # the terminal has echoed ^C on the line
        errors.print(message)
        raise typer.Exit(130) from None


def screen() -> TerminalScreen:
    """The two consoles, for code that reports the progress of a run."""
    return TerminalScreen(console, errors)


def pace_listener() -> PaceListener:
    """Prints among the errors how a run of programs is getting on: nobody should have to guess whether it does."""
    period_s = PACE_PERIOD_S if errors.is_terminal else PACE_PERIOD_ELSEWHERE_S
    return PaceListener(period_s, lambda pace: errors.print(str(pace), markup=False, highlight=False))


def show(*parts: Part) -> None:
    """Prints lines and tables."""
    print_parts(console, parts)


def show_report(shown: Iterable[Part], folder: Path) -> None:
    """Prints the terminal's version of a report, and the report's files."""
    show(*shown)
    names = {"report": "report.html", "chart": "chart.png", "rows": "points.csv", "figures": "figures.csv"}
    name_files({what: folder / name for what, name in names.items() if (folder / name).exists()})


def name_files(files: dict[str, Path]) -> None:
    """Prints one line per file. Lines are never wrapped, so that each path can be copied."""
    for what, path in files.items():
        console.print(f"{what}: {path}", markup=False, highlight=False, soft_wrap=True)

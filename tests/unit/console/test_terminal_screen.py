"""What a run tells, as a terminal, a pipe and nobody hear it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from gradwire.analysis.report.text_table import TextLine, TextTable
from gradwire.console.kernel_build import LINES_OF_COMPILING, show_kernel_build
from gradwire.console.parts import print_parts
from gradwire.console.plain_console import PlainConsole
from gradwire.console.terminal_screen import TerminalScreen
from gradwire.runs.expected_cost import TimeLeft
from gradwire.runs.screen import Screen, Silent

MARKUP = "[red]a[/red] [b"


def screen_into(results: io.StringIO, errors: io.StringIO) -> Screen:
    return TerminalScreen(PlainConsole(file=results, width=100), PlainConsole(file=errors, width=100))


def tell_all(screen: Screen) -> None:
    screen.warn(MARKUP)
    screen.note(MARKUP)
    with screen.working(MARKUP) as working:
        working.update("more")
        working.rest()
    with screen.running(0, TimeLeft([], 1), {}):
        pass


def test_warnings_and_notes_go_to_their_consoles_and_are_no_markup() -> None:
    results, errors = io.StringIO(), io.StringIO()
    tell_all(screen_into(results, errors))
    assert results.getvalue().strip() == MARKUP
    assert errors.getvalue() == f"WARNING: {MARKUP}\n"


def test_a_silent_screen_tells_nobody(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tell_all(Silent())
    with Silent().building_kernel() as tell_step:
        tell_step(1, 2, "x.c")
    assert capfd.readouterr() == ("", "")


def test_a_build_in_a_pipe_is_told_on_a_few_lines() -> None:
    errors = io.StringIO()
    with screen_into(io.StringIO(), errors).building_kernel() as tell_step:
        tell_step(0, 1000, "patching")
        for done in range(1, 1001):
            tell_step(done, 1000, f"{done}.c")
    begun, patching, *compiled = errors.getvalue().splitlines()
    assert "4 to 8 minutes" in begun
    assert patching == "  patching"
    assert len(compiled) == LINES_OF_COMPILING
    assert compiled[-1] == "  compiled 100 %"


def test_a_build_on_a_dumb_terminal_has_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    file = io.StringIO()
    with show_kernel_build(Console(file=file, force_terminal=True, width=120)) as tell_step:
        tell_step(1, 2, "fs/exec.c")
    assert "4 to 8 minutes" in file.getvalue()
    assert "50 %" in file.getvalue()


def test_a_build_on_a_terminal_has_a_bar_that_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # on a dumb one, nothing can disappear
    file = io.StringIO()
    with show_kernel_build(Console(file=file, force_terminal=True, width=120)) as tell_step:
        tell_step(1, 2, "fs/exec.c")
    assert "fs/exec.c" in file.getvalue()
    assert file.getvalue().endswith("\x1b[2K")


def test_lines_have_the_styles_of_their_tones_and_are_no_markup() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, color_system="standard")
    print_parts(console, [TextLine(MARKUP), TextLine("no", "bad"), TextTable("", ("a",), (("b",),), 1, ("",))])
    assert file.getvalue().startswith(f"{MARKUP}\n\x1b[31mno\x1b[0m\n\x1b[1m a")

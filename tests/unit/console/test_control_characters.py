"""What acts on a terminal is shown in its place, wherever names and titles of others reach it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from gradwire.analysis.port_traffic import PortTraffic
from gradwire.analysis.report.charts import save_chart
from gradwire.analysis.report.text_table import TextTable
from gradwire.cli.traffic_tables import ports_table
from gradwire.console.plain_console import PlainConsole
from gradwire.console.terminal_tables import TerminalTable
from gradwire.network.fabric import Fabric
from gradwire.terminal_text import visible

HOSTILE = "title\x1b]0;owned\x07\x1b[2J\r\x9b1A\u202eend"
SHOWN = r"\x1b]0;owned"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\n", "a\tb\n"),
        ("größer 100 % ↦ 网络 🙂", "größer 100 % ↦ 网络 🙂"),
        ("\x1b[31m\x07\r\x00\x7f", r"\x1b[31m\x07\r\x00\x7f"),
        ("\x85\x9b\u2028\u202e\u2066", r"\x85\x9b\u2028\u202e\u2066"),
        (r"\x1b", r"\x1b"),
    ],
)
def test_what_acts_is_written_as_in_python(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_nothing_that_is_printed_reaches_the_terminal_as_a_control() -> None:
    file = io.StringIO()
    console = PlainConsole(file=file, width=200)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    for shown in (HOSTILE, Text(HOSTILE), table):
        console.print(shown, markup=False)
        assert SHOWN in file.getvalue()
        assert not set(file.getvalue()) & set("\x1b\x07\r\x9b\u202e")
        file.seek(0)
        file.truncate()


def test_a_terminal_still_has_its_colours_and_its_bars() -> None:
    file = io.StringIO()
    console = PlainConsole(file=file, width=80, force_terminal=True, color_system="standard")
    with Progress(console=console) as bars:
        bars.add_task("[red]working[/red]", total=2)
    assert "\x1b[31mworking" in file.getvalue()
    assert r"\x1b" not in file.getvalue()


MARKUP = "a [/b] [link=https://example.org]b[/link]"


def test_what_others_have_written_is_no_markup_in_tables() -> None:
    port = PortTraffic(MARKUP, 1e9, 1, 1, 0)
    for table, places in (
        (TextTable(MARKUP, (MARKUP,), ((MARKUP,),), 1, ("",), MARKUP), 4),
        (ports_table(Fabric(2, 1e9), [port], 1.0), 2),
    ):
        file = io.StringIO()
        PlainConsole(file=file, width=200, force_terminal=True).print(TerminalTable(table))
        assert file.getvalue().count(MARKUP) == places
        assert "\x1b]8" not in file.getvalue()


def test_what_libraries_warn_of_is_fit_for_a_terminal() -> None:
    code = (
        "import logging, warnings\n"
        "from gradwire.terminal_text import show_warnings_as_text\n"
        "show_warnings_as_text()\n"
        "warnings.warn('of \\x1b[31m')\n"
        "logging.getLogger('other').warning('also \\x1b[31m')\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert "\x1b" not in said
    assert said.count("\\x1b[31m") == 2


def test_a_chart_shows_control_characters(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    figure = Figure()
    figure.suptitle("a\x1b[31m")
    save_chart(figure, tmp_path)
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]
    assert ElementTree.fromstring((tmp_path / "chart.svg").read_text()) is not None

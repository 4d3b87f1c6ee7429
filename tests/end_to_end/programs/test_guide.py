"""docs/your-own-program.md prints what it shows: every block of a console is carried out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.shared.commands import gradwire_command
from tests.shared.snippets import ROOT, Snippet, snippets, write_shown_files

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

GUIDE = ROOT / "docs" / "your-own-program.md"
PROMPT = "gradwire> "
OF_THE_MACHINE = re.compile(r"in [\d.]+ s; memory used: [\d.]+ GiB")
NUMBER = re.compile(r"\d+\.\d+|\d{1,3}(?:,\d{3})+")
BLANKS = re.compile(r" +")
CLOSE = 0.05
"""Of numbers with decimals or commas: versions of programs differ by the virtual time that they take to start."""


def consoles() -> list[Snippet]:
    return [snippet for snippet in snippets(GUIDE) if snippet.language == "console"]


@pytest.mark.parametrize("snippet", consoles(), ids=lambda snippet: snippet.place)
def test_a_console_shows_what_the_command_prints(tmp_path: Path, snippet: Snippet) -> None:
    command, *shown = snippet.text.splitlines()
    words = shlex.split(command.removeprefix("$ "))
    write_shown_files(tmp_path)
    typed = "".join(f"{line.removeprefix(PROMPT)}\n" for line in shown if line.startswith(PROMPT))
    done = gradwire_command(*(word.replace("~", str(tmp_path)) for word in words[1:]), cwd=tmp_path, typed=typed)
    assert done.returncode == 0, done.stderr
    # Nobody echoes what is typed, so an answer follows its prompt on the same line.
    printed = [line.rstrip() for line in done.stdout.replace(PROMPT, "").splitlines()]
    expected = [line for line in shown if not line.startswith(PROMPT)]
    assert matches(expected, printed), "\n".join(printed)


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether the lines are as expected, where "..." stands for any number of lines."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(matches(expected[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and alike(expected[0], printed[0]) and matches(expected[1:], printed[1:])


def alike(expected: str, printed: str) -> bool:
    """Whether two lines say the same, apart from wall time and memory, with close numbers."""
    expected, printed = (BLANKS.sub(" ", OF_THE_MACHINE.sub("", line)) for line in (expected, printed))
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(line)] for line in (expected, printed)]
    return NUMBER.sub("", expected) == NUMBER.sub("", printed) and numbers[0] == pytest.approx(numbers[1], rel=CLOSE)


@pytest.mark.parametrize(
    ("expected", "printed", "is_so"),
    [
        (["a 1.00", "...", "b"], ["a 1.01", "x", "y", "b"], True),
        (["a 1.00"], ["a 1.20"], False),
        (["a", "b"], ["a"], False),
        (["a"], ["a", "b"], False),
    ],
)
def test_lines_are_compared(expected: list[str], printed: list[str], is_so: bool) -> None:
    assert matches(expected, printed) is is_so

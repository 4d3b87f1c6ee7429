"""docs/reading-a-run.md: its samples have the rows and columns that the commands print today. Their numbers are those of one run."""

from __future__ import annotations

import re

import pytest

from gradwire.analysis.report.utilisation import HEADERS
from gradwire.analysis.timeline.critical_path import PARTS
from gradwire.analysis.timeline.path_tables import MEANING
from gradwire.analysis.timeline.walk import TimeKind
from tests.shared.snippets import ROOT

GUIDE = (ROOT / "docs" / "reading-a-run.md").read_text()


def sample(verb: str) -> list[str]:
    """What follows the command with this verb, line by line."""
    found: list[str] = re.findall(rf"^```console\n\$ \S*gradwire {verb} (.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    (text,) = found
    return text.splitlines()[1:]


def columns(line: str) -> tuple[str, ...]:
    """The cells of a line of a table, which are at least two spaces apart."""
    return tuple(cell for cell in re.split(r"\s{2,}", line.strip()) if cell)


def after(lines: list[str], title: str) -> list[str]:
    """Headers and rows of the table with this title, without the line between them."""
    begin = lines.index(title) + 1
    return [line for line in lines[begin:] if not set(line.strip()) <= {"─"}]


@pytest.mark.parametrize("verb", ["compare", "why", "trace", "utilisation"])
def test_every_command_has_a_sample(verb: str) -> None:
    assert len(sample(verb)) >= 2


def test_the_parts_of_a_path_are_those_that_are_printed() -> None:
    named = {str(kind): kind for kind in TimeKind} | {f"network: {kind}": kind for kind in PARTS["network"]}
    header, *rows = after(sample("why"), "Where the time went")
    assert columns(header) == ("part", "ms", "share", "meaning")
    parts = [columns(row) for row in rows[: rows.index("Largest contributions")]]
    assert [meaning for name, _, _, meaning in parts[:-1]] == [MEANING[named[name]] for name, *_ in parts[:-1]]
    assert sum(float(ms) for _, ms, *_ in parts[:-1]) == pytest.approx(float(parts[-1][1]), abs=0.005)


def test_every_part_of_a_path_is_named() -> None:
    printed = {
        f"network: {kind}" if part == "network" else str(kind) for part, kinds in PARTS.items() for kind in kinds
    }
    assert {name for name in printed if name not in GUIDE} == {"network: transfer", "unexplained"}, (
        "rare, and explained where they are printed"
    )


def test_the_columns_of_a_port_are_those_that_are_printed() -> None:
    assert columns(sample("utilisation")[1]) == HEADERS


def test_the_columns_of_a_ranking_are_those_that_are_printed() -> None:
    header, best, *_ = after(sample("compare"), "Ranking")
    assert columns(header) == (
        "strategy",
        "time (s)",
        "± 95 %",
        "slower by",
        "x vanilla",
        "x bound",
        "x fluid",
        "compute %",
        "verdict",
    )
    assert len(columns(best)) == len(columns(header)) + 1, "its place stands in front"

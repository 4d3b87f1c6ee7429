"""docs/reproduction.md speaks of every claim that the reference data has, and says when and with what it was made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradwire.analysis.papers.reference import ScenarioReference, load_papers

PAGE = Path(__file__).parents[3] / "docs" / "reproduction.md"
SECTION = re.compile(r"^### (?P<id>[\w-]+):.*?(?=^### |\Z)", re.MULTILINE | re.DOTALL)
EVERY = [scenario for paper in load_papers() for scenario in paper.scenario if scenario.claim]


def claims_in(text: str) -> set[str]:
    """The first cells of a table's rows."""
    rows = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)
    return {row for row in rows if row not in ("claim", "---")}


@pytest.mark.parametrize(
    "fact", [r"date: \d{4}-\d\d-\d\d", r"versions: gradwire \d", r"points: \d+ measured", r"time: \d+ s"]
)
def test_it_says_when_and_with_what(fact: str) -> None:
    assert re.search(rf"^- {fact}", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("scenario", EVERY, ids=lambda scenario: scenario.id)
def test_it_has_every_claim(scenario: ScenarioReference) -> None:
    sections = {found["id"]: found[0] for found in SECTION.finditer(PAGE.read_text())}
    assert claims_in(sections[scenario.id]) == {claim.id for claim in scenario.claim}

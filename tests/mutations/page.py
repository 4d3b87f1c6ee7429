"""outcomes.md: what became of each fault, as a table for each family with a row for each outcome, and the score."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.mutations.fault import FAMILIES, STAR, Outcome, faults_of
from tests.mutations.unseen import REASONS

PAGE = Path(__file__).with_name("outcomes.md")
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "mutations.md"
"""What users read: how many faults of each family were caught, and what was not."""
NOT_CAUGHT = "not caught"
HARMLESS = "harmless"
ROW = re.compile(r"^\| (?P<found>[^|]+) \| (?P<faults>[^|]+) \|$", re.MULTILINE)
BASE = re.compile(r" \(`[\w-]+`\)$")
"""Stands behind a fault that is tried on another point than `star`."""
HEADERS = "| found by | faults |"
SCORE = re.compile(r"^\*\*.*\*\*$", re.MULTILINE)
Key = tuple[str, str]
"""Family and name of a fault."""


def verdict_on(outcome: Outcome) -> str:
    """What the page says of an outcome."""
    if outcome.caught_by:
        return ", ".join(f"*{name}*" for name in outcome.caught_by)
    if outcome.harmless:
        return f"{HARMLESS}: {outcome.remark}"
    return f"**{NOT_CAUGHT}**: {outcome.remark}. {REASONS.get((outcome.family, outcome.fault), '')}".rstrip()


def rows_of(text: str) -> dict[Key, str]:
    """What a page says of each fault."""
    said: dict[Key, str] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        family = part.split("\n", 1)[0].strip().lower()
        rows = [row for row in ROW.finditer(part) if row[0] != HEADERS]
        said |= {(family, BASE.sub("", fault)): row["found"] for row in rows for fault in row["faults"].split("; ")}
    return said


def kind_of(said: str) -> str:
    """Whether a fault was caught, is harmless, or neither."""
    return next((kind for kind in (HARMLESS, NOT_CAUGHT) if said.startswith((kind, f"**{kind}"))), "caught")


def score(said: Iterable[str]) -> str:
    """How many faults were caught, and how many are harmless."""
    kinds = [kind_of(each) for each in said]
    caught, harmless = kinds.count("caught"), kinds.count(HARMLESS)
    missed = len(kinds) - caught - harmless
    return f"**{len(kinds)} faults: {caught} caught, {harmless} harmless, {missed} not caught.**"


def written(text: str, outcomes: Iterable[Outcome]) -> str:
    """The page with these outcomes in the place of older ones, and with the score of all."""
    said = rows_of(text) | {(o.family, o.fault): verdict_on(o) for o in outcomes}
    known = {
        (family, name): said[family, name]
        for family in FAMILIES
        for name in faults_of(family)
        if (family, name) in said
    }
    for family in FAMILIES:
        table = "\n".join([HEADERS, "|---|---|", *_rows(family, known)])
        text = re.sub(
            rf"(^## {family.capitalize()}\n.*?)\n\| (?:fault|found by) .*?(?=\n\n|\Z)",
            lambda match, table=table: f"{match[1]}\n{table}",  # type: ignore[misc]
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
    return SCORE.sub(score(known.values()), text.rstrip() + "\n", count=1)


def _rows(family: str, said: Mapping[Key, str]) -> list[str]:
    """A row for each outcome, in the order of its first fault."""
    alike: dict[str, list[str]] = {}
    for name, fault in faults_of(family).items():
        if (family, name) in said:
            on = "" if fault.base == STAR else f" (`{fault.base}`)"
            alike.setdefault(said[family, name], []).append(f"{name}{on}")
    return [f"| {found} | {'; '.join(faults)} |" for found, faults in alike.items()]

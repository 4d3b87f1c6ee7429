"""Phrases that docs/contributing/style.md bans, looked for in documentation, in the package's strings and in comments of scenarios."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.shared.snippets import ROOT, documents

STYLE = ROOT / "docs" / "contributing" / "style.md"
PAGES = (*documents(), ROOT / "CONTRIBUTING.md", *sorted((ROOT / "changelog.d").glob("*.md")))
CODE = [path for folder in ("gradwire", "reproduction") for path in sorted((ROOT / folder).rglob("*.py"))]
SCENARIOS = sorted((ROOT / "gradwire").rglob("*.toml"))
VALUE = "0"
"""Stands in strings for what an f-string puts there."""


@dataclass(frozen=True)
class Phrase:
    """What is not written. bad: an example that the pattern finds. good: what to write, which it does not find."""

    name: str
    pattern: re.Pattern[str]
    reason: str
    bad: tuple[str, ...]
    good: tuple[str, ...]


UNITS = (
    r"(?:CPU-s|s|ms|us|ns|[KMG]iB|[kKMGT]?B|[KM]? ?bytes?|[kMGT]?bits?|[kMGT]bit/s|GB/s|FLOPs?|seconds?|minutes?|hours?|"
    r"images|messages|values|tokens|times|steps|packets|lines|ops)"
)
PER = (
    r"(?:iteration|second|minute|hour|day|message|op|point|packet|host|rank|worker|layer|core|link|port|run|byte|machine|flow|GPU|"
    r"switch|step|sample|connection|direction|plan|process|chunk|slice|tensor|parameter|bucket|NIC|page|group|pod|seed|token|pair|"
    r"trial|server|value|channel)"
)
COMPARED = r"(?:longer|more|better|closer|quicker|faster|slower|larger|smaller|further|worse|fewer|later|earlier|need|use|doubt)"
"""After "is no", these are fine."""
PHRASES = (
    Phrase(
        "distributive a",
        re.compile(
            rf"(?:\d|seconds to|\b(?:one|two|three|four|\d+ to \w+)) ?{UNITS}\s+an?\s+{PER}\b(?! (?:takes|sends|may|is)\b)"
        ),
        '"a" after an amount reads as the start of another clause',
        ("it takes 1.3 s an iteration", "64 MB a host", "in 3.0 ms a message", "0.2 us\nan op"),
        ("it takes 1.3 s per iteration", "64 MB per host", "at 10 Gbit/s a run takes longer"),
    ),
    Phrase(
        "is no",
        re.compile(rf"(?<!there\s)\b(?:is|are|was|were)\s+no\s+(?!{COMPARED}\b)\w", re.IGNORECASE),
        '"no" before a noun says that there is none of it, and not that something is another thing',
        ("it is no number", "numbers that are no results", "what\nis no file"),
        ("it is not a number", "there is no file", "it is no longer the limit", "which is no faster"),
    ),
)


@dataclass(frozen=True)
class Text:
    """A piece of text, the file that it is in, and the line that it starts in."""

    path: Path
    line: int
    words: str


def string_texts(path: Path) -> Iterator[Text]:
    """Strings and docstrings of a module, those with values in them whole."""
    tree = ast.parse(path.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = [part.value if isinstance(part, ast.Constant) else VALUE for part in node.values]
            yield Text(path, node.lineno, "".join(map(str, values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield Text(path, node.lineno, node.value)


def texts_in(path: Path) -> Iterator[Text]:
    """What users read in a file of any kind. Of TOML everything: its strings are shown too."""
    if path.suffix == ".py":
        yield from string_texts(path)
    else:
        text = path.read_text()
        yield Text(path, 1, re.sub(r"\n# ?", "\n  ", text) if path.suffix == ".toml" else text)


def defects(phrase: Phrase, text: Text) -> list[str]:
    """Where a text has the phrase, with the words around it."""
    return [
        f"{text.path.relative_to(ROOT)}:{text.line + text.words.count(chr(10), 0, match.start())}: "
        f"{text.words[max(0, match.start() - 20) : match.end() + 20]!r}"
        for match in phrase.pattern.finditer(text.words)
    ]


@pytest.fixture(scope="module")
def texts() -> list[Text]:
    return [text for path in (*PAGES, *CODE, *SCENARIOS) if path != STYLE for text in texts_in(path)]


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.name)
def test_what_users_read_has_no_such_phrase(phrase: Phrase, texts: list[Text]) -> None:
    found = [line for text in texts for line in defects(phrase, text)]
    assert found == [], f"{phrase.reason}; write for instance {phrase.good[0]!r} (docs/contributing/style.md)"


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.name)
def test_each_pattern_finds_its_bad_examples_and_not_the_good_ones(phrase: Phrase) -> None:
    assert [bad for bad in phrase.bad if not phrase.pattern.search(bad)] == []
    assert [good for good in phrase.good if phrase.pattern.search(good)] == []


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.name)
def test_the_page_has_a_row_for_each_pattern(phrase: Phrase) -> None:
    assert phrase.bad[0] in STYLE.read_text()
    assert phrase.good[0] in STYLE.read_text()


def test_strings_of_all_kinds_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""1 s a host."""\nTEXT = f"{TEXT} s a host" + "2 s a host"\n')
    assert sorted(text.words for text in texts_in(module)) == ["0 s a host", "1 s a host.", "2 s a host"]
    scenario = tmp_path / "scenario.toml"
    scenario.write_text("x = 1\n# takes 2 s\n# a host\n")
    assert any(PHRASES[0].pattern.search(text.words) for text in texts_in(scenario))

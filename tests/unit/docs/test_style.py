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
FOLDERS = ("gradwire", "reproduction", "benchmarks", "examples", "release")
CODE = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
SCENARIOS = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.toml"))]
OUTPUT = re.compile(r"^```(?:console)?\n.*?^```$", re.MULTILINE | re.DOTALL)
"""A block of a page that shows what a command prints."""
VALUE = "0"
"""Stands in strings for what an f-string puts there."""
KEPT = ("all-gathers beside reduce-scatters", "border.py beside this file")
"""Texts that digests are made of: a note of plans, whose stored points would run again if it changed, and the head of
border.h, with which compiled agents would have to be built again."""


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
    Phrase(
        "of its own",
        re.compile(r"\bof\s+(?:its|their|one's|the\s+user's)\s+own\b"),
        "what is separate is said to be separate, and otherwise the words say nothing",
        ("a process of its own", "files of the\nuser's own", "layers have times of their own"),
        ("a separate process", "files that users write", "a model of your own"),
    ),
    Phrase(
        "others'",
        re.compile(r"\bothers'"),
        "whose it is has to be read twice",
        ("ports of others' switches", "nothing of others' is removed"),
        ("ports of other switches", "the others are not removed"),
    ),
    Phrase(
        "told",
        re.compile(r"\btold\b"),
        "nobody is named who tells it, or to whom",
        ("a wrong key is told with its file", "messages are told apart"),
        ("a wrong key is reported with its file", "it tells which", "messages are distinguished"),
    ),
    Phrase(
        "beside",
        re.compile(r"(?<!`)\bbeside\b(?!`)", re.IGNORECASE),
        "it may mean next to, during, compared with, in addition to or other than",
        ("bars of measured beside printed values", "Beside other tools", "a program beside\na strategy"),
        (
            "bars of measured and printed values",
            "points run side by side",
            "besides, it is slow",
            "`beside` is about programs",
        ),
    ),
    Phrase(
        "by name",
        re.compile(r"\b(?:refused|rejected|ends?|ended|says?\s+so|not|and)\s+by\s+name\b"),
        "the message names it",
        ("a run that cannot continue ends by name", "a wrong key is rejected by name"),
        ("a run that cannot continue ends with a message that names why", "sorted by name"),
    ),
    Phrase(
        "mend",
        re.compile(r"\bmend(?:s|ed|ing)?\b"),
        "defects are fixed, and what has failed is repaired",
        ("with the command that mends it", "is mended at its end"),
        ("with the command that fixes it", "amended"),
    ),
    Phrase(
        "goes on",
        re.compile(r"\b(?:goes|go|went|going|gone)\s+on\b(?!\s+(?:the|a|an|to\s+the)\b)"),
        "it continues, is resumed, or happens",
        ("its queue goes on when", "the same call goes\non from there"),
        ("its queue continues when", "messages go on the wire"),
    ),
    Phrase(
        "so it is",
        re.compile(r"\bso\s+it\s+is\b(?!\s+(?:not|taken|refused|reported|possible)\b)", re.IGNORECASE),
        "an inverted clause has to be read twice",
        ("So it is with p3", "so it is in\nthe estimate"),
        ("The same holds for p3", "it is also so"),
    ),
    Phrase(
        "had nothing to do",
        re.compile(r"\bha[sd]\s+nothing\s+to\s+do\b(?!\s+with)"),
        "it had no effect",
        ("fabric.buffer had nothing to do",),
        ("fabric.buffer had no effect", "it has nothing to do with that"),
    ),
    Phrase(
        "all 2",
        re.compile(r"\ball\s+(?:2|two)\b(?!\.)"),
        "two of something are both",
        ("fastest at all 2 rates",),
        ("fastest at both rates", "all 20 rates"),
    ),
)


@dataclass(frozen=True)
class Text:
    """A piece of text, the file that it is in, and the line that it starts in."""

    path: Path
    line: int
    words: str


def string_texts(path: Path) -> Iterator[Text]:
    """Strings and docstrings of a module, those with values in them whole. Left out are keys, and what is KEPT."""
    tree = ast.parse(path.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = [part.value if isinstance(part, ast.Constant) else VALUE for part in node.values]
            yield Text(path, node.lineno, without_kept("".join(map(str, values))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield Text(path, node.lineno, "" if node.value.isidentifier() else without_kept(node.value))


def without_kept(words: str) -> str:
    """A text without what it may have all the same."""
    for kept in KEPT:
        words = words.replace(kept, "")
    return words


def texts_in(path: Path) -> Iterator[Text]:
    """What users read in a file of any kind. Of TOML everything: its strings are shown too."""
    if path.suffix == ".py":
        yield from string_texts(path)
    else:
        text = path.read_text()
        yield Text(path, 1, re.sub(r"\n# ?", "\n  ", text) if path.suffix == ".toml" else without_output(text))


def without_output(page: str) -> str:
    """A page without the output that it shows, in the same lines; the words of it are strings elsewhere."""
    return OUTPUT.sub(lambda block: "\n" * block[0].count("\n"), page)


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
    lines = [line for text in texts for line in defects(phrase, text)]
    assert lines == [], f"{phrase.reason}; write for instance {phrase.good[0]!r} (docs/contributing/style.md)"


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.name)
def test_each_pattern_finds_its_bad_examples_and_not_the_good_ones(phrase: Phrase) -> None:
    assert [bad for bad in phrase.bad if not phrase.pattern.search(bad)] == []
    assert [good for good in phrase.good if phrase.pattern.search(good)] == []


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.name)
def test_the_page_has_a_row_for_each_pattern(phrase: Phrase) -> None:
    assert phrase.bad[0] in STYLE.read_text()
    assert phrase.good[0] in STYLE.read_text()


def test_output_of_commands_on_a_page_is_left_out_and_lines_stay_where_they_are() -> None:
    page = "One\n```console\n$ told\n```\n```sh\nrun # told\n```\n"
    assert without_output(page) == "One\n\n\n\n```sh\nrun # told\n```\n"


def test_strings_of_all_kinds_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""1 s a host."""\nTEXT = f"{TEXT} s a host" + "2 s a host"\n')
    assert sorted(text.words for text in texts_in(module)) == ["0 s a host", "1 s a host.", "2 s a host"]
    scenario = tmp_path / "scenario.toml"
    scenario.write_text("x = 1\n# takes 2 s\n# a host\n")
    assert any(PHRASES[0].pattern.search(text.words) for text in texts_in(scenario))

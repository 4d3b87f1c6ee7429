"""The fenced blocks of README and docs, and the plug-in that they walk through, for the tests that carry them out.

The word behind a block's language is the file that it shows: "```python ~/two-tree/two_tree.py".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PLUGIN_FOLDER, MODELS_FOLDER = "~/two-tree", "~/tiny-gpt"
QUESTION = "~/question.toml"
"""The scenario of README's question."""
ANSWER = re.compile(r"^ (?P<strategy>[\w-]+) +(?P<rate>\d+gbit) +(?P<time_s>[\d.]+) .* (?P<verdict>\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """A fenced block. file: what it shows, "" for none."""

    document: Path
    line: int
    language: str
    file: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.document.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Answer:
    """A row of the table that answers README's question. time_s: of an iteration, as it was measured."""

    strategy: str
    rate: str
    time_s: float
    verdict: str


def documents() -> list[Path]:
    """Everything that is written for users."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets(document: Path) -> list[Snippet]:
    """All fenced blocks of a document. Raises ValueError if a fence is left open."""
    text = document.read_text()
    if len(re.findall(r"^```", text, re.MULTILINE)) % 2:
        raise ValueError(f"{document}: a fenced block does not end")
    found = []
    for match in FENCED.finditer(text):
        language, _, file = match["info"].partition(" ")
        line = text.count("\n", 0, match.start()) + 1
        found.append(Snippet(document, line, language, file.strip(), match["text"]))
    return found


@cache
def all_snippets() -> tuple[Snippet, ...]:
    """Of all documents, which are read once."""
    return tuple(snippet for document in documents() for snippet in snippets(document))


def shown_file(file: str) -> Snippet:
    """The one block that shows a file."""
    (found,) = (snippet for snippet in all_snippets() if snippet.file == file)
    return found


def write_shown_files(home: Path) -> None:
    """Writes every file that a block shows to where it belongs, with `home` for "~"."""
    for snippet in all_snippets():
        if snippet.file:
            path = home / snippet.file.removeprefix("~/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(snippet.text)


def install(folder: Path, name: str, version: str, strategies: Mapping[str, str], **others: Mapping[str, str]) -> Path:
    """What an installer leaves of a package whose modules are in `folder`: its metadata. Returns the folder to put on the path.

    strategies: its entry points by name; others: those of other groups, by the last part of the group's name.
    """
    information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in {"strategies": strategies, **others}.items():
        lines += [f"[gradwire.{group}]", *(f"{entry} = {value}" for entry, value in entries.items())]
    (information / "entry_points.txt").write_text("\n".join([*lines, ""]))
    return folder


def install_plugin(home: Path, shown: str = PLUGIN_FOLDER) -> Path:
    """Writes the walk-throughs' files and installs a folder as its pyproject.toml says; returns the folder to put on the path."""
    write_shown_files(home)
    folder = home / shown.removeprefix("~/")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    groups = {group.removeprefix("gradwire."): entries for group, entries in project["entry-points"].items()}
    return install(folder, project["name"], project["version"], **{"strategies": {}, **groups})


def answers() -> list[Answer]:
    """All rows of the table in README."""
    return [
        Answer(row["strategy"], row["rate"], float(row["time_s"]), row["verdict"])
        for row in ANSWER.finditer((ROOT / "README.md").read_text())
    ]

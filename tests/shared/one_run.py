"""The section "One run, followed" of docs/architecture.md, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROW = re.compile(r"^\| (\d+) \| `([\w/.]+)` \| `([\w.]+)` \| .+ \| (inside the machine|outside) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A row of the section: where a run comes through."""

    #: From the top of the repository.
    file: str
    #: A function, a method with its class, or a class.
    name: str
    is_inside: bool

    @property
    def source(self) -> str:
        """The text of the file."""
        return (ROOT / self.file).read_text()

    @property
    def module(self) -> str:
        """The name that a process of it is started by."""
        return self.file.removesuffix(".py").removesuffix("/__main__").replace("/", ".")


def one_run() -> list[Step]:
    """The rows in order."""
    section = (
        (ROOT / "docs" / "architecture.md").read_text().partition("## One run, followed\n")[2].partition("\n## ")[0]
    )
    rows = ROW.findall(section)
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) == len([line for line in section.splitlines() if line.startswith("| ")]) - 1, "a row is not read"
    return [Step(file, name, where != "outside") for _, file, name, where in rows]

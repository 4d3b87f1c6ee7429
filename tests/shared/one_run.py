"""The section "One run, followed" of docs/architecture.md, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STEP = re.compile(r"^(\d+)\. `([\w.]+)` \(`([\w/.]+)`\) .+$", re.MULTILINE)
INSIDE = re.compile(r"Steps (\d+) to (\d+) run inside the machine")


@dataclass(frozen=True)
class Step:
    """A line of the section: where a run comes through."""

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
    """The steps in order."""
    section = (
        (ROOT / "docs" / "architecture.md").read_text().partition("## One run, followed\n")[2].partition("\n## ")[0]
    )
    steps = STEP.findall(section)
    assert [int(number) for number, *_ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) == len(re.findall(r"^\d", section, re.MULTILINE)), "a step is not read"
    ((first, last),) = INSIDE.findall(section)
    return [Step(file, name, int(first) <= int(number) <= int(last)) for number, name, file in steps]

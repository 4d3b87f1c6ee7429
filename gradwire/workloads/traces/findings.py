"""What an import found in traces: what its reading rests on, and what it refuses because the result would be a
guess."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

LONGEST = 600
"""Characters of what is said of a file: names that it has may be longer, and are cut short."""


def cut_short(text: str) -> str:
    """A text of at most about LONGEST characters: of a longer one, its beginning and its end."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST * 2 // 3]} [...] {text[-LONGEST // 3 :]}"


@dataclass(frozen=True)
class Finding:
    """Something that whoever uses the workload should know."""

    #: File that it is about.
    file: str
    #: The first node or event that it is about; "" for the whole file.
    place: str
    #: What is the case, and what was made of it.
    what: str
    #: Whether no workload is made because of it.
    refused: bool = False
    #: How many nodes or events it is about.
    count: int = 1

    @property
    def words(self) -> str:
        """One line."""
        about = "".join(f"{each}: " for each in (self.file, self.place) if each)
        more = f" ({self.count:,} in all)" if self.count > 1 else ""
        return f"{about}{self.what}{more}"


class Findings:
    """Collects findings. Those that say the same of a file are one, with the place of the first."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, bool], Finding] = {}

    def note(self, file: str, place: str, what: str, count: int = 1) -> None:
        """Adds what the reading rests on."""
        self._add(Finding(file, place, what, refused=False, count=count))

    def refuse(self, file: str, place: str, what: str, count: int = 1) -> None:
        """Adds a reason against making a workload."""
        self._add(Finding(file, place, what, refused=True, count=count))

    def _add(self, finding: Finding) -> None:
        finding = replace(finding, what=cut_short(finding.what))
        key = finding.file, finding.what, finding.refused
        earlier = self._found.get(key)
        if earlier is not None:
            finding = Finding(earlier.file, earlier.place, earlier.what, earlier.refused, earlier.count + finding.count)
        self._found[key] = finding

    def add_all(self, others: Iterable[Finding]) -> None:
        """Adds those of others."""
        for finding in others:
            self._add(finding)

    @property
    def all(self) -> tuple[Finding, ...]:
        """All of them, refusals first."""
        return tuple(sorted(self._found.values(), key=lambda finding: not finding.refused))

    @property
    def refused(self) -> bool:
        """Whether any of them refuses."""
        return any(finding.refused for finding in self._found.values())

"""When and with what a paper was reproduced: kept beside its claims, so that the overview can tell it of each paper."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.files import replace_text


@dataclass(frozen=True)
class Facts:
    """When and with what a paper was reproduced."""

    #: As YYYY-MM-DD.
    date: str
    #: Of gradwire, Python and what counts beside them, in one line.
    versions: str
    kernel: str
    #: Hash of the code that plans are compiled and carried out with.
    code: str
    #: Number of points that were measured.
    points: int
    #: Wall time of all of them together, each on one core.
    points_s: float
    #: Reasons by the labels of the points whose run is not a result.
    failed: Mapping[str, str]

    def lines(self) -> list[str]:
        """Each fact in a line."""
        return [
            f"date: {self.date}",
            f"versions: {self.versions}",
            f"kernel: {self.kernel}",
            f"code of the runs: {self.code}",
            f"points: {self.points} measured, in {self.points_s:.0f} s of one core",
            *(f"failed: {label}: {reason}" for label, reason in self.failed.items()),
        ]


def write_facts(path: Path, facts: Facts) -> None:
    """Writes the facts as JSON."""
    replace_text(path, json.dumps(asdict(facts), indent=1) + "\n")


def read_facts(path: Path) -> Facts:
    """Reads what `write_facts` wrote. Raises InputFault for anything else."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
        wanted = {field.name for field in fields(Facts)}
        if not isinstance(loaded, dict) or loaded.keys() != wanted:
            raise ValueError(f"it should have {', '.join(sorted(wanted))}")
        return Facts(**loaded)
    except (OSError, ValueError) as error:
        raise InputFault(f"{path}: no facts as `gradwire reproduce` writes them: {error}") from error

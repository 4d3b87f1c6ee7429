"""The score of `gradwire reproduce --quick` that is kept in the repository: what held once must still hold."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from gradwire.faults import InputFault
from reproduction.scoring.score import Result, Status

KEPT = Path(__file__).parent / "quick-score.toml"


@dataclass(frozen=True)
class Change:
    """Claims that changed, as scenario/claim."""

    #: Claims that held and do not any more, with what is measured now.
    lost: tuple[str, ...]
    #: Claims that hold now and did not.
    gained: tuple[str, ...]


def claims_that_hold(results: Sequence[Result]) -> list[str]:
    """The claims that hold."""
    return sorted(result.name for result in results if result.status is Status.HOLDS)


def keep(results: Sequence[Result], path: Path = KEPT) -> None:
    """Writes the score."""
    head = (
        "# Claims that hold in `gradwire reproduce --quick`; `--accept` writes this file, `--check` compares with it.\n"
    )
    path.write_text(head + tomli_w.dumps({"held": claims_that_hold(results)}, multiline_strings=False))


def compare(results: Sequence[Result], path: Path = KEPT) -> Change:
    """Changes against the kept score. Raises InputFault where there is no kept score."""
    if not path.exists():
        raise InputFault(f"{path}: no score is kept; `gradwire reproduce --quick --accept` writes it")
    before = set(tomllib.loads(path.read_text())["held"])
    now = set(claims_that_hold(results))
    by_name = {result.name: result for result in results}
    lost = tuple(f"{name}: {_now(by_name.get(name))}" for name in sorted(before - now))
    return Change(lost, tuple(sorted(now - before)))


def _now(result: Result | None) -> str:
    """What became of a claim."""
    if result is None:
        return "there is no such claim any more"
    measured = "nothing" if result.measured is None else result.measured.value
    return f"{result.status.value}, printed {result.claim.printed}, measured {measured}"

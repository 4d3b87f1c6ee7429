"""Claims as rows of a CSV file: everything that is known of each, to compute with and to compare with a later
reproduction.

Between two reproductions, claims move: they have another outcome, or a visibly different value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pandas as pd

from gradwire.analysis.point_frames import write_frame
from gradwire.analysis.run_difference import ClaimDifference, claim_differences
from gradwire.csv_files import read_csv
from gradwire.faults import InputFault
from reproduction.scoring.reference import Kind, rank_text
from reproduction.scoring.score import Outcome, Result, Status, group_of

SCALED, DIRECT = "scaled", "direct"
VISIBLY = 0.01
"""Share of the old value from which on a number has moved: the
emulation's grain, as in reproduction/scoring/shapes.py."""


@dataclass(frozen=True)
class ClaimRow:
    """A claim and what came of it, every field as text; empty where there is none. Units are the claim's."""

    scenario: str
    claim: str
    kind: str
    metric: str
    unit: str
    #: Parameters of its point, as key=value.
    where: str
    printed: str
    measured: str
    #: Half of the 95 % confidence interval.
    ci95: str
    #: Signed, as a share of the printed value.
    relative_error: str
    #: yes, no, or empty where the claim does not count.
    holds: str
    #: The cell itself for one that a constant was chosen to meet, else the cells that its points' constants were
    #: chosen on.
    fitted_on: str
    #: direct, or scaled.
    evidence: str
    #: Its status.
    verdict: str
    #: Why it does not count or has no evidence, and where its value comes from.
    reason: str
    #: Of its explanation: the cause in a few words, the argument, and what was measured for this claim alone.
    cause: str
    argument: str
    seen: str
    #: The premise of its explanation that does not hold.
    broken_premise: str
    source: str

    @property
    def outcome(self) -> Outcome:
        """What a score counts of it."""
        return Outcome(
            f"{self.scenario}/{self.claim}",
            group_of(Kind(self.kind)),
            Status(self.verdict),
            float(self.relative_error) if self.relative_error else None,
            self.evidence == DIRECT,
            bool(self.cause),
            bool(self.broken_premise),
        )


COLUMNS = tuple(field.name for field in fields(ClaimRow))


def row_of(result: Result) -> ClaimRow:
    """What came of a claim, as a row."""
    claim, measured, explanation = result.claim, result.measured, result.explanation
    printed = rank_text(claim.printed) if isinstance(claim.printed, list) else _text(claim.printed)
    return ClaimRow(
        scenario=result.scenario.id,
        claim=claim.id,
        kind=claim.kind.value,
        metric=claim.metric,
        unit=claim.unit,
        where="; ".join(f"{key}={value}" for key, value in claim.where.items()),
        printed=printed,
        measured=_text(measured.value if measured else None),
        ci95=_text(measured.ci95 if measured else None),
        relative_error=_text(result.relative_error),
        holds={Status.HOLDS: "yes", Status.DIFFERS: "no", Status.NO_EVIDENCE: "no"}.get(result.status, ""),
        fitted_on=f"this cell ({claim.source})" if claim.fitted else "; ".join(result.fitted_on),
        evidence=DIRECT if result.scenario.direct else SCALED,
        verdict=result.status.value,
        reason="; ".join(part for part in (result.reason, measured.detail if measured else "") if part),
        cause=explanation.cause if explanation else "",
        argument=explanation.argument if explanation else "",
        seen=explanation.seen if explanation else "",
        broken_premise=result.broken_premise,
        source=claim.source,
    )


def _text(value: float | str | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def write_rows(path: Path, rows: Iterable[ClaimRow]) -> None:
    """Writes one row per claim."""
    write_frame(path, pd.DataFrame([asdict(row) for row in rows], columns=list(COLUMNS)))


def read_rows(path: Path) -> list[ClaimRow]:
    """Reads what `write_rows` wrote. Raises InputFault for a file that is not a table of claims."""
    try:
        texts = read_csv(path)
        rows = [ClaimRow(**row) for row in texts]
        for row in rows:
            _ = row.outcome
    except (OSError, ValueError, TypeError) as error:
        raise InputFault(f"{path}: no table of claims as `gradwire reproduce` writes it: {error}") from error
    return rows


def moved_claims(before: Sequence[ClaimRow], now: Sequence[ClaimRow]) -> list[ClaimDifference]:
    """The claims whose outcome changed or whose number moved by more
    than VISIBLY, and those that only one side has."""
    changed = claim_differences([asdict(row) for row in before], [asdict(row) for row in now])
    return [claim for claim in changed if claim.first_outcome != claim.second_outcome or abs(change(claim)) > VISIBLY]


def change(difference: ClaimDifference) -> float:
    """Second minus first as a share of the first; nan where either is not a number."""
    try:
        first, second = float(difference.first), float(difference.second)
    except ValueError:
        return math.nan
    if first == 0:
        return 0.0 if second == 0 else math.inf
    return (second - first) / abs(first)

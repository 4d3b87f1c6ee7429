"""The conclusion of a run in a few sentences: what it shows of all that was varied, and the number of valid points.

Remarks follow below a table of points that take another time than on an ideal network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.analysis.agreement.causes import Agreement, Cause
from gradwire.analysis.findings.findings import Finding
from gradwire.analysis.points import INVALID, VALID, PointResult
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.finding_words import sentences
from gradwire.analysis.report.ranking import Ranking, rank
from gradwire.analysis.verdict.verdict import Verdict

MOST_POINTS_NAMED = 3
"""Number of points with one cause that are named after the first, which has the explanation."""
NOT_A_SETTING = ("strategy", "options", "seed")
"""Parameters in which the points of one setting may differ."""


@dataclass(frozen=True)
class Remark:
    """A line about one cause."""

    text: str
    #: Whether it should be read before the results are trusted.
    is_warning: bool


def remarks(labels: Sequence[str], rows: Sequence[PointResult], agreements: Sequence[Agreement | None]) -> list[Remark]:
    """One line per cause, with the numbers of the first point that has it;
    warnings first. All arguments have one element per point."""
    by_cause: dict[Cause, list[int]] = {}
    for index, agreement in enumerate(agreements):
        if agreement and agreement.sentence:
            by_cause.setdefault(agreement.cause, []).append(index)
    ordered = sorted(by_cause, key=lambda cause: (cause is not Cause.UNEXPLAINED, list(Cause).index(cause)))
    return [
        Remark(_remark_text(by_cause[cause], labels, rows, agreements), cause is Cause.UNEXPLAINED) for cause in ordered
    ]


def _remark_text(
    points: Sequence[int], labels: Sequence[str], rows: Sequence[PointResult], agreements: Sequence[Agreement | None]
) -> str:
    """Remark on points with one cause: the explanation of the first, and the names of the others."""
    first, *others = points
    agreement, ratio = agreements[first], rows[first].fluid_ratio
    assert agreement is not None
    whose = f" of {labels[first]}" if len(rows) > 1 else ""
    text = f"x fluid{whose}{f' is {ratio:.3f}' if ratio else ''}: {agreement.sentence}."
    if not others:
        return text
    named = [_with_ratio(labels[index], rows[index].fluid_ratio) for index in others[:MOST_POINTS_NAMED]]
    more = len(others) - len(named)
    return f"{text} The same holds for {'; '.join(named)}{f'; and {more} more points' if more else ''}."


def _with_ratio(label: str, ratio: float | None) -> str:
    return f"{label} ({ratio:.3f})" if ratio else label


@dataclass(frozen=True)
class RankedSetting:
    """The strategies that ran at one setting of everything else, ranked."""

    #: The varied parameters of the setting.
    parameters: dict[str, str]
    ranking: Ranking


@dataclass(frozen=True)
class Conclusion:
    """The conclusion of a run, in sentences."""

    #: What it shows, a sentence each.
    found: tuple[str, ...]
    #: Number of points that are results, as a sentence.
    validity: str

    def __str__(self) -> str:
        return " ".join((*self.lines, self.validity))

    @property
    def lines(self) -> list[str]:
        """Its findings, a sentence each."""
        return list(self.found) or ["There is no result."]


def conclusion(rows: Sequence[PointResult], findings: Sequence[Finding], write: Labels) -> Conclusion:
    """The conclusion of a run. rows: one per point and seed."""
    return Conclusion(tuple(sentences(findings, write)), validity(rows))


def validity(rows: Sequence[PointResult]) -> str:
    """Sentence with the number of points that are results, and of those that the report warns of."""
    states = Counter(row.state for row in rows)
    valid, invalid, unexplained = states[VALID], states[INVALID], states[Cause.UNEXPLAINED]
    if valid == len(rows):
        return f"All {valid} points are valid." if valid > 1 else "Its point is valid."
    if not unexplained:
        return f"Only {valid} of {len(rows)} points are valid; the others are not results."
    if len(rows) == 1:
        return "Its point is unexplained."
    count = f"Only {valid} of {len(rows)} points are valid" if valid else f"None of {len(rows)} points is valid"
    warned = f"{unexplained} {'is' if unexplained == 1 else 'are'} unexplained"
    useless = f", and {invalid} {'is not a result' if invalid == 1 else 'are not results'}" if invalid else ""
    return f"{count}; {warned}{useless}."


def trust(valid: str, rows: Sequence[PointResult], verdicts: Sequence[Verdict | None]) -> str:
    """Why the results may be believed, in one sentence. valid: `validity` of the rows."""
    checks = sum(len(verdict.checks) for verdict in verdicts if verdict is not None)
    ratios = [row.fluid_ratio for row in rows if row.state == VALID and row.fluid_ratio]
    if not checks or not ratios or any(row.state != VALID for row in rows):
        return valid
    ends = " to ".join(dict.fromkeys((f"{min(ratios):.3f}", f"{max(ratios):.3f}")))
    runs = "their runs" if len(rows) > 1 else "its run"
    return (
        f"{valid.removesuffix('.')}: {runs} passed all {checks:,} checks, and took {ends} times as long as an ideal "
        "network would."
    )


def ranked_by_setting(
    rows: Sequence[PointResult],
    partial: Sequence[str] = (),
    random: Sequence[bool] = (),
    families: Mapping[str, str] | None = None,
) -> list[RankedSetting]:
    """The rows by everything but strategy and seed, ranked. A parameter that only some points have belongs to their
    strategy.

    The arguments are those of `rank`.
    """
    shared = [key for key in rows[0].parameters if all(key in row.parameters for row in rows)] if rows else []
    keys = [key for key in shared if key not in NOT_A_SETTING and len({row.parameters[key] for row in rows}) > 1]
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(tuple(row.parameters[key] for key in keys), []).append(index)
    return [
        RankedSetting(
            dict(zip(keys, values, strict=True)),
            rank([rows[i] for i in chosen], families or {}, partial, {}, [random[i] for i in chosen] if random else ()),
        )
        for values, chosen in groups.items()
    ]

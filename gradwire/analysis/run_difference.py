"""Compares two runs, point by point and claim by claim, and finds the cause of each change.

Runs on the virtual clock repeat, so there is no noise between them: every difference has a cause.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from gradwire.analysis.points import PointResult
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric

METRICS = {
    "iteration_time": "iteration_time_s",
    "throughput": "throughput_per_s",
    "scaling_efficiency": "scaling_efficiency",
    "bytes_sent": "bytes_sent",
}
"""Metrics that a gate may watch: their names, and the columns of points.csv behind them."""
_GATE = re.compile(r"\s*([a-z_]+)\s*([<>])\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*%\s*")


@dataclass(frozen=True)
class RunFacts:
    """The run of a point, and everything that decided its result."""

    result: PointResult
    fabric: Fabric
    #: Settings of the run besides plan and fabric: texts by their names.
    settings: Mapping[str, str]
    #: Origin of the run, texts by their names: kernel, gradwire. Empty if it was not recorded.
    origin: Mapping[str, str]
    #: Hash of everything that decided the result; "" if the run did not come to its end.
    key: str
    #: All settings of the point, texts by keys, and of one of several jobs its name; empty if they are not known.
    point_settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PointDifference:
    """A point in both runs."""

    parameters: Mapping[str, str]
    first: PointResult
    second: PointResult
    #: Differences between the two that decide the result, each with both values.
    causes: tuple[str, ...]

    @property
    def comparable(self) -> bool:
        """Whether both runs are valid."""
        return self.first.valid and self.second.valid

    def change(self, column: str = "iteration_time_s") -> float:
        """Second minus first, as a share of the first; nan unless both are valid."""
        before, after = float(getattr(self.first, column)), float(getattr(self.second, column))
        if not self.comparable:
            return math.nan
        return (after - before) / before if before else (0.0 if after == before else math.inf)


@dataclass(frozen=True)
class RunDifference:
    """The changes from one run to another."""

    points: tuple[PointDifference, ...]
    #: Parameters of points that only one of the two has.
    only_in_first: tuple[Mapping[str, str], ...]
    only_in_second: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class ClaimDifference:
    """A claim of a paper whose outcome or measured value changed. Texts are as in claims.csv."""

    scenario: str
    claim: str
    first: str
    second: str
    first_outcome: str
    second_outcome: str


@dataclass(frozen=True)
class Gate:
    """A change that a user does not accept: `iteration_time > 1%`."""

    metric: str
    above: bool
    limit: float

    @classmethod
    def parse(cls, text: str) -> Gate:
        """Reads a gate. Raises InputFault, with the right form."""
        match = _GATE.fullmatch(text)
        if match is None or match[1] not in METRICS:
            raise InputFault(
                f'--fail-if {text}: write a metric, > or <, and a change in per cent, like "iteration_time > 1%"; '
                f"metrics: {', '.join(METRICS)}"
            )
        return cls(match[1], match[2] == ">", float(match[3]) / 100)

    def fails(self, point: PointDifference) -> str:
        """Why a point does not pass, or "". A point that became invalid never passes;
        one that was invalid before has nothing to lose."""
        if not point.first.valid:
            return ""
        if not point.second.valid:
            return f"became {point.second.verdict}"
        change = point.change(METRICS[self.metric])
        if change > self.limit if self.above else change < self.limit:
            return f"{self.metric} changed by {change:+.2%}"
        return ""


def differences(first: Sequence[RunFacts], second: Sequence[RunFacts]) -> RunDifference:
    """Pairs points, in the first run's order: those with the same settings, without settings that all points of a run
    share, for these are what one run has in place of the other; and of the rest those with the same parameters."""
    partners = _partners(first, second)
    paired = {id(other) for other in partners if other is not None}
    by_parameters = {_identity(run.result.parameters): run for run in second if id(run) not in paired}
    pairs = [
        (run, other or by_parameters.pop(_identity(run.result.parameters), None))
        for run, other in zip(first, partners, strict=True)
    ]
    return RunDifference(
        tuple(
            PointDifference(run.result.parameters, run.result, other.result, tuple(_causes(run, other)))
            for run, other in pairs
            if other is not None
        ),
        tuple(run.result.parameters for run, other in pairs if other is None),
        tuple(run.result.parameters for run in by_parameters.values()),
    )


def _partners(first: Sequence[RunFacts], second: Sequence[RunFacts]) -> list[RunFacts | None]:
    """For each point of the first run the one of the second with the same settings; None where there is none, or
    several."""
    varied = [
        key for key in _setting_keys(first, second) if len(_values(first, key)) > 1 or len(_values(second, key)) > 1
    ]

    def by_settings(runs: Sequence[RunFacts]) -> dict[tuple[str, ...], list[RunFacts]]:
        found: dict[tuple[str, ...], list[RunFacts]] = {}
        for run in runs:
            found.setdefault(tuple(run.point_settings.get(key, "") for key in varied), []).append(run)
        return found

    partners: dict[int, RunFacts] = {}
    others = by_settings(second)
    for settings, runs in by_settings(first).items():
        matching = others.get(settings, [])
        if len(runs) == len(matching) == 1 and runs[0].point_settings and matching[0].point_settings:
            partners[id(runs[0])] = matching[0]
    return [partners.get(id(run)) for run in first]


def _setting_keys(first: Sequence[RunFacts], second: Sequence[RunFacts]) -> list[str]:
    return list(dict.fromkeys(key for run in (*first, *second) for key in run.point_settings))


def _values(runs: Sequence[RunFacts], key: str) -> list[str]:
    return list(dict.fromkeys(run.point_settings.get(key, "") for run in runs))


def apart(first: Sequence[RunFacts], second: Sequence[RunFacts]) -> list[str]:
    """The settings that vary in either of two runs and have no value in common, with their values."""
    found = []
    for key in _setting_keys(first, second):
        values = _values(first, key), _values(second, key)
        if max(map(len, values)) > 1 and not set(values[0]) & set(values[1]):
            told = [" and ".join(value or "unset" for value in of_run) for of_run in values]
            found.append(f"{key}: {told[0]} in the first, {told[1]} in the second")
    return found


def _identity(parameters: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(parameters.items()))


def _causes(first: RunFacts, second: RunFacts) -> Iterator[str]:
    if first.key and first.key == second.key:
        if first.result.iteration_time_s != second.result.iteration_time_s:
            yield "nothing that is known to decide it: runs of the same key should take the same time"
        return
    changed = list(_changes_between("", first.point_settings, second.point_settings))
    yield from changed
    if first.result.plan_digest != second.result.plan_digest:
        yield f"plan: {first.result.plan_digest} -> {second.result.plan_digest}"
    if not changed:
        yield from _changes_between("fabric", _as_text(asdict(first.fabric)), _as_text(asdict(second.fabric)))
    yield from _changes_between("", first.settings, second.settings)
    yield from _changes_between("", first.origin, second.origin)
    if _all_but_origin(first) == _all_but_origin(second) and first.key and second.key:
        recorded = bool(first.origin and second.origin)
        yield "gradwire's code" if recorded else "gradwire's code or its kernel, which one of the runs did not record"


def _all_but_origin(run: RunFacts) -> tuple[str, Fabric, Mapping[str, str], str]:
    return run.result.plan_digest, run.fabric, run.settings, run.origin.get("kernel", "")


def _changes_between(what: str, first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*first, *second]):
        before, after = first.get(name, ""), second.get(name, "")
        if before and after and before != after:
            yield f"{what}{'.' if what else ''}{name}: {before} -> {after}"


def _as_text(values: Mapping[str, object]) -> dict[str, str]:
    return {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in values.items()}


IDENTITY = ("scenario", "claim")
"""The columns of claims.csv that tell claims apart."""


def _claim(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in IDENTITY)


def claim_differences(first: Sequence[Mapping[str, str]], second: Sequence[Mapping[str, str]]) -> list[ClaimDifference]:
    """The claims, rows of claims.csv, whose outcome or measured value differs,
    in the first one's order; also those of one alone."""
    others = {_claim(row): row for row in second}
    nothing: Mapping[str, str] = {}
    pairs = [(row, others.pop(_claim(row), nothing)) for row in first]
    pairs += [(nothing, row) for row in others.values()]
    differences = []
    for before, after in pairs:
        row = before or after
        values = [side.get("measured", "") for side in (before, after)]
        outcomes = [side.get("verdict", "absent") for side in (before, after)]
        if values[0] != values[1] or outcomes[0] != outcomes[1]:
            differences.append(
                ClaimDifference(row["scenario"], row["claim"], values[0], values[1], outcomes[0], outcomes[1])
            )
    return differences

"""Evaluates claims: the value of each, whether it holds, whether it counts, and why it differs."""

from __future__ import annotations

import importlib
import pkgutil
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from gradwire.faults import InternalFault
from reproduction.scoring.evidence import Measured, NoEvidence, Points, can_look_up, look_up, measure_of
from reproduction.scoring.explanations import Explain, Explanation, Unexplained, explanation_of
from reproduction.scoring.holds import holds
from reproduction.scoring.reference import NUMERIC, PAPERS, Claim, Kind, Paper, ScenarioReference, Where

EXPLAINED_BEYOND = 0.15
"""From this relative error on, a numeric claim needs its explanation."""


class Status(StrEnum):
    """What came of a claim. Only the first three count."""

    HOLDS = "holds"
    DIFFERS = "differs"
    NO_EVIDENCE = "no evidence"
    """Emulable, but its runs are missing or invalid: counted, and not as holding."""
    FITTED = "fitted"
    PREDICTED = "predicted"
    CONTRADICTED = "contradicted in the paper"
    NOT_EMULABLE = "not emulable"


COUNTED = frozenset({Status.HOLDS, Status.DIFFERS, Status.NO_EVIDENCE})


def group_of(kind: Kind) -> str:
    """numeric, bound, rank, shape or formula; contradicted claims, which never count, are a separate group."""
    return "numeric" if kind in NUMERIC else kind.value


@dataclass(frozen=True)
class Outcome:
    """What a score counts of a claim."""

    #: As scenario/claim.
    name: str
    group: str
    status: Status
    #: For numbers: signed, as a share of the printed one.
    relative_error: float | None
    #: Whether its scenario runs as printed, and not scaled.
    direct: bool
    explained: bool
    #: Whether its explanation rests on a premise that does not hold.
    broken: bool

    @property
    def counted(self) -> bool:
        """Whether it is in the score."""
        return self.status in COUNTED

    @property
    def needs_explanation(self) -> bool:
        """Whether it is a number too far off to be left alone."""
        far = self.relative_error is not None and abs(self.relative_error) > EXPLAINED_BEYOND
        return self.counted and self.group == "numeric" and far

    @property
    def unexplained(self) -> bool:
        """Whether it differs for reasons that are unknown: a number too far off
        without an explanation, or a broken premise."""
        return self.broken or (self.needs_explanation and not self.explained)


class Judged(Protocol):
    """A claim with its outcome."""

    @property
    def outcome(self) -> Outcome:
        """What a score counts of it."""


@dataclass(frozen=True)
class Result:
    """A claim and what came of it."""

    paper: str
    scenario: ScenarioReference
    claim: Claim
    status: Status
    measured: Measured | None = None
    #: For numbers: signed, as a share of the printed one.
    relative_error: float | None = None
    #: Printed cells that the constants of its points were chosen on.
    fitted_on: tuple[str, ...] = ()
    #: Why there is no evidence, or why it does not count.
    reason: str = ""
    #: Why it differs, from the logs.
    explanation: Explanation | None = None
    #: Where the premise of its explanation does not hold: what was expected and what was seen.
    broken_premise: str = ""

    @property
    def name(self) -> str:
        """As scenario/claim."""
        return f"{self.scenario.id}/{self.claim.id}"

    @property
    def outcome(self) -> Outcome:
        """What a score counts of it."""
        return Outcome(
            self.name,
            group_of(self.claim.kind),
            self.status,
            self.relative_error,
            self.scenario.direct,
            self.explanation is not None,
            bool(self.broken_premise),
        )

    @property
    def counted(self) -> bool:
        """Whether it is in the score."""
        return self.outcome.counted

    @property
    def needs_explanation(self) -> bool:
        """Whether it is a number too far off to be left alone."""
        return self.outcome.needs_explanation

    @property
    def unexplained(self) -> bool:
        """Whether it differs for reasons that are unknown."""
        return self.outcome.unexplained

    @property
    def why(self) -> str:
        """Its explanation, or that it has none and what its premise turned
        out to be; empty where neither was asked for."""
        if self.broken_premise:
            return f"unexplained: {self.broken_premise}"
        return self.explanation.text if self.explanation else ""


@dataclass(frozen=True)
class Evaluated:
    """A scenario with its evidence and what came of its claims."""

    paper: Paper
    scenario: ScenarioReference
    points: Points
    results: tuple[Result, ...]


def load_bindings() -> None:
    """Imports every paper's evidence functions, so that they are bound: all modules of the papers' folders."""
    for paper in PAPERS:
        package = importlib.import_module(f"reproduction.{paper}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def evaluate(
    paper: Paper,
    scenario: ScenarioReference,
    points: Points,
    explain: Explain | None = None,
    only: Where | None = None,
) -> Evaluated:
    """Every claim of a scenario; with `only`, those that do not speak of other values of these parameters.

    explain: says, for a claim that no function explains, why it differs. Raises InternalFault for a claim that
    nothing measures.
    """
    claims = [c for c in scenario.claim if all(c.where.get(k, v) == v for k, v in (only or {}).items())]
    return Evaluated(
        paper, scenario, points, tuple(_evaluate(paper.paper, scenario, c, points, explain) for c in claims)
    )


def _evaluate(paper: str, scenario: ScenarioReference, claim: Claim, points: Points, explain: Explain | None) -> Result:
    if scenario.not_emulable or not claim.emulable:
        return Result(paper, scenario, claim, Status.NOT_EMULABLE, reason=scenario.not_emulable or claim.reason)
    try:
        measured = _measure(scenario, claim, points)
    except NoEvidence as missing:
        reason = f"{claim.reason}; {missing}" if claim.reason else str(missing)
        return Result(paper, scenario, claim, _never_counted(claim) or Status.NO_EVIDENCE, reason=reason)
    error = relative_error(claim, measured) if measured else None
    status = _status(claim, measured)
    fitted_on = points.fitted_on(**claim.where)
    result = Result(paper, scenario, claim, status, measured, error, fitted_on, claim.reason)
    if result.needs_explanation or status is Status.DIFFERS:
        return _explain_result(result, points, explain)
    return result


def _measure(scenario: ScenarioReference, claim: Claim, points: Points) -> Measured | None:
    """None for a contradicted claim that nothing measures."""
    bound = measure_of(scenario.id, claim.id)
    if bound:
        return bound(points, claim)
    if can_look_up(claim):
        return look_up(points, claim)
    if claim.kind is Kind.CONTRADICTED:
        return None
    raise InternalFault(f"nothing measures claim {claim.id} of {scenario.id}: bind a function to it")


def _status(claim: Claim, measured: Measured | None) -> Status:
    special = _never_counted(claim)
    if special or measured is None:
        return special or Status.CONTRADICTED
    return Status.HOLDS if holds(claim, measured) else Status.DIFFERS


def _never_counted(claim: Claim) -> Status | None:
    """The status of a claim that does not count whatever is measured; None: it counts."""
    if claim.kind is Kind.CONTRADICTED:
        return Status.CONTRADICTED
    if claim.predicted:
        return Status.PREDICTED
    return Status.FITTED if claim.fitted else None


def relative_error(claim: Claim, measured: Measured) -> float | None:
    """Measured minus printed as a share of the printed number; None where
    either is not a number or the printed one is 0."""
    if not isinstance(claim.printed, float) or not isinstance(measured.value, (int, float)) or claim.printed == 0:
        return None
    return (measured.value - claim.printed) / abs(claim.printed)


def _explain_result(result: Result, points: Points, explain: Explain | None) -> Result:
    """With the explanation that is bound to the claim, else with the default one."""
    explanation = explanation_of(result.scenario.id, result.claim.id) or explain
    if explanation is None:
        return result
    try:
        return replace(result, explanation=explanation(points, result.claim))
    except NoEvidence:
        return result
    except Unexplained as broken:
        return replace(result, broken_premise=str(broken))


@dataclass(frozen=True)
class Tally:
    """How many counted claims of a group there are and how many hold."""

    hold: int = 0
    counted: int = 0

    @property
    def text(self) -> str:
        """As "7 / 8", or a dash for none."""
        return f"{self.hold} / {self.counted}" if self.counted else "–"

    @property
    def share(self) -> float | None:
        """Share that holds; None where nothing counts."""
        return self.hold / self.counted if self.counted else None


GROUPS = ("numeric", "bound", "rank", "shape", "formula")


@dataclass(frozen=True)
class Score:
    """Counts over some results."""

    tallies: dict[str, Tally]
    #: Absolute relative errors of the numbers that count.
    errors: tuple[float, ...]
    #: Numbers that are off by more than EXPLAINED_BEYOND.
    beyond: int
    #: How many of these have an explanation.
    explained: int
    #: Names of all results that are `Result.unexplained`.
    unexplained: tuple[str, ...]
    fitted: int
    predicted: int
    listed: int
    scaled: Tally = field(default_factory=Tally)

    @property
    def all(self) -> Tally:
        """Over all groups."""
        return _sum(self.tallies.values())

    @property
    def directional(self) -> Tally:
        """Over ranks, shapes and bounds."""
        return _sum(self.tallies[group] for group in ("bound", "rank", "shape"))

    @property
    def median_error(self) -> float | None:
        """Median of the errors; None without any."""
        return statistics.median(self.errors) if self.errors else None


def _sum(tallies: Iterable[Tally]) -> Tally:
    held = list(tallies)
    return Tally(sum(t.hold for t in held), sum(t.counted for t in held))


def score(judged: Iterable[Judged]) -> Score:
    """Counts what came of claims."""
    outcomes = [judgement.outcome for judgement in judged]
    counted = [outcome for outcome in outcomes if outcome.counted]
    beyond = [result for result in counted if result.needs_explanation]
    statuses = [outcome.status for outcome in outcomes]
    return Score(
        tallies={group: _tally(result for result in counted if result.group == group) for group in GROUPS},
        errors=tuple(abs(r.relative_error) for r in counted if r.group == "numeric" and r.relative_error is not None),
        beyond=len(beyond),
        explained=sum(not result.unexplained for result in beyond),
        unexplained=tuple(result.name for result in counted if result.unexplained),
        fitted=statuses.count(Status.FITTED),
        predicted=statuses.count(Status.PREDICTED),
        listed=statuses.count(Status.CONTRADICTED) + statuses.count(Status.NOT_EMULABLE),
        scaled=_tally(result for result in counted if not result.direct),
    )


def _tally(outcomes: Iterable[Outcome]) -> Tally:
    statuses = [outcome.status for outcome in outcomes]
    return Tally(statuses.count(Status.HOLDS), len(statuses))

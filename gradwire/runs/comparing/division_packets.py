"""The fastest divisions of a search by packets, each in part: a few copies of each class of its ranks (part.copies).

The scenario has a point for each, and runs as any other; its run folder is that of the search with PACKETS behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradwire.faults import InputFault
from gradwire.runs.comparing.division_search import Estimated, FoundDivisions
from gradwire.runs.compiling.copies_of_job import fewest_copies_of
from gradwire.runs.judged import JudgedRun
from gradwire.scenario import loading
from gradwire.scenario.resolution.compilation import ResolvedPoint

JSON_FILE = "packets.json"
PACKETS = "packets"
"""Folder of the run, in that of the answer."""
NOT_RUN = "not run"
"""Verdict of a division that cannot run in part."""
OPTIONS = "options"
"""Parameter of points that tells divisions apart."""
RUN = {"warmup": 1, "iterations": 1, "fidelity": "1%"}
"""Settings of `run` for these points, unless --set gives others: their iterations are all alike, and have
terabytes."""


@dataclass(frozen=True)
class InPart:
    """A division that runs in part."""

    place: int
    division: Estimated
    copies: int

    @property
    def options(self) -> dict[str, Any]:
        """Options of the strategy, by which its point is found."""
        return dict(self.division.candidate.choice.options)


@dataclass(frozen=True)
class NotRun:
    """A division that cannot run in part."""

    place: int
    division: Estimated
    reason: str


@dataclass(frozen=True)
class Chosen:
    """The divisions that run, and those that cannot."""

    parts: tuple[InPart, ...]
    refused: tuple[NotRun, ...]

    def without(self, reasons: Mapping[int, str]) -> Chosen:
        """Returns the chosen divisions without some, which are given by their numbers with the reasons."""
        left = tuple(part for number, part in enumerate(self.parts) if number not in reasons)
        more = [NotRun(self.parts[number].place, self.parts[number].division, why) for number, why in reasons.items()]
        return Chosen(left, tuple(sorted([*self.refused, *more], key=lambda each: each.place)))


def chosen_divisions(
    answer: FoundDivisions, count: int, copies: int | None, on_begun: Callable[[str], None] = lambda _: None
) -> Chosen:
    """The first `count` divisions, with so many copies of each class, or with the fewest that can stand for all."""
    parts, refused = [], []
    for place, division in enumerate(answer.best[:count], 1):
        on_begun(f"copies of division {place}")
        try:
            number = copies or fewest_copies_of(ResolvedPoint(answer.question.section_of(division.candidate.choice)))
        except InputFault as fault:
            refused.append(NotRun(place, division, str(fault)))
            continue
        parts.append(InPart(place, division, number))
    return Chosen(tuple(parts), tuple(refused))


def scenario_of(answer: FoundDivisions, parts: Sequence[InPart]) -> dict[str, Any]:
    """A scenario with a point for each of these divisions."""
    document = answer.question.document
    choices = [part.division.candidate.choice for part in parts]
    own_batch = answer.question.resolved.job.batch
    others: list[dict[str, Any]] = [
        {"strategy.name": [choice.strategy], "model.batch": [choice.batch or own_batch]} for choice in choices
    ]
    if not any(choice.family for choice in choices):
        others = [{} for _ in choices]
    content = {
        **document,
        "title": f"{document['title']}: the first {len(parts)} divisions by packets, in part",
        "run": {**RUN, **document.get("run", {})},
        "strategy": {"name": choices[0].strategy},
        "cases": [
            {**other, "strategy.options": [part.options], "part.copies": [part.copies]}
            for part, other in zip(parts, others, strict=True)
        ],
    }
    points = loading.scenario_of(content).points
    names = {
        point.parameters[OPTIONS]: f"division {part.place}"
        for part, point in zip(parts, points, strict=True)
        if OPTIONS in point.parameters
    }
    return {**content, "labels": names}


def measured_rows(chosen: Chosen, runs: Sequence[JudgedRun[Any, Any]]) -> list[dict[str, Any]]:
    """Measured and estimated times of each division, in seconds; None for a time that there is no result of."""
    found: list[dict[str, Any]] = [
        {
            "place": each.place,
            "division": str(each.division.candidate.choice),
            "copies": None,
            "estimated_s": each.division.time_s,
            "measured_s": None,
            "difference": None,
            "verdict": NOT_RUN,
            "reason": each.reason,
            "folder": None,
        }
        for each in chosen.refused
    ]
    for part in chosen.parts:
        (run,) = [run for run in runs if run.point.section.strategy.options == part.options]
        result = run.result
        measured_s = result.iteration_time_s if result.valid else None
        found.append(
            {
                "place": part.place,
                "division": str(part.division.candidate.choice),
                "copies": part.copies,
                "estimated_s": part.division.time_s,
                "measured_s": measured_s,
                "difference": None if measured_s is None else measured_s / part.division.time_s - 1,
                "verdict": result.verdict,
                "reason": None,
                "folder": str(run.folder),
            }
        )
    return sorted(found, key=lambda row: row["place"])

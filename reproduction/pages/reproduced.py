"""A paper as it was reproduced: its scenarios with their figures, and when and with what they ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reproduction.pages.comparison import comparison_svg
from reproduction.pages.facts import Facts
from reproduction.pages.figures import figures, panels_of
from reproduction.scoring.reference import FigureReference, Paper
from reproduction.scoring.score import Evaluated, Result


@dataclass(frozen=True)
class Drawn:
    """A figure of a scenario."""

    #: Of its file.
    name: str
    title: str
    svg: str


@dataclass(frozen=True)
class ReproducedScenario:
    """A scenario with its claims and figures."""

    judged: Evaluated
    drawn: tuple[Drawn, ...]


@dataclass(frozen=True)
class Reproduced:
    """A paper with what came of its scenarios."""

    paper: Paper
    facts: Facts
    scenarios: tuple[ReproducedScenario, ...]

    @property
    def results(self) -> list[Result]:
        """Of all claims."""
        return [result for scenario in self.scenarios for result in scenario.judged.results]


def reproduced(paper: Paper, facts: Facts, evaluated: Sequence[Evaluated]) -> Reproduced:
    """Draws the figures of a paper's scenarios."""
    return Reproduced(paper, facts, tuple(ReproducedScenario(judged, _drawn(judged)) for judged in evaluated))


def _drawn(judged: Evaluated) -> tuple[Drawn, ...]:
    place = judged.scenario.id.removeprefix(f"{judged.paper.paper}-")
    found = figures(judged.scenario, judged.points)
    pairs = comparison_svg(judged.results)
    if pairs and not any(shows_printed(wanted, judged) for wanted in judged.scenario.figure):
        found.append(("Printed beside measured", pairs))
    return tuple(
        Drawn(f"{place}-{number}.svg" if len(found) > 1 else f"{place}.svg", title, svg)
        for number, (title, svg) in enumerate(found, 1)
    )


def shows_printed(wanted: FigureReference, judged: Evaluated) -> bool:
    """Whether a figure has a printed value beside a measured one."""
    panels = panels_of(wanted, judged.scenario.claim, judged.points)
    return any(mark.printed is not None for panel in panels for marks in panel.series.values() for mark in marks)

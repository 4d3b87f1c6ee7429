"""A paper as it was reproduced: its scenarios with their figures, and when and with what they ran.

The facts are kept in a file with its claims, so that the overview can show them for each paper.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.files import replace_text
from reproduction.pages.comparison import comparison_svg
from reproduction.pages.figures import figures, panels_of
from reproduction.scoring.reference import FigureReference, Paper
from reproduction.scoring.score import Evaluated, Result


@dataclass(frozen=True)
class Facts:
    """When and with what a paper was reproduced."""

    #: As YYYY-MM-DD.
    date: str
    #: Versions of gradwire, Python and what else counts, in one line.
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


def reproduced_paper(paper: Paper, facts: Facts, evaluated: Sequence[Evaluated]) -> Reproduced:
    """Draws the figures of a paper's scenarios."""
    return Reproduced(paper, facts, tuple(ReproducedScenario(judged, _draw_figures(judged)) for judged in evaluated))


def _draw_figures(judged: Evaluated) -> tuple[Drawn, ...]:
    name = judged.scenario.id.removeprefix(f"{judged.paper.paper}-")
    titled = figures(judged.scenario, judged.points)
    pairs = comparison_svg(judged.results)
    if pairs and not any(shows_printed(wanted, judged) for wanted in judged.scenario.figure):
        titled.append(("Printed and measured", pairs))
    return tuple(
        Drawn(f"{name}-{number}.svg" if len(titled) > 1 else f"{name}.svg", title, svg)
        for number, (title, svg) in enumerate(titled, 1)
    )


def shows_printed(wanted: FigureReference, judged: Evaluated) -> bool:
    """Whether a figure has both a printed and a measured value."""
    panels = panels_of(wanted, judged.scenario.claim, judged.points)
    return any(mark.printed is not None for panel in panels for marks in panel.series.values() for mark in marks)

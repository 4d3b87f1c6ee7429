"""What the papers print: reference values and their sources, read from <paper>/reference.toml and checked whole.

Nothing here is measured, and nothing in the emulator is computed from it. Values that gradwire itself shows with its
points are in gradwire/analysis/printed_values, and claims take them from there (`shipped = true`).
"""

from __future__ import annotations

import difflib
import functools
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gradwire.analysis.printed_cells import shipped_values
from gradwire.faults import InputFault, InternalFault, key_of, reason_of

FOLDER = Path(__file__).parent.parent
DATA = "reference.toml"
PAPERS = ("geryon", "p3", "gradientflow", "tictac", "netops")
"""In the order in which reports list them."""
SUGGESTED = 3
"""Names that a message gives for one that is unknown."""


class Kind(StrEnum):
    """How a paper states a claim, and so how it is judged (reproduction/scoring/holds.py)."""

    CELL = "cell"
    """A number in a table."""
    PROSE = "prose"
    """A number in a sentence or read off a figure."""
    DERIVED = "derived"
    """Computed from printed numbers, not printed itself."""
    MAX = "max"
    """"Up to": the maximum over a sweep."""
    APPROX = "approx"
    """"Around", "about"."""
    BOUND = "bound"
    """An inequality, as text: "<= 0.37"."""
    RANK = "rank"
    """An order, best first: each ahead of the next one, which may be a group ("a, b": not ranked among themselves), or
    be marked as one that the paper prints as equal, close or "at least as good" (">= b": the one before may be ahead
    of it or tie with it)."""
    SHAPE = "shape"
    """How a curve runs, in words."""
    FORMULA = "formula"
    CONTRADICTED = "contradicted"
    """Printed, but contradicted elsewhere in the same paper."""


class _Reference(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Where = dict[str, str | int | float]


class Claim(_Reference):
    """Something that a paper says about a point, or about how points compare."""

    id: str
    kind: Kind
    metric: str
    #: A number in `unit`, a bound's text, a rank (best first), or a shape in words; None: left out, to be predicted
    #: blindly.
    printed: float | str | list[str] | None = None
    unit: str = ""
    source: str
    #: Parameters of the point, as in points.csv, and `run` for the scenario file where several have such a point.
    where: Where = Field(default_factory=dict)
    #: For speed-ups: what differs from `where` in the point that it is relative to.
    baseline: Where = Field(default_factory=dict)
    #: For ranks: the parameter whose values are ranked.
    series: str = ""
    #: For ranks: the metric that values are ranked by.
    ranked_by: str = "throughput_per_s"
    #: Whether a constant was chosen to meet it.
    fitted: bool = False
    emulable: bool = True
    #: Why it is not counted.
    reason: str = ""
    #: Number of the headline group that it belongs to; 0 for none.
    headline: int = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.kind is Kind.CONTRADICTED or not self.emulable) and not self.reason:
            raise ValueError("a claim that is contradicted or not emulable needs its reason")
        if self.printed is None:
            return self
        wanted: dict[Kind, type] = {Kind.RANK: list, Kind.SHAPE: str, Kind.BOUND: str}
        if self.kind in wanted and not isinstance(self.printed, wanted[self.kind]):
            raise ValueError(f"printed must be {'a list' if self.kind is Kind.RANK else 'a text'} for a {self.kind}")
        if self.kind in NUMERIC and not isinstance(self.printed, float):
            raise ValueError(f"printed must be a number for a {self.kind}")
        return self

    @property
    def predicted(self) -> bool:
        """Whether the printed value is left out, so that nobody can have fitted on it."""
        return self.printed is None


AT_LEAST = ">= "
"""Before an entry of a rank: the one before it is at least as good."""


def rank_names(entry: str) -> list[str]:
    """The names in an entry of a rank, without its mark."""
    return [name.strip() for name in entry.removeprefix(AT_LEAST).split(",")]


def rank_text(printed: Sequence[str]) -> str:
    """A rank in one line: a > b >= c."""
    first, *others = printed
    return first + "".join(f" {entry}" if entry.startswith(AT_LEAST) else f" > {entry}" for entry in others)


NUMERIC = frozenset({Kind.CELL, Kind.PROSE, Kind.DERIVED, Kind.MAX, Kind.APPROX})
"""Kinds that state one number."""


class Fact(_Reference):
    """A number that a paper prints of its set-up, which is not a claim: measures and explanations compute with it."""

    id: str
    value: float
    unit: str = ""
    source: str


class FigureReference(_Reference):
    """How a scenario's figure is drawn: lines over x, or bars."""

    title: str
    kind: Literal["line", "bar"]
    x: str
    #: The parameter with one line or bar colour per value.
    series: str = "strategy"
    #: Metric of a point (throughput_per_s, scaling_efficiency, iteration_time_s), or speedup, which needs `baseline`.
    metric: str = "throughput_per_s"
    #: The parameter with one panel per value.
    panel: str = ""
    where: Where = Field(default_factory=dict)
    baseline: Where = Field(default_factory=dict)


class ScenarioReference(_Reference):
    """One figure, table or section of a paper."""

    id: str
    title: str
    setup: str = ""
    #: Files in scenarios/ that are run.
    runs: list[str] = Field(default_factory=list)
    #: Files in scenarios/ that are only compiled.
    plans: list[str] = Field(default_factory=list)
    #: False where it runs scaled; `note` says how.
    direct: bool = True
    #: Why it says nothing about traffic; empty where it does.
    not_emulable: str = ""
    note: str = ""
    #: Whether `gradwire reproduce --quick` runs it.
    quick: bool = False
    #: With `--quick`, only the points with these parameters.
    quick_only: Where = Field(default_factory=dict)
    claim: Annotated[list[Claim], Field(default_factory=list)]
    figure: Annotated[list[FigureReference], Field(default_factory=list)]

    @model_validator(mode="before")
    @classmethod
    def _with_shipped_values(cls, given: Any) -> Any:
        """Completes the claims that say `shipped = true` with what gradwire has printed under the scenario's name."""
        if not isinstance(given, dict) or not isinstance(given.get("claim"), list):
            return given
        return {**given, "claim": [_complete_claim(given.get("id"), claim) for claim in given["claim"]]}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        twice = sorted({claim.id for claim in self.claim if [c.id for c in self.claim].count(claim.id) > 1})
        if twice:
            raise ValueError(f"two claims are called '{twice[0]}'")
        if not self.direct and not self.note:
            raise ValueError("a scaled scenario (direct = false) needs a note that says how")
        if self.quick_only and not self.quick:
            raise ValueError("quick_only needs quick = true")
        if self.not_emulable and (self.runs or self.plans or self.quick):
            raise ValueError("what is not emulable has no runs")
        return self


def _complete_claim(scenario: object, claim: Any) -> Any:
    """A claim as it is in the file, with the value that gradwire has, if it is
    marked so. Raises ValueError where it has none."""
    if not isinstance(claim, dict) or claim.get("shipped") is not True:
        return claim
    value = shipped_values().get(str(scenario), {}).get(str(claim.get("id")))
    if value is None:
        raise ValueError(
            f"claim {claim.get('id')}: shipped = true, but gradwire/analysis/printed_values has no such value of "
            f"{scenario}"
        )
    shown = value.model_dump(exclude={"id", "value"}) | {"printed": value.value}
    if twice := sorted(shown.keys() & claim.keys()):
        raise ValueError(f"claim {claim['id']}: {twice[0]} is that of the shipped value; leave it out")
    return {key: of for key, of in claim.items() if key != "shipped"} | shown


class Paper(_Reference):
    """A paper and its scenarios."""

    #: Its folder.
    paper: str
    #: What it calls its system; the folder's name where that is left out.
    name: str = ""
    #: Its citation.
    title: str
    fact: list[Fact] = Field(default_factory=list)
    scenario: list[ScenarioReference]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ids = [scenario.id for scenario in self.scenario]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"two scenarios are called '{twice[0]}'")
        foreign = [name for name in ids if not name.startswith(f"{self.paper}-")]
        if foreign:
            raise ValueError(f"scenario '{foreign[0]}' must begin with '{self.paper}-'")
        return self


def load_paper(paper: str, folder: Path = FOLDER) -> Paper:
    """Reads and checks <paper>/reference.toml. Raises InputFault with the file, the place and what is wrong."""
    path = folder / paper / DATA
    try:
        loaded = Paper.model_validate(tomllib.loads(path.read_text()))
    except FileNotFoundError as error:
        raise InputFault(f"{path}: there is no reference data of a paper '{paper}'") from error
    except tomllib.TOMLDecodeError as error:
        raise InputFault(f"{path}: not valid TOML: {error}") from error
    except ValidationError as error:
        raise InputFault("\n".join(f"{path}: {key_of(d)}: {reason_of(d)}" for d in error.errors())) from error
    if loaded.paper != paper:
        raise InputFault(f"{path}: paper = '{loaded.paper}': must be '{paper}', like the folder")
    return loaded


def load_papers(folder: Path = FOLDER) -> list[Paper]:
    """All papers whose reference data is there, in the order of PAPERS. Raises InputFault."""
    return [load_paper(paper, folder) for paper in PAPERS if (folder / paper / DATA).exists()]


def choose_scenarios(papers: Sequence[Paper], names: Sequence[str]) -> list[tuple[Paper, ScenarioReference]]:
    """The scenarios that `names` (papers or scenarios; none: all) mean,
    each once. Raises InputFault for an unknown name."""
    pairs = [(paper, scenario) for paper in papers for scenario in paper.scenario]
    for name in names:
        if not any(name in (paper.paper, scenario.id) for paper, scenario in pairs):
            known = [paper.paper for paper in papers] + [scenario.id for _, scenario in pairs]
            near = difflib.get_close_matches(name, known, SUGGESTED)
            hint = (
                f"; did you mean {' or '.join(near)}?" if near else f"; papers are {', '.join(known[: len(papers)])}."
            )
            raise InputFault(f"{name}: no such paper or scenario{hint} `gradwire reproduce --list` lists all")
    return [(paper, scenario) for paper, scenario in pairs if not names or {paper.paper, scenario.id} & set(names)]


@functools.cache
def _shipped_paper(paper: str) -> Paper:
    return load_paper(paper)


def printed_number(paper: str, scenario: str, claim: str) -> float:
    """The number that a paper prints for a claim. Raises InternalFault where it prints none."""
    printed = [c.printed for s in _shipped_paper(paper).scenario if s.id == scenario for c in s.claim if c.id == claim]
    if len(printed) != 1 or not isinstance(printed[0], float):
        raise InternalFault(f"{paper}: {scenario} has no number for '{claim}'")
    return printed[0]


def printed_fact(paper: str, fact: str) -> float:
    """A number of a paper's set-up. Raises InternalFault for an unknown name."""
    values = [known.value for known in _shipped_paper(paper).fact if known.id == fact]
    if len(values) != 1:
        raise InternalFault(f"{paper}: there is no fact '{fact}'")
    return values[0]

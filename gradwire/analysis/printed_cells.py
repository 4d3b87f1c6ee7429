"""Printed values: those that a scenario gives for its points, and those that come with gradwire and have names.

What is brought is what the shipped scenarios show: <paper>.toml in printed_values/. Nothing is computed from it.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradwire.analysis.parameters import Where, describe
from gradwire.faults import InputFault, InternalFault, key_of, reason_of
from gradwire.nearest_names import question

FOLDER = Path(__file__).with_name("printed_values")
EFFICIENCY = "scaling_efficiency"
SPEEDUP = "speedup"
TIME = "iteration_time_s"
METRICS = (EFFICIENCY, "throughput_per_s", TIME, SPEEDUP)


@dataclass(frozen=True)
class PrintedCell:
    """A value that a paper prints for a point."""

    #: Parameters of the point.
    where: Where
    #: One of METRICS.
    metric: str
    #: An efficiency as a share (0.954), a speed-up as a ratio, everything else in SI units.
    value: float
    #: Paper and place.
    source: str
    #: Whether a constant was chosen to meet it.
    fitted: bool = False
    #: A remark for readers.
    note: str = ""
    #: For a speed-up: the parameters in which the point that it is relative to differs from `where`.
    baseline: Where = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Rejects values that cannot be compared; raises InputFault."""
        cell = f"printed cell {describe(self.where)}"
        if self.metric not in METRICS:
            raise InputFault(f"{cell}: metric '{self.metric}' is not one of {', '.join(METRICS)}")
        if self.value <= 0:
            raise InputFault(f"{cell}: value = {self.value}: must be above 0")
        if self.metric == EFFICIENCY and self.value > 2:
            raise InputFault(f"{cell}: value = {self.value}: an efficiency is a share, give {self.value / 100:g}")
        if (self.metric == SPEEDUP) != bool(self.baseline):
            raise InputFault(f"{cell}: a speedup, and nothing else, needs the baseline that it is relative to")


class ShippedValue(BaseModel):
    """A value of a table that gradwire brings with it; the fields are those of PrintedCell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    metric: str
    value: float
    #: The place in the paper.
    source: str
    where: dict[str, str | int | float]
    baseline: dict[str, str | int | float] = Field(default_factory=dict)
    fitted: bool = False


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    value: list[ShippedValue]


class _Paper(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    #: The paper's name of its system.
    name: str
    table: list[_Table]


@functools.cache
def shipped_values() -> Mapping[str, Mapping[str, ShippedValue]]:
    """The values that gradwire brings with it, by table and by their own name.
    Raises InternalFault where a file of them is wrong."""
    return {table.id: {value.id: value for value in table.value} for paper in _papers() for table in paper.table}


@functools.cache
def _papers() -> tuple[_Paper, ...]:
    papers = []
    for path in sorted(FOLDER.glob("*.toml")):
        try:
            papers.append(_Paper.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))))
        except ValidationError as error:
            raise InternalFault("\n".join(f"{path}: {key_of(d)}: {reason_of(d)}" for d in error.errors())) from error
    return tuple(papers)


def cells_of_claims(names: Sequence[str]) -> list[PrintedCell]:
    """The printed values that a scenario names: "geryon-table2" for all values of a table, "geryon-fig8/yolo-geryon"
    for one.

    Raises InputFault for a name that gradwire has no values of.
    """
    return [cell for name in names for cell in _cells_of(name)]


def _cells_of(name: str) -> list[PrintedCell]:
    table, _, wanted = name.partition("/")
    tables = shipped_values()
    if table not in tables:
        raise InputFault(
            f"printed_claims: {name}: gradwire has no printed values of '{table}'{_hint(table, [*tables])}; "
            "values of other tables stand in the scenario itself, as [[printed]]"
        )
    values = tables[table]
    if wanted and wanted not in values:
        raise InputFault(f"printed_claims: {name}: {table} has no value '{wanted}'{_hint(wanted, [*values])}")
    (system,) = (paper.name for paper in _papers() if any(one.id == table for one in paper.table))
    return [_cell(system, value) for value in ([values[wanted]] if wanted else values.values())]


def _cell(system: str, value: ShippedValue) -> PrintedCell:
    source = f"{system}, {value.source}"
    return PrintedCell(value.where, value.metric, value.value, source, fitted=value.fitted, baseline=value.baseline)


def _hint(name: str, candidates: Sequence[str]) -> str:
    hint = question(name, candidates) or f"there are {', '.join(candidates)}"
    return f"; {hint}"

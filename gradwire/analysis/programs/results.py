"""What the points of a scenario of programs came to, and its tables: a row per point, and a row per row of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from gradwire.analysis.frames.points import parameters_frame
from gradwire.analysis.parameters import parameter_number
from gradwire.analysis.programs.readers import Row
from gradwire.analysis.verdict.verdict import Verdict

FAILED = "failed"
"""The state of a point one of whose programs failed."""
PROGRAM, HOST, VERDICT = "program", "host", "verdict"
OWN_COLUMNS = (PROGRAM, HOST, VERDICT)
"""Columns that say where a row of figures comes from, and whether it is a result."""


@dataclass(frozen=True)
class FigureRow:
    """A row of figures, and where it comes from."""

    program: str
    host: str
    figures: Row


@dataclass(frozen=True)
class ProgramResult:
    """The results of one point. The figures of an invalid point are kept but are not results."""

    #: Every swept parameter and its value, as text.
    parameters: dict[str, str]
    #: Virtual time from the start of the first program to the end of the last; None if the run did not come to its end.
    duration_s: float | None
    figures: tuple[FigureRow, ...]
    #: Of the kernel, the most that it used; 0 if the run did not come to its end.
    memory_bytes: int
    wall_s: float
    verdict: Verdict

    @property
    def valid(self) -> bool:
        """Whether the figures are results."""
        return self.verdict.valid

    @property
    def summary(self) -> str:
        """The result in a few words."""
        rows = f"{len(self.figures)} {'row' if len(self.figures) == 1 else 'rows'} of figures"
        return f"{self.duration_s or 0.0:.6f} s of virtual time, {rows}"

    @property
    def state(self) -> str:
        """The word that the verdict begins with: "valid", "failed" if a program failed by itself, and otherwise "invalid"."""
        return self.verdict.summary.partition(":")[0]


def varied(results: Sequence[ProgramResult]) -> list[str]:
    """The parameters that not all points share."""
    keys = dict.fromkeys(key for result in results for key in result.parameters)
    return [key for key in keys if len({result.parameters.get(key, "") for result in results}) > 1]


def points_frame(results: Sequence[ProgramResult]) -> pd.DataFrame:
    """points.csv: the parameters of each point as text, its duration, memory and wall time, and its verdict."""
    keys = list(dict.fromkeys(key for result in results for key in result.parameters))
    columns: dict[str, list[object]] = {key: [result.parameters.get(key, "") for result in results] for key in keys}
    columns |= {
        "virtual_s": [result.duration_s for result in results],
        "wall_s": [result.wall_s for result in results],
        "memory_bytes": [result.memory_bytes for result in results],
        "verdict": [result.verdict.summary for result in results],
    }
    return pd.DataFrame(columns)


def figures_frame(results: Sequence[ProgramResult], *, valid_only: bool = False) -> pd.DataFrame:
    """figures.csv of points of programs, as `frame_of_figures` makes it."""
    kept = [result for result in results if result.valid or not valid_only]
    return frame_of_figures([(result.parameters, result.figures, result.verdict.summary) for result in kept])


def frame_of_figures(points: Sequence[tuple[dict[str, str], Sequence[FigureRow], str]]) -> pd.DataFrame:
    """A row per row of figures, with the point's parameters, program and host before it, and the point's verdict behind it.

    points: of each, the parameters, the rows, and the verdict in words.

    Parameters have their types, so that numbers are numbers. A figure with the name of a parameter, or of where it comes from, has its
    program's name before its own.
    """
    rows = [(parameters, row, verdict) for parameters, figures, verdict in points for row in figures]
    keys = list(dict.fromkeys(key for parameters, _, _ in points for key in parameters))
    frame = parameters_frame([parameters for parameters, _, _ in rows], keys)
    frame[PROGRAM] = [row.program for _, row, _ in rows]
    frame[HOST] = [row.host for _, row, _ in rows]
    taken = {*map(str, frame.columns), VERDICT}
    named = [_renamed(row, taken) for _, row, _ in rows]
    for name in dict.fromkeys(name for figures in named for name in figures):
        frame[name] = pd.Series([figures.get(name) for figures in named], index=frame.index)
    frame[VERDICT] = [verdict for _, _, verdict in rows]
    return frame.infer_objects()


def _renamed(row: FigureRow, taken: set[str]) -> Row:
    return {f"{row.program}.{name}" if name in taken else name: value for name, value in row.figures.items()}


def figure_names(frame: pd.DataFrame, parameters: Sequence[str]) -> list[str]:
    """The figures of a frame that are numbers, in the order in which they were first reported."""
    others = {*parameters, *OWN_COLUMNS, *(f"{key}_bps" for key in parameters)}
    return [
        str(name)
        for name in frame.columns
        if name not in others
        and pd.api.types.is_numeric_dtype(frame[name])
        and not pd.api.types.is_bool_dtype(frame[name])
    ]


def is_number(texts: Sequence[str]) -> bool:
    """Whether all values of a parameter are numbers or rates."""
    return all(parameter_number(text) is not None for text in texts)


def words(parameters: Mapping[str, str], keys: Sequence[str]) -> str:
    """A point by these of its parameters."""
    return ", ".join(f"{key} = {parameters[key]}" for key in keys if parameters.get(key))

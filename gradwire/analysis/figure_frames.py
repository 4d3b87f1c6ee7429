"""Tables of points of programs: one with a row per point, and one with a row per row of figures that programs reported."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from gradwire.analysis.point_frames import parameters_frame
from gradwire.analysis.program_results import HOST, OWN_COLUMNS, PROGRAM, VERDICT, FigureRow, ProgramResult, Row
from gradwire.faults import InputFault

MOST_CELLS = 50_000_000
"""Rows of all programs and points times figures: a table of so many takes gigabytes."""


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
    """A row per row of figures, with the point's parameters, program and host before it, and the point's verdict
    behind it.

    points: of each, the parameters, the rows, and the verdict in words.

    Parameters have their types, so that numbers are numbers. A figure with the name of a parameter, or of where it
    comes from, has its program's name before its own.
    """
    rows = [(parameters, row, verdict) for parameters, figures, verdict in points for row in figures]
    keys = list(dict.fromkeys(key for parameters, _, _ in points for key in parameters))
    frame = parameters_frame([parameters for parameters, _, _ in rows], keys)
    frame[PROGRAM] = [row.program for _, row, _ in rows]
    frame[HOST] = [row.host for _, row, _ in rows]
    taken = {*map(str, frame.columns), VERDICT}
    named = [_rename_columns(row, taken) for _, row, _ in rows]
    names = list(dict.fromkeys(name for figures in named for name in figures))
    if len(rows) * len(names) > MOST_CELLS:
        raise InputFault(
            f"programs reported {len(rows):,} rows of {len(names):,} figures in all, whose product must be at most {MOST_CELLS:,}: "
            "let them report fewer rows, or figures of the same names"
        )
    figures = {name: pd.Series([row.get(name) for row in named], index=frame.index) for name in names}
    frame = pd.concat([frame, pd.DataFrame(figures, index=frame.index)], axis=1)
    frame[VERDICT] = [verdict for _, _, verdict in rows]
    return frame.infer_objects()


def _rename_columns(row: FigureRow, taken: set[str]) -> Row:
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

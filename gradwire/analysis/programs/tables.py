"""Tables of a scenario of programs: a row per point, and the medians of what programs reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gradwire.analysis.programs.results import PROGRAM, ProgramResult, figure_names, figures_frame, varied
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.tables import TextTable

GIB = 1 << 30
ABSENT = ""
DIGITS = 5


def points_table(results: Sequence[ProgramResult], labels: Mapping[str, str]) -> TextTable:
    """One row per point: how long its programs took, what it cost, and its verdict."""
    write, keys = Labels(labels), varied(results)
    headers = (*(write(key) for key in keys), "virtual (s)", "wall (s)", "memory (GiB)", "rows", "verdict")
    body, tones = [], []
    for result in results:
        duration = ABSENT if result.duration_s is None else f"{result.duration_s:.6f}"
        words = (write(result.parameters.get(key, "")) for key in keys)
        cost = f"{result.wall_s:.1f}", f"{result.memory_bytes / GIB:.2f}" if result.memory_bytes else ABSENT
        body.append((*words, duration, *cost, str(len(result.figures)), result.state))
        tones.append("good" if result.valid else "bad")
    return TextTable("Points", headers, tuple(body), len(keys), tuple(tones), _everywhere(results, keys))


def _everywhere(results: Sequence[ProgramResult], keys: Sequence[str]) -> str:
    fixed = {key: value for result in results for key, value in result.parameters.items() if key not in keys}
    said = [f"{key} = {value}" for key, value in fixed.items() if value]
    return f"Everywhere: {', '.join(said)}." if said else ""


def figures_table(results: Sequence[ProgramResult], over: str, labels: Mapping[str, str]) -> TextTable | None:
    """Medians of all numbers that the programs of valid points reported, for each point, program, and value of the figure `over`.

    None where there are no numbers. figures.csv has every row.
    """
    write, keys = Labels(labels), varied(results)
    frame = figures_frame(results, valid_only=True)
    names = [name for name in figure_names(frame, _parameters(results)) if name != over]
    if frame.empty or not names:
        return None
    groups = [*keys, PROGRAM, *([over] if over in frame.columns and over not in keys else [])]
    body = []
    for values, rows in frame.groupby(groups, sort=False, observed=True, dropna=False):
        numbers = [_number(median_of(rows[name])) for name in names]
        body.append((*(write(_text(value)) for value in values), *numbers, str(len(rows))))
    headers = (*(write(key) for key in groups), *names, "median of")
    return TextTable("Figures", headers, tuple(body), len(groups), ("quiet",) * len(body), "figures.csv has every row.")


def _parameters(results: Sequence[ProgramResult]) -> list[str]:
    return list(dict.fromkeys(key for result in results for key in result.parameters))


def median_of(column: pd.Series[Any]) -> float:
    """The median of the known values; nan if there is none."""
    known = pd.to_numeric(column, errors="coerce").dropna().to_numpy(dtype=np.float64)
    return float(np.median(known)) if known.size else float("nan")


def _number(value: float) -> str:
    if np.isnan(value):
        return ABSENT
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 10**DIGITS else f"{value:.{DIGITS}g}"


def _text(value: object) -> str:
    return _number(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)

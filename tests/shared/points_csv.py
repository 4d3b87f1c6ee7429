"""Reads points.csv back, to compare what was written with what was measured."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from gradwire.analysis.points import RESULT_COLUMNS, PointResult


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _optional(text: str) -> float | None:
    return float(text) if text else None


READERS: dict[object, Callable[[str], str | float | None]] = {
    float: _number,
    float | None: _optional,
    int: int,
    str: str,
}
"""What reads a column, by the type of its field."""
TYPES = get_type_hints(PointResult)


def read_points_csv(path: Path) -> list[PointResult]:
    """The rows that `write_points_csv` wrote."""
    with path.open(newline="") as file:
        return [_row(stored) for stored in csv.DictReader(file)]


def _row(stored: dict[str, str]) -> PointResult:
    parameters = {key: value for key, value in stored.items() if key not in RESULT_COLUMNS and value}
    results: dict[str, Any] = {column: READERS[TYPES[column]](stored[column]) for column in RESULT_COLUMNS}
    return PointResult(parameters=parameters, **results)

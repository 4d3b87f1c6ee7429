"""One row per point: as points.csv has them, with parameters as text, and as people compute with them, with numbers
and categories.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gradwire.analysis.parameters import as_number, parameter_number
from gradwire.analysis.points import OF_JOBS, RESULT_COLUMNS, PointResult, result_columns
from gradwire.csv_files import write_csv
from gradwire.faults import InputFault
from gradwire.files import replacing

INDEX = "point"
"""Name of the index of frames with a row per point: the point's folder."""
TRUTHS = {"True": True, "False": False}


def write_frame(path: Path, frame: pd.DataFrame, float_format: str | None = None) -> None:
    """Writes a frame's columns as CSV, without its index, as `gradwire.csv_files.write_csv` does; unknown values are empty."""
    known = frame.astype(object).where(frame.notna(), None)
    write_csv(path, list(map(str, frame.columns)), known.itertuples(index=False, name=None), float_format=float_format)


def text_frame(rows: Sequence[PointResult]) -> pd.DataFrame:
    """One row per point: the parameters as text, "" where a point has none, then RESULT_COLUMNS.

    Raises InputFault if a parameter has the name of a result.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row.parameters))
    clash = sorted(set(keys) & {*RESULT_COLUMNS, *OF_JOBS})
    if clash:
        raise InputFault(f"the swept parameter '{clash[0]}' has the name of a column of points.csv; sweep another key")
    columns: dict[str, Any] = {key: [row.parameters.get(key, "") for row in rows] for key in keys}
    # Columns of objects keep ints and floats apart, and so their texts, where some rows have None.
    columns |= {name: pd.Series([getattr(row, name) for row in rows], dtype=object) for name in result_columns(rows)}
    return pd.DataFrame(columns)


def write_points_csv(path: Path, rows: Sequence[PointResult]) -> None:
    """Writes points.csv: one row per point, with unknown numbers empty. Raises InputFault as `text_frame` does."""
    write_frame(path, text_frame(rows))


def points_frame(rows: Sequence[PointResult], names: Sequence[str]) -> pd.DataFrame:
    """One row per point, indexed by the points' names: parameters with their types, results as numbers, `valid`, and
    `verdict`.

    Numbers among the parameters are numbers, words are categories in the order of the rows, and a line rate, whose
    category is ordered by speed, has another column with its number ("rate" and "rate_bps").
    """
    text = text_frame(rows)
    results = result_columns(rows)
    keys = [key for key in text.columns if key not in results]
    frame = parameters_frame([row.parameters for row in rows], keys)
    for name in results:
        column = text[name]
        frame[name] = column.astype("str") if name in ("verdict", "plan_digest", "fluid_cause") else _result(column)
    frame.insert(len(frame.columns) - 1, "valid", [row.valid for row in rows])
    frame.index = pd.Index(names, name=INDEX)
    return frame


def _result(column: pd.Series[Any]) -> pd.Series[Any]:
    if column.name == "lower_bound_kind":
        return column.astype("category")
    return column.astype("int64" if column.name == "bytes_sent" else "float64")


def parameters_frame(parameters: Sequence[dict[str, str]], keys: Sequence[str]) -> pd.DataFrame:
    """The typed parameters of points, one row per point; see `points_frame`."""
    columns: dict[str, pd.Series[Any]] = {}
    for key in keys:
        texts = [point.get(key, "") for point in parameters]
        columns[key] = typed_column(texts)
        if _are_rates(texts):
            columns[f"{key}_bps"] = pd.Series([parameter_number(text) for text in texts], dtype="float64")
    return pd.DataFrame(columns)


def typed_column(texts: Sequence[str]) -> pd.Series[Any]:
    """Texts as numbers or truth values, if all of them are some, and else as categories; "" is a missing value."""
    known = [text for text in texts if text]
    if known and all(text in TRUTHS for text in known):
        return pd.Series([TRUTHS.get(text) for text in texts], dtype="bool" if len(known) == len(texts) else "boolean")
    if known and all(as_number(text) is not None for text in known):
        # No column of whole numbers holds larger ones.
        whole = all(text.lstrip("-").isdigit() and abs(as_number(text) or 0.0) < 2**63 for text in known)
        if not whole:
            return pd.Series([as_number(text or None) for text in texts], dtype="float64")
        numbers = [int(text) if text else pd.NA for text in texts]
        return pd.Series(numbers, dtype="int64" if len(known) == len(texts) else "Int64")
    categories = list(dict.fromkeys(known))
    rates = _are_rates(known)
    if rates:
        categories.sort(key=lambda text: parameter_number(text) or 0.0)
    return pd.Series(pd.Categorical([text or None for text in texts], categories=categories, ordered=rates))


def _are_rates(texts: Sequence[str]) -> bool:
    """Returns whether all texts are line rates, such as "10gbit"."""
    return bool(texts) and all(text.endswith("bit") and parameter_number(text) is not None for text in texts)


def write_points_parquet(path: Path, frame: pd.DataFrame) -> bool:
    """Writes points.parquet, which keeps the columns' types, if pyarrow is
    installed; returns whether it did. Removes an older file."""
    path.unlink(missing_ok=True)
    if importlib.util.find_spec("pyarrow") is None:
        return False
    with replacing(path) as partial:
        frame.to_parquet(partial, engine="pyarrow")
    return True

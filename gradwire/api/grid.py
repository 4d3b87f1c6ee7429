"""Points of a sweep as an xarray Dataset: an array for each result, with a dimension for each parameter that varies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gradwire.faults import MachineFault

if TYPE_CHECKING:
    import xarray

FIRST_RESULT = "iteration_time_s"
"""In a frame of points, the columns before it are parameters."""
UNITS = {"s": "s", "bps": "bit/s", "bytes": "byte", "Bps": "byte/s"}
"""Units of columns, by the last part of their names: as xarray's plots and netCDF name them."""


def grid(points: pd.DataFrame, title: str) -> xarray.Dataset:
    """The frame of a run's points as a Dataset. Where no point has some combination of parameters, numbers are NaN and
    truth values False. Raises MachineFault where xarray is not installed."""
    try:
        import xarray  # noqa: PLC0415  of an extra
    except ImportError as error:
        raise MachineFault("xarray is not installed: pip install 'gradwire[xarray]'") from error

    first = list(points.columns).index(FIRST_RESULT)
    parameters, results = points.columns[:first], points.columns[first:]
    sizes = {key: coordinate(points[key]) for key in parameters if not _is_number_of_another(key, parameters)}
    varied = {key: values for key, values in sizes.items() if len(values) > 1}
    places = tuple(_places(points[key], values) for key, values in varied.items())
    shape = tuple(len(values) for values in varied.values())

    def spread(column: pd.Series[Any]) -> xarray.Variable:
        values = np.full(shape, _missing(column), dtype=_dtype(column))
        filled = column.astype(object).where(column.notna(), _missing(column)).to_numpy().astype(values.dtype)
        values[places] = filled if places else filled[0]  # one point has no dimension
        return xarray.Variable(tuple(varied), values, _attributes(str(column.name)))

    coordinates: dict[str, Any] = {key: (key, values) for key, values in varied.items()}
    coordinates |= {key: ((), values[0]) for key, values in sizes.items() if len(values) == 1}
    for key in set(parameters) - set(sizes):  # the number of a rate, along the rate
        of = key.removesuffix("_bps")
        numbers = points.groupby(of, observed=True)[key].first()
        values = np.array([numbers.get(text, np.nan) for text in sizes[of]])
        along = (of, values) if of in varied else ((), values[0])
        coordinates[key] = (*along, _attributes(key))
    return xarray.Dataset({name: spread(points[name]) for name in results}, coordinates, {"title": title})


def coordinate(column: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """The different values of a parameter: numbers sorted, rates by speed, words in the order of the points, and ""
    for points that have none."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        missing = [""] if column.isna().any() else []
        present = set(column.dropna())
        return np.array([*(text for text in column.cat.categories if text in present), *missing], dtype=object)
    return np.sort(column.astype("float64" if column.isna().any() else column.dtype).unique())


def _places(column: pd.Series[Any], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    words = isinstance(column.dtype, pd.CategoricalDtype)
    texts = column.astype(object).where(column.notna(), "" if words else np.nan)
    return np.asarray(pd.Index(values).get_indexer(pd.Index(texts, dtype=values.dtype)))


def _is_number_of_another(key: str, parameters: pd.Index[Any]) -> bool:
    return key.endswith("_bps") and key.removesuffix("_bps") in parameters


def _dtype(column: pd.Series[Any]) -> Any:
    if pd.api.types.is_bool_dtype(column.dtype):
        return bool
    return np.float64 if pd.api.types.is_numeric_dtype(column.dtype) else object


def _missing(column: pd.Series[Any]) -> Any:
    return {bool: False, np.float64: np.nan, object: ""}[_dtype(column)]


def _attributes(name: str) -> dict[str, str]:
    unit = UNITS.get(re.sub(r".*_", "", name)) if "_" in name else None
    return {"units": unit} if unit else {}

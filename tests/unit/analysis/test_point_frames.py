"""Typed frames of points: which column is a number, a truth value, a category or a rate."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd
import pytest

from gradwire.analysis.point_frames import points_frame, typed_column, write_points_parquet
from tests.shared.stored_points import result

ROWS = [
    result({"model": "vgg19", "rate": "100gbit", "workers": "8", "overlap": "True", "rho": "0.5"}, 1.0),
    result({"model": "alexnet", "rate": "10gbit", "workers": "16", "overlap": "False", "rho": "1"}, 2.0, "invalid: no"),
    result({"model": "vgg19", "rate": "25gbit", "workers": "8", "overlap": "True"}, 3.0),
]


def test_columns_have_the_types_that_people_compute_with() -> None:
    frame = points_frame(ROWS, ["a", "b", "c"])
    assert frame.index.name == "point"
    assert list(frame["workers"]) == [8, 16, 8]
    assert frame["workers"].dtype == "int64"
    assert frame["overlap"].dtype == "bool"
    assert frame["rho"].isna().tolist() == [False, False, True]
    assert frame["model"].cat.categories.tolist() == ["vgg19", "alexnet"]
    assert list(frame["rate_bps"]) == [1e11, 1e10, 2.5e10]
    assert frame.sort_values("rate").index.tolist() == ["b", "c", "a"], "rates are in the order of their speed"
    assert list(frame["valid"]) == [True, False, True]
    assert frame.columns.tolist()[-2:] == ["valid", "verdict"]
    assert frame["iteration_time_std_s"].dtype == "float64"


@pytest.mark.parametrize(
    ("texts", "dtype"),
    [
        (["1", "2"], "int64"),
        (["1", ""], "Int64"),
        (["1.5", "2"], "float64"),
        (["1e3", ""], "float64"),
        (["True", "False"], "bool"),
        (["True", ""], "boolean"),
        (["ring", "8"], "category"),
        (["", ""], "category"),
    ],
)
def test_texts_are_typed_by_what_all_of_them_are(texts: list[str], dtype: str) -> None:
    column = typed_column(texts)
    assert str(column.dtype) == dtype
    assert column.isna().tolist() == [not text for text in texts]


def test_parquet_keeps_the_types(tmp_path: Path) -> None:
    frame = points_frame(ROWS, ["a", "b", "c"])
    assert write_points_parquet(tmp_path / "points.parquet", frame)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "points.parquet"), frame)


def test_without_pyarrow_no_parquet_is_written_and_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "points.parquet"
    path.write_text("of an earlier run")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert not write_points_parquet(path, points_frame(ROWS, ["a", "b", "c"]))
    assert not path.exists()


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", str(2**62)], "int64"),
        (["1", ""], "Int64"),
        (["1", str(2**63)], "float64"),
        (["1", "9" * 5000], "float64"),
        (["-1", "1" + "0" * 30, ""], "float64"),
        (["1.2.3gbit", "1gbit"], "category"),
    ],
)
def test_numbers_of_any_length_have_a_column(texts: list[str], kind: str) -> None:
    column = typed_column(texts)
    assert str(column.dtype) == kind
    assert len(column) == len(texts)

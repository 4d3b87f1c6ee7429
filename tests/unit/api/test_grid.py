"""Points as arrays with a dimension for each parameter that varies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gradwire.analysis.point_frames import points_frame
from gradwire.analysis.points import VALID, PointResult
from gradwire.api.grid import grid
from gradwire.faults import MachineFault


def point(time_s: float, **parameters: str) -> PointResult:
    return PointResult(parameters, time_s, None, None, 8 / time_s, 0.5, 100, 1.0, 0.9, "network", "digest", VALID)


def frame(*rows: PointResult) -> pd.DataFrame:
    return points_frame(rows, [f"point-{number}" for number in range(len(rows))])


def test_dimensions_are_what_varies_and_rates_go_by_speed() -> None:
    rows = [
        point(1.0 + number, strategy=strategy, rate=rate, workers="8")
        for number, (strategy, rate) in enumerate(
            (strategy, rate) for strategy in ("ring", "p3") for rate in ("100gbit", "25gbit")
        )
    ]
    cube = grid(frame(*rows), "A title")
    assert dict(cube.sizes) == {"strategy": 2, "rate": 2}
    assert list(cube["strategy"].values) == ["ring", "p3"]
    assert list(cube["rate"].values) == ["25gbit", "100gbit"]
    assert list(cube["rate_bps"].values) == [25e9, 100e9]
    assert int(cube["workers"]) == 8
    assert cube["iteration_time_s"].sel(strategy="p3", rate="25gbit") == 4.0
    assert cube["iteration_time_s"].attrs == {"units": "s"}
    assert cube["rate_bps"].attrs == {"units": "bit/s"}
    assert cube.attrs == {"title": "A title"}
    assert cube["valid"].dtype == bool


def test_where_no_point_is_there_is_no_number() -> None:
    rows = [point(1.0, strategy="ring", batch="32"), point(2.0, strategy="p3", batch="64"), point(3.0, strategy="p3")]
    cube = grid(frame(*rows), "")
    assert np.isnan(cube["iteration_time_s"].sel(strategy="ring", batch=64))
    assert not cube["valid"].sel(strategy="ring", batch=64)
    assert cube["verdict"].sel(strategy="ring", batch=64) == ""
    assert cube["iteration_time_s"].sel(strategy="p3", batch=64) == 2.0
    last = cube["iteration_time_s"].sel(strategy="p3").values
    assert list(last[~np.isnan(last)]) == [2.0, 3.0], "a point without the parameter has a place as well"


def test_one_point_has_no_dimension() -> None:
    cube = grid(frame(point(1.5, strategy="ring")), "")
    assert dict(cube.sizes) == {}
    assert float(cube["iteration_time_s"]) == 1.5
    assert str(cube["strategy"].values) == "ring"


def test_every_number_of_the_frame_is_in_the_arrays_again() -> None:
    rows = [
        point(float(workers) / float(batch), workers=workers, batch=batch, strategy=strategy)
        for workers in ("2", "4", "8")
        for batch in ("16", "32")
        for strategy in ("ring", "p3")
    ]
    of_points = frame(*rows)
    cube = grid(of_points, "")
    for _, row in of_points.iterrows():
        here = cube.sel(workers=row["workers"], batch=row["batch"], strategy=row["strategy"])
        assert float(here["iteration_time_s"]) == row["iteration_time_s"]
        assert int(here["bytes_sent"]) == row["bytes_sent"]


def test_without_xarray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xarray", None)
    with pytest.raises(MachineFault, match=r"pip install 'gradwire\[xarray\]'"):
        grid(frame(point(1.0, strategy="ring")), "")

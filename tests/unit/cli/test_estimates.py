"""What `gradwire estimate` prints and writes of made-up estimates."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.analysis.request_times import RequestSpread, RequestTimes
from gradwire.cli.estimates import estimates_json, estimates_table, write_estimates_csv
from gradwire.faults import InputFault
from gradwire.runs.estimation import MODEL_NOT_RUN, PointEstimate
from tests.shared.parts import tells


def made_up(period: int = 1, **parameters: str) -> PointEstimate:
    return PointEstimate(parameters, "ring", 1.5, 1.0, "bandwidth", 3, period, 0.25)


def test_the_table_says_that_it_is_a_model_and_which_schedules_did_not_repeat() -> None:
    table = estimates_table("title", [made_up(rate="1gbit", workers="2"), made_up(0, rate="2gbit", workers="2")], 0.5)
    assert table.headers[0] == "rate"
    assert table.rows[0] == ("1gbit", "1.5", "1", "1.500", "bandwidth")
    assert table.foot.startswith(MODEL_NOT_RUN)
    assert tells(table.foot, "2 points", "0.5 s.")
    assert tells(table.foot, "1 point", "not repeat")


def test_the_rows_are_csv(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_estimates_csv(path, [made_up(rate="1gbit")])
    (row,) = csv.DictReader(path.read_text().splitlines())
    assert (row["rate"], row["iteration_time_s"], row["lower_bound_kind"]) == ("1gbit", "1.5", "bandwidth")
    with pytest.raises(InputFault, match="'plan'"):
        write_estimates_csv(path, [made_up(plan="1")])


def test_what_is_none_is_null_in_json() -> None:
    """A point that computes nothing has no efficiency, and requests by computation alone have no times of caches."""
    spread = RequestSpread(1.0, 2.0)
    alone = RequestTimes(3, spread, spread, None, None)
    point = replace(made_up(), requests=(RequestTimes(3, spread, spread, spread, spread), alone))
    told = json.loads(json.dumps(estimates_json([point], 1.0), allow_nan=False))["points"][0]
    assert told["scaling_efficiency"] is None
    assert told["x_bound"] == 1.5
    assert told["requests"]["on_the_network"]["cache"] == {"median_s": 1.0, "tail_s": 2.0}
    assert told["requests"]["by_computation_alone"]["cache"] is None

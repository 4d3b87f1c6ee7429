"""What `gradwire estimate` prints and writes of made-up estimates."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gradwire.cli.estimates import estimates_table, write_estimates_csv
from gradwire.faults import InputFault
from gradwire.runs.estimation import MODEL_NOT_RUN, PointEstimate
from tests.shared.parts import tells


def made_up(period: int = 1, **parameters: str) -> PointEstimate:
    return PointEstimate(parameters, "ring", 1.5, 1.0, "bandwidth", 3, period, 0.25)


def test_the_table_says_that_it_is_a_model_and_which_schedules_did_not_repeat() -> None:
    table = estimates_table("title", [made_up(rate="1gbit", workers="2"), made_up(0, rate="2gbit", workers="2")], 0.5)
    assert table.headers[0] == "rate"
    assert table.rows[0] == ("1gbit", "1.5", "1", "1.500", "250", "bandwidth")
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

"""Scores, causes that a run has to show, the table that is kept, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from reproduction.world.cells import Called, Cell, Planned, Programs, Row, Unexpressed, WhatIf
from reproduction.world.chart import error_chart
from reproduction.world.page import summary, world_page
from reproduction.world.predicting import Predicted
from reproduction.world.scored import ScoredRow, Status, misses, read_rows, score_row, scores, write_rows
from reproduction.world.sources import SOURCES
from tests.shared.parts import in_order, tells


def identity(time_s: float) -> float:
    return time_s


MAIN, OTHER, SERIES = (Planned("tc-cluster-nccl", (name,), identity) for name in ("a=1", "a=2", "a=3"))


def row(printed: float | None = 100.0, setting: str = "default") -> Row:
    return Row("tc_cluster", "nccl p2p, 64 MiB, 2 hosts", setting, "time", "ms", printed)


def scored(value: float | None, cell: Cell, *, printed: float | None = 100.0, other: float = 0.0) -> ScoredRow:
    found: dict[Planned | Programs | Called, Predicted] = {
        MAIN: Predicted(value, "seen"),
        OTHER: Predicted(other, ""),
        SERIES: Predicted(other, ""),
    }
    return score_row(row(printed), cell, found)


def test_an_error_within_a_tenth_needs_no_cause() -> None:
    assert scored(109.0, Cell(MAIN)).cause == ""
    assert misses(111.0, 100.0)
    assert not misses(None, 100.0)
    assert not misses(111.0, None)


def test_a_cause_has_to_be_shown_by_another_run() -> None:
    cell = Cell(MAIN, what_ifs=(WhatIf("cold connections", OTHER),))
    cold = cell.what_ifs[0].changed
    assert scored(150.0, cell, other=104.0).cause == f"with {cold}, +4.0%"
    assert tells(scored(150.0, cell, other=130.0).cause, "unexplained", cold, "+30.0%")
    assert scored(150.0, Cell(MAIN)).cause == "unexplained"


def test_a_prediction_by_series_is_kept_apart() -> None:
    cell = Cell(MAIN, what_ifs=(WhatIf("its series", SERIES, of_series=True),))
    found = scored(150.0, cell, other=105.0)
    assert (found.predicted, found.by_series) == (150.0, 105.0)
    assert found.error == pytest.approx(0.5)
    assert found.series_error == pytest.approx(0.05)
    unexpressed = Cell(Unexpressed("no kernels"), what_ifs=cell.what_ifs)
    found = scored(None, unexpressed, other=105.0)
    assert (found.status, found.predicted, found.by_series) == (Status.NOT_EXPRESSIBLE, None, 105.0)


def rows() -> list[ScoredRow]:
    return [
        scored(105.0, Cell(MAIN)),
        scored(80.0, Cell(MAIN)),
        scored(100.1, Cell(MAIN, fitted="compute time")),
        scored(None, Cell(MAIN)),
        scored(None, Cell(Unexpressed("why", program=True))),
        scored(None, Cell(Unexpressed("why not"))),
        scored(50.0, Cell(MAIN), printed=None),
    ]


def test_fitted_rows_and_cells_that_are_not_given_do_not_count() -> None:
    of_source, every = scores(rows())
    assert of_source.name == "tc_cluster"
    assert (every.given, every.predicted, every.fitted, every.not_run, every.not_expressible, every.invalid) == (
        *(6, 2, 1, 1, 1, 1),
    )
    assert every.median == pytest.approx(0.125)
    assert every.worst == pytest.approx(0.2)
    assert (every.right, every.unexplained) == (1, 1)
    assert "1 further cells" in summary(rows(), SOURCES)[-1]


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "world.csv"
    write_rows(path, rows())
    assert read_rows(path) == rows()
    path.write_text("source\na\n")
    with pytest.raises(InputFault, match=in_order("world.csv", "not a table")):
        read_rows(path)


def test_the_page_has_every_row_with_its_reason() -> None:
    text = world_page(rows(), SOURCES, ["a fact"])
    for said in ("-20.0%", "fitted: compute time", "not run: why", "not expressible: why not", "unexplained", "a fact"):
        assert said in text
    assert text.count("<details>") == 1


def test_the_chart_has_a_panel_for_each_source_with_both_values() -> None:
    assert error_chart(rows()).startswith("<svg")
    assert error_chart([]).startswith("<svg")

"""What a report of programs shows: every row in its files, medians in its tables and its chart, and nothing of invalid points."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from gradwire.analysis.figure_frames import figure_names, figures_frame
from gradwire.analysis.program_results import FigureRow, ProgramResult, Row
from gradwire.analysis.report.program_charts import ChartMetrics, chart, choice, figures_table, points_table
from gradwire.analysis.report.program_report import ProgramBackground, write_program_report
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.verdict import Verdict, failed_run
from gradwire.console.parts import print_parts
from gradwire.csv_files import read_csv
from gradwire.faults import InputFault
from tests.shared.parts import in_order, tells

SOUND = Verdict(True, (Check("drops", "0", "0", True, "A queue overflowed."),), "valid")


def result(rate: str, *rows: Row, verdict: Verdict = SOUND) -> ProgramResult:
    figures = tuple(FigureRow("client", f"h{number + 1}", row) for number, row in enumerate(rows))
    return ProgramResult({"rate": rate, "workers": "4"}, 0.5 if rows else None, figures, 1 << 30, 6.0, verdict)


RESULTS = [
    result(
        "10gbit",
        {"goodput_bps": 9e9, "size": 1, "word": "x"},
        {"goodput_bps": 9.4e9, "size": 1},
        {"goodput_bps": 1e9, "size": 1},
    ),
    result("100gbit", {"goodput_bps": 94e9, "size": 1, "rate": "my own"}),
    result("400gbit", {"goodput_bps": 7e9, "size": 1}, verdict=failed_run("no luck")),
]


def test_every_row_has_its_point_and_where_it_comes_from() -> None:
    frame = figures_frame(RESULTS)
    assert list(frame["host"]) == ["h1", "h2", "h3", "h1", "h1"]
    assert list(frame["rate"].astype(str)) == ["10gbit"] * 3 + ["100gbit", "400gbit"]
    assert frame["client.rate"].dropna().tolist() == ["my own"]
    assert figure_names(frame, ["rate", "workers"]) == ["goodput_bps", "size"]
    assert len(figures_frame(RESULTS, valid_only=True)) == 4


def test_tables_have_medians_and_no_figure_of_an_invalid_point() -> None:
    points = points_table(RESULTS, {})
    assert [row[-1] for row in points.rows] == ["valid", "valid", "invalid"]
    assert "workers = 4" in points.foot
    figures = figures_table(RESULTS, "", {"client": "iperf3"})
    assert figures is not None
    assert figures.headers == ("rate", "program", "goodput_bps", "size", "median of")
    assert figures.rows == (
        ("10gbit", "iperf3", "9,000,000,000", "1", "3"),
        ("100gbit", "iperf3", "94,000,000,000", "1", "1"),
    )
    assert figures_table([result("10gbit")], "", {}) is None


def test_a_figure_that_a_chart_is_over_makes_rows_of_the_table() -> None:
    rows: list[Row] = [{"size_bytes": size, "latency_us": size / 10} for size in (4, 8, 4)]
    table = figures_table([result("10gbit", *rows)], "size_bytes", {})
    assert table is not None
    assert table.rows == (("client", "4", "0.4", "2"), ("client", "8", "0.8", "1"))


def test_the_chart_is_of_what_was_asked_for_or_the_first_number() -> None:
    assert choice(RESULTS, "", "") == ChartMetrics("goodput_bps", "rate")
    assert choice(RESULTS, "size", "") == ChartMetrics("size", "rate")
    assert choice(RESULTS[:1], "", "size") == ChartMetrics("goodput_bps", "size")
    assert choice(RESULTS[:1], "", "") == ChartMetrics("goodput_bps", "")
    assert choice(RESULTS[2:], "", "") is None
    with pytest.raises(InputFault, match=in_order("metric = 'latency_s':", "goodput_bps, size")):
        choice(RESULTS, "latency_s", "")


def test_lines_are_medians_in_the_unit_of_the_figure() -> None:
    figure = chart(RESULTS, ChartMetrics("goodput_bps", "rate"), "Flows", {})
    (axes,) = figure.axes
    (line,) = (each for each in axes.lines if len(each.get_xdata()) == 2 and each.get_linestyle() == "-")  # type: ignore[arg-type]
    assert list(map(tuple, line.get_xydata())) == [(10.0, 9.0), (100.0, 94.0)]  # type: ignore[arg-type]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("goodput (Gbit/s)", "rate (Gbit/s)")
    assert "1 of 3" in figure._supxlabel.get_text()  # type: ignore[attr-defined]


def test_bars_stand_for_settings_without_numbers() -> None:
    (axes,) = chart(RESULTS[:1], ChartMetrics("goodput_bps", ""), "Flows", {}).axes
    assert [bar.get_height() for bar in axes.patches] == [9.0]  # type: ignore[attr-defined]


def test_a_report_has_all_files_and_says_what_is_invalid(tmp_path: Path) -> None:
    background = ProgramBackground(
        "Flows & more", "What for.", {}, ["a note"], "", "", [("command", "gradwire run")], "title = 1"
    )
    shown = write_program_report(tmp_path, RESULTS, ["points/a", "points/b", "points/c d"], background)
    with (tmp_path / "terminal").open("w") as file:
        print_parts(Console(file=file, width=120), shown)
    said = (tmp_path / "terminal").read_text()
    assert tells(said, "400gbit:", "no luck")
    assert "1 of 3 points" in said
    assert {path.name for path in tmp_path.iterdir()} >= {"report.html", "table.md", "chart.png", "chart.svg"}
    html = (tmp_path / "report.html").read_text()
    assert "Flows &amp;" in html
    assert 'href="points/c%20d/"' in html
    assert len(read_csv(tmp_path / "figures.csv")) == 5
    points = read_csv(tmp_path / "points.csv")
    assert [row["verdict"] for row in points] == ["valid", "valid", "invalid: no luck"]


def test_words_stand_one_beside_the_other_on_the_axis() -> None:
    results = [
        ProgramResult({"size": size}, 0.5, (FigureRow("client", "h1", {"time_s": value}),), 0, 1.0, SOUND)
        for size, value in (("100M", 2.0), ("10M", 1.0))
    ]
    (axes,) = chart(results, ChartMetrics("time_s", "size"), "Sizes", {}).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100M", "10M"]
    (line,) = (each for each in axes.lines if each.get_linestyle() == "-" and len(each.get_xdata()) == 2)  # type: ignore[arg-type]
    assert list(map(tuple, line.get_xydata())) == [(0.0, 2.0), (1.0, 1.0)]  # type: ignore[arg-type]


def test_rows_that_lack_a_parameter_or_a_figure_are_kept() -> None:
    results = [
        ProgramResult({"size": "1", "pause": ""}, 0.5, (FigureRow("a", "h1", {"time_s": 1.0}),), 0, 1.0, SOUND),
        ProgramResult({"size": "", "pause": "3"}, 0.5, (FigureRow("b", "h1", {"time_s": 2.0}),), 0, 1.0, SOUND),
    ]
    table = figures_table(results, "", {})
    assert table is not None
    assert len(table.rows) == 2


def test_a_figure_never_takes_a_parameters_column() -> None:
    frame = figures_frame([result("10gbit", {"rate_bps": 1.0, "verdict": 3})])
    assert frame["rate_bps"].tolist() == [10e9]
    assert frame["client.rate_bps"].tolist() == [1.0]
    assert (frame["client.verdict"].tolist(), frame["verdict"].tolist()) == ([3], ["valid"])


def test_a_lone_figure_may_be_drawn_over_itself() -> None:
    assert choice([result("10gbit", {"time_s": 1.0})], "", "time_s") == ChartMetrics("time_s", "time_s")

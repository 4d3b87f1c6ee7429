"""Measured beside printed values, the charts, and the files of a report."""

from __future__ import annotations

import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rich.console import Console

from gradwire.analysis.parameters import parameter_number
from gradwire.analysis.points import PointResult, interval
from gradwire.analysis.printed import CellStatus, Comparison, check_cells, compare
from gradwire.analysis.printed_cells import PrintedCell
from gradwire.analysis.report.charts import Labels, chart, svg_text
from gradwire.analysis.report.pages import BY_DEFAULT, BY_SCENARIO, Setting
from gradwire.analysis.report.report import Background, PointDetails, Presentation, Results, report
from gradwire.analysis.report.series_colours import colours_of_series
from gradwire.analysis.report.tables import Constant, points_table
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.verdict import Verdict, verdict_of
from gradwire.console.parts import print_parts
from gradwire.faults import InputFault
from tests.shared.parts import in_order, tells

STRATEGIES = ("vanilla", "sliced", "geryon")
PRINTED = {"vgg": (0.30, 0.80, 0.95), "yolo": (0.20, 0.75, 0.90)}
INVALID = "invalid: drops 3 (limit 0)"
SMALL_DPI = 40


def point(efficiency: float, verdict: str = "valid", **parameters: str) -> PointResult:
    time_s = 1 / efficiency
    return PointResult(
        parameters, time_s, 0.01, 0.02, 100 * efficiency, efficiency, 10**9, 12.0, 0.5, "bandwidth", "00ff", verdict
    )


def measured() -> list[PointResult]:
    """Two models by three strategies: all within two points of what is printed, vanilla met exactly."""
    errors = (0.0, 0.02, -0.02)
    return [
        point(value + error, model=model, strategy=strategy)
        for model, row in PRINTED.items()
        for strategy, value, error in zip(STRATEGIES, row, errors, strict=True)
    ]


def printed() -> list[PrintedCell]:
    cells = [
        PrintedCell({"model": model, "strategy": s}, "scaling_efficiency", value, "Table 2", fitted=s == "vanilla")
        for model, row in PRINTED.items()
        for s, value in zip(STRATEGIES, row, strict=True)
    ]
    headline = {"model": "yolo", "strategy": "geryon"}
    return [*cells, PrintedCell(headline, "speedup", 4.37, "Section 5", baseline={"strategy": "vanilla"})]


def changed(index: int, **changes: object) -> list[PointResult]:
    rows = measured()
    rows[index] = replace(rows[index], **changes)  # type: ignore[arg-type]
    return rows


def test_agreement_counts_predictions_and_leaves_fitted_cells_out() -> None:
    found = compare(measured(), printed())
    assert tells(found.summary, "4 of 4", "5 points", "2 of 2 rows", "headline 4.37x", "4.40x (+0.7%)")
    assert [c.status for c in found.cells[:3]] == [CellStatus.FITTED, CellStatus.WITHIN, CellStatus.WITHIN]
    assert found.cells[1].difference == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("efficiency", "status"), [(0.849, CellStatus.WITHIN), (0.851, CellStatus.OUTSIDE), (0.749, CellStatus.OUTSIDE)]
)
def test_five_points_are_the_limit(efficiency: float, status: CellStatus) -> None:
    found = compare(changed(1, scaling_efficiency=efficiency), printed())
    assert found.cells[1].status is status


def test_wrong_order_is_seen_even_where_every_cell_agrees() -> None:
    rows = changed(1, scaling_efficiency=0.842)
    rows[2] = replace(rows[2], scaling_efficiency=0.841)
    cells = [replace(cell, value=0.85) if cell.value == 0.95 else cell for cell in printed()]
    found = compare(rows, cells)
    assert [order.right for order in found.orders] == [False, True]
    assert found.orders[0].measured == ("vanilla", "geryon", "sliced")
    assert tells(found.summary, "4 of 4", "5 points", "1 of 2 rows")


def test_shorter_times_rank_higher() -> None:
    rows = [replace(point(0.5, strategy=s), iteration_time_s=t) for s, t in (("slow", 3.0), ("fast", 1.0))]
    cells = [PrintedCell({"strategy": s}, "iteration_time_s", t, "") for s, t in (("slow", 3.2), ("fast", 1.2))]
    found = compare(rows, cells)
    assert (found.orders[0].right, found.orders[0].printed) == (True, ("slow", "fast"))
    assert [c.status for c in found.cells] == [CellStatus.WITHIN, CellStatus.OUTSIDE]


def test_an_invalid_point_reproduces_nothing_and_leaves_its_order_open() -> None:
    found = compare(changed(5, verdict=INVALID), printed())
    assert [c.status for c in found.cells[5:]] == [CellStatus.INVALID, CellStatus.INVALID]
    assert found.cells[5].measured is None
    assert [order.right for order in found.orders] == [True, None]
    assert tells(found.summary, "3 of 4", "5 points", "1 of 2 rows", "headline 4.37x invalid")


def test_a_point_that_was_not_run_is_missing() -> None:
    found = compare(measured()[:-1], printed())
    assert found.cells[5].status is CellStatus.MISSING
    assert "4.37x not run" in found.summary


def test_numbers_match_as_numbers() -> None:
    cell = PrintedCell({"workers": 8, "strategy": "x"}, "throughput_per_s", 55, "")
    found = compare([point(0.5, workers="8.0", strategy="x")], [cell])
    assert (found.cells[0].measured, found.cells[0].status) == (50.0, CellStatus.WITHIN)


def test_cells_are_checked_before_a_run() -> None:
    points = [row.parameters for row in measured()]
    check_cells(points, printed())
    with pytest.raises(InputFault, match="parameter 'modell'"):
        check_cells(points, [PrintedCell({"modell": "vgg"}, "scaling_efficiency", 0.3, "")])
    with pytest.raises(InputFault, match=in_order("3 points", "strategy")):
        check_cells(points, [PrintedCell({"model": "vgg"}, "scaling_efficiency", 0.3, "")])


@pytest.mark.parametrize(
    ("metric", "value", "message"),
    [
        ("efficiency", 0.5, "is not one of"),
        ("scaling_efficiency", 36.4, "give 0.364"),
        ("throughput_per_s", 0.0, "above 0"),
        ("speedup", 4.37, "needs the baseline"),
    ],
)
def test_a_cell_that_cannot_be_compared_is_refused(metric: str, value: float, message: str) -> None:
    with pytest.raises(InputFault, match=message):
        PrintedCell({"model": "x"}, metric, value, "")


def test_an_invalid_point_shows_no_number() -> None:
    rows = changed(5, verdict=INVALID)
    table = points_table(rows, compare(rows, printed()), {})
    assert table.rows[5] == ("yolo", "geryon", "invalid", "–", "–", "–", "90.0", "invalid", "–", "–", "invalid")
    assert table.rows[0][6:8] == ("30.0*", "+0.0")
    assert table.headers == (
        "model", "strategy", "time (s)", "± 95 %", "samples/s", "eff. %", "printed", "diff.", "x bound", "x fluid", "verdict",
    )  # fmt: skip


def test_a_difference_that_rounds_to_zero_has_no_minus() -> None:
    rows = changed(0, scaling_efficiency=PRINTED["vgg"][0] - 0.0004)
    assert points_table(rows, compare(rows, printed()), {}).rows[0][7] == "+0.0"


def bars(figure: Figure, color: str) -> list[float]:
    """Heights of the bars filled with a colour."""
    found = [patch for axes in figure.axes for patch in axes.patches if isinstance(patch, Rectangle)]
    return [patch.get_height() for patch in found if patch.get_facecolor() == to_rgba(color)]


def test_measured_bars_stand_beside_printed_ones() -> None:
    figure = chart(measured(), compare(measured(), printed()), "Title")
    assert bars(figure, colours_of_series(STRATEGIES)[STRATEGIES[2]]) == pytest.approx([93, 88])
    assert bars(figure, "white") == pytest.approx([30, 80, 95, 20, 75, 90])
    assert figure.axes[0].get_ylabel() == "Scaling efficiency (%)"
    keys = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert keys == [*STRATEGIES, "measured", "printed", "fitted, no prediction"]
    labels = {text.get_text() for text in figure.axes[0].texts}
    assert {"30*", "20*", "95"} <= labels


def test_the_only_group_of_bars_has_no_name() -> None:
    rows = [point(0.3, strategy="a"), point(0.6, strategy="b")]
    (axes,) = chart(rows, Comparison((), ()), "Title").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [""]


def test_an_invalid_point_is_never_a_bar_and_says_so() -> None:
    rows = changed(5, verdict=INVALID)
    figure = chart(rows, compare(rows, printed()), "Title")
    assert bars(figure, colours_of_series(STRATEGIES)[STRATEGIES[2]]) == pytest.approx([93])
    assert "invalid" in [text.get_text() for text in figure.axes[0].texts]
    assert any("invalid: 1 of 6" in text.get_text() for text in figure.texts)


def test_a_sweep_becomes_lines_over_its_number() -> None:
    rates = ("100gbit", "1gbit", "10gbit")
    rows = [point(0.9 / (i + 2), strategy=s, rate=r) for i, s in enumerate(("a", "b")) for r in rates]
    rows[5] = replace(rows[5], verdict=INVALID)
    figure = chart(rows, Comparison((), ()), "Title")
    (axes,) = figure.axes
    assert axes.get_xlabel() == "Rate (Gbit/s)"
    assert axes.get_xscale() == "log"
    first, second = (container[0] for container in axes.containers)
    assert first.get_xdata().tolist() == [1, 10, 100]
    assert [math.isnan(y) for y in second.get_ydata()] == [False, True, False]


def test_panels_that_are_compared_share_a_scale_and_are_named_by_what_differs() -> None:
    rows = [
        point(0.1 * (i + 1) * (j + 1), rate=rate, overlap=overlap, strategy="a")
        for i, rate in enumerate(("1gbit", "2.5gbit"))
        for j, overlap in enumerate(("True", "False"))
    ]
    figure = chart(rows, Comparison((), ()), "Title")
    assert [axes.get_title() for axes in figure.axes] == ["overlap = true", "overlap = false"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    models = [replace(row, parameters={**row.parameters, "model": f"m{index % 2}"}) for index, row in enumerate(rows)]
    figure = chart(models, Comparison((), ()), "Title")
    assert tells(figure.axes[0].get_title(), "overlap = true", "m0")
    assert len({axes.get_ylim() for axes in figure.axes}) == 2  # samples of two models are not compared


def test_values_are_not_taken_for_keys() -> None:
    write = Labels({"fabric.rate": "line rate", "ring": "Ring"})
    assert [write(text) for text in ("2.5gbit", "model.batch", "fabric.rate", "True")] == [
        "2.5gbit", "batch", "line rate", "true",
    ]  # fmt: skip
    assert write.pair("strategy.name", "ring") == "Ring"
    assert write.pair("strategy.options.share", "0.15") == "share = 0.15"


def test_what_is_empty_is_not_shown() -> None:
    rows = [replace(row, parameters={**row.parameters, "options": "", "workers": "8"}) for row in measured()]
    assert "workers = 8." in points_table(rows, Comparison((), ()), {}).foot


def test_words_alone_become_bars() -> None:
    figure = chart(measured(), Comparison((), ()), "Title")
    assert figure.axes[0].get_ylabel() == "Throughput (samples/s)"
    assert bars(figure, colours_of_series(STRATEGIES)[STRATEGIES[0]]) == pytest.approx([30, 20])


@pytest.mark.parametrize(
    ("text", "number"), [("10gbit", 1e10), ("2.5 Mbit/s", 2.5e6), ("8", 8.0), ("vgg19", None), ("", None)]
)
def test_values_that_are_numbers(text: str, number: float | None) -> None:
    assert parameter_number(text) == number


def test_interval_of_throughput_follows_from_that_of_the_time() -> None:
    row = replace(point(0.5), ci95_s=0.5)
    assert interval(row, "iteration_time_s") == pytest.approx((1.5, 2.5))
    assert interval(row, "throughput_per_s") == pytest.approx((40, 50 * 2 / 1.5))
    assert interval(replace(row, ci95_s=None), "throughput_per_s") == (50, 50)


def test_equal_charts_are_equal_files() -> None:
    rows, cells = measured(), compare(measured(), printed())
    assert svg_text(chart(rows, cells, "Title")) == svg_text(chart(rows, cells, "Title"))


class Balance(HTMLParser):
    """Checks that every element which needs an end has one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [
            value or "" for key, value in attrs if key in ("src", "href") and not (value or "").startswith("#")
        ]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def judged(ok: bool) -> Verdict:
    return verdict_of([Check("drops", "0" if ok else "3", "0", ok, "A <queue> overflowed.")])


def details(number: int) -> PointDetails:
    settings = {
        "fabric.rate": Setting("10 Gbit/s", BY_SCENARIO),
        "strategy.options.order": Setting(str(number), BY_DEFAULT),
    }
    return PointDetails(settings, f"points/{number} a", ("verdict.json",), "71% network: rank 3 waits <long>")


def test_report_writes_its_files_and_fits_the_terminal(tmp_path: Path) -> None:
    rows = changed(5, verdict=INVALID)
    shown = report(
        tmp_path,
        Results(rows, [judged(row.valid) for row in rows], [details(number) for number in range(len(rows))]),
        Presentation(
            "Table 2 & more",
            printed(),
            [Constant("aggregation rate", 3.2, "GB/s", "fitted once")],
            labels={"geryon": "Partition + slicing + Geryon"},
            notes=["6 points in 3 s"],
        ),
        Background("What is asked.", [("command", "gradwire run <it>")], 'title = "<Table> 2"\n'),
        dpi=SMALL_DPI,
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert parser.links[:2] == ["points/0%20a/", "points/0%20a/verdict.json"]
    assert len(parser.links) == 2 * len(rows)
    for text in (
        "5 of 6 points",
        "What is asked.",
        "gradwire run &lt;it&gt;",
        "title = &#34;&lt;Table&gt; 2&#34;",
        "71% network: rank 3 waits &lt;long&gt;",
        "strategy.options.order = 3 (default)",
        "<td>fabric.rate</td><td>10 Gbit/s</td>",
        "6.667 times",
        "0.5 s (bandwidth)",
        "Table 2 &amp; more",
        "aggregation rate",
        "fitted once",
        "A &lt;queue&gt; overflowed.",
        "6 points in 3 s",
        INVALID,
    ):
        assert text in page
    assert tells((tmp_path / "table.md").read_text(encoding="utf-8"), "| vgg |", "vanilla |", "3.333 |")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(tmp_path / "chart.svg").getroot().tag.endswith("svg")

    console = Console(width=100, record=True, file=(tmp_path / "terminal").open("w"))
    print_parts(console, shown)
    text = console.export_text()
    assert tells(" ".join(text.split()), "3 of 4", "5 points", "Only 5 of 6 points")
    assert f"strategy=geryon: {INVALID}" in text
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100

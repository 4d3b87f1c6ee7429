"""Rankings: who is first, what the answer is, and that only valid results are drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from gradwire.analysis.points import PointResult
from gradwire.analysis.report.charts import save_chart
from gradwire.analysis.report.panels import ranking_chart
from gradwire.analysis.report.ranking import Ranking, rank, ranking_table, reasons
from tests.shared.parts import tells

FAMILIES = {"vanilla": "parameter server", "p3": "parameter server", "ring": "allreduce", "csc": "allreduce"}
COMPUTE_S, BOUND_S = 0.8, 0.9


def row(strategy: str, time_s: float, seed: int = 1, verdict: str = "valid") -> PointResult:
    parameters = {"strategy": strategy, "model": "alexnet", "seed": str(seed)}
    return PointResult(
        parameters, time_s, 0.0, 1e-5, 1 / time_s, COMPUTE_S / time_s, 0, 1.0, BOUND_S, "bandwidth", "00ff", verdict
    )


def ranked(*rows: PointResult, left_out: dict[str, str] | None = None) -> Ranking:
    return rank(rows, FAMILIES, ("csc",), left_out or {})


VANILLA = [row("vanilla", 1.8, 1), row("vanilla", 2.0, 2), row("vanilla", 2.2, 3)]


def test_the_fastest_comes_first_and_intervals_are_over_seeds() -> None:
    found = ranked(*VANILLA, row("ring", 1.0), row("p3", 1.25))
    assert [entry.name for entry in found.valid] == ["ring", "p3", "vanilla"]
    assert [entry.seeds for entry in found.valid] == [1, 1, 3]
    assert [entry.ci_s > 0 for entry in found.valid] == [False, False, True]
    assert found.valid[2].ci_s == pytest.approx(4.302653 * 0.2 / math.sqrt(3))
    assert found.speedup(found.valid[0]) == pytest.approx(2.0)


def test_each_is_compared_with_the_fastest() -> None:
    table = ranking_table(ranked(*VANILLA, row("ring", 1.0), row("p3", 1.009), row("csc", 0.5)))
    column = table.headers.index("slower by")
    assert [r[column] for r in table.rows] == ["-50.0", "0", "0.9 =", "100.0 ± 49.7"]
    assert "= level:" in table.foot
    assert "?" not in table.foot


def test_what_sends_a_part_is_ranked_but_is_no_answer() -> None:
    found = ranked(*VANILLA, row("csc", 0.5), row("ring", 1.0))
    assert [entry.name for entry in found.valid][:2] == ["csc", "ring"]
    assert found.best is not None
    assert found.best.name == "ring"
    table = ranking_table(found)
    assert table.rows[0][1] == "csc*"
    assert "* does not" in table.foot


def test_a_strategy_with_several_options_is_named_with_them() -> None:
    rows = [row("p3", 1.0 + number) for number in range(2)]
    rows = [replace(r, parameters={**r.parameters, "options": f"slice={n}"}) for n, r in enumerate(rows)]
    assert [entry.name for entry in ranked(*rows, row("ring", 3.0)).valid] == ["p3 (slice=0)", "p3 (slice=1)", "ring"]


def test_without_vanilla_the_slowest_is_the_measure_and_without_results_there_is_no_answer() -> None:
    found = ranked(row("ring", 1.0), row("p3", 1.5))
    assert found.baseline is not None
    assert found.baseline.name == "p3"
    assert ranking_table(found).headers[6] == "x p3"
    assert ranked(row("ring", math.nan, verdict="invalid: drops")).best is None


def test_invalid_ones_and_those_that_cannot_run_are_listed_with_their_reasons() -> None:
    rows = [*VANILLA, row("ring", 0.1, verdict="invalid: drops 3 (limit 0)"), row("p3", 1.0)]
    found = ranked(*rows, left_out={"butterfly": "needs a power of two"})
    assert [entry.name for entry in found.valid] == ["p3", "vanilla"]
    table = ranking_table(found)
    assert [(r[1], r[-1]) for r in table.rows[2:]] == [("ring", "invalid"), ("butterfly", "left out")]
    assert all(cell == "–" for r in table.rows[2:] for cell in r[3:-1])  # no number of theirs is shown
    invalid, left_out = reasons(found)
    assert tells(invalid, "ring:", "drops 3", "limit 0")
    assert tells(left_out, "butterfly left out", "power of two")
    assert table.rows[0][4] == "none"
    one_bad_seed = ranked(*VANILLA[:2], replace(VANILLA[2], verdict="invalid: drops"), row("p3", 1.0))
    assert [entry.name for entry in one_bad_seed.valid] == ["p3"]


def test_an_option_that_a_strategy_lacks_is_a_reason_and_no_row() -> None:
    lacking = dict.fromkeys(("p3 with wire", "ring with wire"), "no option 'wire': takes part as it is")
    found = ranked(row("p3", 1.0), row("ring", 1.2), left_out={**lacking, "butterfly": "needs a power of two"})
    assert [r[1] for r in ranking_table(found).rows] == ["p3", "ring", "butterfly"]
    assert tells(reasons(found)[0], *lacking, "left out", "no option 'wire'")


def test_only_valid_strategies_are_drawn(tmp_path: Path) -> None:
    rows = [*VANILLA, row("ring", 0.1, verdict="invalid: drops 3 (limit 0)"), row("p3", 1.0)]
    found = ranked(*rows, left_out={"butterfly": "needs a power of two"})
    figure = ranking_chart(found, "four workers")
    (axes,) = figure.axes
    bars = [patch.get_width() for patch in axes.patches if isinstance(patch, Rectangle)]
    assert bars == [1.0, pytest.approx(2.0)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["p3", "vanilla"]
    assert COMPUTE_S in [line.get_xdata()[0] for line in axes.lines]  # type: ignore[index]
    assert BOUND_S in [line.get_xdata()[0] for line in axes.lines]  # type: ignore[index]
    notes = " ".join(text.get_text() for text in figure.texts)
    assert tells(notes, "Not drawn", "invalid: ring.")
    assert "here: butterfly." in notes
    save_chart(figure, tmp_path, dpi=40)
    assert (tmp_path / "chart.png").stat().st_size > 1000


def test_a_chart_of_nothing_can_be_drawn(tmp_path: Path) -> None:
    save_chart(ranking_chart(ranked(row("ring", math.nan, verdict="invalid: x")), "nothing"), tmp_path, dpi=40)


def test_times_are_of_as_many_samples_each() -> None:
    """An iteration of four steps takes 2.4 s, 0.6 s per step."""
    of_four = replace(row("csc", 2.4), throughput_per_s=4 / 2.4, fluid_time_s=2.0, lower_bound_s=1.6)
    found = ranked(row("ring", 1.0), row("p3", 1.25), of_four, row("vanilla", math.nan, verdict="invalid: late"))
    assert [(entry.name, entry.time_s) for entry in found.valid] == [("csc", 0.6), ("ring", 1.0), ("p3", 1.25)]
    first = found.valid[0].row
    assert (first.lower_bound_s, first.fluid_time_s, first.throughput_per_s) == (0.4, 0.5, 4 / 2.4)
    assert tells(ranking_table(found).foot, "1 samples", "divided")
    assert "divided" not in ranking_table(ranked(row("ring", 1.0), row("p3", 1.25))).foot
    assert found.valid[1].row.lower_bound_s == BOUND_S

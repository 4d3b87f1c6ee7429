"""How far points are from an ideal network: the column, the lines below the table, and what stands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gradwire.analysis.agreement.causes import Agreement, Cause
from gradwire.analysis.points import PointResult, pool_seeds
from gradwire.analysis.printed import Comparison
from gradwire.analysis.report.conclusion import MOST_POINTS_NAMED, remarks
from gradwire.analysis.report.report import PointDetails, Presentation, Results, report
from gradwire.analysis.report.tables import points_table
from gradwire.console.parts import print_parts
from tests.shared.parts import tells
from tests.shared.stored_points import result

INVALID = "invalid: drops 3 (limit 0)"
SMALL_DPI = 40


def point(fluid_time_s: float | None, cause: Cause = Cause.NONE, time_s: float = 1.0, **parameters: str) -> PointResult:
    return replace(result(parameters, time_s), fluid_time_s=fluid_time_s, fluid_cause=str(cause))


def agreed(rows: Sequence[PointResult]) -> list[Agreement]:
    """Agreements whose sentences are the causes."""
    return [Agreement(Cause(row.fluid_cause), row.fluid_cause) for row in rows]


def column(rows: list[PointResult]) -> list[str]:
    table = points_table(rows, Comparison((), ()), {})
    return [row[table.headers.index("x fluid")] for row in table.rows]


def test_the_ratio_has_three_digits_and_is_missing_where_there_is_none() -> None:
    rows = [point(1.0, strategy="a"), point(0.859, strategy="b"), point(None, strategy="c")]
    rows.append(replace(point(1.0, strategy="d"), verdict=INVALID))
    assert column(rows) == ["1.000", "1.164", "–", "–"]


def test_the_column_is_explained_below_the_table() -> None:
    table = points_table([point(1.0)], Comparison((), ()), {})
    assert "x fluid: " in table.foot


def test_seeds_are_pooled_by_their_means() -> None:
    rows = [
        point(1.0, strategy="a", seed="1"),
        point(2.0, Cause.SKEW, 3.0, strategy="a", seed="2"),
        point(2.0, Cause.SOCKETS, 5.0, strategy="a", seed="3"),
        point(2.0, Cause.SKEW, 3.0, strategy="a", seed="4"),
    ]
    (pooled,) = pool_seeds(rows)
    assert pooled.fluid_time_s == pytest.approx(7 / 4)
    assert pooled.fluid_ratio == pytest.approx(12 / 7)
    assert pooled.fluid_cause == "skew, sockets"
    (unknown,) = pool_seeds([*rows, point(None, strategy="a", seed="5")])
    assert unknown.fluid_time_s is None


def test_a_run_with_nothing_to_say_says_nothing() -> None:
    rows = [point(1.0, strategy="a"), point(1.01, strategy="b")]
    assert remarks(["a", "b"], rows, agreed(rows)) == []
    assert remarks(["a", "b"], rows, [None, None]) == []


def test_each_cause_is_told_once_and_warnings_come_first() -> None:
    causes = [Cause.SKEW, Cause.SWITCHES, Cause.NONE, Cause.UNEXPLAINED, *[Cause.SKEW] * (MOST_POINTS_NAMED + 2)]
    rows = [point(0.5 + 0.1 * number, cause) for number, cause in enumerate(causes)]
    labels = [f"point {number}" for number in range(len(rows))]
    found = remarks(labels, rows, agreed(rows))
    assert [remark.is_warning for remark in found] == [True, False, False]
    assert tells(found[0].text, "point 3", "1.250: unexplained.")
    assert tells(found[1].text, "point 1", "1.667: switch queues.")
    alike = ("point 4 (1.111)", "point 5 (1.000)", "point 6 (0.909)", "2 more")
    assert tells(found[2].text, "point 0", "2.000: skew.", *alike)
    assert "point 7" not in found[2].text


def test_a_single_point_needs_no_name() -> None:
    agreement = Agreement(Cause.NOT_EXAMINED, "too large")
    (remark,) = remarks(["a, 10gbit"], [point(0.5, Cause.NOT_EXAMINED)], [agreement])
    assert tells(remark.text, "2.000:", "too large")
    assert "10gbit" not in remark.text


def written(folder: Path, rows: list[PointResult]) -> tuple[str, str, str]:
    """What a terminal shows, the page and the Markdown table."""
    details = [PointDetails({}, agreement=agreement) for agreement in agreed(rows)]
    shown = report(folder, Results(rows, [None] * len(rows), details), Presentation("A title"), dpi=SMALL_DPI)
    console = Console(width=100, record=True, file=(folder / "shown.txt").open("w"))
    print_parts(console, shown)
    return console.export_text(), (folder / "report.html").read_text(), (folder / "table.md").read_text()


def test_what_is_unexplained_stands_out_everywhere(tmp_path: Path) -> None:
    rows = [point(0.5, Cause.UNEXPLAINED, strategy="a"), point(0.8, Cause.SOCKETS, strategy="b")]
    shown, page, markdown = written(tmp_path, rows)
    for text, mark in ((shown, "WARNING: "), (page, "<p class=warning>"), (markdown, "**WARNING**: ")):
        assert tells(text, mark, "of a is", "2.000: unexplained.")
        assert tells(text, "of b is", "1.250: sockets.")
    assert "<dd>Sockets.</dd>" in page
    assert "2.000 times its" in page
    calm, page, markdown = written(tmp_path, [point(1.0, strategy="a")])
    assert "WARNING" not in calm + markdown
    assert "class=warning>" not in page
    assert "ideal network</dt>" not in page

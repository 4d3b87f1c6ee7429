"""Printed values beside measured ones: which of them a scenario may name, and how they are compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.printed import CellStatus, Comparison, compare
from gradwire.analysis.printed_cells import PrintedCell, cells_of_claims
from gradwire.faults import InputFault
from tests.shared.stored_points import result


def test_a_table_is_named_as_a_whole_and_a_value_after_a_slash() -> None:
    table = cells_of_claims(["geryon-table2"])
    assert len(table) == 12
    assert table[0] == PrintedCell(
        {"model": "alexnet", "strategy": "vanilla", "workers": 8, "rate": "10gbit"},
        "scaling_efficiency",
        0.364,
        "Geryon, Table II",
        fitted=True,
    )
    (headline,) = cells_of_claims(["geryon-fig8/yolo-geryon"])
    assert (headline.metric, headline.value, headline.baseline) == ("speedup", 4.37, {"strategy": "vanilla"})


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "geryon-tabel2",
            r"no printed values of 'geryon-tabel2'; did you mean 'geryon-table2'\?; .* as \[\[printed\]\]",
        ),
        ("p3-fig7", "no printed values of 'p3-fig7'; there are geryon-table2, geryon-fig8; values of other tables"),
        ("geryon-table2/yolo-gerion", "geryon-table2 has no value 'yolo-gerion'; did you mean 'yolo-geryon'"),
        ("geryon-table2/order", "geryon-table2 has no value 'order'; there are alexnet-vanilla, "),
    ],
)
def test_a_name_without_printed_values_is_rejected(name: str, complaint: str) -> None:
    with pytest.raises(InputFault, match=f"printed_claims: {name}: .*{complaint}"):
        cells_of_claims([name])


def compared(times_s: dict[str, float], printed_s: dict[str, float], ci95_s: float | None = None) -> Comparison:
    rows = [replace(result({"strategy": name}, time_s), ci95_s=ci95_s) for name, time_s in times_s.items()]
    return compare(rows, [PrintedCell({"strategy": n}, "iteration_time_s", v, "") for n, v in printed_s.items()])


def test_an_order_asks_for_visible_differences() -> None:
    printed_s = {"fast": 1.0, "slow": 1.2}
    assert compared({"fast": 1.0, "slow": 1.1}, printed_s).orders[0].right
    assert not compared({"fast": 1.0, "slow": 1.005}, printed_s).orders[0].right
    assert not compared({"fast": 1.0, "slow": 1.1}, printed_s, ci95_s=0.06).orders[0].right


def test_what_is_printed_as_equal_has_no_order() -> None:
    printed_s = {"a": 1.0, "b": 1.0, "slow": 1.2}
    assert compared({"a": 1.1, "b": 1.0, "slow": 1.3}, printed_s).orders[0].right
    assert not compared({"a": 1.3, "b": 1.0, "slow": 1.2}, printed_s).orders[0].right


def test_a_speedup_must_be_a_gain_of_the_printed_size() -> None:
    cell = PrintedCell({"strategy": "new"}, "speedup", 1.09, "", baseline={"strategy": "old"})
    rows = [result({"strategy": "new"}, 1.0), result({"strategy": "old"}, 1.0)]
    assert compare(rows, [cell]).cells[0].status is CellStatus.OUTSIDE

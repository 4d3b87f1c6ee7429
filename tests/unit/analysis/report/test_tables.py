"""Numbers in tables of points."""

from __future__ import annotations

import pytest

from gradwire.analysis.report.point_columns import spread_beside


@pytest.mark.parametrize(
    ("time", "half_s", "said"),
    [
        ("0.1467", 0.00023, "0.0002"),
        ("0.06680", 0.0024, "0.00240"),
        ("0.1438", 1.3e-6, "<0.0001"),
        ("1.063", 0.0, "0.000"),
        ("1467", 3.2, "3"),
    ],
)
def test_an_interval_has_the_decimals_of_its_time(time: str, half_s: float, said: str) -> None:
    assert spread_beside(time, half_s) == said

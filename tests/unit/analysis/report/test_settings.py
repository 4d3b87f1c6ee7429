"""Settings in words: quantities with units, what is common to all points, and what each has of its own."""

from __future__ import annotations

import pytest

from gradwire.analysis.quantities import quantity
from gradwire.analysis.report.pages import (
    BY_DEFAULT,
    BY_SCENARIO,
    Setting,
    common_settings,
    in_line,
    own_settings,
    settings_tables,
)
from tests.shared.parts import tells


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2e9, "bytes/s", "2 GB/s"),
        (1e10, "bit/s", "10 Gbit/s"),
        (2.5e9, "bit/s", "2.5 Gbit/s"),
        (1.22e-4, "s", "122 us"),
        (0.05, "s", "50 ms"),
        (0.846, "s", "0.846 s"),
        (1800.0, "s", "1800 s"),
        (12345.6, "s", "12,346 s"),
        (0, "s", "0 s"),
        (65536, "bytes", "64 KiB"),
        (256000, "bytes", "256 kB"),
        (1500, "bytes", "1,500 B"),
        (4 << 20, "bytes", "4 MiB"),
        (0.1, "of the mean", "0.1 of the mean"),
        (50000, "", "50,000"),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


RATE = Setting("10 Gbit/s", BY_SCENARIO)
SEED, OTHER_SEED = Setting("1", BY_DEFAULT), Setting("2", BY_SCENARIO)
ORDER = Setting("tic", BY_DEFAULT)
POINTS = [{"run.seed": SEED, "fabric.rate": RATE}, {"run.seed": OTHER_SEED, "fabric.rate": RATE, "order": ORDER}]


def test_what_all_points_have_alike_is_common() -> None:
    assert common_settings(POINTS) == {"fabric.rate": RATE}
    assert own_settings(POINTS) == [{"run.seed": SEED}, {"run.seed": OTHER_SEED, "order": ORDER}]
    assert tells(in_line(own_settings(POINTS)[1]), "run.seed = 2;", "order = tic", "(default)")


def test_defaults_have_a_table_of_their_own() -> None:
    given, defaults = settings_tables([{"run.seed": SEED, "fabric.rate": RATE}])
    assert given.rows == (("fabric.rate", "10 Gbit/s", "scenario"),)
    assert defaults.rows == (("run.seed", "1", "default"),)
    assert [table.rows for table in settings_tables([])] == [(), ()]

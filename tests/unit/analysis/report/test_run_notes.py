"""Sentences of a report on how its points ran."""

from __future__ import annotations

from gradwire.analysis.link_loads import LoadedLine
from gradwire.analysis.report.run_notes import (
    LoadedPoint,
    PointSpeed,
    tell_asked_division,
    tell_forced_division,
    tell_loaded_lines,
    tell_speed,
)
from tests.shared.parts import tells


def loaded(seed: str, busy_s: float, flows: int) -> LoadedPoint:
    return LoadedPoint(
        f"seed {seed}", seed, [LoadedLine(f"s1 to s{seed}", busy_s, flows), LoadedLine("s9 to s8", 0.01, 1)]
    )


def test_lines_of_one_point_are_named_and_those_of_several_seeds_have_a_range() -> None:
    alone = tell_loaded_lines([("fabric.rate", "10gbit")], [loaded("1", 0.2, 2)])
    assert tells(alone, "seed 1", "s1 to s1", "0.2 s")
    several = tell_loaded_lines([("fabric.rate", "10gbit")], [loaded("1", 0.2, 2), loaded("2", 0.5, 4)])
    assert tells(several, "rate 10gbit", "2 seeds", "0.2 to 0.5 s", "2 to 4 flows", "seed 2", "s1 to s2")
    same = tell_loaded_lines([], [loaded("1", 0.2, 3), loaded("2", 0.2, 3)])
    assert tells(same, " 0.2 s", " 3 flows")
    assert "0.2 to" not in same


def test_a_division_has_its_range_and_its_largest_effect() -> None:
    assert "no point is divided" in tell_asked_division([1, 1], 0.0)
    for tell in (tell_asked_division, tell_forced_division):
        assert tells(tell([1, 7], 0.0123), "2 points", "1 to 7", "1.23%")
    assert tells(tell_forced_division([7], 0.0), "1 point ", " 7;")


def test_a_speed_is_that_of_all_points_together() -> None:
    said = tell_speed([PointSpeed(1.0, 2.0, 4 * 10**9, 5.0), PointSpeed(3.0, 2.0, 2 * 10**9, 6.0)])
    assert tells(said, "2.0 s", "3.0 s", "6 GB", "1.50 GB/s", "11 s")
    assert "0.00 GB/s" in tell_speed([PointSpeed(1.0, 0.0, 10, 5.0)])

"""The predicates say yes to the shape that they are named after and no to its nearest relatives."""

from __future__ import annotations

import pytest

from reproduction.scoring import shapes

RISING = [(1, 1.0), (2, 2.0), (3, 3.0)]
FALLING = [(1, 3.0), (2, 2.0), (3, 1.0)]
HUMP = [(1, 1.0), (2, 3.0), (3, 2.0)]
DIP = [(1, 3.0), (2, 1.0), (3, 2.0)]
FLAT = [(1, 1.0), (2, 1.004), (3, 1.0)]
SATURATING = [(1, 1.0), (2, 2.0), (4, 4.0), (8, 4.1), (16, 4.1)]


def test_monotone() -> None:
    assert shapes.increasing(RISING)
    assert not any(shapes.increasing(series) for series in (FALLING, HUMP, DIP, FLAT))
    assert shapes.decreasing(FALLING)
    assert not any(shapes.decreasing(series) for series in (RISING, HUMP, DIP, FLAT))
    assert shapes.non_decreasing(FLAT)
    assert shapes.non_increasing(FLAT)
    assert not shapes.non_decreasing([(1, 1.0), (2, 0.995), (3, 0.985)])  # small steps that add up


def test_level() -> None:
    assert shapes.level(FLAT)
    assert not shapes.level(RISING)


def test_extrema() -> None:
    assert shapes.interior_maximum(HUMP)
    assert shapes.interior_minimum(DIP)
    for series in (RISING, FALLING, FLAT):
        assert not shapes.interior_maximum(series)
        assert not shapes.interior_minimum(series)
    assert shapes.unimodal(HUMP)
    assert shapes.unimodal(RISING)
    assert not shapes.unimodal(DIP)
    assert shapes.peak_x(HUMP) == 2


def test_knee() -> None:
    assert shapes.knee_x(SATURATING) == pytest.approx(2 + 2 * (4.1 * 0.95 - 2) / 2)
    assert shapes.knee_x(FLAT) == 1
    assert shapes.knee_x([(1, 4.0), (2, 1.0), (3, 1.0)]) == pytest.approx(1 + (4 - 1.05) / 3)


def test_crossing() -> None:
    assert shapes.crossing_x(RISING, FALLING) == pytest.approx(2)
    assert shapes.crossing_x(FALLING, RISING) == 1
    assert shapes.crossing_x(FLAT, [(1, 2.0), (2, 2.0), (3, 2.0)]) is None
    with pytest.raises(ValueError, match="different x"):
        shapes.crossing_x(RISING, SATURATING)


def test_comparisons() -> None:
    assert shapes.dominates(RISING, [(1, 1.005), (2, 1.0), (3, 1.0)])
    assert not shapes.dominates(FALLING, RISING)
    assert shapes.near_linear(RISING)
    assert not shapes.near_linear(SATURATING)
    assert shapes.close(1.04, 1.0, 0.05)
    assert not shapes.close(1.06, 1.0, 0.05)
    assert shapes.all_close(RISING, [(1, 1.01), (2, 2.01), (3, 3.01)], 0.02)
    assert not shapes.all_close(RISING, FALLING, 0.02)


def test_straight() -> None:
    assert shapes.straight(RISING)
    assert shapes.straight(FALLING)
    assert shapes.straight([(0, 3.0), (25, 3.3), (125, 4.0)])
    assert not shapes.straight(SATURATING)
    assert not shapes.straight([(0, 3.0), (25, 3.5), (125, 4.0)])

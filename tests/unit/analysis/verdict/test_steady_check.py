"""The check of the steady state: a cold start, a short warm-up and a drift fail it, each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import FluidTimes
from gradwire.analysis.verdict.condition_checks import drift, steady_check

P3_LIKE = FluidTimes(np.array([0.067, 0.041, 0.049, 0.045, 0.047, 0.047]), 0.047, 1)


def test_a_warm_up_that_is_too_short_for_the_ideal_network_fails() -> None:
    check = steady_check(np.array([0.067, 0.041]), 1, P3_LIKE)
    assert not check.ok
    assert check.value.startswith("-12.8% ")
    assert steady_check(np.array([0.067, 0.041, 0.049, 0.045, 0.047]), 4, P3_LIKE).ok


def test_a_cold_start_is_as_asked_for() -> None:
    check = steady_check(np.array([0.067]), 0, P3_LIKE)
    assert check.ok
    assert "cold start" in check.value


def test_a_trend_of_the_measured_iterations_fails_and_noise_does_not() -> None:
    steady = FluidTimes(np.array([1.0, 1.0]), 1.0, 1)
    growing = np.array([1.0, 16.9, 17.5, 17.8, 18.4, 19.1])
    check = steady_check(growing, 1, steady)
    assert not check.ok
    assert "a trend" in check.value
    noisy = np.array([1.0, 2.04, 1.96, 2.0, 2.13, 2.2, 2.1, 2.13, 2.06, 2.2, 2.04])
    assert steady_check(noisy, 1, steady).ok
    small = np.linspace(1, 1.014, 8)
    assert steady_check(small, 1, steady).ok
    assert steady_check(growing[:5], 1, steady).ok, "four iterations are too few to tell"


def test_drift_is_that_of_a_line() -> None:
    growth, chance = drift(np.array([1.0, 1.1, 1.2, 1.3, 1.4]))
    assert growth == pytest.approx(0.4 / 1.2)
    assert chance == pytest.approx(0, abs=1e-9)
    assert drift(np.ones(9)) == (0.0, 1.0)
    # Student's t by hand: r = 0.5, n = 6, t = 1.1547, two-sided p = 0.3125.
    numbers = np.arange(6.0)
    residual = np.array([1.0, -1, -1, 1, 1, -1])
    centred = numbers - numbers.mean()
    residual -= residual.mean() + centred * (residual @ centred) / (centred @ centred)
    scale = np.sqrt((centred @ centred) * (1 / 0.25 - 1) / (residual @ residual))
    assert drift(100 + centred + residual * scale)[1] == pytest.approx(0.3125, abs=1e-4)


def test_without_an_estimate_only_the_run_speaks() -> None:
    check = steady_check(np.array([9.0, 1.0, 1.0]), 1, None)
    assert check.ok
    assert check.value == "not estimated"

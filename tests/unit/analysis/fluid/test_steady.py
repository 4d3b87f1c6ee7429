"""The warm-up that leads to the steady state, from iteration times made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import FluidTimes
from gradwire.analysis.fluid.steady import NEAR, MeasuredIterations, steady_window, window_bias, window_times_s


def fluid(iterations_s: list[float], period: int) -> FluidTimes:
    """What an estimate of these iterations gives."""
    steady_s = iterations_s[-period:] if period else iterations_s[len(iterations_s) // 2 :]
    return FluidTimes(np.array(iterations_s), float(np.mean(steady_s)), period)


def test_iterations_that_were_not_computed_go_on_as_the_schedule_does() -> None:
    repeats = fluid([5.0, 1.0, 3.0, 1.0, 3.0], 2)
    assert window_times_s(repeats, MeasuredIterations(0, 9)).tolist() == [5, 1, 3, 1, 3, 1, 3, 1, 3]
    assert window_times_s(repeats, MeasuredIterations(6, 2)).tolist() == [3, 1]
    does_not = fluid([5.0, 1.0, 3.0, 4.0], 0)
    assert window_times_s(does_not, MeasuredIterations(2, 4)).tolist() == [3, 4, 3.5, 3.5]


def test_a_plan_that_is_steady_from_its_second_iteration_on_has_one_of_warm_up() -> None:
    times = fluid([1.5, 1.0, 1.0], 1)
    assert steady_window(times, 3) == MeasuredIterations(1, 3)
    assert window_bias(times, MeasuredIterations(0, 2)) == pytest.approx(0.25)
    assert window_bias(times, MeasuredIterations(1, 100)) == 0


def test_the_warm_up_lasts_until_no_later_iteration_is_off() -> None:
    assert steady_window(fluid([67, 41, 49, 45, 47, 47], 1), 1) == MeasuredIterations(4, 1)
    # The second one is near by chance, and the third is not.
    assert steady_window(fluid([60, 47, 49, 47, 47], 1), 1) == MeasuredIterations(3, 1)


def test_a_period_is_measured_whole_where_a_part_of_it_is_off() -> None:
    assert steady_window(fluid([9, 1.0, 1.2, 1.0, 1.2], 2), 3) == MeasuredIterations(1, 4)
    assert steady_window(fluid([9, 1.0, 1.001, 1.0, 1.001], 2), 3) == MeasuredIterations(1, 3)


def test_what_never_repeats_is_steady_once_its_means_are() -> None:
    generator = np.random.default_rng(1)
    wandering = [3.0, 2.0, *(1 + 0.002 * generator.standard_normal(38))]
    assert steady_window(fluid(wandering, 0), 3) == MeasuredIterations(2, 3)
    growing = list(np.linspace(1, 3, 40))
    assert steady_window(fluid(growing, 0), 3) is None


def test_every_window_that_is_found_is_near() -> None:
    generator = np.random.default_rng(2)
    for _ in range(200):
        period = int(generator.integers(1, 9))
        start, cycle = generator.uniform(1, 2, int(generator.integers(1, 8))), generator.uniform(1, 1.3, period)
        times = fluid([*start, *cycle, *cycle], period)
        window = steady_window(times, int(generator.integers(1, 5)))
        assert window is not None
        for later in range(10):
            assert abs(window_bias(times, MeasuredIterations(window.warmup + later, window.iterations))) <= NEAR

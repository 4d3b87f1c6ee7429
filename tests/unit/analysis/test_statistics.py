"""Two times compared: exact ones, random ones with and without seeds in common, and how many seeds would do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gradwire.analysis.statistics import Contrast, Sample, TimeComparison, contrast, seeds_needed


def exact(time_s: float) -> Sample:
    return Sample({"1": time_s}, random=False)


def drawn(*times_s: float, first: int = 1) -> Sample:
    return Sample({str(seed): time_s for seed, time_s in enumerate(times_s, first)}, random=True)


@pytest.mark.parametrize(
    ("time_s", "outcome"),
    [
        (1.009, TimeComparison.LEVEL),
        (1.011, TimeComparison.SLOWER),
        (0.995, TimeComparison.LEVEL),
        (0.98, TimeComparison.FASTER),
    ],
)
def test_exact_times_differ_or_do_not(time_s: float, outcome: TimeComparison) -> None:
    assert contrast(exact(time_s), exact(1.0)) == Contrast(time_s, 0.0, outcome)


def test_a_random_time_against_an_exact_one_has_students_interval() -> None:
    times_s = (1.8, 2.0, 2.2, 2.1)
    found = contrast(drawn(*times_s), exact(1.6))
    low, high = stats.t.interval(0.95, 3, np.mean(times_s), stats.sem(times_s))
    assert found.interval == pytest.approx((low / 1.6, high / 1.6))
    assert found.outcome is TimeComparison.SLOWER
    upside_down = contrast(exact(1.6), drawn(*times_s))
    assert upside_down.ratio == pytest.approx(1 / found.ratio)
    assert upside_down.outcome is TimeComparison.FASTER


def test_seeds_in_common_cancel_out() -> None:
    times_s, theirs = (1.1, 2.21, 3.29), (1.0, 2.0, 3.0)
    found = contrast(drawn(*times_s), drawn(*theirs))
    assert found.outcome is TimeComparison.SLOWER
    residuals = np.array(times_s) - found.ratio * np.array(theirs)
    assert found.half == pytest.approx(stats.t.interval(0.95, 2, 0, stats.sem(residuals))[1] / 2.0)
    assert contrast(drawn(*times_s, first=4), drawn(*theirs)).outcome is TimeComparison.UNCLEAR


def test_without_common_seeds_the_interval_is_welchs() -> None:
    mine, theirs = (1.0, 1.2, 1.1, 1.3), (1.0, 1.05, 1.1)
    found = contrast(drawn(*mine), drawn(*theirs, first=10))
    ratio = np.mean(mine) / np.mean(theirs)
    scaled = stats.ttest_ind(mine, ratio * np.array(theirs), equal_var=False)
    half = scaled.confidence_interval(0.95).high - (np.mean(mine) - ratio * np.mean(theirs))
    assert found.half == pytest.approx(half / np.mean(theirs))


def test_one_seed_leaves_a_random_time_open() -> None:
    found = contrast(drawn(2.0), exact(1.0))
    assert (found.half, found.interval, found.outcome, found.seeds_needed) == (None, None, TimeComparison.UNCLEAR, None)


def test_an_interval_that_reaches_beyond_the_margin_is_not_level() -> None:
    assert contrast(drawn(0.999, 1.001, 1.0), exact(1.0)).outcome is TimeComparison.LEVEL
    wide = contrast(drawn(0.95, 1.05, 1.0), exact(1.0))
    assert wide.outcome is TimeComparison.UNCLEAR
    assert wide.seeds_needed is not None


@pytest.mark.parametrize(("effect", "seeds"), [(0.5, 34), (0.8, 15), (0.2, 199)])
def test_the_number_of_seeds_is_that_of_the_textbook(effect: float, seeds: int) -> None:
    """A t test of paired differences, two-sided at 5 % with a power of 80 %: sizes as G*Power and Cohen's tables give them."""
    assert seeds_needed(effect, 1.0) == seeds


def test_what_is_nearly_equal_needs_enough_seeds_to_be_called_level() -> None:
    needed = seeds_needed(0.0, 0.02)
    assert needed is not None
    draws = np.random.default_rng(7).normal(1.0, 0.02, (2000, needed))
    level = [contrast(drawn(*row), exact(1.0)).outcome is TimeComparison.LEVEL for row in draws.tolist()]
    assert np.mean(level) == pytest.approx(0.8, abs=0.06)


def test_a_hopeless_number_is_none() -> None:
    assert seeds_needed(0.001, 5.0) is None
    assert seeds_needed(0.5, 0.0) == 2


def test_one_interval_in_twenty_misses() -> None:
    """The 95 % interval of a ratio holds the true one in 95 % of experiments, for seeds in common as well as for one exact side."""
    rng = np.random.default_rng(3)
    common = rng.normal(0, 0.1, (4000, 5))
    mine, theirs = 1.2 + common + rng.normal(0, 0.02, (4000, 5)), 1.0 + common
    hits = []
    for a, b in zip(mine.tolist(), theirs.tolist(), strict=True):
        low, high = contrast(drawn(*a), drawn(*b)).interval or (math.nan, math.nan)
        hits.append(low <= 1.2 <= high)
    assert np.mean(hits) == pytest.approx(0.95, abs=0.02)

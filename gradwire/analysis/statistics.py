"""Mean, spread and interval of a few measurements, and a test whether one iteration time is longer than another.

A strategy without a random order takes the same time in every run, so a single run is exact. Where an order is drawn
from the seed, each seed gives one time, and only their mean over many seeds would be the strategy's own. Two strategies
that ran with the same seeds are compared seed by seed: what a seed does to both of them cancels out.

The interval is that of a ratio of means (W. G. Cochran, Sampling Techniques, 3rd ed., 1977, chapter 6): with R the
ratio, the residuals other - R * reference have mean 0, and Student's t interval of their mean, divided by the
reference, is that of R. Without common seeds the two variances add up, with Welch's degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from gradwire.analysis import student_t

CONFIDENCE = 0.95
LEVEL_MARGIN = 0.01
"""Times that differ by at most this share are level. `gradwire reproduce` counts the same difference as a tie."""
POWER = 0.8
"""Chance of a clear answer at which seeds are called enough: Cohen's
convention (Statistical Power Analysis, 2nd ed., 1988, 2.4)."""
MOST_SEEDS = 1000
"""Largest number of seeds that is stated as needed: nobody runs more."""


@dataclass(frozen=True)
class SampleSummary:
    """Summary of some measurements, in their unit.

    A single measurement says nothing about its spread, so its `std` and `ci` are None.
    """

    #: Number of measurements.
    count: int
    #: Their mean.
    mean: float
    #: Sample standard deviation (n - 1).
    std: float | None
    #: Half the width of the confidence interval of the mean.
    ci: float | None

    @property
    def low(self) -> float | None:
        """Lower end of the confidence interval."""
        return None if self.ci is None else self.mean - self.ci

    @property
    def high(self) -> float | None:
        """Upper end of the confidence interval."""
        return None if self.ci is None else self.mean + self.ci


def summarise(
    values: Sequence[float] | npt.NDArray[np.float64],
    confidence: float = CONFIDENCE,
    shares: npt.NDArray[np.float64] | None = None,
) -> SampleSummary:
    """Mean, sample standard deviation and Student-t interval of independent measurements.

    shares: how much each measurement counts, from 0 to 1, shape (values,); None: all count in full.

    Iterations of a run are not independent in every workload: an interval over them is about the mean of this run,
    while an interval over seeds is about the strategy. The mean of no values is nan.
    """
    array = np.asarray(values, dtype=np.float64)
    count = len(array)
    if count == 0:
        return SampleSummary(0, math.nan, None, None)
    weights = np.ones(count) if shares is None else shares
    weight = float(weights.sum())
    mean = float(weights @ array / weight)
    if weight <= 1:
        return SampleSummary(count, mean, None, None)
    std = math.sqrt(float(weights @ (array - mean) ** 2) / (weight - 1))
    quantile = float(student_t.quantile(weight - 1, 0.5 + confidence / 2))
    return SampleSummary(count, mean, std, quantile * std / math.sqrt(weight))


class TimeComparison(StrEnum):
    """Result of a comparison of two times."""

    FASTER = "faster"
    LEVEL = "level"
    SLOWER = "slower"
    UNCLEAR = "too few seeds"


@dataclass(frozen=True)
class Sample:
    """The iteration times of a strategy."""

    #: Times by seed.
    times_s: Mapping[str, float]
    #: Whether another seed may give another time.
    random: bool

    @property
    def mean_s(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(list(self.times_s.values())))


@dataclass(frozen=True)
class Contrast:
    """A time compared with a reference."""

    #: Mean time over the reference's.
    ratio: float
    #: Half of the ratio's 95 % interval: 0 if both times are exact, None if a single seed leaves it unknown.
    half: float | None
    outcome: TimeComparison
    #: Seeds of each at which an unclear outcome would probably be clear, if differences and spread stay as they were
    #: seen; None if it is clear, or if one seed does not show it or it would take more than MOST_SEEDS.
    seeds_needed: int | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the ratio's 95 % interval; None if unknown."""
        return None if self.half is None else (self.ratio - self.half, self.ratio + self.half)


def contrast(other: Sample, reference: Sample) -> Contrast:
    """Compares a time with a reference.

    They are level only if the whole interval of the ratio lies within LEVEL_MARGIN of 1, and one is slower only if the
    interval leaves out 1. With a 95 % interval, the first is the two one-sided tests for equivalence (Schuirmann,
    1987) at 2.5 % each, and the second a two-sided t test at 5 %. Every pair is judged by itself: of twenty pairs, one
    interval is expected to miss.
    """
    ratio = other.mean_s / reference.mean_s
    if not other.random and not reference.random:
        return Contrast(ratio, 0.0, _outcome(ratio, 0.0))
    spread = _spread(other, reference, ratio)
    if spread is None:
        return Contrast(ratio, None, TimeComparison.UNCLEAR)
    half = float(student_t.quantile(spread.freedom, 0.5 + CONFIDENCE / 2)) * spread.error
    outcome = _outcome(ratio, half)
    needed = seeds_needed(ratio - 1, spread.deviation) if outcome is TimeComparison.UNCLEAR else None
    return Contrast(ratio, half, outcome, needed)


def _outcome(ratio: float, half: float) -> TimeComparison:
    low, high = ratio - half - 1, ratio + half - 1
    if low >= -LEVEL_MARGIN and high <= LEVEL_MARGIN:
        return TimeComparison.LEVEL
    if low > 0:
        return TimeComparison.SLOWER
    return TimeComparison.FASTER if high < 0 else TimeComparison.UNCLEAR


@dataclass(frozen=True)
class _Spread:
    """The uncertainty of a ratio."""

    #: Standard error.
    error: float
    #: Degrees of freedom.
    freedom: float
    #: Standard deviation of one seed's part in the ratio.
    deviation: float


def _spread(other: Sample, reference: Sample, ratio: float) -> _Spread | None:
    """The spread of a ratio of which at least one side is random; None if a random side has a single seed."""
    if any(side.random and len(side.times_s) < 2 for side in (other, reference)):
        return None
    if other.random and reference.random and other.times_s.keys() != reference.times_s.keys():
        return _independent(other, reference, ratio)
    seeds = (other if other.random else reference).times_s
    residuals = [_time(other, seed) - ratio * _time(reference, seed) for seed in seeds]
    deviation = float(np.std(residuals, ddof=1)) / reference.mean_s
    return _Spread(deviation / math.sqrt(len(seeds)), len(seeds) - 1, deviation)


def _time(sample: Sample, seed: str) -> float:
    """The time with a seed; that of any seed where nothing is random."""
    return sample.times_s[seed] if sample.random else sample.mean_s


def _independent(other: Sample, reference: Sample, ratio: float) -> _Spread:
    sides = [(side.times_s, factor) for side, factor in ((other, 1.0), (reference, ratio))]
    variances = [factor**2 * float(np.var(list(times_s.values()), ddof=1)) for times_s, factor in sides]
    parts = [variance / len(times_s) for variance, (times_s, _) in zip(variances, sides, strict=True)]
    freedom = 1.0
    if any(parts):
        weights = [part**2 / (len(times_s) - 1) for part, (times_s, _) in zip(parts, sides, strict=True)]
        freedom = sum(parts) ** 2 / sum(weights)
    return _Spread(math.sqrt(sum(parts)) / reference.mean_s, freedom, math.sqrt(sum(variances)) / reference.mean_s)


def seeds_needed(difference: float, deviation: float) -> int | None:
    """The least number of seeds at which times with this relative difference come out as different, or as level, with
    chance POWER.

    deviation: standard deviation of the difference from seed to seed, relative as well. None if it is more than
    MOST_SEEDS.
    """
    if deviation == 0:
        return 2
    seeds = np.arange(2, MOST_SEEDS + 1)
    critical = student_t.quantile(seeds - 1, 0.5 + CONFIDENCE / 2)

    def chance(distance: float) -> np.typing.NDArray[np.float64]:
        """Chance that the interval stays clear of a value at this distance from the mean."""
        beyond = student_t.noncentral_chance_below(seeds - 1, distance * np.sqrt(seeds) / deviation, critical)
        return 1 - beyond

    clear = chance(abs(difference)) >= POWER
    if abs(difference) < LEVEL_MARGIN:
        # Both ends of the interval must stay inside: by Bonferroni's inequality, at least with this chance.
        inside = chance(LEVEL_MARGIN - abs(difference)) + chance(LEVEL_MARGIN + abs(difference)) - 1
        clear |= inside >= POWER
    return int(seeds[clear.argmax()]) if clear.any() else None

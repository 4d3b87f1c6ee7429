"""Mean, spread and confidence of a few measurements, over iterations or over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special  # and not scipy.stats, whose import every command would wait for, half a second and more

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Of `count` measurements, all in the unit of the measurements.

    std: sample standard deviation (n - 1). ci: half the width of the confidence interval of the mean.
    Both are None for a single measurement, which says nothing about its spread.
    """

    count: int
    mean: float
    std: float | None
    ci: float | None

    @property
    def low(self) -> float | None:
        """Lower end of the confidence interval."""
        return None if self.ci is None else self.mean - self.ci

    @property
    def high(self) -> float | None:
        """Upper end of the confidence interval."""
        return None if self.ci is None else self.mean + self.ci


def summarise(values: Sequence[float] | npt.NDArray[np.float64], confidence: float = CONFIDENCE) -> Summary:
    """Mean, sample standard deviation and Student-t interval of independent measurements.

    Iterations of one run are not independent in every workload: over them it is an interval of this run's mean, while an
    interval over seeds speaks of the strategy. Without any value the mean is nan.
    """
    array = np.asarray(values, dtype=np.float64)
    count = len(array)
    if count == 0:
        return Summary(0, math.nan, None, None)
    mean = float(array.mean())
    if count == 1:
        return Summary(1, mean, None, None)
    std = float(array.std(ddof=1))
    quantile = float(special.stdtrit(count - 1, 0.5 + confidence / 2))
    return Summary(count, mean, std, quantile * std / math.sqrt(count))

"""Mean, spread and confidence interval of a few measurements, over iterations or over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special  # not scipy.stats: its import would delay every command by half a second or more

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
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


def summarise(values: Sequence[float] | npt.NDArray[np.float64], confidence: float = CONFIDENCE) -> Summary:
    """Mean, sample standard deviation and Student-t interval of independent measurements.

    Iterations of a run are not independent in every workload: an interval over them is about the mean of this run, while an interval
    over seeds is about the strategy. The mean of no values is nan.
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

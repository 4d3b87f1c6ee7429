"""The steady state of a plan's iterations, as the fluid engine sees it: the length of a warm-up that leads to it, and
the error of a shorter one.

Where nothing holds workers in step, the first iterations differ from those that follow for ever: MXNet's by up to 16 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.analysis.fluid.estimate import FluidTimes

NEAR = 0.01
"""Largest accepted difference between the mean of the measured iterations and that of the steady ones. `gradwire
reproduce` counts the same difference as a tie."""


@dataclass(frozen=True)
class MeasuredIterations:
    """The iterations of a run that are measured."""

    #: Iterations before, which are dropped.
    warmup: int
    #: Iterations that are measured.
    iterations: int

    @property
    def end(self) -> int:
        """Number of all iterations, the warm-up included."""
        return self.warmup + self.iterations


def window_bias(times: FluidTimes, window: MeasuredIterations) -> float:
    """By how much the mean over a window differs from the mean of the steady iterations, as a share of the latter."""
    return float(window_times_s(times, window).mean()) / times.iteration_s - 1


def window_times_s(times: FluidTimes, window: MeasuredIterations) -> npt.NDArray[np.float64]:
    """Times of the iterations of a window, counted from the cold start.

    Those that were not computed repeat the last period, or take the steady time.
    """
    computed = times.iterations_s[: window.end]
    missing = window.end - len(computed)
    last = times.iterations_s[-times.period :] if times.period else np.array([times.iteration_s])
    return np.concatenate([computed, np.resize(last, max(0, missing))])[window.warmup :]


def steady_window(times: FluidTimes, iterations: int) -> MeasuredIterations | None:
    """The shortest warm-up, of one iteration or more, from which every window of at least `iterations` is NEAR the
    steady state.

    Where a schedule repeats only after several iterations, windows are whole periods if shorter ones are not near.
    None if no window that was estimated is.
    """
    period = times.period
    whole_periods = math.ceil(iterations / period) * period if period else iterations
    for length in dict.fromkeys((iterations, whole_periods)):
        # From there on, a schedule with a period repeats; of one without, no more is known.
        last = times.needed if period else times.needed - length
        off = [
            start
            for start in range(1, last + period + 1)
            if abs(window_bias(times, MeasuredIterations(start, length))) > NEAR
        ]
        warmup = max(off, default=0) + 1
        if warmup <= last:
            return MeasuredIterations(warmup, length)
    return None

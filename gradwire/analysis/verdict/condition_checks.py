"""Checks of the conditions of a run: divided bytes and rates, and a steady state.

Division, for the virtual clock or for run.fidelity, must leave an iteration what it is. The measured iterations must be
like those that would follow for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradwire.analysis import student_t
from gradwire.analysis.fluid.estimate import FluidTimes
from gradwire.analysis.fluid.steady import MeasuredIterations, window_bias
from gradwire.analysis.iterations import Float64
from gradwire.analysis.verdict.checks import Check

OF_ALL_CAPTURED = ("captured bytes", "captured payload")
"""Checks of captures that only hold if the agents alone send. Programs send
before the first and after the last iteration as well."""
DIVISION_TOLERANCE = 0.05
"""Largest error by division, as large as that of a network divided for the wall clock (WALL_TOLERANCE): half of what
makes a strategy a tenth faster than another. Where a stated error was measured, it was met within a percentage point
(docs/trust/exactness.md)."""
BIAS_TOLERANCE = 0.02
"""Twice what `run.warmup = "steady"` leaves (analysis/fluid/steady.py). Of the 1,183 points of the papers' scenarios,
measured after one iteration, 16 are farther away, all of P3's paper, and up to 15.6 %."""
DRIFT_TOLERANCE = 0.03
"""Largest rise or fall of the line through the measured times from the first to the last, as a share. Their mean is
then off from the middle by half of it, which is less than BIAS_TOLERANCE."""
DRIFT_CHANCE = 0.01
"""A rise or fall counts as a trend if times without one would show it in less than this share of cases."""
LEAST_FOR_DRIFT = 5
"""Fewer iterations leave too few degrees of freedom to tell a trend from chance."""
STEADY_MEANING = (
    "Later iterations would take a different time than the measured ones. Longer warm-ups were tried, up to 40 "
    "iterations in all: beyond that, set run.warmup and run.iterations."
)


@dataclass(frozen=True)
class Divided:
    """The number that bytes and rates were divided by, and the effect that was stated before the run."""

    number: int = 1
    #: Share of an iteration by which bursts, which are not divided, may move it.
    error: float = 0.0
    #: Error that the scenario allows (run.fidelity); None: DIVISION_TOLERANCE.
    fidelity: float | None = None

    @property
    def limit(self) -> float:
        """The largest error with which a time is a result."""
        return DIVISION_TOLERANCE if self.fidelity is None else self.fidelity

    @property
    def is_too_coarse(self) -> bool:
        """Whether the error is larger than the limit."""
        return self.number > 1 and self.error > self.limit


def division_check(divided: Divided) -> Check:
    """Checks that the error that was stated before the run is within the limit."""
    by = (
        "as the scenario allows (run.fidelity)"
        if divided.fidelity is not None
        else "of an iteration, unless run.fidelity allows more"
    )
    return Check(
        "division",
        f"by {divided.number}: up to {divided.error:.1%}",
        f"{divided.limit:.1%} {by}",
        not divided.is_too_coarse,
        "Bursts, which are not divided, may take too much of an iteration: use fewer hosts, a lower rate or larger "
        "messages.",
    )


def steady_check(times_s: Float64, warmup: int, ideal: FluidTimes | None) -> Check:
    """Checks that the measured iterations are those of the steady state on the ideal network, and that their own times
    have no trend.

    times_s: of all iterations, the warm-up included. ideal: the same plan on the ideal network; None leaves out what
    needs it. A run without warm-up measures the cold start, which may differ.
    """
    measured_s = times_s[warmup:]
    words, ok = [], True
    if warmup == 0:
        words.append("from the cold start, as warmup = 0 asks")
    elif ideal is not None:
        bias = window_bias(ideal, MeasuredIterations(warmup, len(measured_s)))
        ok = abs(bias) <= BIAS_TOLERANCE
        words.append(f"{bias:+.1%} from the ideal network's steady state")
    growth, chance = drift(measured_s)
    if len(measured_s) >= LEAST_FOR_DRIFT:
        drifts = abs(growth) > DRIFT_TOLERANCE and chance < DRIFT_CHANCE
        ok = ok and not drifts
        words.append(f"{growth:+.1%} from the first to the last measured one" + (", a trend" if drifts else ""))
    limit = f"within {BIAS_TOLERANCE:.0%}; no trend of more than {DRIFT_TOLERANCE:.0%}"
    return Check("steady state", "; ".join(words) or "not estimated", limit, ok, STEADY_MEANING)


def drift(times_s: Float64) -> tuple[float, float]:
    """Share by which a line through these times rises from the first to the last, and the probability of that without a
    trend.

    The chance is 1 for fewer than LEAST_FOR_DRIFT times, and for times that are all alike.
    """
    count = len(times_s)
    if count < LEAST_FOR_DRIFT or np.ptp(times_s) == 0:
        return 0.0, 1.0
    numbers = np.arange(count)
    growth = float(np.polyfit(numbers, times_s, 1)[0]) * (count - 1) / float(times_s.mean())
    correlation = float(np.corrcoef(numbers, times_s)[0, 1])
    if abs(correlation) >= 1:
        return growth, 0.0
    student = correlation * math.sqrt((count - 2) / (1 - correlation**2))
    return growth, float(2 * student_t.chance_below(count - 2, -abs(student)))

"""A run's iterations on an ideal network: the same ones, from the same cold start, as many and averaged as in the run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gradwire.analysis.fluid.estimate import FluidTimes, Jitter, SendEnds, estimate
from gradwire.analysis.fluid.paths import SpineOf
from gradwire.topo.fabric import Fabric
from gradwire.workloads.plan import Plan

LARGEST_PLAN_OPS = 2_000_000
"""An iteration of it takes 1 to 4 s (docs/estimate.md) and a GB of memory. Larger plans have no estimate beside their runs."""
MOST_OPS = 2 * LARGEST_PLAN_OPS
"""Ops that one estimate replays, over all its iterations; what comes after them is taken to go on as it ended."""


@dataclass(frozen=True)
class IdealRun:
    """What was run, to be estimated with and without effects that an ideal network does not have."""

    plan: Plan
    #: With its multicast groups.
    fabric: Fabric
    spine_of: SpineOf | None
    #: All iterations of the run, and how many at its beginning are not measured.
    iterations: int
    warmup: int
    #: The run's own rule.
    send_ends: SendEnds

    def of(self, send_ends: SendEnds) -> IdealRun:
        """The same with another rule."""
        return replace(self, send_ends=send_ends)

    def on(self, fabric: Fabric) -> IdealRun:
        """The same on another fabric of the same shape."""
        return replace(self, fabric=fabric)

    def iterations_s(
        self, *, latency_s: float = 0.0, jitter: Jitter | None = None, early_bytes: int = 0
    ) -> list[float]:
        """Time of each measured iteration; the effects are those of `estimate`. Raises InternalFault for a plan that gets stuck."""
        times = estimate(
            self.plan,
            self.fabric,
            self.spine_of,
            send_ends=self.send_ends,
            latency_s=latency_s,
            jitter=jitter,
            early_bytes=early_bytes,
            most_iterations=max(1, min(self.iterations, MOST_OPS // max(1, len(self.plan.ops)))),
        )
        return [iteration_s(times, number) for number in range(self.warmup, self.iterations)]

    def time_s(self, *, latency_s: float = 0.0, jitter: Jitter | None = None, early_bytes: int = 0) -> float:
        """Mean of the measured iterations."""
        return float(np.mean(self.iterations_s(latency_s=latency_s, jitter=jitter, early_bytes=early_bytes)))


def iteration_s(times: FluidTimes, number: int) -> float:
    """Time of an iteration, counted from the cold start; of one that was not computed, by the period, or else the steady mean."""
    if number < times.needed:
        return float(times.iterations_s[number])
    if not times.period:
        return times.iteration_s
    return float(times.iterations_s[times.needed - times.period + (number - times.needed) % times.period])

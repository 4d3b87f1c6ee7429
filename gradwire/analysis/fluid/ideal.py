"""A run's iterations on a network that is ideal but for one effect: the same ones as in the run, from the same cold
start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gradwire.analysis.fluid.copies import with_separate_copies
from gradwire.analysis.fluid.delays import Delays, own_delays
from gradwire.analysis.fluid.estimate import FluidTimes, Jitter, SendEnds, estimate
from gradwire.analysis.fluid.paths import Paths, SpineOf
from gradwire.analysis.fluid.steady import MeasuredIterations, window_times_s
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric

LARGEST_PLAN_OPS = 2_000_000
"""An iteration of it takes 1 to 4 s (docs/estimate.md), and a cause is looked for with up to thirty estimates of at
least two iterations. Where plans are larger, no cause is looked for."""
MOST_OPS = 2 * LARGEST_PLAN_OPS
"""Ops that one estimate replays, over all its iterations; later iterations are taken to repeat the last period."""


@dataclass(frozen=True)
class IdealRun:
    """A run that is estimated with and without effects that an ideal network does not have."""

    plan: Plan
    #: With its multicast groups.
    fabric: Fabric
    spine_of: SpineOf | None
    #: The iterations that the run measured.
    window: MeasuredIterations
    #: The run's own rule.
    send_ends: SendEnds
    #: Delays of its links, with the windows of its connections; None: the fabric's own, with windows that do not
    #: matter.
    delays: Delays | None = None
    #: Paths of the plan's messages, if they are not those of its ranks on the fabric.
    paths: Paths | None = None
    #: Mean in seconds of the iterations that count, where they are not those of the window: of one of several jobs, out
    #: of what a plan's ops take.
    counted: Callable[[Plan, FluidTimes, MeasuredIterations], float] | None = None

    def of(self, send_ends: SendEnds) -> IdealRun:
        """Returns this run with another rule for when a SEND ends."""
        return replace(self, send_ends=send_ends)

    def on(self, fabric: Fabric) -> IdealRun:
        """Returns this run on another fabric of the same shape."""
        return replace(self, fabric=fabric)

    def with_delays(self, delays: Delays) -> IdealRun:
        """Returns this run with these delays of links."""
        return replace(self, delays=delays)

    def with_queues_at_ports(self) -> IdealRun:
        """Returns this run on a network whose links have delays, and in which bytes that have left their host wait at
        slow ports further on."""
        delays = own_delays(self.fabric) if self.delays is None else self.delays
        return self.with_delays(replace(delays, waits_at_ports=True))

    def with_separate_copies(self) -> IdealRun:
        """Returns this run with copies of a multicast that pass their ports independently. Raises InternalFault as
        `paths_of` does."""
        plan, paths = with_separate_copies(self.plan, self.fabric, self.spine_of)
        return replace(self, plan=plan, paths=paths)

    def with_shorter_latencies(self, by_s: float) -> IdealRun:
        """Returns this run with software latencies of SENDs to other hosts that are shorter by `by_s` seconds; this run
        itself if none has any."""
        ops = self.plan.ops
        shorter = np.minimum(ops.duration_ns, round(by_s * 1e9)) * self.plan.is_remote()
        if not shorter.any():
            return self
        hurried = replace(ops, duration_ns=(ops.duration_ns - shorter).astype(ops.duration_ns.dtype))
        return replace(self, plan=replace(self.plan, ops=hurried))

    def time_apart_s(self, apart_s: Sequence[float]) -> float:
        """Mean of as many iterations, after one in which each worker begins so much later than the first."""
        window = MeasuredIterations(1, self.window.iterations)
        return replace(self, window=window).time_s(apart_s=apart_s)

    def iterations_s(self) -> npt.NDArray[np.float64]:
        """Time of each measured iteration. Raises InternalFault for a plan that gets stuck."""
        return window_times_s(self._times(), self.window)

    def time_s(
        self,
        *,
        latency_s: float = 0.0,
        jitter: Jitter | None = None,
        whole_bytes: int = 0,
        early_bytes: int = 0,
        apart_s: Sequence[float] = (),
    ) -> float:
        """Mean of the measured iterations; nan if none of a job is measured. The effects are those of `estimate`. Raises
        InternalFault for a plan that gets stuck."""
        times = self._times(latency_s, jitter, whole_bytes, early_bytes, apart_s)
        if self.counted is not None:
            return self.counted(self.plan, times, self.window)
        return float(window_times_s(times, self.window).mean())

    def _times(
        self,
        latency_s: float = 0.0,
        jitter: Jitter | None = None,
        whole_bytes: int = 0,
        early_bytes: int = 0,
        apart_s: Sequence[float] = (),
    ) -> FluidTimes:
        return estimate(
            self.plan,
            self.fabric,
            self.spine_of,
            send_ends=self.send_ends,
            latency_s=latency_s,
            jitter=jitter,
            whole_bytes=whole_bytes,
            early_bytes=early_bytes,
            delays=self.delays,
            apart_s=apart_s,
            most_iterations=max(1, min(self.window.end, MOST_OPS // max(1, len(self.plan.ops)))),
            paths=self.paths,
            with_ops=self.counted is not None,
        )

"""Iteration times of a plan on an ideal network.

Flows are fluid, ports are shared max-min fair under strict priority, and nothing is lost or late. docs/estimate.md
lists the effects that are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradwire.analysis.fluid.delays import Delays, own_delays
from gradwire.analysis.fluid.graph import Float64
from gradwire.analysis.fluid.paths import Paths, SpineOf, paths_of
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric

if TYPE_CHECKING:
    from gradwire.analysis.fluid.engine import ReplayOutcome

MOST_ITERATIONS = 40
LONGEST_PERIOD = 8
"""Iterations after which a schedule may repeat."""


@dataclass(frozen=True)
class Departure:
    """A SEND ends when its last byte has left the host."""


@dataclass(frozen=True)
class Buffered:
    """A SEND ends when no more than `unsent_bytes` of payload of its connection have not left the host."""

    unsent_bytes: int


SendEnds = Departure | Buffered


@dataclass(frozen=True)
class Jitter:
    """Every message of every iteration arrives late by a time that is drawn for it evenly from 0 to `most_s`."""

    most_s: float
    seed: int = 0


@dataclass(frozen=True)
class FluidTimes:
    """Result of an estimate. Iterations last from one end of the last worker to the next, as in a run."""

    #: Time of every iteration that was computed, from the cold start on.
    iterations_s: Float64
    #: Mean over the steady iterations.
    iteration_s: float
    #: After how many iterations the schedule repeats, op by op. 0: it did not as far as it was computed, and the mean
    #: is over the second half.
    period: int
    #: Start and end of each op of each iteration, shape (iterations, ops), where the replay came so far, else nan;
    #: None if not asked for.
    op_start_s: Float64 | None = None
    op_end_s: Float64 | None = None

    @property
    def needed(self) -> int:
        """Iterations that were computed."""
        return len(self.iterations_s)


def estimate(
    plan: Plan,
    fabric: Fabric,
    spine_of: SpineOf | None = None,
    *,
    send_ends: SendEnds = Departure(),
    latency_s: float = 0.0,
    jitter: Jitter | None = None,
    whole_bytes: int = 0,
    early_bytes: int = 0,
    delays: Delays | None = None,
    apart_s: Sequence[float] = (),
    most_iterations: int = MOST_ITERATIONS,
    with_ops: bool = False,
    paths: Paths | None = None,
    alike: float = 0.0,
) -> FluidTimes:
    """Replays a plan on an ideal network until its iterations repeat.

    spine_of: which spine a message takes; needed where there are several. with_ops: whether to keep the times of ops.
    An ideal network has none of these: latency_s is from a message's last byte leaving its host to its arrival, jitter
    comes on top, and early_bytes of payload have not left when a message arrives. A message with less payload than
    whole_bytes has as much less of both latency and jitter; delays are those of links, with the windows of
    connections; the fabric's own where they are left out. With jitter no iteration repeats another. apart_s: how much
    later than the first each worker begins iteration 0; all begin together where it is empty. paths: those of the plan's
    messages, where they are not those of its ranks on the fabric. alike: it also ends after the second iteration, or a
    later one, whose time differs from the one before by less than this share. Raises InternalFault for a plan that gets
    stuck.
    """
    from gradwire.analysis.fluid import engine  # noqa: PLC0415 (a second to import, which most commands do not need)

    unsent_bytes = float(send_ends.unsent_bytes) if isinstance(send_ends, Buffered) else 0.0
    paths = paths_of(plan, fabric, spine_of) if paths is None else paths
    delays = own_delays(fabric) if delays is None else delays
    late_share = np.minimum(1.0, plan.ops.size_bytes / whole_bytes) if whole_bytes else np.ones(len(plan.ops))
    latency_ns, jitter_ns = (
        late_share * (late_s * 1e9) if late_s else np.empty(0)
        for late_s in (latency_s, jitter.most_s if jitter else 0.0)
    )
    drawn = np.random.default_rng(jitter.seed).random(len(plan.ops)) if jitter else np.empty(0)
    longer_first_ns: Float64 = np.zeros(len(plan.ops) if len(apart_s) else 0)
    if len(apart_s):
        longer_first_ns[plan.begin_op] = np.asarray(apart_s) * 1e9
    lateness = engine.Lateness(latency_ns, jitter_ns, drawn, longer_first_ns)
    extent = engine.Extent(most_iterations, LONGEST_PERIOD, alike, with_ops)
    replayed = engine.replay_plan(
        plan, paths, lateness, delays, unsent_bytes=unsent_bytes, early_bytes=float(early_bytes), extent=extent
    )
    return _times(replayed)


def _times(replayed: ReplayOutcome) -> FluidTimes:
    progress, iterations, period = replayed
    ends_s = np.concatenate([progress.first_begin_ns, progress.results["end_ns"][:iterations]]) / 1e9
    averaged = period or max(1, iterations // 2)
    logs = [log[:iterations] / 1e9 if len(log) else None for log in (progress.op_start_ns, progress.op_end_ns)]
    return FluidTimes(
        iterations_s=np.diff(ends_s),
        iteration_s=float(ends_s[-1] - ends_s[-1 - averaged]) / averaged,
        period=period,
        op_start_s=logs[0],
        op_end_s=logs[1],
    )

"""How one machine's link is used over time, in intervals of 10 ms as P3 measures it (bwm-ng): Figs. 8 and 9."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.iterations import worker_ends_ns
from analysis.papers.evidence import StoredPoint
from analysis.papers.timelines import Float64, Spans, per_bin
from workloads.plan import OpKind

BIN_NS = 10_000_000
"""P3, section 5.1."""
IDLE_SHARE = 0.05
"""Of the line rate: below it an interval counts as idle in a direction."""

Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Utilisation:
    """Shares of a machine's line rate by interval, over the measured iterations. iteration: which of them an interval begins in."""

    outbound: Float64
    inbound: Float64
    iteration: npt.NDArray[np.int64]

    @property
    def idle(self) -> Bool:
        """Intervals in which neither direction is busy."""
        quiet: Bool = np.maximum(self.outbound, self.inbound) < IDLE_SHARE
        return quiet

    @property
    def overlap(self) -> float:
        """Of the intervals in which a direction is busy, the share in which both are."""
        both = np.minimum(self.outbound, self.inbound) >= IDLE_SHARE
        return float(both.sum() / (~self.idle).sum())

    @property
    def roughness(self) -> float:
        """Standard deviation of the outbound rate over its mean."""
        return float(self.outbound.std() / self.outbound.mean())

    def by_iteration(self, chosen: Bool) -> list[float]:
        """Of each iteration's intervals, the share that is chosen."""
        return [float(chosen[self.iteration == number].mean()) for number in np.unique(self.iteration)]


def utilisation(point: StoredPoint, host: int = 0) -> Utilisation:
    """What a host sent and received, from the op log: each message flows evenly from its first to its last byte at its receiver."""
    plan, log, record = point.plan(), point.log(), point.record()
    ends_ns = worker_ends_ns(plan, log, record.iterations).max(axis=1)[record.warmup - 1 :]
    edges_ns = np.arange(ends_ns[0], ends_ns[-1], BIN_NS)
    per_share = BIN_NS * point.fabric.rate_bps * point.fabric.goodput_share() / 8e9
    inbound, outbound = (
        per_bin(_crossing(point, host, inward=inward), edges_ns) / per_share for inward in (True, False)
    )
    iteration = np.searchsorted(ends_ns, edges_ns[:-1], side="right")
    return Utilisation(outbound, inbound, iteration.astype(np.int64))


def _crossing(point: StoredPoint, host: int, *, inward: bool) -> Spans:
    """Messages between this host and others, in one direction, in all iterations."""
    plan, log = point.plan(), point.log()
    ops = plan.ops
    to = plan.rank_host[ops.rank]
    source = np.full(len(ops), -1)
    receives = ops.kind == OpKind.RECV
    source[receives] = plan.rank_host[ops.rank[ops.message[receives]]]
    chosen = receives & (source != to) & ((to if inward else source) == host)
    rows = np.flatnonzero(chosen[log.op])
    return Spans(log.start_ns[rows], log.end_ns[rows], ops.size_bytes[log.op[rows]])

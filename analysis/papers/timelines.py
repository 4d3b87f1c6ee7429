"""What a rank received, sent and computed over time, out of the op log: for figures of utilisation and for how well things overlap.

A message is taken to flow evenly from its first to its last byte, so these curves are smoother than captured packets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agents.records import Int64, OpLog
from workloads.plan import Combine, OpKind, Plan

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spans:
    """When something went on, in nanoseconds of the run's clock, and how much of it: bytes, or nanoseconds of computation."""

    start_ns: Int64
    end_ns: Int64
    amount: Int64

    def within_ns(self, start_ns: int, end_ns: int) -> int:
        """How long, between two moments, at least one of the spans was on."""
        by_start = np.argsort(self.start_ns, kind="stable")
        starts = np.clip(self.start_ns[by_start], start_ns, end_ns)
        ends = np.clip(self.end_ns[by_start], start_ns, end_ns)
        covered = np.maximum.accumulate(np.concatenate([[start_ns], ends]))
        return int(np.maximum(ends - np.maximum(starts, covered[:-1]), 0).sum())


def received(plan: Plan, log: OpLog, rank: int, iteration: int, combine: Combine | None = None) -> Spans:
    """Data messages (no control) that reached a rank in an iteration; `combine` picks pulls (COPY) or pushes (ADD)."""
    ops = plan.ops
    chosen = (ops.kind == OpKind.RECV) & (ops.rank == rank) & (ops.chunk >= 0)
    if combine is not None:
        chosen &= ops.combine == combine
    return _spans(plan, log, chosen, iteration)


def sent(plan: Plan, log: OpLog, rank: int, iteration: int) -> Spans:
    """Data messages that a rank sent in an iteration, each from its first byte at its receiver to its last."""
    ops = plan.ops
    receives = (ops.kind == OpKind.RECV) & (ops.chunk >= 0)
    chosen = receives.copy()
    chosen[receives] = ops.rank[ops.message[receives]] == rank
    return _spans(plan, log, chosen, iteration)


def computed(plan: Plan, log: OpLog, rank: int, iteration: int) -> Spans:
    """Computation on a rank in an iteration."""
    ops = plan.ops
    chosen = (ops.kind == OpKind.COMPUTE) & (ops.rank == rank) & (ops.duration_ns > 0)
    return _spans(plan, log, chosen, iteration)


def _spans(plan: Plan, log: OpLog, chosen: npt.NDArray[np.bool_], iteration: int) -> Spans:
    rows = np.flatnonzero((log.iteration == iteration) & chosen[log.op])
    amount = np.where(plan.ops.kind[log.op[rows]] == OpKind.RECV, plan.ops.size_bytes[log.op[rows]], 0)
    busy_ns = np.where(amount > 0, amount, log.end_ns[rows] - log.start_ns[rows]).astype(np.int64)
    return Spans(log.start_ns[rows], log.end_ns[rows], busy_ns)


def begin_ns(plan: Plan, log: OpLog, rank: int, iteration: int) -> int:
    """When a worker began an iteration."""
    op = plan.begin_op[int(np.flatnonzero(plan.workers == rank)[0])]
    return int(log.start_ns[(log.iteration == iteration) & (log.op == op)][0])


def forward_wait_s(plan: Plan, log: OpLog, rank: int, iteration: int, forward_s: float) -> float:
    """How long a worker waits before and within its forward pass: for parameters, as nothing else stands in its way."""
    busy = computed(plan, log, rank, iteration)
    by_start = np.argsort(busy.start_ns, kind="stable")
    done_s = np.cumsum(busy.amount[by_start]) / 1e9
    last = int(np.searchsorted(done_s, forward_s * (1 - 1e-6)))
    return (int(busy.end_ns[by_start][last]) - begin_ns(plan, log, rank, iteration)) / 1e9 - forward_s


def per_bin(spans: Spans, edges_ns: Int64) -> Float64:
    """How much of the spans' amounts falls between each two edges; shape (len(edges) - 1,)."""
    # A span without length counts in the bin of its start: a small message arrives at once.
    ends = np.maximum(spans.end_ns, spans.start_ns + 1)
    rate = spans.amount / (ends - spans.start_ns)
    total = np.zeros(len(edges_ns) - 1)
    for start, end, per_ns in zip(spans.start_ns.tolist(), ends.tolist(), rate.tolist(), strict=True):
        overlap = np.minimum(edges_ns[1:], end) - np.maximum(edges_ns[:-1], start)
        total += np.maximum(overlap, 0) * per_ns
    return total

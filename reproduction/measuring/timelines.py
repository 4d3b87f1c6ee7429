"""What a rank received and computed over time, out of the op log: for how well things overlap, and what waits for what.

What a port carried over time is in captured packets alone (reproduction/measuring/captured.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Combine, OpKind, Plan
from gradwire.datatypes.records import Int64, OpLog


@dataclass(frozen=True)
class Spans:
    """Times during which something went on, in nanoseconds of the run's clock, and how much of it: bytes, or nanoseconds of computation."""

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

"""The quality of a worker's schedule: scheduling efficiency E, speedup bound S, straggler effect, and how well E
explains the step time.

Source: TicTac, sections 3.2 (Equations 1 to 4), 6.2 (regression) and 6.3 (stragglers). A worker's resources are its
serial streams and one channel per rank that it exchanges chunks with, for both directions together, as in gRPC
(section 5.1). Times are those of the run.

The paper leaves some definitions open. Here a transfer occupies its channel from the moment when it is handed over
until it has arrived; a resource's load is the time in which it is busy; and the makespan is the time in which any of
the worker's resources is busy, so that the schedule is not blamed for waiting for requests, other workers and the
barrier. So L <= makespan <= U, and E is in [0, 1], by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import Int64, OpLog
from gradwire.faults import InputFault, InternalFault

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Schedules:
    """Bounds and makespans of all workers' iterations, shape (iterations, workers), in seconds."""

    #: U: all resources one after the other.
    upper_s: Float64
    #: L: the busiest resource alone.
    lower_s: Float64
    #: The time that it took.
    makespan_s: Float64
    #: When the worker's last op ended, on the run's clock.
    finish_s: Float64

    @property
    def efficiency(self) -> Float64:
        """E: 1 for a perfect order, 0 for the worst (Equation 3)."""
        return scheduling_efficiency(self.upper_s, self.lower_s, self.makespan_s)

    @property
    def speedup(self) -> Float64:
        """S: how much faster than the worst schedule the best one can be at
        most; 1 is double the throughput (Equation 4)."""
        return speedup_bound(self.upper_s, self.lower_s)


def scheduling_efficiency(upper_s: Float64, lower_s: Float64, makespan_s: Float64) -> Float64:
    """E = (U - m) / (U - L); 1 where U = L, since all orders are equally
    good there. The arrays have the same shape."""
    room = upper_s - lower_s
    efficiency: Float64 = np.divide(upper_s - makespan_s, room, out=np.ones_like(room), where=room > 0)
    return efficiency


def speedup_bound(upper_s: Float64, lower_s: Float64) -> Float64:
    """S = (U - L) / L, for arrays of the same shape. Raises InternalFault if an L is 0: that worker did nothing."""
    if (lower_s <= 0).any():
        raise InternalFault("a worker computes and transfers nothing in an iteration; report this with the scenario")
    speedup: Float64 = (upper_s - lower_s) / lower_s
    return speedup


def schedules(plan: Plan, log: OpLog, iterations: int) -> Schedules:
    """Bounds and makespans of the first iterations, warm-up included. Raises InternalFault if a worker did nothing."""
    busy = _busy(plan, log, iterations)
    workers = len(plan.workers)
    results = [np.zeros((iterations, workers)) for _ in range(4)]
    cells = busy.iteration * workers + busy.worker
    by_cell = np.argsort(cells, kind="stable")
    busy_cells, first = np.unique(cells[by_cell], return_index=True)
    if len(busy_cells) != iterations * workers:
        raise InternalFault(
            f"the op log has work of {len(busy_cells)} workers' iterations instead of {iterations * workers}: the run "
            "ended early"
        )
    for cell, rows in zip(busy_cells.tolist(), np.split(by_cell, first[1:]), strict=True):
        values = _schedule_ns(busy.resource[rows], busy.start_ns[rows], busy.end_ns[rows])
        for result, value_ns in zip(results, values, strict=True):
            result.flat[cell] = value_ns / 1e9
    return Schedules(*results)


def straggler_effect(plan: Plan, log: OpLog, iterations: int) -> Float64:
    """The longest wait of any worker for the slowest one, as a share of the iteration's time; shape (iterations,).

    With a global barrier it is in [0, 1].
    """
    finish_s = schedules(plan, log, iterations).finish_s
    waited: Float64 = finish_s.max(axis=1) - finish_s.min(axis=1)
    return waited / iteration_times_s(plan, log, iterations)


def r_squared(efficiency: Float64, step_time_s: Float64) -> float:
    """Share of the step time's variance that a straight line over E explains (Fig. 12a: 0.98). Both arrays have shape
    (runs,).

    Raises InputFault for fewer than 3 runs, or if either array does not vary: then there is nothing to explain, or to
    explain it with.
    """
    if len(efficiency) < 3 or np.ptp(efficiency) == 0 or np.ptp(step_time_s) == 0:
        raise InputFault(
            f"R2 of step time over scheduling efficiency needs 3 or more runs that differ, not {len(efficiency)}; "
            "run more seeds with order = 'random'"
        )
    return float(np.corrcoef(efficiency, step_time_s)[0, 1] ** 2)


@dataclass(frozen=True)
class _Busy:
    """When resources of workers were busy: columns with one row per interval."""

    #: Iteration of the op.
    iteration: Int64
    #: Number of the worker.
    worker: Int64
    #: The other rank of a transfer; negative for a stream.
    resource: Int64
    #: Begin of the interval.
    start_ns: Int64
    #: End of the interval.
    end_ns: Int64


def _busy(plan: Plan, log: OpLog, iterations: int) -> _Busy:
    ops = plan.ops
    number = np.full(len(plan.rank_role), -1, dtype=np.int64)
    number[plan.workers] = np.arange(len(plan.workers))
    wanted = log.iteration < iterations
    streamed = np.isin(ops.kind, (OpKind.COMPUTE, OpKind.REDUCE)) & (ops.duration_ns > 0) & (number[ops.rank] >= 0)
    rows = np.flatnonzero(wanted & streamed[log.op])
    on_streams = _Busy(
        log.iteration[rows],
        number[ops.rank[log.op[rows]]],
        -1 - ops.lane[log.op[rows]].astype(np.int64),
        log.start_ns[rows],
        log.end_ns[rows],
    )
    parts = [on_streams, *_transfers(plan, log, np.flatnonzero(wanted), number)]
    return _Busy(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(_Busy)))


def _transfers(plan: Plan, log: OpLog, rows: Int64, number: Int64) -> Iterator[_Busy]:
    """Transfers of chunks to and from workers; a transfer between two workers keeps both busy."""
    ops, count = plan.ops, len(plan.ops)
    of_chunk = ops.chunk[log.op[rows]] >= 0
    recvs = rows[of_chunk & (ops.kind[log.op[rows]] == OpKind.RECV)]
    sends = rows[of_chunk & (ops.kind[log.op[rows]] == OpKind.SEND)]
    sent_as = (log.iteration[sends] * count + log.op[sends]).tolist()
    handed_ns = dict(zip(sent_as, log.start_ns[sends].tolist(), strict=True))
    message = ops.message[log.op[recvs]]
    received_as = (log.iteration[recvs] * count + message).tolist()
    start_ns = np.array([handed_ns[key] for key in received_as], dtype=np.int64)
    receiver, sender = ops.rank[log.op[recvs]].astype(np.int64), ops.rank[message].astype(np.int64)
    for rank, other in ((receiver, sender), (sender, receiver)):
        mine = number[rank] >= 0
        at = recvs[mine]
        yield _Busy(log.iteration[at], number[rank[mine]], other[mine], start_ns[mine], log.end_ns[at])


def _schedule_ns(resource: Int64, start_ns: Int64, end_ns: Int64) -> tuple[int, int, int, int]:
    """U, L, makespan and finish of one worker's iteration."""
    loads = [_covered_ns(start_ns[resource == key], end_ns[resource == key]) for key in np.unique(resource)]
    return sum(loads), max(loads), _covered_ns(start_ns, end_ns), int(end_ns.max())


def _covered_ns(start_ns: Int64, end_ns: Int64) -> int:
    """Length of the union of the intervals."""
    by_start = np.argsort(start_ns, kind="stable")
    start_ns, reached_ns = start_ns[by_start], np.maximum.accumulate(end_ns[by_start])
    before_ns = np.concatenate([start_ns[:1], reached_ns[:-1]])
    return int(np.maximum(reached_ns - np.maximum(start_ns, before_ns), 0).sum())

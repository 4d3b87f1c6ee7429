"""How good a worker's schedule was: scheduling efficiency E, speedup bound S, straggler effect, and how well E explains the step time.

Source: TicTac, sections 3.2 (Equations 1 to 4), 6.2 (regression) and 6.3 (stragglers). A worker's resources are its serial streams
and one channel a rank that it exchanges chunks with, both directions together, as gRPC has it (section 5.1). Times are the run's own.

Where the paper is silent: a transfer takes its channel from the moment when it is handed over until it has arrived; a resource's ops
take as long as it is busy; and the makespan is the time in which any of the worker's resources is busy, so that waiting for requests,
other workers and the barrier is no fault of the schedule. So L <= makespan <= U, and E lies in [0, 1], by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gradwire.agents.records import Int64, OpLog
from gradwire.analysis.iterations import iteration_times_s
from gradwire.faults import InputFault, InternalFault
from gradwire.workloads.plan import OpKind, Plan

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Schedules:
    """Of every iteration and worker, shape (iterations, workers), in seconds.

    upper_s: U, all resources one after the other. lower_s: L, the busiest resource alone. makespan_s: what it took.
    finish_s: when the worker's last op ended, on the run's clock.
    """

    upper_s: Float64
    lower_s: Float64
    makespan_s: Float64
    finish_s: Float64

    @property
    def efficiency(self) -> Float64:
        """E: 1 for a perfect order, 0 for the worst (Equation 3)."""
        return scheduling_efficiency(self.upper_s, self.lower_s, self.makespan_s)

    @property
    def speedup(self) -> Float64:
        """S: how much faster the best schedule could be than the worst, at most; 1 is double the throughput (Equation 4)."""
        return speedup_bound(self.upper_s, self.lower_s)


def scheduling_efficiency(upper_s: Float64, lower_s: Float64, makespan_s: Float64) -> Float64:
    """E = (U - m) / (U - L); 1 where U = L, since every order is as good there. Arrays of one shape."""
    room = upper_s - lower_s
    efficiency: Float64 = np.divide(upper_s - makespan_s, room, out=np.ones_like(room), where=room > 0)
    return efficiency


def speedup_bound(upper_s: Float64, lower_s: Float64) -> Float64:
    """S = (U - L) / L; arrays of one shape. Raises InternalFault where L is 0: nothing was done there."""
    if (lower_s <= 0).any():
        raise InternalFault("a worker computes and transfers nothing in an iteration; report this with the scenario")
    speedup: Float64 = (upper_s - lower_s) / lower_s
    return speedup


def schedules(plan: Plan, log: OpLog, iterations: int) -> Schedules:
    """Bounds and makespans of the first iterations, warm-up included. Raises InternalFault where a worker did nothing."""
    busy = _busy(plan, log, iterations)
    workers = len(plan.workers)
    results = [np.zeros((iterations, workers)) for _ in range(4)]
    cells = busy.iteration * workers + busy.worker
    by_cell = np.argsort(cells, kind="stable")
    found, first = np.unique(cells[by_cell], return_index=True)
    if len(found) != iterations * workers:
        raise InternalFault(
            f"the op log has work of {len(found)} workers' iterations instead of {iterations * workers}: the run ended early"
        )
    for cell, rows in zip(found.tolist(), np.split(by_cell, first[1:]), strict=True):
        values = _schedule_ns(busy.resource[rows], busy.start_ns[rows], busy.end_ns[rows])
        for result, value_ns in zip(results, values, strict=True):
            result.flat[cell] = value_ns / 1e9
    return Schedules(*results)


def straggler_effect(plan: Plan, log: OpLog, iterations: int) -> Float64:
    """The longest that any worker waits for the slowest, over the iteration's time; shape (iterations,).

    Behind a global barrier it lies in [0, 1].
    """
    finish_s = schedules(plan, log, iterations).finish_s
    waited: Float64 = finish_s.max(axis=1) - finish_s.min(axis=1)
    return waited / iteration_times_s(plan, log, iterations)


def r_squared(efficiency: Float64, step_time_s: Float64) -> float:
    """Share of the step time's variance that a straight line over E explains (Fig. 12a: 0.98). Shape (runs,) each.

    Raises InputFault where either does not vary: there is nothing to explain, or to explain it with.
    """
    if len(efficiency) < 3 or np.ptp(efficiency) == 0 or np.ptp(step_time_s) == 0:
        raise InputFault(
            f"R2 of step time over scheduling efficiency needs 3 or more runs that differ, not {len(efficiency)}; "
            "run more seeds with order = 'random'"
        )
    return float(np.corrcoef(efficiency, step_time_s)[0, 1] ** 2)


@dataclass(frozen=True)
class _Busy:
    """When resources of workers were busy, a row each interval.

    worker: its number. resource: the other rank of a transfer, or below 0 a stream.
    """

    iteration: Int64
    worker: Int64
    resource: Int64
    start_ns: Int64
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
    """Transfers of chunks to and from workers; one between two workers keeps both busy."""
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
    loads = [_covered_ns(start_ns[resource == one], end_ns[resource == one]) for one in np.unique(resource)]
    return sum(loads), max(loads), _covered_ns(start_ns, end_ns), int(end_ns.max())


def _covered_ns(start_ns: Int64, end_ns: Int64) -> int:
    """How long at least one of the intervals lasts."""
    by_start = np.argsort(start_ns, kind="stable")
    start_ns, reached_ns = start_ns[by_start], np.maximum.accumulate(end_ns[by_start])
    before_ns = np.concatenate([start_ns[:1], reached_ns[:-1]])
    return int(np.maximum(reached_ns - np.maximum(start_ns, before_ns), 0).sum())

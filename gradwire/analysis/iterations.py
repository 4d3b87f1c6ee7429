"""Iteration times from the op log: from barrier to barrier over all workers, and of each worker alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import Int64, OpLog
from gradwire.faults import InternalFault

Float64 = npt.NDArray[np.float64]


def iteration_times_s(plan: Plan, log: OpLog, iterations: int) -> Float64:
    """Time of each iteration in seconds, shape (iterations,). An iteration ends when its last worker does.

    Iteration 0 begins with the first start of any worker's begin op. Warm-up is included; the caller drops it.
    Raises InternalFault if the log lacks a worker's begin or end.
    """
    times: Float64 = np.diff(iteration_ends_ns(plan, log, iterations)) / 1e9
    return times


def iteration_ends_ns(plan: Plan, log: OpLog, iterations: int) -> Int64:
    """Boundaries of the iterations in nanoseconds of the run's clock, shape (iterations + 1,): iteration i lasts from i to i + 1.

    Raises InternalFault if the log lacks a worker's begin or end.
    """
    first = _times_of(log, log.start_ns, plan.begin_op, 1).min()
    bounds_ns: Int64 = np.concatenate([[first], worker_ends_ns(plan, log, iterations).max(axis=1)])
    return bounds_ns


def worker_times_s(plan: Plan, log: OpLog, iterations: int) -> Float64:
    """Time of each worker's iterations in seconds, shape (iterations, workers), from one of its ends to its next.

    A worker that stands out is a straggler. Raises InternalFault if the log lacks a worker's begin or end.
    """
    ends = worker_ends_ns(plan, log, iterations)
    times: Float64 = np.diff(ends, axis=0, prepend=_times_of(log, log.start_ns, plan.begin_op, 1)) / 1e9
    return times


def worker_ends_ns(plan: Plan, log: OpLog, iterations: int) -> Int64:
    """When each worker ended each iteration, in nanoseconds of the run's clock, shape (iterations, workers)."""
    return _times_of(log, log.end_ns, plan.end_op, iterations)


def _times_of(log: OpLog, times_ns: Int64, ops: Int64, iterations: int) -> Int64:
    """`times_ns` of `ops` in the first iterations, shape (iterations, len(ops))."""
    if iterations < 1 or len(ops) == 0:
        raise InternalFault(
            f"no iteration time: {iterations} iterations of {len(ops)} workers; report this with the plan"
        )
    column_of = np.full(int(max(log.op.max(initial=-1), ops.max())) + 1, -1, dtype=np.int64)
    column_of[ops] = np.arange(len(ops))
    wanted = (column_of[log.op] >= 0) & (log.iteration >= 0) & (log.iteration < iterations)
    table_ns: Int64 = np.full((iterations, len(ops)), -1, dtype=np.int64)
    table_ns[log.iteration[wanted], column_of[log.op[wanted]]] = times_ns[wanted]
    # Only a faulty plan lets two workers share an op; then one of them has no column and counts as missing here.
    missing = np.argwhere(table_ns < 0)
    if len(missing):
        iteration, worker = (int(index) for index in missing[0])
        raise InternalFault(
            f"the op log lacks op {int(ops[worker])} of worker {worker} in iteration {iteration}: "
            f"the run ended early or an agent's log is missing ({len(missing)} such gaps)"
        )
    return table_ns

"""Iteration times: from the op log, from captured packets alone, and before, during and after faults.

From the log they are those from barrier to barrier over all workers, or of each worker alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gradwire.analysis.packets.capture_files import Messages
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import FaultRecord, Int64, OpLog
from gradwire.faults import InternalFault

Float64 = npt.NDArray[np.float64]
_NEVER = np.iinfo(np.int64).max


def iteration_times_s(plan: Plan, log: OpLog, iterations: int) -> Float64:
    """Time of each iteration in seconds, shape (iterations,). An iteration ends when its last worker does.

    Iteration 0 begins with the first start of any worker's begin op. Warm-up is included; the caller drops it.
    Raises InternalFault if the log lacks a worker's begin or end.
    """
    times: Float64 = np.diff(iteration_ends_ns(plan, log, iterations)) / 1e9
    return times


def iteration_ends_ns(plan: Plan, log: OpLog, iterations: int) -> Int64:
    """Boundaries of the iterations in nanoseconds of the run's clock, shape (iterations + 1,): iteration i lasts from
    i to i + 1.

    Raises InternalFault if the log lacks a worker's begin or end.
    """
    first = times_of_ops_ns(log, log.start_ns, plan.begin_op, 1).min()
    bounds_ns: Int64 = np.concatenate([[first], worker_ends_ns(plan, log, iterations).max(axis=1)])
    return bounds_ns


def worker_times_s(plan: Plan, log: OpLog, iterations: int) -> Float64:
    """Time of each worker's iterations in seconds, shape (iterations, workers), from one of its ends to its next.

    A worker that stands out is a straggler. Raises InternalFault if the log lacks a worker's begin or end.
    """
    ends = worker_ends_ns(plan, log, iterations)
    times: Float64 = np.diff(ends, axis=0, prepend=times_of_ops_ns(log, log.start_ns, plan.begin_op, 1)) / 1e9
    return times


def worker_ends_ns(plan: Plan, log: OpLog, iterations: int) -> Int64:
    """Time at which each worker ended each iteration, in nanoseconds of the run's clock, shape (iterations,
    workers)."""
    return times_of_ops_ns(log, log.end_ns, plan.end_op, iterations)


def times_of_ops_ns(log: OpLog, times_ns: Int64, ops: Int64, iterations: int) -> Int64:
    """`times_ns`, a column of the log, of `ops` in the first iterations, shape (iterations, len(ops)).

    Raises InternalFault if the log lacks one of them.
    """
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


def worker_periods_s(messages: Messages, ranks: Int64, iterations: int) -> Float64:
    """Time of iterations 1, 2, ... of each of `ranks`, in seconds, shape (iterations - 1, ranks).

    A worker's iteration lasts from the first byte of the first message that it sends in the previous iteration to that
    of the first message in this one. The first message leaves when the worker's computation begins to yield (a
    gradient) or to need (a parameter). Nothing else of the worker waits in the network then, so the message keeps a
    constant distance to the end of the iteration. NaN if a rank sent no message.

    On ResNet-50 with four hosts at 1 Gbit/s, each iteration was within 0.22 % of the same worker's in the agents'
    logs, over ten strategies. The last message, or the mean over all messages, is less accurate (up to 5 % with P3),
    because it depends on how long the network took. A worker's iterations differ from those between barriers of all
    workers: without a barrier, as in P3, the mean of three iterations differs by 0.3 %, and by less for more
    iterations.
    """
    return _periods_s(messages.src_rank, messages.iteration, messages.first_ns, ranks, iterations)


def logged_periods_s(plan: Plan, log: OpLog, ranks: Int64, iterations: int) -> Float64:
    """Time of iterations 1, 2, ... of each of `ranks` by the first SENDs in the agents' logs, in seconds, shape
    (iterations - 1, ranks).

    Where a worker's iterations differ in length, those from first message to first message are not those from end to
    end. In a double tree of 16 workers, one took 48 ms from its cold start, and the next 84 ms.
    """
    sends = plan.is_remote()[log.op]
    src_rank = plan.ops.rank[log.op[sends]].astype(np.int64)
    return _periods_s(src_rank, log.iteration[sends].astype(np.int64), log.start_ns[sends], ranks, iterations)


def _periods_s(src_rank: Int64, iteration: Int64, begun_ns: Int64, ranks: Int64, iterations: int) -> Float64:
    first_ns: Int64 = np.full((iterations, len(ranks)), _NEVER)
    column = np.searchsorted(ranks, src_rank)
    mine = np.isin(src_rank, ranks) & (iteration >= 0) & (iteration < iterations)
    np.minimum.at(first_ns, (iteration[mine], column[mine]), begun_ns[mine])
    seconds = np.where(first_ns == _NEVER, np.nan, first_ns / 1e9)
    periods: Float64 = np.diff(seconds, axis=0)
    return periods


def timed_workers(plan: Plan, endpoint: int, messages: Messages) -> Int64:
    """The ranks whose iterations a port at `endpoint` shows, ascending: the workers there, or else all workers.

    Only workers that send something past the port count; empty if there are none.
    """
    seen = np.intersect1d(plan.workers, messages.src_rank)
    local = seen[plan.rank_host[seen] == endpoint]
    return local if len(local) else seen


def fault_lines(faults: Sequence[FaultRecord], edges_of_jobs: Mapping[str, Int64]) -> Iterator[str]:
    """A line for each fault that happened.

    edges_of_jobs: of each job, by its name, or "" where there is one: when iterations begin, and at last when the last
    one ends, in nanoseconds.
    """
    last_ns = max(edges_ns[-1] for edges_ns in edges_of_jobs.values())
    for record in faults:
        if record.begun_ns < 0:
            continue
        ended_ns = last_ns if record.ended_ns < 0 else record.ended_ns
        taken = [
            f"iterations{f' of job {job}' if job else ''} took {_around(edges_ns, record.begun_ns, ended_ns)}"
            for job, edges_ns in edges_of_jobs.items()
        ]
        fault = record.fault
        yield (
            f"fault.{fault.name}: {fault.what} from {record.begun_ns / 1e9:.6f} s to {ended_ns / 1e9:.6f} s; "
            f"{'; '.join(taken)}"
        )


def _around(edges_ns: Int64, begun_ns: int, ended_ns: int) -> str:
    """Iteration times before, during and after a fault, in words."""
    times_s = np.diff(edges_ns) / 1e9
    before, after = edges_ns[1:] <= begun_ns, edges_ns[:-1] >= ended_ns
    during = ~before & ~after
    spans = [(before, "before"), (after, "after")]
    if during.any():
        spans.insert(1, (during, f"during ({_numbers(during)})"))
    return ", ".join(f"{_span(times_s[chosen])} {when}" for chosen, when in spans if chosen.any())


def _span(times_s: Float64) -> str:
    low, high = f"{times_s.min():.4f}", f"{times_s.max():.4f}"
    return f"{low} s" if low == high else f"{low} to {high} s"


def _numbers(chosen: np.typing.NDArray[np.bool_]) -> str:
    numbers = np.flatnonzero(chosen)
    return f"iteration {numbers[0]}" if len(numbers) == 1 else f"iterations {numbers[0]} to {numbers[-1]}"

"""`gradwire ccl --packets`: rows of the table as packets in the machine, next to the estimate."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.iterations import times_of_ops_ns
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog
from gradwire.faults import InternalFault
from gradwire.workloads.trace_replay.compiler import GATE_LANE
from gradwire.workloads.trace_replay.single_call import ENDS, NAME


def call_times_s(plan: Plan, log: OpLog, iterations: int) -> list[float]:
    """Seconds that the call took in each iteration: the longest of all ranks, from the end of its barrier to the end of
    its part. Raises InternalFault for a plan of another strategy."""
    ranks = len(plan.workers)
    gates = np.flatnonzero(plan.ops.lane == GATE_LANE)[: 2 * ENDS * ranks]
    tasks = gates.reshape(-1, ranks)
    # Tasks in their order: barriers of all ranks, then their calls; first the ops that begin tasks, then those that end
    # them (workloads/trace_replay/compiler.py).
    if plan.name != NAME or len(tasks) != 2 * ENDS or list(gates) != list(range(len(gates))):
        raise InternalFault(f"a plan of '{plan.name}' has no single call behind a barrier")
    begins = times_of_ops_ns(log, log.end_ns, tasks[1], iterations)
    ends = times_of_ops_ns(log, log.end_ns, tasks[3], iterations)
    return [float(time) for time in (ends - begins).max(axis=1) / 1e9]

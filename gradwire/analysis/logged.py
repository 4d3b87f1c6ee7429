"""A run's op log as tables: times of every op by iteration, and the op before it on its stream or send queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradwire.analysis.faults.slow_workers import slow_times, slowed_end_ns
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import FaultRecord, Int64, OpLog
from gradwire.faults import InternalFault

MISSING = -1


@dataclass(frozen=True)
class LoggedOps:
    """Times in nanoseconds of the run's clock, shape (iterations, ops); MISSING for ops that were not carried out."""

    #: The plan that was run.
    plan: Plan
    #: Nominal start, as logged.
    nominal: Int64
    #: Start, as logged.
    start: Int64
    #: End, as logged.
    end: Int64
    #: When ops that wait for this one could go on: the end of a message, the nominal end of a timed op. Agents pass on nominal times so
    #: that waking up late never adds up (agents/interpreter.py).
    finish: Int64
    #: Flat indices (iteration * ops + op) in the order of the log.
    in_turn: Int64

    @staticmethod
    def of(plan: Plan, log: OpLog, faults: Sequence[FaultRecord] = ()) -> LoggedOps:
        """Sorts a log into tables. Raises InternalFault for an op that the plan does not have.

        faults: what became of the run's faults, of which slow workers end their work later than planned.
        """
        count, iterations = len(plan.ops), int(log.iteration.max(initial=-1)) + 1
        if len(log.op) and (log.op.max() >= count or log.op.min() < 0):
            raise InternalFault(
                f"the op log has op {int(log.op.max())}, and the plan has {count}: they are not from the same run"
            )
        flat = log.iteration * count + log.op
        columns = []
        for values in (log.nominal_start_ns, log.start_ns, log.end_ns):
            table = np.full(iterations * count, MISSING, np.int64)
            table[flat] = values
            columns.append(table.reshape(iterations, count))
        nominal, start, end = columns
        timed = (plan.ops.kind == OpKind.COMPUTE) | (plan.ops.kind == OpKind.REDUCE)
        finish = np.where(timed[None, :] & (end != MISSING), nominal + plan.ops.duration_ns[None, :], end)
        for rank, slow in slow_times(plan, faults).items():
            its = np.flatnonzero(timed & (plan.ops.rank == rank))
            work = np.broadcast_to(plan.ops.duration_ns[its], nominal[:, its].shape)
            finish[:, its] = np.where(end[:, its] != MISSING, slowed_end_ns(nominal[:, its], work, slow), MISSING)
        return LoggedOps(plan, nominal, start, end, finish, flat)

    @property
    def iterations(self) -> int:
        """Number of iterations with an entry in the log."""
        return len(self.end)

    @cached_property
    def _lane_before(self) -> Int64:
        """Flat index of the op before each one on its stream or send queue; MISSING if there is none."""
        ops = self.plan.ops
        streams = int(ops.lane.max(initial=0)) + 1
        stream = len(self.plan.queue_rank) + ops.rank.astype(np.int64) * streams + ops.lane
        place = np.where(ops.kind == OpKind.SEND, ops.lane.astype(np.int64), stream)
        serial = self.in_turn[(ops.kind != OpKind.RECV)[self.in_turn % len(ops)]]
        key = place[serial % len(ops)]
        # A rank's rows are logged in the order in which they ended, and a lane does one thing at a time.
        by_lane = serial[np.argsort(key, kind="stable")]
        lane = place[by_lane % len(ops)]
        before = np.full(self.end.size, MISSING, np.int64)
        same = lane[1:] == lane[:-1]
        before[by_lane[1:][same]] = by_lane[:-1][same]
        return before

    def lane_before(self, iteration: int, op: int) -> tuple[int, int] | None:
        """(iteration, op) of the op before this one on the same stream or send queue; None for the first."""
        flat = int(self._lane_before[iteration * len(self.plan.ops) + op])
        return None if flat == MISSING else divmod(flat, len(self.plan.ops))

    def dependencies(self, iteration: int, op: int) -> list[tuple[int, int]]:
        """(iteration, op) of everything that an op waited for at its own rank, as far as it was logged."""
        plan = self.plan
        edges = slice(int(plan.dep_start[op]), int(plan.dep_start[op + 1]))
        dependencies = zip(
            (iteration - plan.dep_lag[edges].astype(np.int64)).tolist(), plan.dep_op[edges].tolist(), strict=True
        )
        return [(at, on) for at, on in dependencies if at >= 0 and self.end[at, on] != MISSING]

    def latest_dependency_ns(self, iteration: int) -> Int64:
        """When the agent had acted on the last dependency of each op, shape (ops,); MISSING for ops without one."""
        plan = self.plan
        latest = np.full(len(plan.ops), MISSING, np.int64)
        waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start))
        for lag in (0, 1):
            chosen = plan.dep_lag == lag
            if iteration - lag >= 0:
                np.maximum.at(latest, waiting[chosen], self.end[iteration - lag][plan.dep_op[chosen]])
        return latest

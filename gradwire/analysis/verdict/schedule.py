"""When ops could have begun by their run's own log: after what they wait for, and after the op before them on their stream or queue.

Times are nanoseconds of the run's clock. Tables have the shape (iterations, ops); a flat index is iteration * ops + op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradwire.analysis.logged import LoggedOps
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import FaultRecord, Int64, OpLog

Bool = npt.NDArray[np.bool_]
NEVER = -1
"""Stands for the time of what an op does not have: dependencies, or an op before it. Times of the log are at least 0."""


@dataclass(frozen=True)
class Schedule:
    """A complete log beside its plan."""

    plan: Plan
    logged: LoggedOps
    #: How long before its logged end a SEND may have let others go on: the agent adds what its last packet takes on the line.
    last_packet_ns: int

    @staticmethod
    def of(plan: Plan, fabric: Fabric, log: OpLog, faults: Sequence[FaultRecord] = ()) -> Schedule:
        """Sorts a log that has each op once per iteration. Raises InternalFault for an op that the plan does not have."""
        return Schedule(plan, LoggedOps.of(plan, log, faults), last_packet_ns(fabric))

    @cached_property
    def is_send(self) -> Bool:
        """Of each op: whether it is a SEND."""
        return np.asarray(self.plan.ops.kind == OpKind.SEND)

    @cached_property
    def is_timed(self) -> Bool:
        """Of each op: whether it is a COMPUTE or REDUCE, which a timer ends."""
        kind = self.plan.ops.kind
        return np.asarray((kind == OpKind.COMPUTE) | (kind == OpKind.REDUCE))

    @cached_property
    def ready(self) -> Int64:
        """When the last of an op's dependencies ended, in nominal times where they have them; NEVER without dependencies."""
        return self._latest(self.logged.finish)

    @cached_property
    def ready_at_least(self) -> Int64:
        """The earliest that an agent could know this: a SEND's end is told before its last packet has left the line."""
        return self._latest(self.logged.finish - self.last_packet_ns * self.is_send)

    @cached_property
    def ready_at_most(self) -> Int64:
        """The latest that an agent knew this: when it had acted on the last of them."""
        return self._latest(self.logged.end)

    def _latest(self, ends: Int64) -> Int64:
        plan, latest = self.plan, np.full(ends.shape, NEVER, np.int64)
        waiting = np.flatnonzero(np.diff(plan.dep_start))
        if not len(waiting):
            return latest
        begins = plan.dep_start[waiting]
        for iteration in range(len(ends)):
            of_dependencies = ends[iteration][plan.dep_op]
            before = ends[iteration - 1][plan.dep_op] if iteration else np.full(len(plan.dep_op), NEVER)
            of_dependencies = np.where(plan.dep_lag == 1, before, of_dependencies)
            latest[iteration, waiting] = np.maximum.reduceat(of_dependencies, begins)
        return latest

    @cached_property
    def waits_for(self) -> npt.NDArray[np.uint64]:
        """Of each op: a number that ops with the same dependencies share, and others by an accident of one in 2^63."""
        plan = self.plan
        edge = plan.dep_op.astype(np.uint64) * np.uint64(2) + plan.dep_lag
        mixed = np.random.default_rng(0).integers(0, 1 << 63, 2 * len(plan.ops), np.uint64)[edge]
        waiting = np.flatnonzero(np.diff(plan.dep_start))
        total = np.zeros(len(plan.ops), np.uint64)
        if len(waiting):
            total[waiting] = np.add.reduceat(mixed, plan.dep_start[waiting])
        return total

    @cached_property
    def served(self) -> Int64:
        """Flat indices of all ops that hold a lane, lane by lane in the order in which it served them."""
        ops, logged = self.plan.ops, self.logged
        begin = np.where(self.is_timed, logged.nominal, logged.start).reshape(-1)
        holding = np.flatnonzero(np.tile(ops.kind != OpKind.RECV, logged.iterations))
        turn = np.empty(begin.size, np.int64)
        turn[logged.in_turn] = np.arange(begin.size)
        # A lane's ops that began and ended at the same time are in the order of the log, which has them as they ended.
        keys = (turn[holding], logged.finish.reshape(-1)[holding], begin[holding], self.lane[holding % len(ops)])
        return np.asarray(holding[np.lexsort(keys)])

    @cached_property
    def lane(self) -> Int64:
        """Of each op: a number that its send queue, or its rank's stream, has alone; RECVs have none that means anything."""
        ops = self.plan.ops
        stream = ops.rank.astype(np.int64) * (int(ops.lane.max(initial=0)) + 1) + ops.lane
        return np.where(self.is_send, ops.lane.astype(np.int64), len(self.plan.queue_rank) + stream)

    @cached_property
    def lane_free(self) -> Int64:
        """When the op before it on its lane had ended, in nominal times where it has them; NEVER for the first of a lane."""
        return self._of_the_one_before(self.logged.finish)

    def _of_the_one_before(self, ends: Int64) -> Int64:
        before = np.full(ends.size, NEVER, np.int64)
        lane = self.lane[self.served % len(self.plan.ops)]
        same = lane[1:] == lane[:-1]
        before[self.served[1:][same]] = ends.reshape(-1)[self.served[:-1][same]]
        return before.reshape(ends.shape)


def last_packet_ns(fabric: Fabric) -> int:
    """At most what the last packet of a message takes on a host's line: a full burst."""
    return int(fabric.gso_bytes / fabric.goodput_share() * 8e9 / min(fabric.host_bps)) + 1

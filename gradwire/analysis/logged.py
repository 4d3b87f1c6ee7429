"""A run's op log as tables: times of every op by iteration, the op before it on its stream or queue, and the messages
on the wire.

A log has four times for each message: when its first byte was handed to the kernel, when its last byte was, when its
header was read, and when its RECV ended. A message arrives when its RECV ends, unless the RECV waited for something
else. Then the arrival is taken to be its earliest possible time: when the last byte was handed over or the header was
read, whichever is later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.analysis.iterations import Float64
from gradwire.datatypes.plan import CONTROL_CLASS, FULL_SPEED, OpKind, Plan
from gradwire.datatypes.rank_transfers import rank_transfers
from gradwire.datatypes.records import FaultRecord, Int64, OpLog
from gradwire.faults import InternalFault

MISSING = -1
Bool = npt.NDArray[np.bool_]


class Slow(NamedTuple):
    """A time in which each nanosecond of work takes `factor` nanoseconds."""

    begin_ns: int
    #: Infinite if it has no end.
    end_ns: float
    factor: float


def slow_times(plan: Plan, faults: Sequence[FaultRecord]) -> dict[int, list[Slow]]:
    """The slow times of each rank that had any."""
    slow_of: dict[int, list[Slow]] = {}
    for record in faults:
        fault = record.fault
        if fault.kind == "slow-worker" and record.begun_ns >= 0:
            end_ns = record.begun_ns + fault.duration_ns if fault.duration_ns >= 0 else np.inf
            slow_of.setdefault(int(plan.workers[fault.worker]), []).append(Slow(record.begun_ns, end_ns, fault.value))
    return slow_of


def slowed_end_ns(begin_ns: Int64, work_ns: Int64, slow: Sequence[Slow]) -> Int64:
    """Times at which work ends that begins at `begin_ns` and would take `work_ns` undisturbed; arrays of one
    shape."""
    edges = sorted({edge for span in slow for edge in (span.begin_ns, span.end_ns) if np.isfinite(edge)})
    now, left = begin_ns.astype(np.float64), work_ns.astype(np.float64)
    for edge in edges:
        factor = _factor(now, slow)
        goes_on = (now < edge) & (now + left * factor > edge)
        left = np.where(goes_on, left - (edge - now) / factor, left)
        now = np.where(goes_on, edge, now)
    return np.rint(now + left * _factor(now, slow)).astype(np.int64)


def _factor(now: Float64, slow: Sequence[Slow]) -> Float64:
    factor = np.ones(now.shape)
    for span in slow:
        factor[(span.begin_ns <= now) & (now < span.end_ns)] *= span.factor
    return factor


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
    #: Times at which ops that wait for this one could go on: the end of a message, the nominal end of a timed op.
    #: Agents pass on nominal times so that waking up late never adds up (agents/interpreter.py).
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
        if plan.speed_permille != FULL_SPEED:
            # Its nominal end is in the log, and between those at full speed and at the lower one.
            slows = rank_transfers(plan).slows[None, :].astype(bool) & (end != MISSING)
            longest_ns = -(-plan.ops.duration_ns * FULL_SPEED // plan.speed_permille)
            finish = np.where(slows, np.clip(end, finish, nominal + longest_ns[None, :] + 1), finish)
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
        stream_of = np.where(ops.kind == OpKind.SEND, ops.lane.astype(np.int64), stream)
        serial = self.in_turn[(ops.kind != OpKind.RECV)[self.in_turn % len(ops)]]
        key = stream_of[serial % len(ops)]
        # A rank's rows are logged in the order in which they ended, and a lane does one thing at a time.
        by_lane = serial[np.argsort(key, kind="stable")]
        lane = stream_of[by_lane % len(ops)]
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
        """Time at which the agent had acted on the last dependency of each op, shape (ops,); MISSING for ops without
        one."""
        plan = self.plan
        latest = np.full(len(plan.ops), MISSING, np.int64)
        waiting = np.repeat(np.arange(len(plan.ops)), np.diff(plan.dep_start))
        for lag in (0, 1):
            chosen = plan.dep_lag == lag
            if iteration - lag >= 0:
                np.maximum.at(latest, waiting[chosen], self.end[iteration - lag][plan.dep_op[chosen]])
        return latest


@dataclass(frozen=True)
class WireMessages:
    """Messages in columns with one row per message and receiving host, without messages inside a host."""

    #: Iteration of the message.
    iteration: Int64
    #: Op of its SEND.
    send: Int64
    #: Op of its RECV.
    recv: Int64
    #: Sending host (an endpoint of the fabric).
    src: Int64
    #: Receiving host (an endpoint of the fabric).
    dst: Int64
    #: Equal for messages of the same send queue, class and receiver.
    connection: Int64
    #: Time at which the first byte was handed to the kernel.
    sent_ns: Int64
    #: Time at which the header was read.
    header_ns: Int64
    #: Time at which the last byte was taken from the kernel.
    arrived_ns: Int64
    #: Whether this is the message's first row: a multicast message leaves its sender once.
    first: Bool

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.send)

    def where(self, chosen: Bool) -> WireMessages:
        """The chosen rows."""
        return WireMessages(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def wire_messages(logged: LoggedOps) -> WireMessages:
    """All messages that crossed the network and whose both ends were logged."""
    plan, ops = logged.plan, logged.plan.ops
    host = plan.rank_host.astype(np.int64)
    recvs = np.flatnonzero(ops.kind == OpKind.RECV).astype(np.int64)
    sends = ops.message[recvs]
    src, dst = host[ops.rank[sends]], host[ops.rank[recvs]]
    # The ranks of a group on the same host share one copy.
    _, copies = np.unique(np.stack([sends, dst]), axis=1, return_index=True)
    kept = np.sort(copies[src[copies] != dst[copies]])
    recvs, sends, src, dst = recvs[kept], sends[kept], src[kept], dst[kept]
    _, connection = np.unique(np.stack([ops.lane[sends], dst, ops.traffic_class[sends]]), axis=1, return_inverse=True)
    first = np.zeros(len(sends), np.bool_)
    first[np.unique(sends, return_index=True)[1]] = True
    parts = []
    for iteration in range(logged.iterations):
        end = logged.end[iteration]
        logged_both = (end[recvs] != MISSING) & (end[sends] != MISSING)
        header = logged.start[iteration][recvs]
        recv_waited = logged.latest_dependency_ns(iteration)[recvs] == end[recvs]
        arrived = np.where(recv_waited, np.maximum(end[sends], header), end[recvs])
        columns = (
            np.full(len(recvs), iteration), sends, recvs, src, dst, connection.ravel(),
            logged.start[iteration][sends], header, arrived, first,
        )  # fmt: skip
        parts.append([column[logged_both] for column in columns])
    return WireMessages(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def data_of(logged: LoggedOps, messages: WireMessages) -> Bool:
    """Returns which rows carry data. Requests and tokens, which are control traffic, do not count as flows."""
    data: Bool = logged.plan.ops.traffic_class[messages.send] != CONTROL_CLASS
    return data

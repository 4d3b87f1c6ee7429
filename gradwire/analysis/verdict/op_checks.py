"""Checks that ops ran as the plan says, by the run's own log: after what they wait for, one at a time, in turn, and
for as long as planned.

Computation has nominal times, which agents compute and never read off a clock (agents/interpreter.py), so these
checks are exact to the nanosecond. Where an agent acts on what it sees, it may do so before a SEND's last packet has
left the line, and as late as its timers.

Times are nanoseconds of the run's clock. Tables have the shape (iterations, ops); a flat index is iteration * ops +
op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.plan_names import PlanNames
from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.plan import FULL_SPEED, Discipline, OpKind, Plan
from gradwire.datatypes.records import FaultRecord, Int64, OpLog, PointRecord
from gradwire.network.fabric import Fabric

Bool = npt.NDArray[np.bool_]
NEVER = -1
"""Stands for the time of what an op does not have: dependencies, or an
op before it. Times of the log are at least 0."""


@dataclass(frozen=True)
class LoggedSchedule:
    """A complete log and its plan."""

    plan: Plan
    logged: LoggedOps
    #: Time before its logged end at which a SEND may have let others go on: the agent adds the time of its last packet
    #: on the line.
    last_packet_ns: int

    @staticmethod
    def of(plan: Plan, fabric: Fabric, log: OpLog, faults: Sequence[FaultRecord] = ()) -> LoggedSchedule:
        """Sorts a log that has each op once per iteration. Raises
        InternalFault for an op that the plan does not have."""
        return LoggedSchedule(plan, LoggedOps.of(plan, log, faults), last_packet_ns(fabric))

    @cached_property
    def is_send(self) -> Bool:
        """Whether each op is a SEND, shape (ops,)."""
        return np.asarray(self.plan.ops.kind == OpKind.SEND)

    @cached_property
    def is_timed(self) -> Bool:
        """Whether each op is a COMPUTE or REDUCE, which a timer ends, shape (ops,)."""
        kind = self.plan.ops.kind
        return np.asarray((kind == OpKind.COMPUTE) | (kind == OpKind.REDUCE))

    @cached_property
    def ready(self) -> Int64:
        """Times at which the last of each op's dependencies ended, nominal if they have nominal times; NEVER without
        dependencies."""
        return self._latest(self.logged.finish)

    @cached_property
    def ready_at_least(self) -> Int64:
        """The earliest that an agent could know this: a SEND's end is
        reported before its last packet has left the line."""
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
        """Numbers that are equal for ops with the same dependencies, shape (ops,). Other ops have the same with a
        probability of one in 2^63."""
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
        """Numbers of each op's send queue or rank's stream, shape (ops,); those of RECVs have no meaning."""
        ops = self.plan.ops
        stream = ops.rank.astype(np.int64) * (int(ops.lane.max(initial=0)) + 1) + ops.lane
        return np.where(self.is_send, ops.lane.astype(np.int64), len(self.plan.queue_rank) + stream)

    @cached_property
    def lane_free(self) -> Int64:
        """Times at which the op before each on its lane had ended, nominal if it has a nominal time; NEVER for the
        first of a lane."""
        return self._of_the_one_before(self.logged.finish)

    def _of_the_one_before(self, ends: Int64) -> Int64:
        before = np.full(ends.size, NEVER, np.int64)
        lane = self.lane[self.served % len(self.plan.ops)]
        same = lane[1:] == lane[:-1]
        before[self.served[1:][same]] = ends.reshape(-1)[self.served[:-1][same]]
        return before.reshape(ends.shape)


def last_packet_ns(fabric: Fabric) -> int:
    """Largest time in nanoseconds of the last packet of a message on a host's line: that of a full burst."""
    return int(fabric.gso_bytes / fabric.goodput_share() * 8e9 / min(fabric.host_bps)) + 1


def op_checks(plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord) -> list[Check]:
    """All checks of this module, on a log that has each op of the plan once per iteration."""
    schedule = LoggedSchedule.of(plan, fabric, log, record.faults)
    late_ns = max((agent.lateness_ns_max for agent in record.agents), default=0)
    return [
        _dependencies(schedule),
        _one_at_a_time(schedule),
        _no_idling(schedule, late_ns),
        _queue_order(schedule),
        _durations(schedule, late_ns),
    ]


def _begin(schedule: LoggedSchedule) -> Int64:
    """Times at which ops began: nominally for timed ops; a message when it was handed over; a RECV when its message was
    complete."""
    logged, kind = schedule.logged, schedule.plan.ops.kind
    return np.where(schedule.is_timed, logged.nominal, np.where(kind == OpKind.RECV, logged.end, logged.start))


def _check(schedule: LoggedSchedule, name: str, too_much_ns: Int64, limit: str, meaning: str) -> Check:
    """Fails if any op's entry is above 0; names the op that is farthest from its limit."""
    wrong = int((too_much_ns > 0).sum())
    value = f"none of {too_much_ns.size} ops deviates"
    if wrong:
        iteration, op = divmod(int(too_much_ns.argmax()), too_much_ns.shape[1])
        names = PlanNames(schedule.plan)
        where = f"{names.rank(int(schedule.plan.ops.rank[op]))} in iteration {iteration}"
        words = f"{names.op(op)} at {where} by {too_much_ns.max() / 1e3:.3f} us"
        value = f"{wrong} of {too_much_ns.size} ops deviate, the worst being {words}"
    return Check(name, value, limit, not wrong, meaning)


def _dependencies(schedule: LoggedSchedule) -> Check:
    """No op begins before the ops that it waits for have ended.

    Exact for computation. A SEND or RECV may follow another SEND as soon as that has handed its last packet to the
    line, and a SEND takes its software latency first. What an agent notes as a SEND's readiness is exact again.
    """
    latency_ns = np.where(schedule.is_send, schedule.plan.ops.duration_ns, 0)
    early = np.where(schedule.is_timed, schedule.ready, schedule.ready_at_least + latency_ns) - _begin(schedule)
    early[schedule.ready == NEVER] = 0
    noted = np.where(schedule.is_send & (schedule.ready != NEVER), schedule.ready - schedule.logged.nominal, 0)
    return _check(
        schedule,
        "dependencies",
        np.maximum(early, np.abs(noted)),
        f"computation exactly, messages up to a packet of {schedule.last_packet_ns / 1e3:.1f} us before a SEND's end",
        "An op began before what it waits for had ended, so another plan was measured.",
    )


def _one_at_a_time(schedule: LoggedSchedule) -> Check:
    """Checks that no op begins before the one ahead of it on its stream or send queue has ended.

    Exact for computation, and for messages with a software latency. A message without one may be handed over when the
    last packet of the one before begins its time on the line.
    """
    latency_ns = np.where(schedule.is_send, schedule.plan.ops.duration_ns, 0)
    packet_ns = np.where(schedule.is_send & (latency_ns == 0), schedule.last_packet_ns, 0)
    before = schedule.lane_free
    early = np.where(before == NEVER, 0, before + latency_ns - packet_ns - _begin(schedule))
    return _check(
        schedule,
        "one at a time",
        early,
        f"one op per stream and one message per queue, except for one packet of {schedule.last_packet_ns / 1e3:.1f} us",
        "Two ops ran at once where the plan has them one after another: a stream computed, or a queue sent, twice as "
        "fast as it can.",
    )


def _no_idling(schedule: LoggedSchedule, late_ns: int) -> Check:
    """No op begins later than its dependencies and its stream or send queue allowed.

    Exact for computation. A message that has a software latency may be as late as the agents' latest timer, and any
    message by another where the log has the nominal end of a computation that slows down. What waits for nothing begins with the
    run, of which the log does not tell the moment.
    """
    slows = schedule.plan.speed_permille != FULL_SPEED
    latency_ns = np.where(schedule.is_send, schedule.plan.ops.duration_ns, 0)
    allowed = np.where(schedule.is_timed, schedule.ready, schedule.ready_at_most + latency_ns)
    before = np.where(schedule.lane_free == NEVER, NEVER, schedule.lane_free + latency_ns)
    timers = (latency_ns > 0).astype(np.int64) + (schedule.is_send & slows)
    late = _begin(schedule) - np.maximum(allowed, before) - late_ns * timers
    begins_with_the_run = schedule.ready == NEVER
    late[begins_with_the_run | (schedule.plan.ops.kind == OpKind.RECV)] = 0
    return _check(
        schedule,
        "idle streams and queues",
        late,
        f"none while an op is ready; messages with a latency up to {late_ns / 1e3:.1f} us, the latest timer",
        "An agent let an op wait for no reason given by the plan, so the iteration is longer than the plan's.",
    )


def _durations(schedule: LoggedSchedule, late_ns: int) -> Check:
    """Computation takes the profile's time: the log's end is at most the
    agents' latest timer after it, and never before it."""
    over = schedule.logged.end - schedule.logged.finish
    ends_early = np.where(schedule.is_timed, -over, schedule.logged.start - schedule.logged.end)
    beyond = np.maximum(ends_early, np.where(schedule.is_timed, over - late_ns, 0))
    return _check(
        schedule,
        "op durations",
        beyond,
        f"the plan's, noted at most {late_ns / 1e3:.1f} us later, the latest timer of the agents",
        "Computation took a different time than in its profile, or the agents reported another lateness than their "
        "logs.",
    )


def _queue_order(schedule: LoggedSchedule) -> Check:
    """Checks that streams and queues serve ops in the order of their discipline: no later op goes before an op that was
    waiting.

    An op counts as waiting from when its agent had acted on all its dependencies, and as served from when it held its
    lane: of a message with a software latency that is known up to a packet's time. Of what happened at the same
    nanosecond the log does not tell which was first, but ops that wait for the same begin to wait together.
    """
    flat, count = schedule.served, len(schedule.plan.ops)
    lane = schedule.lane[flat % count]
    rank = _rank_in_lane(schedule, flat)
    waited_from = schedule.ready_at_most.reshape(-1)[flat]
    position = np.arange(len(flat))
    counted = _is_counted(schedule)[flat % count]
    # In a queue that counts, even what is not ready yet goes first.
    first_beside = np.where(
        counted, np.searchsorted(lane, lane), _after(lane, _first_pick(schedule, flat), waited_from)
    )
    wrong = _range_maximum(rank, np.minimum(first_beside, position), position) > rank
    wrong |= _behind_a_sibling(schedule, flat, rank)
    overtaken = np.zeros(schedule.logged.end.size, np.int64)
    overtaken[flat[wrong]] = np.maximum(schedule.logged.start.reshape(-1)[flat[wrong]] - waited_from[wrong], 1)
    return _check(
        schedule,
        "queue order",
        overtaken.reshape(schedule.logged.end.shape),
        "no op overtaken by one that should be served after it",
        "A queue did not keep its discipline, so messages or computation came in a different order than the "
        "strategy's.",
    )


def _behind_a_sibling(schedule: LoggedSchedule, flat: Int64, rank: Int64) -> Bool:
    """Returns whether each op of `flat` was served after one that waits for the same on the same lane and should come
    after it."""
    count, lane = len(schedule.plan.ops), schedule.lane
    iteration, op = np.divmod(flat, count)
    waits_for = schedule.waits_for[op]
    by_rank = np.lexsort((rank, waits_for, iteration, lane[op]))
    one, other = by_rank[:-1], by_rank[1:]
    siblings = (lane[op[one]] == lane[op[other]]) & (iteration[one] == iteration[other])
    siblings &= waits_for[one] == waits_for[other]
    behind = np.zeros(len(flat), np.bool_)
    behind[one[siblings & (one > other)]] = True
    return behind


def _is_counted(schedule: LoggedSchedule) -> Bool:
    queue = np.where(schedule.is_send, schedule.plan.ops.lane, 0)
    if not len(schedule.plan.queue_discipline):
        return np.zeros(len(queue), np.bool_)
    return np.asarray(schedule.is_send & (schedule.plan.queue_discipline[queue] == Discipline.COUNTER))


def _rank_in_lane(schedule: LoggedSchedule, flat: Int64) -> Int64:
    """The place that each op has by its lane's discipline (agents/op_state.py): lower goes first."""
    ops = schedule.plan.ops
    iteration, op = np.divmod(flat, len(ops))
    ready, order, kind = schedule.ready.reshape(-1)[flat], ops.order[op], ops.kind[op]
    is_fifo = np.zeros(len(flat), np.bool_)
    sends = kind == OpKind.SEND
    is_fifo[sends] = schedule.plan.queue_discipline[ops.lane[op[sends]]] == Discipline.FIFO
    by_ready = (kind == OpKind.COMPUTE) | is_fifo
    primary = np.where(by_ready, ready, np.where(sends, iteration, order))
    secondary = np.where(kind == OpKind.REDUCE, ready, order)
    rank = np.empty(len(flat), np.int64)
    rank[np.lexsort((op, iteration, secondary, primary))] = np.arange(len(flat))
    return rank


def _first_pick(schedule: LoggedSchedule, flat: Int64) -> Int64:
    """The earliest moment at which each op of `flat` can have been chosen."""
    at_least = np.maximum(schedule.ready_at_least, schedule.lane_free - schedule.last_packet_ns)
    has_latency = schedule.is_send & (schedule.plan.ops.duration_ns > 0)
    picked: Int64 = np.where(has_latency, at_least, schedule.logged.start).reshape(-1)[flat]
    return np.maximum(picked, 0)


def _after(lane: Int64, picked: Int64, times: Int64) -> Int64:
    """For each entry, the first position of its lane that was picked after its time. `lane` is sorted."""
    span = int(max(picked.max(initial=0), times.max(initial=0))) + 2
    _, dense = np.unique(lane, return_inverse=True)
    # What is picked next is picked no earlier, even where it is only known up to a packet.
    along = np.maximum.accumulate(dense * span + picked)
    return np.searchsorted(along, dense * span + times, side="right")


def _range_maximum(values: Int64, begin: Int64, end: Int64) -> Int64:
    """The greatest of values[begin:end] for each pair, or -1 where that is empty.

    Two ranges of the same power of two cover any range. The maxima of one power are made from those of the power
    before, so only one table of them is held.
    """
    greatest = np.full(len(values), -1, np.int64)
    length = end - begin
    power = np.where(length > 0, np.frexp(np.maximum(length, 1).astype(np.float64))[1] - 1, -1)
    table = values
    for exponent in range(int(power.max(initial=-1)) + 1):
        if exponent:
            half = 1 << (exponent - 1)
            table = np.maximum(table[:-half], table[half:])
        mine = np.flatnonzero(power == exponent)
        greatest[mine] = np.maximum(table[begin[mine]], table[end[mine] - (1 << exponent)])
    return greatest

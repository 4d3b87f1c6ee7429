"""The messages of collectives in whole columns: buckets or calls that share a schedule, with all dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import CONTROL_CLASS, LATENCY_LANE, Combine, Int64, OpKind, Role
from gradwire.network.fabric import MAX_BANDS
from gradwire.workloads.builder import PlanBuilder, nanoseconds
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.transfer_counts import transfer_ops
from gradwire.workloads.job import Costs

REDUCE_LANE, GATE_LANE = 1, 3
"""Streams next to the one that computes: adding, and one in which no time is spent."""
LATENCY_LANES = 1000
"""Streams of a rank from `LATENCY_LANE` on, which messages that come to it take in turn: more than are on their way at a
time."""


@dataclass(frozen=True)
class WorkerQueues:
    """The hosts of ranks, and their send queues: one to other hosts, and one inside the host, whoever it is for."""

    #: Host of each rank.
    hosts: Int64
    #: Queue to ranks on other hosts, by sender and receiver.
    network: Int64
    #: Queue of each rank to ranks on its own host.
    inside: Int64

    def queues(self, src: Int64, dst: Int64, channel: Int64 | None, traffic_class: Int64) -> Int64:
        """The queue of each message."""
        del channel, traffic_class
        return np.where(self.hosts[src] == self.hosts[dst], self.inside[src], self.network[src, dst])


class Connections:
    """The hosts of ranks, and a send queue for each pair of ranks, channel and traffic class.

    A queue is made when it is first used. Neither a receiver that is busy nor a class holds up another. What a rank
    multicasts goes by the queue to itself, which nothing else uses.
    """

    def __init__(self, builder: PlanBuilder, hosts: Int64) -> None:
        self.hosts = hosts
        self._builder = builder
        self._queues: dict[int, int] = {}

    def queues(self, src: Int64, dst: Int64, channel: Int64 | None, traffic_class: Int64) -> Int64:
        """The queue of each message."""
        ranks = len(self.hosts)
        ring = np.zeros(len(src), np.int64) if channel is None else channel
        kind = ring * MAX_BANDS + np.maximum(traffic_class, 0)
        distinct, index = np.unique((kind * ranks + src) * ranks + dst, return_inverse=True)
        for key in distinct.tolist():
            if key not in self._queues:
                self._queues[key] = self._builder.queue(key // ranks % ranks)
        queue: Int64 = np.array([self._queues[key] for key in distinct.tolist()], np.int64)[index]
        return queue

    def channels(self) -> Int64:
        """The channel of each of the plan's queues up to its last one; 0 for those that are of none."""
        of_queue = np.zeros(max(self._queues.values(), default=-1) + 1, np.int64)
        for key, queue in self._queues.items():
            of_queue[queue] = key // len(self.hosts) ** 2 // MAX_BANDS
        return of_queue


@dataclass(frozen=True)
class BucketOps:
    """Buckets, or calls, that share a schedule: arrays with an axis for buckets and, where said, a second one."""

    #: Place in the order of communication, by which messages that are ready together leave.
    number: Int64
    #: Layer that the bucket belongs to.
    layer: Int64
    #: By rank of the schedule: the op after which the bucket may be reduced there.
    started: Int64
    #: By rank of the schedule: the op before which it must be.
    done: Int64
    #: By part: its size; 0 where the bucket has no such part.
    size_bytes: Int64
    #: By part: its chunk; -1 where the bucket has no such part, and for tokens.
    chunk: Int64
    #: By rank of the schedule: the plan's rank. None: the same.
    members: Int64 | None = None
    #: Whether a rank takes in nothing, not even to pass it on, before the bucket has started there; otherwise only
    #: adding waits for that.
    taken_in_late: bool = False
    #: Numbers of `order` that each place in the order of communication has; None: as many as the schedule has steps.
    orders: int | None = None
    #: Stream on which phases begin.
    gate_lane: int = GATE_LANE
    #: Traffic class of each one's messages; None: 0. Tokens have that of control messages.
    traffic_class: Int64 | None = None


def add_gates(builder: PlanBuilder, durations_s: Sequence[float], ranks: int, lane: int) -> Int64:
    """Adds a COMPUTE op for each duration and rank, shape (durations, ranks); among those ready together, earlier rows
    go first."""
    durations_ns = nanoseconds(np.array(durations_s, np.float64))
    rows = len(durations_ns)
    ops = builder.add_columns(
        OpKind.COMPUTE,
        rows * ranks,
        rank=np.tile(np.arange(ranks), rows),
        duration_ns=np.repeat(durations_ns, ranks),
        order=np.repeat(np.arange(rows), ranks),
        lane=lane,
    )
    return np.array(ops, np.int64).reshape(rows, ranks)


def add_switches(builder: PlanBuilder, hosts: Int64, switches: Switches | None, sets: int = 1) -> Int64:
    """Adds so many sets of ranks of switches, behind those of all workers; returns the host of each rank."""
    endpoints = switches.endpoints * sets if switches is not None else ()
    for endpoint in endpoints:
        builder.rank(Role.AGGREGATOR, endpoint)
    return np.concatenate([hosts, np.array(endpoints, np.int64)])


class BucketTransfers:
    """The messages of the buckets that share a schedule: one for each bucket and row whose part is not empty."""

    def __init__(
        self,
        builder: PlanBuilder,
        costs: Costs,
        workers: WorkerQueues | Connections,
        schedule: Schedule,
        buckets: BucketOps,
    ) -> None:
        self.builder, self.costs, self.workers = builder, costs, workers
        self.schedule, self.buckets = schedule, buckets
        builder.expect(transfer_ops(schedule, buckets.size_bytes, costs, buckets.started.shape[1]))
        self.exists: npt.NDArray[np.bool_] = buckets.size_bytes[:, schedule.part] > 0
        self.bucket, self.row = np.nonzero(self.exists)
        self.size = buckets.size_bytes[self.bucket, schedule.part[self.row]]
        self.chunk = buckets.chunk[self.bucket, schedule.part[self.row]]
        self.number = buckets.number[self.bucket]
        self.src, self.dst = (self._ranks(of_rows[self.row]) for of_rows in (schedule.src, schedule.dst))
        self.inside = workers.hosts[self.src] == workers.hosts[self.dst]
        #: The ops between which a bucket is reduced, by rank of the schedule; -1 for switches, which wait for nothing
        #: but messages.
        self.started, self.done = (_with_switches(ops, schedule.ranks) for ops in (buckets.started, buckets.done))

    def build(self) -> None:
        """Adds the ops and all that they wait for."""
        sends, recvs = self._messages()
        send_of, recv_of = self._table(sends), self._table(recvs)
        arrival_of = self._table(self._additions(self._latencies(recvs)))
        phase_gates = self._phase_gates(send_of, arrival_of)
        self._order_sends(send_of, arrival_of, phase_gates)
        self._order_arrivals(recv_of, send_of)
        self._finish(send_of, arrival_of)

    def _ranks(self, of_schedule: Int64) -> Int64:
        members = self.buckets.members
        return of_schedule if members is None else members[self.bucket, of_schedule]

    def _table(self, ops: Int64) -> Int64:
        """Op numbers by bucket and row, shape (buckets, rows); -1 where there is none."""
        table = np.full(self.exists.shape, -1, np.int64)
        table[self.bucket, self.row] = ops
        return table

    def _pairs(self, rows: Int64) -> tuple[Int64, Int64]:
        """Returns the transfers of these rows that exist: their buckets, and their indices into `rows`."""
        bucket, index = np.nonzero(self.exists[:, rows])
        return bucket, index

    def _messages(self) -> tuple[Int64, Int64]:
        """The SEND and the RECV of each transfer. Copies of a multicast have one SEND in common."""
        schedule, row, workers, costs = self.schedule, self.row, self.workers, self.costs
        src, dst = self.src, self.dst
        lead, led_by = self._leads()
        latency_s = np.where(self._overlaps, 0.0, self._latency_s)
        shared_bytes_per_s = costs.local_bytes_per_s / schedule.rings
        inside_bytes_per_s = shared_bytes_per_s if schedule.hops is None else schedule.hops.inside_bytes_per_s
        link_s = np.where(self.inside, self.size / inside_bytes_per_s, 0.0)
        tokens = schedule.combine[row] == Combine.CONTROL
        of_bucket = 0 if self.buckets.traffic_class is None else self.buckets.traffic_class[self.bucket]
        traffic_class = np.where(tokens, CONTROL_CLASS, of_bucket)
        first = self.builder.add_columns(OpKind.SEND, 0).start
        columns: dict[str, Any] = {
            "size_bytes": self.size,
            "chunk": self.chunk,
            "message": first + led_by,
            "traffic_class": traffic_class,
            "layer": self.buckets.layer[self.bucket],
        }
        channel = None if schedule.channel is None else schedule.channel[row][lead]
        peer, grouped = self._receivers(lead, led_by)
        # Inside a machine, what a library's channel sends up and down takes the same links.
        to_itself = np.logical_or(grouped, self.inside[lead] & (schedule.hops is not None))
        sends = self.builder.add_columns(
            OpKind.SEND,
            len(lead),
            rank=src[lead],
            peer=peer,
            group=grouped,
            lane=workers.queues(src[lead], np.where(to_itself, src[lead], dst[lead]), channel, traffic_class[lead]),
            duration_ns=nanoseconds(latency_s + link_s)[lead],
            order=(self.number * (self.buckets.orders or max(schedule.steps, 1)) + schedule.step[row])[lead],
            **{name: values[lead] for name, values in columns.items()},
        )
        recvs = self.builder.add_columns(
            OpKind.RECV, len(row), rank=dst, peer=src, combine=schedule.combine[row], **columns
        )
        return np.array(sends, np.int64)[led_by], np.array(recvs, np.int64)

    @property
    def _latency_s(self) -> npt.NDArray[np.float64]:
        """Returns the latency of each transfer, in seconds."""
        costs, hops = self.costs, self.schedule.hops
        if hops is not None:
            return np.where(self.inside, hops.inside_s, hops.between_s)
        latency_s = np.where(self.inside, costs.latency_s(inside=True), costs.message_latency_s)
        found: npt.NDArray[np.float64] = latency_s * self.schedule.opens[self.row]
        return found

    @property
    def _overlaps(self) -> npt.NDArray[np.bool_]:
        """Returns, for each transfer, whether its latency passes while its sender's next ones follow; not so to
        switches."""
        if self.schedule.hops is None:
            return np.zeros(len(self.row), np.bool_)
        at_worker: npt.NDArray[np.bool_] = self.started[self.bucket, self.schedule.dst[self.row]] >= 0
        return at_worker

    def _latencies(self, recvs: Int64) -> Int64:
        """The ops at which messages are there: their RECVs or, where latencies overlap, the latency after them."""
        duration_ns = nanoseconds(self._latency_s)
        late = np.flatnonzero(self._overlaps & (duration_ns > 0))
        if not len(late):
            return recvs
        ops = self.builder.add_columns(
            OpKind.COMPUTE,
            len(late),
            rank=self.dst[late],
            duration_ns=duration_ns[late],
            order=self.number[late],
            lane=LATENCY_LANE + turns(self.dst[late]) % LATENCY_LANES,
        )
        self.builder.depend_columns(np.array(ops), recvs[late])
        there = recvs.copy()
        there[late] = ops
        return there

    def _leads(self) -> tuple[Int64, Int64]:
        """Transfers that have a separate SEND, the first of each multicast among them; and for each transfer,
        which of these it has."""
        count = len(self.row)
        copies = self.schedule.copies
        if copies is None or not (copies >= 0).any():
            return np.arange(count), np.arange(count)
        of = copies[self.row]
        together = count + self.bucket * (int(copies.max()) + 1) + of
        _, lead, led_by = np.unique(
            np.where(of < 0, np.arange(count), together), return_index=True, return_inverse=True
        )
        return lead, led_by

    def _receivers(self, lead: Int64, led_by: Int64) -> tuple[Int64, Int64]:
        """The rank or multicast group that each SEND is for, and 1 where it is a group."""
        peer, grouped = self.dst[lead].copy(), np.zeros(len(lead), np.int64)
        copies = self.schedule.copies
        if copies is None:
            return peer, grouped
        by_send = np.argsort(led_by, kind="stable")
        ends = np.cumsum(np.bincount(led_by, minlength=len(lead)))
        for send in np.flatnonzero(copies[self.row[lead]] >= 0).tolist():
            first = ends[send - 1] if send else 0
            peer[send] = self.builder.group_of(self.dst[by_send[first : ends[send]]].tolist())
            grouped[send] = 1
        return peer, grouped

    def _additions(self, recvs: Int64) -> Int64:
        """The ops at which messages have taken effect: their RECVs, or REDUCEs behind them where adding takes time."""
        rate = self.costs.aggregation_bytes_per_s
        at_worker = self.started[self.bucket, self.schedule.dst[self.row]] >= 0
        adding = np.flatnonzero((self.schedule.combine[self.row] == Combine.ADD) & at_worker)
        if np.isinf(rate) or not len(adding):
            return recvs
        reduces = self.builder.add_columns(
            OpKind.REDUCE,
            len(adding),
            rank=self.dst[adding],
            duration_ns=nanoseconds(self.size[adding] / rate),
            size_bytes=self.size[adding],
            chunk=self.chunk[adding],
            order=self.number[adding],
            lane=REDUCE_LANE,
        )
        self.builder.depend_columns(np.array(reduces), recvs[adding])
        effects = recvs.copy()
        effects[adding] = reduces
        return effects

    def _phase_gates(self, send_of: Int64, arrival_of: Int64) -> list[Int64]:
        """An op for each phase, bucket and rank that the phase starts with: all that the rank did in the phase before
        is done."""
        schedule = self.schedule
        gates = [self._first_gate()]
        for phase in range(1, schedule.phases):
            gate = self._gate_of_each_member()
            here = gate >= 0
            self.builder.depend_columns(gate[here], gates[-1][here])
            rows = np.flatnonzero(schedule.phase == phase - 1)
            bucket, index = self._pairs(rows)
            row = rows[index]
            self.builder.depend_columns(gate[bucket, schedule.dst[row]], arrival_of[bucket, row])
            self.builder.depend_columns(gate[bucket, schedule.src[row]], send_of[bucket, row])
            gates.append(gate)
        return gates

    def _first_gate(self) -> Int64:
        """The op after which a rank sends: what starts a bucket there, or a call's own preparation behind it."""
        hops = self.schedule.hops
        if hops is None or not hops.base_s or not len(self.schedule.rows):
            return self.started
        gate = self._gate_of_each_member(hops.base_s)
        here = gate >= 0
        self.builder.depend_columns(gate[here], self.started[here])
        return gate

    def _gate_of_each_member(self, duration_s: float = 0.0) -> Int64:
        """An op for each bucket and rank that takes part; -1 for other ranks. It takes no time, or that of a latency."""
        gate = np.full(self.started.shape, -1, np.int64)
        members = np.unique(self.schedule.rows[:, :2])
        rank = members if self.buckets.members is None else self.buckets.members[:, members]
        count = len(gate)
        shape = (count, len(members))
        ops = self.builder.add_columns(
            OpKind.COMPUTE,
            count * len(members),
            rank=np.broadcast_to(rank, shape).ravel(),
            order=np.repeat(np.arange(count), len(members)),
            lane=LATENCY_LANE if duration_s else self.buckets.gate_lane,
            duration_ns=round(duration_s * 1e9),
        )
        gate[:, members] = np.array(ops, np.int64).reshape(shape)
        return gate

    def _order_sends(self, send_of: Int64, arrival_of: Int64, phase_gates: list[Int64]) -> None:
        """A rank passes on what has arrived, or starts with what it has when the phase starts.

        What arrives in a later phase is added to what the rank has from the phase before, which another rank may not
        have waited for.
        """
        schedule, depend = self.schedule, self.builder.depend_columns
        gates = np.stack(phase_gates)
        passed, starting = schedule.order.passed_on, schedule.order.starting
        if schedule.after is not None:
            later, earlier = schedule.after.T
            bucket, pair = np.nonzero(self.exists[:, later] & self.exists[:, earlier])
            depend(send_of[bucket, later[pair]], arrival_of[bucket, earlier[pair]])
        if schedule.in_turn is not None:
            later, earlier = schedule.in_turn.T
            bucket, pair = np.nonzero(self.exists[:, later] & self.exists[:, earlier])
            depend(send_of[bucket, later[pair]], send_of[bucket, earlier[pair]])
        bucket, pair = self._pairs(passed[:, 0])
        depend(send_of[bucket, passed[pair, 0]], arrival_of[bucket, passed[pair, 1]])
        later = np.unique(passed[schedule.phase[passed[:, 0]] > 0, 0])
        for rows in (starting, later):
            bucket, index = self._pairs(rows)
            row = rows[index]
            depend(send_of[bucket, row], gates[schedule.phase[row], bucket, schedule.src[row]])

    def _order_arrivals(self, recv_of: Int64, send_of: Int64) -> None:
        """A rank adds when it has its own gradient and, in an exchange, has sent what must not contain the sum."""
        schedule, depend = self.schedule, self.builder.depend_columns
        exchanged, unexchanged = schedule.order.exchanged, schedule.order.unexchanged
        bucket, pair = self._pairs(exchanged[:, 0])
        depend(recv_of[bucket, exchanged[pair, 0]], send_of[bucket, exchanged[pair, 1]])
        adding = schedule.combine[unexchanged] == Combine.ADD
        waiting = unexchanged if self.buckets.taken_in_late else unexchanged[adding]
        bucket, index = self._pairs(waiting)
        row = waiting[index]
        started = self.started[bucket, schedule.dst[row]]
        here = started >= 0
        depend(recv_of[bucket, row][here], started[here])
        self._order_at_switches(recv_of, send_of)

    def _order_at_switches(self, recv_of: Int64, send_of: Int64) -> None:
        """A switch begins a sum when it has passed on that of the iteration before, which some members may not have
        waited for."""
        schedule = self.schedule
        if (self.started >= 0).all():
            return
        passed = schedule.order.passed_on
        sending, arriving = passed[schedule.combine[passed[:, 0]] == Combine.ADD].T
        bucket, index = self._pairs(sending)
        at_switch = self.started[bucket, schedule.src[sending[index]]] < 0
        bucket, index = bucket[at_switch], index[at_switch]
        self.builder.depend_columns(recv_of[bucket, arriving[index]], send_of[bucket, sending[index]], lag=1)

    def _finish(self, send_of: Int64, arrival_of: Int64) -> None:
        """A bucket is done at a rank after the last thing that happens there to each of its parts."""
        order, last_rank = self.schedule.order, self.schedule.last_rank
        bucket, last = self._pairs(order.last_row)
        row = order.last_row[last]
        on = np.where(order.last_is_send[last], send_of[bucket, row], arrival_of[bucket, row])
        done = self.done[bucket, last_rank[last]]
        self.builder.depend_columns(done[done >= 0], on[done >= 0])


def turns(ranks: Int64) -> Int64:
    """Returns, for each entry, how many entries before it are of the same rank."""
    order = np.argsort(ranks, kind="stable")
    counts = np.bincount(ranks)
    turns: Int64 = np.zeros(len(ranks), np.int64)
    turns[order] = np.arange(len(ranks)) - (np.cumsum(counts) - counts)[ranks[order]]
    return turns


def _with_switches(ops: Int64, ranks: int) -> Int64:
    """Ops by bucket and rank, with -1 for the switches of a schedule of so many ranks."""
    lacking = ranks - ops.shape[1]
    return ops if lacking <= 0 else np.pad(ops, ((0, 0), (0, lacking)), constant_values=-1)

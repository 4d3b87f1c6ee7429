"""The messages of an allreduce in whole columns: buckets that share a schedule, and what each of their ops waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.job import Costs
from gradwire.workloads.plan import Combine, Int64, OpKind

REDUCE_LANE, GATE_LANE = 1, 3
"""Streams beside the one that computes: adding, and one in which no time is spent."""


@dataclass(frozen=True)
class Workers:
    """Where ranks are, and their send queues."""

    #: Host of each rank.
    hosts: Int64
    #: Queue to ranks on other hosts, by sender and receiver.
    network: Int64
    #: Queue of each rank to ranks on its own host.
    inside: Int64


@dataclass(frozen=True)
class BucketOps:
    """Buckets that share a schedule: arrays with an axis for buckets and, where said, a second one."""

    #: Place in the order of communication.
    number: Int64
    #: Layer that the bucket belongs to.
    layer: Int64
    #: By rank: the op after which the bucket may be reduced there.
    started: Int64
    #: By rank: the op before which it must be.
    done: Int64
    #: By part: its size; 0 where the bucket has no such part.
    size_bytes: Int64
    #: By part: its chunk; -1 where the bucket has no such part.
    chunk: Int64


def add_gates(builder: PlanBuilder, durations_s: Sequence[float], ranks: int, lane: int) -> Int64:
    """Adds a COMPUTE op for each duration and rank, shape (durations, ranks); among those ready together, earlier rows go first."""
    durations_ns = np.rint(np.array(durations_s, np.float64) * 1e9).astype(np.int64)
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


class Transfers:
    """The messages of the buckets that share a schedule: one for each bucket and row whose part is not empty."""

    def __init__(
        self, builder: PlanBuilder, costs: Costs, workers: Workers, schedule: Schedule, buckets: BucketOps
    ) -> None:
        self.builder, self.costs, self.workers = builder, costs, workers
        self.schedule, self.buckets = schedule, buckets
        self.exists: npt.NDArray[np.bool_] = buckets.size_bytes[:, schedule.part] > 0
        self.bucket, self.row = np.nonzero(self.exists)
        self.size = buckets.size_bytes[self.bucket, schedule.part[self.row]]
        self.chunk = buckets.chunk[self.bucket, schedule.part[self.row]]
        self.number = buckets.number[self.bucket]

    def build(self) -> None:
        """Adds the ops and all that they wait for."""
        sends, recvs = self._messages()
        send_of = self._table(sends)
        arrival_of = self._table(self._additions(recvs))
        phase_gates = self._phase_gates(send_of, arrival_of)
        self._order_sends(sends, arrival_of, phase_gates)
        self._order_additions(recvs, send_of)
        self._finish(send_of, arrival_of)

    def _table(self, ops: Int64) -> Int64:
        """Op numbers by bucket and row, shape (buckets, rows); -1 where there is none."""
        table = np.full(self.exists.shape, -1, np.int64)
        table[self.bucket, self.row] = ops
        return table

    def _messages(self) -> tuple[Int64, Int64]:
        """All SENDs and their RECVs."""
        schedule, row, workers, costs = self.schedule, self.row, self.workers, self.costs
        src, dst = schedule.src[row], schedule.dst[row]
        inside = workers.hosts[src] == workers.hosts[dst]
        latency_s = np.where(inside, costs.latency_s(inside=True), costs.message_latency_s) * schedule.opens[row]
        link_s = np.where(inside, self.size / costs.local_bytes_per_s, 0.0)
        first = self.builder.add_columns(OpKind.SEND, 0).start
        shared: dict[str, Any] = {
            "size_bytes": self.size,
            "chunk": self.chunk,
            "message": np.arange(first, first + len(row)),
            "traffic_class": 0,
            "layer": self.buckets.layer[self.bucket],
        }
        sends = self.builder.add_columns(
            OpKind.SEND,
            len(row),
            rank=src,
            peer=dst,
            lane=np.where(inside, workers.inside[src], workers.network[src, dst]),
            duration_ns=np.rint((latency_s + link_s) * 1e9).astype(np.int64),
            order=self.number * max(schedule.steps, 1) + schedule.step[row],
            **shared,
        )
        recvs = self.builder.add_columns(
            OpKind.RECV, len(row), rank=dst, peer=src, combine=schedule.combine[row], **shared
        )
        return np.array(sends, np.int64), np.array(recvs, np.int64)

    def _additions(self, recvs: Int64) -> Int64:
        """The ops at which messages have taken effect: their RECVs, or REDUCEs behind them where adding takes time."""
        rate = self.costs.aggregation_bytes_per_s
        adding = np.flatnonzero(self.schedule.combine[self.row] == Combine.ADD)
        if np.isinf(rate) or not len(adding):
            return recvs
        reduces = self.builder.add_columns(
            OpKind.REDUCE,
            len(adding),
            rank=self.schedule.dst[self.row[adding]],
            duration_ns=np.rint(self.size[adding] / rate * 1e9).astype(np.int64),
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
        """An op for each phase, bucket and rank that the phase starts with: all that the rank did in the phase before is done."""
        schedule = self.schedule
        gates = [self.buckets.started]
        for phase in range(1, schedule.phases):
            gate = add_gates(self.builder, [0.0] * len(self.exists), schedule.ranks, GATE_LANE)
            self.builder.depend_columns(gate.ravel(), gates[-1].ravel())
            rows = np.flatnonzero(schedule.phase == phase - 1)
            bucket, place = np.nonzero(self.exists[:, rows])
            row = rows[place]
            self.builder.depend_columns(gate[bucket, schedule.dst[row]], arrival_of[bucket, row])
            self.builder.depend_columns(gate[bucket, schedule.src[row]], send_of[bucket, row])
            gates.append(gate)
        return gates

    def _order_sends(self, sends: Int64, arrival_of: Int64, phase_gates: list[Int64]) -> None:
        """A rank passes on what has arrived, or starts with what it has when the phase starts.

        What arrives in a later phase is added to what the rank has from the phase before, which another rank may not have waited for.
        """
        schedule, row = self.schedule, self.row
        after, phase = schedule.order.after[row], schedule.phase[row]
        passes_on = (after >= 0) & (schedule.phase[after] == phase)
        gate = np.stack(phase_gates)[phase, self.bucket, schedule.src[row]]
        self.builder.depend_columns(sends, np.where(passes_on, arrival_of[self.bucket, after], gate))
        later = np.flatnonzero(passes_on & (phase > 0))
        self.builder.depend_columns(sends[later], gate[later])

    def _order_additions(self, recvs: Int64, send_of: Int64) -> None:
        """A rank adds when it has its own gradient and, in an exchange, has sent what must not contain the sum."""
        schedule, row = self.schedule, self.row
        adding = np.flatnonzero(schedule.combine[row] == Combine.ADD)
        own_send = schedule.order.own_send[row[adding]]
        bucket = self.bucket[adding]
        started = self.buckets.started[bucket, schedule.dst[row[adding]]]
        self.builder.depend_columns(recvs[adding], np.where(own_send >= 0, send_of[bucket, own_send], started))

    def _finish(self, send_of: Int64, arrival_of: Int64) -> None:
        """A bucket is done at a rank after the last thing that happens there to each of its parts."""
        order = self.schedule.order
        bucket, last = np.nonzero(self.exists[:, order.last_row])
        row = order.last_row[last]
        on = np.where(order.last_is_send[last], send_of[bucket, row], arrival_of[bucket, row])
        self.builder.depend_columns(self.buckets.done[bucket, order.last_rank[last]], on)

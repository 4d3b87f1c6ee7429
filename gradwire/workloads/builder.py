"""Builds a plan, op by op or in whole columns, and freezes it.

Strategies add messages: `message` makes a SEND and its RECV together. Columns grow as flat integer arrays, so that a
million ops cost megabytes and seconds.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import CONTROL_CLASS, OP_DTYPES, Combine, Discipline, Int64, OpKind, Ops, Plan, Role
from gradwire.workloads.plan_size import MOST_KEPT_BYTES_PER_OP, MostOps

CONTROL_BYTES = 64
"""Size of a request or token: one small frame."""

Columns = int | Sequence[int] | Int64

ROW = struct.Struct("=" + "".join(np.dtype(dtype).char.replace("l", "q") for dtype in OP_DTYPES.values()))
"""An op. To pack one takes a fifth of appending to each column."""
ROW_DTYPE = np.dtype([(name, dtype) for name, dtype in OP_DTYPES.items()])
LOOK_EVERY = 1 << 12
ROWS_KEPT_BYTES = 1 << 22
"""Bytes of ops that are kept as rows before they move into the columns."""


class PlanBuilder:
    """Collects ranks, queues, chunks, ops and dependencies; `build` freezes them into a Plan."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []
        self._roles: list[int] = []
        self._hosts: list[int] = []
        self._queues: list[tuple[int, Discipline]] = []
        self._chunk_bytes, self._chunk_tensor = array("q"), array("q")
        self._tensors: list[str] = []
        self._columns = {column: array(np.dtype(dtype).char) for column, dtype in OP_DTYPES.items()}
        self._rows = bytearray()
        self._count = 0
        self._most = MostOps.here()
        #: Number of ops and chunks together from which free memory is checked again.
        self._look_at = LOOK_EVERY
        #: Number of the plan's ops that were announced in advance (`expect`).
        self.expected = 0
        self._deps = array("q"), array("q"), array("q")
        self._produces, self._consumes = (array("q"), array("q")), (array("q"), array("q"))
        self._needs = array("q"), array("q")
        self._moments = array("q")
        self._sets: dict[tuple[int, ...], int] = {}
        self._contributors, self._receivers = array("q"), array("q")
        self._begin: dict[int, int] = {}
        self._end: dict[int, int] = {}
        self._groups: list[tuple[int, ...]] = []
        self._group_of: dict[tuple[int, ...], int] = {}

    def rank(self, role: Role, host: int) -> int:
        """Adds a rank on host index `host`; returns its number."""
        self._roles.append(role)
        self._hosts.append(host)
        return len(self._roles) - 1

    def queue(self, rank: int, discipline: Discipline = Discipline.FIFO) -> int:
        """Adds a send queue to a rank; returns its number."""
        self._queues.append((rank, discipline))
        return len(self._queues) - 1

    def group(self, ranks: Iterable[int]) -> int:
        """Adds a multicast group; returns its number."""
        self._groups.append(tuple(ranks))
        return len(self._groups) - 1

    def group_of(self, ranks: Sequence[int]) -> int:
        """The number of a multicast group that many messages go to; it is added when it is first asked for."""
        key = tuple(ranks)
        if key not in self._group_of:
            self._group_of[key] = self.group(key)
        return self._group_of[key]

    def tensor(self, name: str) -> int:
        """Adds a tensor; returns its number."""
        self._tensors.append(name)
        return len(self._tensors) - 1

    def chunk(
        self,
        tensor: int,
        size_bytes: int,
        contributors: Sequence[int] | None = None,
        receivers: Sequence[int] | None = None,
    ) -> int:
        """Adds a chunk of a tensor; returns its number.

        contributors, receivers: ranks of workers; None: all of them.
        """
        self._contributors.append(self._set(contributors))
        self._receivers.append(self._set(receivers))
        self._chunk_bytes.append(size_bytes)
        self._chunk_tensor.append(tensor)
        if self._count + len(self._chunk_bytes) > self._look_at:
            self._refuse_large()
        return len(self._chunk_bytes) - 1

    def chunk_columns(self, tensor: Columns, size_bytes: Int64, contributors: Columns, receivers: Columns) -> range:
        """Adds a chunk for each of `size_bytes`; returns their numbers. Sets of workers are numbers of `members`, or
        -1 for all."""
        count = len(size_bytes)
        columns = (
            (self._contributors, contributors),
            (self._receivers, receivers),
            (self._chunk_bytes, size_bytes),
            (self._chunk_tensor, tensor),
        )
        for cells, values in columns:
            _extend(cells, values, count)
        return range(len(self._chunk_bytes) - count, len(self._chunk_bytes))

    def members(self, ranks: Sequence[int]) -> int:
        """The number of a set of workers, for `chunk_columns`."""
        return self._set(ranks)

    def chunk_sizes(self, chunks: Sequence[int]) -> Int64:
        """Bytes of each of these chunks."""
        return np.array([self._chunk_bytes[chunk] for chunk in chunks], np.int64)

    def _set(self, ranks: Sequence[int] | None) -> int:
        return -1 if ranks is None else self._sets.setdefault(tuple(ranks), len(self._sets))

    def compute(self, rank: int, duration_s: float = 0.0, *, layer: int = -1, order: int = 0, lane: int = 0) -> int:
        """Adds a COMPUTE op of `duration_s` on the rank's stream `lane`."""
        return self._add(OpKind.COMPUTE, rank, lane, duration_ns=round(duration_s * 1e9), layer=layer, order=order)

    def reduce(self, rank: int, size_bytes: int, rate_bytes_per_s: float, *, chunk: int = -1, lane: int = 1) -> int:
        """Adds a REDUCE op that sums up `size_bytes` at the given rate; an infinite rate makes it free."""
        duration_ns = round(size_bytes / rate_bytes_per_s * 1e9)
        return self._add(OpKind.REDUCE, rank, lane, duration_ns=duration_ns, size_bytes=size_bytes, chunk=chunk)

    def message(
        self,
        queue: int,
        dst: int,
        size_bytes: int,
        *,
        chunk: int = -1,
        combine: Combine = Combine.CONTROL,
        traffic_class: int = CONTROL_CLASS,
        order: int = 0,
        layer: int = -1,
        latency_s: float = 0.0,
    ) -> tuple[int, int]:
        """Adds a SEND through `queue` to rank `dst` and its RECV; returns both op numbers."""
        src = self._queues[queue][0]
        shared = {"size_bytes": size_bytes, "chunk": chunk, "traffic_class": traffic_class, "layer": layer}
        send = self._add(
            OpKind.SEND,
            src,
            duration_ns=round(latency_s * 1e9),
            lane=queue,
            peer=dst,
            message=self._count,
            order=order,
            **shared,
        )
        recv = self._add(OpKind.RECV, dst, peer=src, message=send, combine=combine, **shared)
        return send, recv

    def group_message(
        self,
        queue: int,
        group: int,
        size_bytes: int,
        *,
        chunk: int = -1,
        combine: Combine = Combine.CONTROL,
        traffic_class: int = CONTROL_CLASS,
        order: int = 0,
        layer: int = -1,
        latency_s: float = 0.0,
    ) -> tuple[int, list[int]]:
        """Adds a SEND through `queue` to a multicast group, whose members are on other hosts, and each member's RECV.

        Returns the op numbers of the SEND and of the RECVs, in the order of the group's ranks.
        """
        src = self._queues[queue][0]
        shared = {"size_bytes": size_bytes, "chunk": chunk, "traffic_class": traffic_class, "layer": layer}
        send = self._add(
            OpKind.SEND,
            src,
            duration_ns=round(latency_s * 1e9),
            lane=queue,
            peer=group,
            group=1,
            message=self._count,
            order=order,
            **shared,
        )
        recvs = [
            self._add(OpKind.RECV, rank, peer=src, message=send, combine=combine, **shared)
            for rank in self._groups[group]
        ]
        return send, recvs

    def expect(self, ops: int) -> None:
        """Says that so many further ops follow. Raises InputFault, before any is made, if these are too many."""
        self.expected = max(self.expected, self._count + ops)
        self._most.refuse(self.name, self.expected)

    def _count_up(self, count: int) -> None:
        """Numbers further ops. Raises InputFault if they are too many."""
        self._count += count
        if self._count > self._most.ops:
            self._most.refuse(self.name, self._count, more=True)
        if self._count + len(self._chunk_bytes) > self._look_at:
            self._refuse_large()

    def _refuse_large(self) -> None:
        """Raises InputFault if what is kept takes as much memory as too many ops would."""
        self._look_at = self._count + len(self._chunk_bytes) + LOOK_EVERY
        kept = (*self._columns.values(), *self._deps, *self._produces, *self._consumes, *self._needs)
        kept_bytes = sum(len(cells) * cells.itemsize for cells in kept) + len(self._rows)
        if kept_bytes > self._most.ops * MOST_KEPT_BYTES_PER_OP:
            self._most.refuse(self.name, kept_bytes // MOST_KEPT_BYTES_PER_OP, more=True)

    def _add(
        self,
        kind: OpKind,
        rank: int,
        lane: int = -1,
        *,
        duration_ns: int = 0,
        size_bytes: int = 0,
        chunk: int = -1,
        peer: int = -1,
        group: int = 0,
        message: int = -1,
        traffic_class: int = CONTROL_CLASS,
        order: int = 0,
        combine: int = 0,
        layer: int = -1,
    ) -> int:
        """Adds an op; returns its number. Raises OverflowError for what its columns cannot hold."""
        self._count_up(1)
        row = (
            kind,
            rank,
            duration_ns,
            size_bytes,
            lane,
            chunk,
            peer,
            group,
            message,
            traffic_class,
            order,
            combine,
            layer,
        )
        try:
            self._rows += ROW.pack(*row)
        except struct.error as error:
            raise OverflowError(f"a column's integer is too large: {dict(zip(OP_DTYPES, row, strict=True))}") from error
        if len(self._rows) >= ROWS_KEPT_BYTES:
            self._turn_rows()
        return self._count - 1

    def _turn_rows(self) -> None:
        """Moves ops into the columns."""
        rows = np.frombuffer(bytes(self._rows), ROW_DTYPE)
        self._rows.clear()
        for column, cells in self._columns.items():
            cells.frombytes(np.ascontiguousarray(rows[column]).tobytes())

    def add_columns(self, kind: Columns, count: int, **values: Columns) -> range:
        """Adds `count` ops at once; returns their numbers.

        Each column is one integer for all ops, or an array of `count` integers.
        """
        named = ("lane", "chunk", "peer", "message", "layer", "traffic_class")
        defaults: dict[str, Columns] = dict.fromkeys(named, -1)
        if unknown := values.keys() - OP_DTYPES.keys():
            raise TypeError(f"ops have no column {', '.join(sorted(unknown))}")
        row: dict[str, Columns] = {"kind": kind, **defaults, **values}
        self._count_up(count)
        self._turn_rows()
        for column, cells in self._columns.items():
            block = np.broadcast_to(np.asarray(row.get(column, 0), dtype=OP_DTYPES[column]), (count,))
            cells.frombytes(np.ascontiguousarray(block).tobytes())
        return range(self._count - count, self._count)

    def message_columns(
        self,
        src: Columns,
        dst: Columns,
        queue: Columns,
        size_bytes: Int64,
        *,
        latency_s: float = 0.0,
        combine: Combine = Combine.CONTROL,
        **shared: Columns,
    ) -> tuple[range, range]:
        """Adds a SEND from `src` through `queue` to `dst`, and its RECV, for each of `size_bytes`; returns the op numbers of both.

        `shared` takes further columns of both ends, as for `add_columns`: chunk, traffic_class, order and layer.
        """
        count = len(size_bytes)
        numbers = np.arange(self._count, self._count + count)
        shared = {"size_bytes": size_bytes, "message": numbers, **shared}
        latency_ns = round(latency_s * 1e9)
        sends = self.add_columns(OpKind.SEND, count, rank=src, peer=dst, lane=queue, duration_ns=latency_ns, **shared)
        recvs = self.add_columns(OpKind.RECV, count, rank=dst, peer=src, combine=int(combine), **shared)
        return sends, recvs

    def depend(self, op: int, *on: int, lag: int = 0) -> None:
        """Makes `op` wait for each op in `on`, all of the same rank, in this iteration (lag 0) or the previous one (lag 1)."""
        ops, ons, lags = self._deps
        for other in on:
            ops.append(op)
            ons.append(other)
            lags.append(lag)

    def depend_columns(self, op: Columns, on: Columns, lag: int = 0) -> None:
        """Makes each op in `op` wait for the op at the same index in `on`. Either may be a single op for all."""
        pairs = np.broadcast_arrays(np.asarray(op, dtype=np.int64), np.asarray(on, dtype=np.int64))
        for cells, values in zip(self._deps, (*pairs, np.full(pairs[0].shape, lag, dtype=np.int64)), strict=True):
            cells.frombytes(np.ascontiguousarray(values).tobytes())

    def produces(self, op: int, chunk: int) -> None:
        """States that the rank holds its own contribution to `chunk` once `op` ends."""
        self._produces[0].append(op)
        self._produces[1].append(chunk)

    def consumes(self, op: int, chunk: int) -> None:
        """States that `op` needs the complete `chunk` of the previous iteration."""
        self._consumes[0].append(op)
        self._consumes[1].append(chunk)

    def needs(self, op: int, chunk: int) -> None:
        """States that `op` needs the complete `chunk` of this iteration."""
        self._needs[0].append(op)
        self._needs[1].append(chunk)

    def produces_columns(self, ops: Int64, chunks: Int64) -> None:
        """`produces` for each op and the chunk at the same index."""
        for cells, values in zip(self._produces, (ops, chunks), strict=True):
            _extend(cells, values, len(ops))

    def needs_columns(self, ops: Int64, chunks: Int64) -> None:
        """`needs` for each op and the chunk at the same index."""
        for cells, values in zip(self._needs, (ops, chunks), strict=True):
            _extend(cells, values, len(ops))

    def moment(self, op: int, moment: int, request: int, alone_s: float) -> None:
        """States how far a request has come, a Moment, when `op` ends, and when it would have by computation alone. Those of a request are
        stated in their order."""
        self._moments.extend((op, moment, request, round(alone_s * 1e9)))

    def iteration(self, worker: int, begin: int, end: int) -> None:
        """States which ops begin and end the worker's iteration."""
        self._begin[worker], self._end[worker] = begin, end

    def build(self, compute_s: float, samples: int) -> Plan:
        """Freezes the plan.

        `compute_s` is the time that a worker computes in an iteration, undisturbed; `samples` counts those that all
        workers together process in an iteration.
        """
        self._turn_rows()
        columns: dict[str, Any] = {
            # The columns are not copied, because a million ops take 60 MB. An array whose memory a plan shares can no
            # longer grow.
            name: np.frombuffer(cells, dtype=OP_DTYPES[name]) if cells else np.zeros(0, OP_DTYPES[name])
            for name, cells in self._columns.items()
        }
        dep_start, dep_op, dep_lag = self._dependencies()
        workers = [rank for rank, role in enumerate(self._roles) if role == Role.WORKER]
        sizes = [len(group) for group in self._groups]
        return Plan(
            name=self.name,
            rank_role=np.array(self._roles, np.uint8),
            rank_host=np.array(self._hosts, np.int32),
            queue_rank=np.array([rank for rank, _ in self._queues], np.int32),
            queue_discipline=np.array([discipline for _, discipline in self._queues], np.uint8),
            chunk_bytes=np.array(self._chunk_bytes, np.int64),
            chunk_tensor=np.array(self._chunk_tensor, np.int32),
            tensors=tuple(self._tensors),
            ops=Ops(**columns),
            dep_start=dep_start,
            dep_op=dep_op,
            dep_lag=dep_lag,
            produces=_pairs(self._produces),
            consumes=_pairs(self._consumes),
            begin_op=np.array([self._begin[w] for w in workers], np.int64),
            end_op=np.array([self._end[w] for w in workers], np.int64),
            group_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            group_rank=np.array([rank for group in self._groups for rank in group], np.int32),
            compute_s=compute_s,
            samples=samples,
            notes=tuple(self.notes),
            moments=np.array(self._moments, np.int64).reshape(-1, 4),
            **self._groups_of_chunks(),
        )

    def _groups_of_chunks(self) -> dict[str, Any]:
        """The columns that only a plan with groups has."""
        if not self._sets and not self._needs[0]:
            return {}
        sizes = [len(ranks) for ranks in self._sets]
        return {
            "needs": _pairs(self._needs),
            "chunk_contributors": np.array(self._contributors, np.int64),
            "chunk_receivers": np.array(self._receivers, np.int64),
            "set_start": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            "set_rank": np.array([rank for ranks in self._sets for rank in ranks], np.int64),
        }

    def _dependencies(self) -> tuple[Int64, Int64, np.typing.NDArray[np.uint8]]:
        ops, ons, lags = (
            np.frombuffer(cells, dtype=np.int64) if cells else np.zeros(0, np.int64) for cells in self._deps
        )
        by_op = np.argsort(ops, kind="stable")
        start = np.zeros(self._count + 1, np.int64)
        np.cumsum(np.bincount(ops, minlength=self._count), out=start[1:])
        return start, ons[by_op], lags[by_op].astype(np.uint8)


def nanoseconds(duration_s: npt.NDArray[np.float64]) -> Int64:
    """Returns durations in whole nanoseconds. Raises OverflowError for what 64 bits cannot count."""
    found = np.rint(duration_s * 1e9)
    if not (np.abs(found) < 2.0**63).all():
        raise OverflowError(f"a duration is too long: {np.max(found):g} ns")
    return found.astype(np.int64)


def _extend(cells: array[int], values: Columns, count: int) -> None:
    """Appends a column of integers of 64 bits, or one integer as often."""
    block = np.broadcast_to(np.asarray(values, dtype=np.int64), (count,))
    cells.frombytes(np.ascontiguousarray(block).tobytes())


def _pairs(columns: tuple[array[int], array[int]]) -> Int64:
    return np.stack([np.array(cells, dtype=np.int64) for cells in columns], axis=1)

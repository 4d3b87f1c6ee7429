"""A parameter server that synchronises key by key, without a barrier: push, update, and back to the workers inside the
iteration.

Source: P3, sections 2 and 4. A key is a chunk: a tensor, a server's share of one, or a slice. In every iteration

1. each worker pushes a key once the backward pass has yielded its layer;
2. the server adds what arrives (REDUCE, one stream per server, while the network carries others) and has updated the
   key after the last worker's push;
3. it broadcasts the key at once (P3), or notifies each worker, which then asks for it and gets a copy of it (MXNet's
   KVStore);
4. the forward op of a layer in the next iteration waits for the keys of that layer alone.

An iteration of a worker ends with its backward pass; whatever is still under way then counts towards the next one's
time.

Where the paper is silent: a server broadcasts to the worker that has the same number first and then in turn, so that
servers do not all begin with worker 0; a worker and a server on one host exchange data through memory, at no cost to
the network.

Plans of small slices have hundreds of thousands of messages, so every step adds whole columns of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gradwire.datatypes.plan import CONTROL_CLASS, Combine, Discipline, Int64, OpKind, Plan
from gradwire.workloads.builder import CONTROL_BYTES, nanoseconds
from gradwire.workloads.engines.parameter_server import UPDATE_LANE, Flows, ParameterServer
from gradwire.workloads.engines.placement import Piece
from gradwire.workloads.engines.worker import ops_of_passes
from gradwire.workloads.job import Job
from gradwire.workloads.plan_size import MostOps

Delivery = Literal["pull", "broadcast"]
Updates = Literal["serial", "parallel"]
DATA_CLASS = 0
ADDING_LANE, FIRST_KEY_LANE = 1, 3
"""Streams of a server: the one in which it adds or, where keys are updated in parallel, the first of one per key."""
NOTIFIED_LANE = 1
"""A worker's stream for taking note of notifications, separate from its GPU."""


@dataclass(frozen=True)
class Exchange:
    """Settings by which keys travel between workers and servers."""

    #: Step 3: by "broadcast", or by notification and "pull".
    delivery: Delivery
    #: Whether what waits goes in the order of the forward pass, at workers and servers alike; otherwise first come,
    #: first served.
    priority: bool = False
    #: Whether one thread with blocking sends feeds all connections of a worker; otherwise each connection has a queue
    #: of its own.
    worker_thread: bool = False
    #: Whether one thread with blocking sends feeds all connections of a server; otherwise each connection has a queue.
    server_thread: bool = False
    #: Whether keys are pushed as the backward pass yields them; otherwise all of them after it.
    wait_free: bool = True
    #: "serial": a server adds in one stream. "parallel": each key has a separate stream at the same rate.
    updates: Updates = "serial"
    #: Whether notifications and requests wait behind the data of their pair; otherwise they travel in the control
    #: class.
    control_in_line: bool = False


def compile_keywise(job: Job, pieces: Sequence[Piece], exchange: Exchange, name: str) -> Plan:
    """Compiles the iteration above for keys that are already placed, in the order of the forward pass."""
    MostOps.here().refuse(name, ops_of_keywise(job, pieces, exchange))
    servers = ParameterServer(name, job, pieces)
    keys = _Keys.of(servers)
    steps = _Steps(servers, exchange, keys)
    updated = steps.push_and_update()
    deliver = steps.broadcast if exchange.delivery == "broadcast" else steps.notify_and_pull
    for worker, arrived in enumerate(deliver(updated)):
        _deliver(servers, keys, worker, arrived)
        servers.end(worker, servers.passes[worker].backward[0])
    return servers.build()


def ops_of_keywise(job: Job, pieces: Sequence[Piece], exchange: Exchange) -> int:
    """Returns how many ops `compile_keywise` makes."""
    keys, tensors = len(pieces), 1 + max((piece.tensor for piece in pieces), default=-1)
    of_worker = ops_of_passes(job) + 1 + 3 * keys  # its end; pushed and added
    if exchange.delivery == "broadcast":
        of_worker += 2 * keys
    else:
        of_worker += 6 * keys + tensors + bool(np.isfinite(job.costs.copy_bytes_per_s)) * keys
    return keys + job.cluster.workers * of_worker


@dataclass(frozen=True)
class _Keys:
    """Columns of all keys."""

    chunk: Int64
    #: Rank of the key's server.
    server: Int64
    tensor: Int64
    layer: Int64
    size_bytes: Int64
    #: Place in the order of the backward pass.
    yielded: Int64

    @staticmethod
    def of(servers: ParameterServer) -> _Keys:
        pieces = servers.pieces
        layer = np.array([piece.layer for piece in pieces], np.int64)
        yielded = np.empty_like(layer)
        yielded[np.argsort(-layer, kind="stable")] = np.arange(len(pieces))
        return _Keys(
            np.array(servers.chunks, np.int64),
            np.array([servers.server_of(number) for number in range(len(pieces))], np.int64),
            np.array([piece.tensor for piece in pieces], np.int64),
            layer,
            np.array([piece.size_bytes for piece in pieces], np.int64),
            yielded,
        )

    def __len__(self) -> int:
        return len(self.chunk)


@dataclass(frozen=True)
class _Content:
    """The content of a column of messages, one message for each key."""

    size_bytes: Int64
    traffic_class: int
    combine: Combine = Combine.CONTROL
    chunk: Int64 | int = -1


class _Steps:
    """Steps 1 to 3, each for all keys at once.

    Ops are returned as arrays of op numbers, one for each key (and worker).
    """

    def __init__(self, servers: ParameterServer, exchange: Exchange, keys: _Keys) -> None:
        self._servers, self._builder, self._costs = servers, servers.builder, servers.job.costs
        self._exchange, self._keys = exchange, keys
        discipline = Discipline.PRIORITY if exchange.priority else Discipline.FIFO
        self._from_workers = Flows(servers.builder, discipline, shared=exchange.worker_thread)
        self._from_servers = Flows(servers.builder, discipline, shared=exchange.server_thread)
        self._order = keys.chunk if exchange.priority else keys.yielded
        self._gradients = _Content(keys.size_bytes, DATA_CLASS, Combine.ADD, keys.chunk)
        self._values = _Content(keys.size_bytes, DATA_CLASS, Combine.COPY, keys.chunk)
        control_bytes = np.full(len(keys), CONTROL_BYTES, np.int64)
        self._tokens = _Content(control_bytes, DATA_CLASS if exchange.control_in_line else CONTROL_CLASS)

    def push_and_update(self) -> Int64:
        """Steps 1 and 2; returns the op with which each key is updated."""
        builder, keys = self._builder, self._keys
        updated = _numbers(
            builder.add_columns(OpKind.COMPUTE, len(keys), rank=keys.server, lane=UPDATE_LANE, layer=keys.layer)
        )
        for worker, passes in zip(self._servers.workers, self._servers.passes, strict=True):
            sends, recvs = self._to_servers(worker, self._gradients)
            yielding = np.array(passes.backward)[keys.layer]
            builder.depend_columns(sends, yielding if self._exchange.wait_free else passes.backward[0])
            for op, chunk in zip(yielding.tolist(), keys.chunk.tolist(), strict=True):
                builder.produces(op, chunk)
            added = self._in_adding_stream(self._costs.aggregation_bytes_per_s)
            builder.depend_columns(added, recvs)
            builder.depend_columns(updated, added)
        return updated

    def _in_adding_stream(self, bytes_per_s: float) -> range:
        """An op for each key that takes the time of its bytes in the stream in which its server adds."""
        keys = self._keys
        return self._builder.add_columns(
            OpKind.REDUCE,
            len(keys),
            rank=keys.server,
            lane=FIRST_KEY_LANE + keys.chunk if self._exchange.updates == "parallel" else ADDING_LANE,
            duration_ns=nanoseconds(keys.size_bytes / bytes_per_s),
            size_bytes=keys.size_bytes,
            chunk=keys.chunk,
            layer=keys.layer,
            order=keys.chunk if self._exchange.priority else 0,
        )

    def broadcast(self, updated: Int64) -> list[Int64]:
        """Adds step 3 of P3; returns the arrivals at each worker."""
        arrivals = []
        for worker in self._servers.workers:
            sends, recvs = self._to_worker(worker, self._values)
            self._builder.depend_columns(sends, updated)
            arrivals.append(_numbers(recvs))
        return arrivals

    def notify_and_pull(self, updated: Int64) -> list[Int64]:
        """Adds step 3 of the KVStore; returns the arrivals at each worker.

        A worker asks for all parts of a tensor once it has been notified of all of them (P3, section 4.2). The server
        answers each request from a copy of the values, which it makes between its additions: MXNet's
        kvstore_dist_server.h does both in one thread.
        """
        builder, keys = self._builder, self._keys
        tensors = int(keys.tensor.max()) + 1
        arrivals = []
        for worker in self._servers.workers:
            notifications, notified = self._to_worker(worker, self._tokens)
            builder.depend_columns(notifications, updated)
            known = _numbers(builder.add_columns(OpKind.COMPUTE, tensors, rank=worker, lane=NOTIFIED_LANE))
            builder.depend_columns(known[keys.tensor], _numbers(notified))
            requests, asked = self._to_servers(worker, self._tokens)
            builder.depend_columns(_numbers(requests), known[keys.tensor])
            sends, recvs = self._to_worker(worker, self._values)
            copied = asked
            if np.isfinite(self._costs.copy_bytes_per_s):  # a copy that is free waits for no addition either
                copied = self._in_adding_stream(self._costs.copy_bytes_per_s)
                builder.depend_columns(copied, asked)
            builder.depend_columns(sends, copied)
            arrivals.append(_numbers(recvs))
        return arrivals

    def _to_servers(self, worker: int, content: _Content) -> tuple[range, range]:
        servers = self._keys.server
        return self._messages(worker, servers, self._from_workers, content, order=self._order)

    def _to_worker(self, worker: int, content: _Content) -> tuple[range, range]:
        servers, workers = self._keys.server, len(self._servers.workers)
        turn = (worker - (servers - workers)) % workers
        return self._messages(servers, worker, self._from_servers, content, order=self._order * workers + turn)

    def _messages(
        self, src: Int64 | int, dst: Int64 | int, flows: Flows, content: _Content, *, order: Int64
    ) -> tuple[range, range]:
        """A message for each key; returns SENDs and RECVs."""
        ends = np.broadcast_arrays(src, dst, self._keys.server)[:2]
        pairs = zip(ends[0].tolist(), ends[1].tolist(), strict=True)
        return self._builder.message_columns(
            src,
            dst,
            np.array([flows.queue(a, b, content.traffic_class) for a, b in pairs], np.int64),
            content.size_bytes,
            latency_s=self._costs.message_latency_s,
            combine=content.combine,
            chunk=content.chunk,
            traffic_class=content.traffic_class,
            order=order,
            layer=self._keys.layer,
        )


def _deliver(servers: ParameterServer, keys: _Keys, worker: int, arrived: Int64) -> None:
    """Adds step 4: the forward ops of a worker wait for the keys of their layers."""
    forward = np.array(servers.passes[worker].forward)[keys.layer]
    servers.builder.depend_columns(forward, arrived, lag=1)
    for op, chunk in zip(forward.tolist(), keys.chunk.tolist(), strict=True):
        servers.builder.consumes(op, chunk)


def _numbers(ops: range) -> Int64:
    return np.arange(ops.start, ops.stop)

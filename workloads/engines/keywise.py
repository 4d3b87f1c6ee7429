"""A parameter server that synchronises key by key, without a barrier: push, update, and back to the workers inside the iteration.

Source: P3, sections 2 and 4. A key is a chunk: a tensor, a server's share of one, or a slice. In every iteration

1. each worker pushes a key once the backward pass has yielded its layer;
2. the server adds what arrives (REDUCE, one stream a server, beside the network) and has updated the key after the last worker's push;
3. it broadcasts the key at once (P3), or notifies each worker, which then asks for it and gets a copy of it (MXNet's KVStore);
4. the forward op of a layer in the next iteration waits for the keys of that layer alone.

An iteration of a worker ends with its backward pass; what is still under way then belongs to the next one's time.

Where the paper is silent: a server broadcasts to the worker of its own number first and then in turn, so that servers do not all
begin with worker 0; a worker and a server on one host exchange data through memory, at no cost to the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.flows import Flows
from gradwire.workloads.engines.placement import Piece
from gradwire.workloads.engines.worker import Passes, add_passes
from gradwire.workloads.job import Job
from gradwire.workloads.plan import CONTROL_CLASS, Combine, Discipline, Int64, OpKind, Plan, Role

Delivery = Literal["pull", "broadcast"]
Updates = Literal["serial", "parallel"]
DATA_CLASS = 0
ADDING_LANE, UPDATED_LANE, FIRST_KEY_LANE = 1, 2, 3
"""Streams of a server: what it adds, when keys are updated, and, where keys are updated in parallel, one for each."""
NOTIFIED_LANE = 1
"""Stream of a worker in which it takes note of notifications, beside its GPU."""


@dataclass(frozen=True)
class Exchange:
    """How keys travel.

    delivery: step 3. priority: whatever waits goes in the order of the forward pass, at workers and servers alike; otherwise first come,
    first served. worker_thread, server_thread: one thread with blocking sends feeds all connections of a rank; otherwise each
    connection has a queue of its own. wait_free: keys are pushed as the backward pass yields them; otherwise all of them after it.
    updates: "serial": one stream a server adds; "parallel": each key has a stream of its own at the same rate.
    control_in_line: notifications and requests wait behind the data of their pair; otherwise they travel in the control class.
    """

    delivery: Delivery
    priority: bool = False
    worker_thread: bool = False
    server_thread: bool = False
    wait_free: bool = True
    updates: Updates = "serial"
    control_in_line: bool = False


def compile_keywise(job: Job, pieces: list[Piece], exchange: Exchange, name: str) -> Plan:
    """Compiles the iteration above for keys that are placed already, in the order of the forward pass."""
    builder = PlanBuilder(name)
    workers = [builder.rank(Role.WORKER, job.cluster.worker_host(w)) for w in range(job.cluster.workers)]
    servers = [builder.rank(Role.SERVER, job.cluster.server_host(s)) for s in range(job.cluster.servers)]
    for tensor in job.profile.tensors:
        builder.tensor(tensor.name)
    keys = _Keys.of(builder, pieces, servers)
    passes = [add_passes(builder, job, worker) for worker in workers]
    parts = _Parts(builder, job, exchange, keys, workers)
    updated = parts.push_and_update(passes)
    deliver = parts.broadcast if exchange.delivery == "broadcast" else parts.notify_and_pull
    arrivals = deliver(updated)
    for worker, own, arrived in zip(workers, passes, arrivals, strict=True):
        _close(builder, keys, worker, own, arrived)
    return builder.build(job.compute_s, job.samples)


@dataclass(frozen=True)
class _Keys:
    """Columns of all keys: chunk, rank of the server, tensor, layer, and the place in the order of the backward pass."""

    chunk: Int64
    server: Int64
    tensor: Int64
    layer: Int64
    size_bytes: Int64
    yielded: Int64

    @staticmethod
    def of(builder: PlanBuilder, pieces: list[Piece], servers: list[int]) -> _Keys:
        chunk = np.array([builder.chunk(piece.tensor, piece.size_bytes) for piece in pieces], np.int64)
        layer = np.array([piece.layer for piece in pieces], np.int64)
        yielded = np.empty_like(chunk)
        yielded[np.argsort(-layer, kind="stable")] = np.arange(len(pieces))
        return _Keys(
            chunk,
            np.array([servers[piece.server] for piece in pieces], np.int64),
            np.array([piece.tensor for piece in pieces], np.int64),
            layer,
            np.array([piece.size_bytes for piece in pieces], np.int64),
            yielded,
        )

    def __len__(self) -> int:
        return len(self.chunk)


class _Parts:
    """Steps 1 to 3, each for all keys at once. Ops are returned as arrays of op numbers, one for each key (and worker)."""

    def __init__(self, builder: PlanBuilder, job: Job, exchange: Exchange, keys: _Keys, workers: list[int]) -> None:
        self._builder, self._job, self._exchange, self._keys, self._workers = builder, job, exchange, keys, workers
        discipline = Discipline.PRIORITY if exchange.priority else Discipline.FIFO
        self._from_workers = Flows(builder, discipline, shared=exchange.worker_thread)
        self._from_servers = Flows(builder, discipline, shared=exchange.server_thread)
        self._order = keys.chunk if exchange.priority else keys.yielded
        self._latency_s = job.costs.message_latency_s
        self._control_class = DATA_CLASS if exchange.control_in_line else CONTROL_CLASS

    def push_and_update(self, passes: list[Passes]) -> Int64:
        """Steps 1 and 2; returns the op with which each key is updated."""
        builder, keys = self._builder, self._keys
        updated = _numbers(
            builder.add_columns(OpKind.COMPUTE, len(keys), rank=keys.server, lane=UPDATED_LANE, layer=keys.layer)
        )
        for worker, own in zip(self._workers, passes, strict=True):
            sends, recvs = self._to_servers(worker, keys.size_bytes, DATA_CLASS, chunk=keys.chunk, combine=Combine.ADD)
            yielding = np.array(own.backward)[keys.layer]
            builder.depend_columns(sends, yielding if self._exchange.wait_free else own.backward[0])
            for op, chunk in zip(yielding.tolist(), keys.chunk.tolist(), strict=True):
                builder.produces(op, chunk)
            added = self._in_adding_stream(self._job.costs.aggregation_bytes_per_s)
            builder.depend_columns(added, recvs)
            builder.depend_columns(updated, added)
        return updated

    def _in_adding_stream(self, bytes_per_s: float) -> range:
        """An op for each key that takes the time of its bytes in the stream in which its server adds."""
        keys = self._keys
        duration_ns = np.rint(keys.size_bytes / bytes_per_s * 1e9).astype(np.int64)
        return self._builder.add_columns(
            OpKind.REDUCE,
            len(keys),
            rank=keys.server,
            lane=FIRST_KEY_LANE + keys.chunk if self._exchange.updates == "parallel" else ADDING_LANE,
            duration_ns=duration_ns,
            size_bytes=keys.size_bytes,
            chunk=keys.chunk,
            layer=keys.layer,
            order=keys.chunk if self._exchange.priority else 0,
        )

    def broadcast(self, updated: Int64) -> list[Int64]:
        """Step 3 of P3; returns the arrivals at each worker."""
        arrivals = []
        for worker in self._workers:
            sends, recvs = self._data_to(worker)
            self._builder.depend_columns(sends, updated)
            arrivals.append(_numbers(recvs))
        return arrivals

    def notify_and_pull(self, updated: Int64) -> list[Int64]:
        """Step 3 of the KVStore; returns the arrivals at each worker.

        A worker asks for all parts of a tensor once it has heard of all of them (P3, section 4.2). The server answers each request from a
        copy of the values, which it makes between its additions: MXNet's kvstore_dist_server.h does all of it in one thread.
        """
        builder, keys = self._builder, self._keys
        control_bytes = np.full(len(keys), CONTROL_BYTES, np.int64)
        arrivals = []
        for worker in self._workers:
            notifications, heard = self._to_worker(worker, control_bytes, self._control_class)
            builder.depend_columns(notifications, updated)
            tensors = int(keys.tensor.max()) + 1
            known = _numbers(builder.add_columns(OpKind.COMPUTE, tensors, rank=worker, lane=NOTIFIED_LANE))
            builder.depend_columns(known[keys.tensor], _numbers(heard))
            requests, asked = self._to_servers(worker, control_bytes, self._control_class)
            builder.depend_columns(_numbers(requests), known[keys.tensor])
            sends, recvs = self._data_to(worker)
            copied = asked
            if np.isfinite(self._job.costs.copy_bytes_per_s):  # a copy that is free waits for no addition either
                copied = self._in_adding_stream(self._job.costs.copy_bytes_per_s)
                builder.depend_columns(copied, asked)
            builder.depend_columns(sends, copied)
            arrivals.append(_numbers(recvs))
        return arrivals

    def _data_to(self, worker: int) -> tuple[range, range]:
        keys = self._keys
        return self._to_worker(worker, keys.size_bytes, DATA_CLASS, chunk=keys.chunk, combine=Combine.COPY)

    def _to_servers(
        self,
        worker: int,
        size_bytes: Int64,
        traffic_class: int,
        *,
        chunk: Int64 | int = -1,
        combine: Combine = Combine.CONTROL,
    ) -> tuple[range, range]:
        keys = self._keys
        return self._builder.message_columns(
            worker,
            keys.server,
            _queues(self._from_workers, [(worker, server, traffic_class) for server in keys.server.tolist()]),
            size_bytes,
            latency_s=self._latency_s,
            combine=combine,
            chunk=chunk,
            traffic_class=traffic_class,
            order=self._order,
            layer=keys.layer,
        )

    def _to_worker(
        self,
        worker: int,
        size_bytes: Int64,
        traffic_class: int,
        *,
        chunk: Int64 | int = -1,
        combine: Combine = Combine.CONTROL,
    ) -> tuple[range, range]:
        keys, workers = self._keys, len(self._workers)
        turn = (worker - (keys.server - workers)) % workers
        return self._builder.message_columns(
            keys.server,
            worker,
            _queues(self._from_servers, [(server, worker, traffic_class) for server in keys.server.tolist()]),
            size_bytes,
            latency_s=self._latency_s,
            combine=combine,
            chunk=chunk,
            traffic_class=traffic_class,
            order=self._order * workers + turn,
            layer=keys.layer,
        )


def _close(builder: PlanBuilder, keys: _Keys, worker: int, own: Passes, arrived: Int64) -> None:
    """Step 4, and where the worker's iteration begins and ends."""
    forward = np.array(own.forward)[keys.layer]
    builder.depend_columns(forward, arrived, lag=1)
    for op, chunk in zip(forward.tolist(), keys.chunk.tolist(), strict=True):
        builder.consumes(op, chunk)
    end = builder.compute(worker)
    builder.depend(end, own.backward[0])
    builder.depend(own.begin, end, lag=1)
    builder.iteration(worker, own.begin, end)


def _queues(flows: Flows, keys: list[tuple[int, int, int]]) -> Int64:
    return np.array([flows.queue(*key) for key in keys], np.int64)


def _numbers(ops: range) -> Int64:
    return np.arange(ops.start, ops.stop)

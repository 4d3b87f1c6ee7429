"""Parameter servers: the steps that all of them are made of, and TensorFlow's, with synchronous replicas, as a whole.

Source: Geryon, section II-A; NetOps, section 3. A strategy composes the steps and chooses what they leave open, which
is what the papers differ in: how tensors are cut and placed, in which order and priority data leaves, and what waits
for what.

| step | what it adds to the plan |
|---|---|
| `request` | a worker asks a server for its parameters |
| `answer` | a server sends a piece of them to a worker, whose forward pass waits for it |
| `push` | a worker sends its gradient of a piece to the piece's server as soon as the backward pass has yielded it |
| `add`, `update` | the server adds what arrived and, after the last addition, has updated the piece |
| `barrier`, `end` | servers tell workers that everything is updated; a worker's iteration ends and the next begins |

Workers, servers and pieces go by number, counted from 0. The order of calls is the order of ops in the plan.

Where the papers are silent: requests and tokens are messages of 64 bytes in the control class; a worker and a server
on one host exchange data through memory, at no cost to the network.

TensorFlow's parameter server
=============================

Source: Geryon, sections II-A, II-B and V-A; TicTac, section 2; NetOps, section 3. Each iteration of a worker:

1. It asks every server for its parameters. Servers send them in an order that is random per worker (seeded), over one
   flow for each pair and traffic class. The order is the same in every iteration of a run; seeds vary it.
2. The forward op of a layer starts when all chunks of that layer have arrived.
3. Each layer's gradients are pushed as soon as the backward pass yields them, in that order.
4. A server adds what arrives (REDUCE, one stream per server, while the network carries others). Once it has every
   worker's contribution to every chunk, it sends a token to each worker; the tokens of all servers are the global
   barrier that ends the iteration.

Step 1 can also go as NetOps simulates it (section 9.4): a server sends one message at a time, parameter by parameter
to all workers ("round-robin") or all parameters to one worker after the other ("block").

Where the papers are silent: see workloads/engines/parameter_server.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from gradwire.datatypes.plan import CONTROL_CLASS, Combine, Discipline, Int64, OpKind, Plan, Role
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.placement import Piece, in_turn
from gradwire.workloads.engines.worker import PassBuilder, Workers, add_passes, ops_of_passes, with_merging
from gradwire.workloads.job import Job
from gradwire.workloads.plan_size import MostOps


class Flows:
    """One send queue, and so one flow, for each (source, destination, traffic class).

    shared: one queue per source instead, which feeds all its connections: a single thread with blocking sends.
    """

    def __init__(self, builder: PlanBuilder, discipline: Discipline = Discipline.FIFO, *, shared: bool = False) -> None:
        self._builder = builder
        self._discipline = discipline
        self._shared = shared
        self._queues: dict[tuple[int, ...], int] = {}

    def queue(self, src: int, dst: int, traffic_class: int) -> int:
        """The queue of rank `src` towards rank `dst`, added on first use."""
        key = (src,) if self._shared else (src, dst, traffic_class)
        if key not in self._queues:
            self._queues[key] = self._builder.queue(src, self._discipline)
        return self._queues[key]


UPDATE_LANE = 2
"""A server's stream of updates, which take no time; it adds in another one."""


class ParameterServer(Workers):
    """Workers, servers, and a chunk for each piece; methods add the steps.

    merging: whether workers take costs.merge_s for each slice that they put together. add: adds a worker's passes.
    """

    #: Pieces of parameters, each of which travels as one, in the order in which chunks are numbered.
    pieces: Sequence[Piece]
    #: Chunk of each piece.
    chunks: list[int]
    #: Rank of each server.
    servers: list[int]
    #: Send queues, first come, first served: one for each source, destination and traffic class.
    flows: Flows
    #: RECV of each request, by worker and server.
    requests: dict[tuple[int, int], int]
    #: Op after which a server has updated a piece, by piece.
    updated: dict[int, int]

    def __init__(
        self, name: str, job: Job, pieces: Sequence[Piece], *, merging: bool = False, add: PassBuilder = add_passes
    ) -> None:
        # To every worker goes every piece, and at least a result of switches comes back.
        workers, forward = job.cluster.workers, len(job.compute.forward_s)
        MostOps.here().refuse(name, workers * (2 + forward + 2 * len(pieces)) + 2 * len(pieces))
        super().__init__(name, with_merging(job, pieces) if merging else job, add)
        hosts = [job.cluster.server_host(server) for server in range(job.cluster.servers)]
        self.servers = [self.builder.rank(Role.SERVER, host) for host in hosts]
        self.job, self.pieces = job, pieces
        self.chunks = [self.builder.chunk(piece.tensor, piece.size_bytes) for piece in pieces]
        self.flows = Flows(self.builder)
        self.requests, self.updated = {}, {}

    def server_of(self, number: int) -> int:
        """Rank of the server that holds piece `number`."""
        return self.servers[self.pieces[number].server]

    def token(self, src: int, dst: int) -> tuple[int, int]:
        """Adds a control message from rank `src` to rank `dst`; returns its SEND and RECV."""
        return self.builder.message(self.flows.queue(src, dst, CONTROL_CLASS), dst, CONTROL_BYTES)

    def tokens(self, src: Sequence[int], dst: Sequence[int]) -> tuple[Int64, Int64]:
        """Adds a `token` from each rank to the one at the same index, all at once; returns their SENDs and RECVs."""
        queue = [self.flows.queue(near, far, CONTROL_CLASS) for near, far in zip(src, dst, strict=True)]
        first, none = self.builder.add_columns(OpKind.SEND, 0).start, np.full(len(src), -1, np.int64)
        sends = first + 2 * np.arange(len(src))

        def both(of_sends: Sequence[int] | Int64, of_recvs: Sequence[int] | Int64) -> Int64:
            return np.stack([np.array(of_sends, np.int64), np.array(of_recvs, np.int64)], axis=1).ravel()

        self.builder.add_columns(
            np.tile(np.array([OpKind.SEND, OpKind.RECV], np.int64), len(src)),
            2 * len(src),
            rank=both(src, dst),
            peer=both(dst, src),
            lane=both(queue, none),
            message=both(sends, sends),
            size_bytes=CONTROL_BYTES,
            combine=np.tile(np.array([0, Combine.CONTROL], np.int64), len(src)),
        )
        return sends, sends + 1

    def request(self, worker: int, server: int) -> None:
        """Adds a worker's request to a server for its parameters, at the beginning of its iteration."""
        send, recv = self.token(self.workers[worker], self.servers[server])
        self.builder.depend(send, self.passes[worker].begin)
        self.requests[worker, server] = recv

    def request_all(self, *, by_server: bool = False) -> None:
        """Every worker asks every server: one worker after the other or, `by_server`, all of them one server after the
        other."""
        pairs = [(worker, server) for worker in range(len(self.workers)) for server in range(len(self.servers))]
        if by_server:
            pairs.sort(key=itemgetter(1))
        sends, recvs = self.tokens(
            [self.workers[worker] for worker, _ in pairs], [self.servers[server] for _, server in pairs]
        )
        self.builder.depend_columns(sends, [self.passes[worker].begin for worker, _ in pairs])
        self.requests |= zip(pairs, recvs.tolist(), strict=True)

    def push(self, worker: int, number: int, *, traffic_class: int = 0, wait_free: bool = True) -> int:
        """A worker sends its gradient of a piece to the server; returns the RECV there.

        wait_free: as soon as the layer's backward op has ended; otherwise after the whole backward pass.
        """
        server, backward = self.server_of(number), self.passes[worker].backward
        queue = self.flows.queue(self.workers[worker], server, traffic_class)
        order = len(self.job.profile.layers) - self.pieces[number].layer
        send, recv = self.builder.message(
            queue, server, **self.data(number, Combine.ADD, order=order, traffic_class=traffic_class)
        )
        self.contribute(worker, number)
        self.builder.depend(send, backward[self.pieces[number].layer if wait_free else 0])
        return recv

    def contribute(self, worker: int, number: int) -> int:
        """Says from which op on a worker has its gradient of a piece, and returns that op: the layer's backward op."""
        op = self.passes[worker].backward[self.pieces[number].layer]
        self.builder.produces(op, self.chunks[number])
        return op

    def update(self, number: int) -> None:
        """Adds the op with which a server has updated a piece, once it has done all additions to it."""
        self.updated[number] = self.builder.compute(self.server_of(number), lane=UPDATE_LANE)

    def add(self, number: int, recv: int) -> None:
        """The server adds what has arrived with `recv`, at costs.aggregation_rate, one message after the other."""
        added = self.builder.reduce(
            self.server_of(number),
            self.pieces[number].size_bytes,
            self.job.costs.aggregation_bytes_per_s,
            chunk=self.chunks[number],
        )
        self.builder.depend(added, recv)
        self.builder.depend(self.updated[number], added)

    def answer(
        self, worker: int, number: int, queue: int, *, order: int, traffic_class: int = 0, cost_s: float = 0.0
    ) -> tuple[int, int]:
        """A server sends a piece to a worker, whose forward pass waits for it; returns the SEND, which waits for
        nothing yet, and RECV.

        order: place of the message among those of its send queue, if that has an order. cost_s: software's time before
        it leaves.
        """
        send, recv = self.builder.message(
            queue,
            self.workers[worker],
            **self.data(number, Combine.COPY, order=order, traffic_class=traffic_class, cost_s=cost_s),
        )
        self.deliver(worker, number, recv)
        return send, recv

    def deliver(self, worker: int, number: int, recv: int, *, lag: int = 0) -> None:
        """A worker's forward op of the piece's layer waits for `recv`, of this iteration or, with lag 1, of the one
        before."""
        forward = self.passes[worker].forward[self.pieces[number].layer]
        self.builder.depend(forward, recv, lag=lag)
        self.builder.consumes(forward, self.chunks[number])

    def data(
        self, number: int, combine: Combine, *, order: int, traffic_class: int = 0, cost_s: float = 0.0
    ) -> dict[str, Any]:
        """Returns the arguments that all messages with a piece have in common, for the builder's `message` and
        `group_message`."""
        return {
            "size_bytes": self.pieces[number].size_bytes,
            "chunk": self.chunks[number],
            "combine": combine,
            "traffic_class": traffic_class,
            "order": order,
            "layer": self.pieces[number].layer,
            "latency_s": self.job.costs.message_latency_s + cost_s,
        }

    def barrier(self) -> list[list[int]]:
        """Every server tells every worker that all its pieces are updated and all requests are in; returns each
        worker's RECVs."""
        tokens: list[list[int]] = [[] for _ in self.workers]
        for server, rank in enumerate(self.servers):
            finished = self.builder.compute(rank, lane=UPDATE_LANE)
            updated = [self.updated[number] for number, piece in enumerate(self.pieces) if piece.server == server]
            asked = [self.requests[worker, server] for worker in range(len(self.workers))]
            self.builder.depend(finished, *updated, *asked)
            sends, recvs = self.tokens([rank] * len(self.workers), self.workers)
            self.builder.depend_columns(sends, finished)
            for of_worker, recv in zip(tokens, recvs.tolist(), strict=True):
                of_worker.append(recv)
        return tokens


ClassOfLayer = Callable[[int], int]
"""Traffic class of a layer's data, by the layer's index."""
DistributionOrder = Literal["random", "round-robin", "together", "block"]


def one_class(_: int) -> int:
    """All layers' data in class 0."""
    return 0


@dataclass(frozen=True)
class Variant:
    """The differences between the papers' parameter servers."""

    #: "random": one flow per pair, each in another order. "round-robin": a server sends parameter p to workers 0
    #: to W - 1, then p + 1. "together": a parameter to all workers at once, which share the server's port, then p + 1.
    #: "block": all parameters to worker 0, then to worker 1. "round-robin" and "block" send one message at a time,
    #: strictly in that order.
    distribution: DistributionOrder = "random"
    #: Whether gradients are pushed as the backward pass yields them; otherwise after it (no wait-free backpropagation).
    wait_free: bool = True


TENSORFLOW = Variant()


def compile_parameter_server(
    job: Job,
    pieces: Sequence[Piece],
    name: str,
    class_of_layer: ClassOfLayer = one_class,
    variant: Variant = TENSORFLOW,
) -> Plan:
    """Compiles the iteration above for pieces that are already placed."""
    workers, places, count = job.cluster.workers, job.cluster.servers, len(pieces)
    of_worker = ops_of_passes(job) + 1 + 5 * count + 4 * places  # data there, added, and back; requests and tokens
    MostOps.here().refuse(name, workers * of_worker + count + places)
    servers = ParameterServer(name, job, pieces, merging=True)
    classes = [class_of_layer(piece.layer) for piece in pieces]
    servers.request_all()
    for number, traffic_class in enumerate(classes):
        servers.update(number)
        for worker in range(job.cluster.workers):
            recv = servers.push(worker, number, traffic_class=traffic_class, wait_free=variant.wait_free)
            servers.add(number, recv)
    _answer(servers, classes, variant.distribution)
    for worker, tokens in enumerate(servers.barrier()):
        servers.end(worker, *tokens, servers.passes[worker].backward[0])
    return servers.build()


def _answer(servers: ParameterServer, classes: Sequence[int], distribution: DistributionOrder) -> None:
    """Servers answer each worker's request with all their pieces, as updated in the iteration before."""
    builder = servers.builder
    in_parallel = distribution in ("random", "together")
    flows = servers.flows if in_parallel else Flows(builder, Discipline.COUNTER, shared=True)
    for worker, positions in enumerate(_positions(servers.job, distribution, servers.pieces)):
        for number, position in enumerate(positions):
            queue = flows.queue(servers.server_of(number), servers.workers[worker], classes[number])
            send, _ = servers.answer(worker, number, queue, order=position, traffic_class=classes[number])
            builder.depend(send, servers.requests[worker, servers.pieces[number].server])
            builder.depend(send, servers.updated[number], lag=1)


def _positions(job: Job, distribution: DistributionOrder, pieces: Sequence[Piece]) -> list[list[int]]:
    """Returns, for each worker, the position of each piece among all that are sent; for random order, or together,
    among those sent to that worker."""
    count, workers = len(pieces), job.cluster.workers
    if distribution == "round-robin":
        return in_turn(pieces, workers)
    if distribution == "block":
        return [list(range(worker * count, (worker + 1) * count)) for worker in range(workers)]
    orders = [list(range(count)) for _ in range(workers)]
    if distribution == "together":
        return orders
    for worker, order in enumerate(orders):
        random.Random(f"{job.seed}/pull/{worker}").shuffle(order)
    return orders

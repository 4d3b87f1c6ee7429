"""TensorFlow's parameter server with synchronous replicas: pull, forward, backward with pushes, barrier.

Source: Geryon, sections II-A, II-B and V-A; TicTac, section 2; NetOps, section 3. Each iteration of a worker:

1. It asks every server for its parameters; servers send them in an order that is random per worker and server (seeded),
   over one flow a pair and traffic class. The order is the same in every iteration of a run; seeds vary it.
2. The forward op of a layer starts when all chunks of that layer have arrived.
3. Each layer's gradients are pushed as soon as the backward pass yields them, in that order.
4. A server adds what arrives (REDUCE, one stream a server, beside the network) and, once every worker's contribution to every chunk
   is in, sends a token to each worker; the tokens of all servers are the global barrier that ends the iteration.

Step 1 can also go as NetOps simulates it (section 9.4): a server sends one message at a time, parameter by parameter to all workers
("round-robin") or all parameters to one worker after the other ("block").

Where the papers are silent: requests and tokens are single 64-byte messages a (worker, server) pair in the control class;
a worker and a server on one host exchange data through memory, at no cost to the network.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.flows import Flows
from gradwire.workloads.engines.placement import Piece, in_turn
from gradwire.workloads.engines.worker import Passes, add_passes, with_merging
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Combine, Discipline, Plan, Role

ClassOfLayer = Callable[[int], int]
DistributionOrder = Literal["random", "round-robin", "block"]


@dataclass(frozen=True)
class Variant:
    """What differs between the papers' parameter servers.

    distribution: "random": a flow a pair, each in an order of its own. "round-robin": a server sends parameter p to workers 0 to W - 1,
    then p + 1; "block": all parameters to worker 0, then to worker 1; both one message at a time, strictly in that order.
    wait_free: gradients are pushed as the backward pass yields them; otherwise all of them after it (no wait-free backpropagation).
    """

    distribution: DistributionOrder = "random"
    wait_free: bool = True


TENSORFLOW = Variant()


@dataclass
class _Servers:
    """Ops that later parts of the plan refer to, by chunk, worker and server."""

    ranks: list[int]
    requests: dict[tuple[int, int], int] = field(default_factory=dict)
    applied: list[int] = field(default_factory=list)


def compile_parameter_server(
    job: Job, pieces: list[Piece], class_of_layer: ClassOfLayer, name: str, variant: Variant = TENSORFLOW
) -> Plan:
    """Compiles the iteration above for chunks that are placed already; `class_of_layer` gives the traffic class of a layer's data."""
    builder = PlanBuilder(name)
    workers = [builder.rank(Role.WORKER, job.cluster.worker_host(w)) for w in range(job.cluster.workers)]
    servers = _Servers([builder.rank(Role.SERVER, job.cluster.server_host(s)) for s in range(job.cluster.servers)])
    for tensor in job.profile.tensors:
        builder.tensor(tensor.name)
    chunks = [builder.chunk(piece.tensor, piece.size_bytes) for piece in pieces]
    flows = Flows(builder)
    merging = with_merging(job, pieces)
    passes = [add_passes(builder, merging, worker) for worker in workers]
    _request(builder, flows, servers, workers, passes)
    for chunk, piece in zip(chunks, pieces, strict=True):
        _push_and_apply(
            builder, flows, job, servers, workers, passes, chunk, piece, class_of_layer(piece.layer), variant
        )
    placed = list(zip(chunks, pieces, strict=True))
    answers = flows if variant.distribution == "random" else Flows(builder, Discipline.COUNTER, shared=True)
    positions = _positions(job, variant.distribution, len(workers), pieces)
    _pull(builder, answers, job, servers, workers, passes, placed, class_of_layer, positions)
    _barrier(builder, flows, servers, workers, passes, pieces)
    return builder.build(job.compute_s, job.samples)


def _request(builder: PlanBuilder, flows: Flows, servers: _Servers, workers: list[int], passes: list[Passes]) -> None:
    for worker, own in zip(workers, passes, strict=True):
        for server in servers.ranks:
            send, recv = builder.message(flows.queue(worker, server, -1), server, CONTROL_BYTES)
            builder.depend(send, own.begin)
            servers.requests[worker, server] = recv


def _push_and_apply(
    builder: PlanBuilder,
    flows: Flows,
    job: Job,
    servers: _Servers,
    workers: list[int],
    passes: list[Passes],
    chunk: int,
    piece: Piece,
    traffic_class: int,
    variant: Variant,
) -> None:
    """Every worker pushes its gradient of the chunk; the server adds each and, after the last, has applied the update."""
    server = servers.ranks[piece.server]
    applied = builder.compute(server, lane=2)
    for worker, own in zip(workers, passes, strict=True):
        send, recv = builder.message(
            flows.queue(worker, server, traffic_class),
            server,
            piece.size_bytes,
            chunk=chunk,
            combine=Combine.ADD,
            traffic_class=traffic_class,
            order=len(job.profile.layers) - piece.layer,
            layer=piece.layer,
            latency_s=job.costs.message_latency_s,
        )
        builder.produces(own.backward[piece.layer], chunk)
        builder.depend(send, own.backward[piece.layer] if variant.wait_free else own.backward[0])
        added = builder.reduce(server, piece.size_bytes, job.costs.aggregation_bytes_per_s, chunk=chunk)
        builder.depend(added, recv)
        builder.depend(applied, added)
    servers.applied.append(applied)


def _positions(job: Job, distribution: DistributionOrder, workers: int, pieces: Sequence[Piece]) -> list[list[int]]:
    """Of each worker: the place of each chunk among all that are sent (to it alone, for random order)."""
    if distribution == "round-robin":
        return in_turn(pieces, workers)
    count = len(pieces)
    if distribution == "block":
        return [list(range(worker * count, (worker + 1) * count)) for worker in range(workers)]
    orders = [list(range(count)) for _ in range(workers)]
    for worker, order in enumerate(orders):
        random.Random(f"{job.seed}/pull/{worker}").shuffle(order)
    return orders


def _pull(
    builder: PlanBuilder,
    flows: Flows,
    job: Job,
    servers: _Servers,
    workers: list[int],
    passes: list[Passes],
    placed: list[tuple[int, Piece]],
    class_of_layer: ClassOfLayer,
    positions: list[list[int]],
) -> None:
    """Servers answer a worker's request with all their chunks, in the order of `positions`."""
    for worker, own, order in zip(workers, passes, positions, strict=True):
        for (chunk, piece), applied, position in zip(placed, servers.applied, order, strict=True):
            server, traffic_class = servers.ranks[piece.server], class_of_layer(piece.layer)
            send, recv = builder.message(
                flows.queue(server, worker, traffic_class),
                worker,
                piece.size_bytes,
                chunk=chunk,
                combine=Combine.COPY,
                traffic_class=traffic_class,
                order=position,
                layer=piece.layer,
                latency_s=job.costs.message_latency_s,
            )
            builder.depend(send, servers.requests[worker, server])
            builder.depend(send, applied, lag=1)
            builder.depend(own.forward[piece.layer], recv)
            builder.consumes(own.forward[piece.layer], chunk)


def _barrier(
    builder: PlanBuilder,
    flows: Flows,
    servers: _Servers,
    workers: list[int],
    passes: list[Passes],
    pieces: list[Piece],
) -> None:
    tokens: dict[int, list[int]] = {worker: [] for worker in workers}
    for number, server in enumerate(servers.ranks):
        finished = builder.compute(server, lane=2)
        builder.depend(finished, *(a for a, p in zip(servers.applied, pieces, strict=True) if p.server == number))
        for worker in workers:
            builder.depend(finished, servers.requests[worker, server])
            send, recv = builder.message(flows.queue(server, worker, -1), worker, CONTROL_BYTES)
            builder.depend(send, finished)
            tokens[worker].append(recv)
    for worker, own in zip(workers, passes, strict=True):
        end = builder.compute(worker)
        builder.depend(end, *tokens[worker], own.backward[0])
        builder.depend(own.begin, end, lag=1)
        builder.iteration(worker, own.begin, end)

"""TensorFlow's parameter server with synchronous replicas: pull, forward, backward with pushes, barrier.

Source: Geryon, sections II-A, II-B and V-A; TicTac, section 2; NetOps, section 3. Each iteration of a worker:

1. It asks every server for its parameters. Servers send them in an order that is random per worker (seeded), over one flow for each
   pair and traffic class. The order is the same in every iteration of a run; seeds vary it.
2. The forward op of a layer starts when all chunks of that layer have arrived.
3. Each layer's gradients are pushed as soon as the backward pass yields them, in that order.
4. A server adds what arrives (REDUCE, one stream per server, beside the network). Once it has every worker's contribution to every
   chunk, it sends a token to each worker; the tokens of all servers are the global barrier that ends the iteration.

Step 1 can also go as NetOps simulates it (section 9.4): a server sends one message at a time, parameter by parameter to all workers
("round-robin") or all parameters to one worker after the other ("block").

Where the papers are silent: see workloads/engines/parameter_server.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gradwire.datatypes.plan import Discipline, Plan
from gradwire.workloads.engines.flows import Flows
from gradwire.workloads.engines.parameter_server import ParameterServer
from gradwire.workloads.engines.placement import Piece, in_turn
from gradwire.workloads.job import Job

ClassOfLayer = Callable[[int], int]
"""Traffic class of a layer's data, by the layer's index."""
DistributionOrder = Literal["random", "round-robin", "block"]


def one_class(_: int) -> int:
    """All layers' data in class 0."""
    return 0


@dataclass(frozen=True)
class Variant:
    """What differs between the papers' parameter servers."""

    #: "random": one flow per pair, each in an order of its own. "round-robin": a server sends parameter p to workers 0 to W - 1, then
    #: p + 1. "block": all parameters to worker 0, then to worker 1. The latter two send one message at a time, strictly in that order.
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
    flows = servers.flows if distribution == "random" else Flows(builder, Discipline.COUNTER, shared=True)
    for worker, positions in enumerate(_positions(servers.job, distribution, servers.pieces)):
        for number, position in enumerate(positions):
            queue = flows.queue(servers.server_of(number), servers.workers[worker], classes[number])
            send, _ = servers.answer(worker, number, queue, order=position, traffic_class=classes[number])
            builder.depend(send, servers.requests[worker, servers.pieces[number].server])
            builder.depend(send, servers.updated[number], lag=1)


def _positions(job: Job, distribution: DistributionOrder, pieces: Sequence[Piece]) -> list[list[int]]:
    """For each worker: the position of each piece among all that are sent (random order: among those sent to that worker)."""
    count, workers = len(pieces), job.cluster.workers
    if distribution == "round-robin":
        return in_turn(pieces, workers)
    if distribution == "block":
        return [list(range(worker * count, (worker + 1) * count)) for worker in range(workers)]
    orders = [list(range(count)) for _ in range(workers)]
    for worker, order in enumerate(orders):
        random.Random(f"{job.seed}/pull/{worker}").shuffle(order)
    return orders

"""A parameter server whose transfers to each worker are enforced in a given order (TicTac, section 5).

Source: TicTac, sections 3 to 6; Geryon, section V-D. Each iteration of a worker:

1. It asks every server for its parameters. A server hands each transfer to the worker's channel when the channel's
   counter has reached the transfer's number (section 5.1): one counter and one active transfer per (server, worker)
   pair.
2. An op of the model starts when its parameters and the results that it reads are there; branches do not wait for one
   another.
3. Training: each layer's gradients are pushed as soon as the backward pass yields them. A server adds what arrives
   and, once it has every worker's contribution to every chunk, sends a token to each worker; all tokens together are
   the global barrier. Inference: agents only compute the forward pass, on parameters that come from outside the job,
   and push nothing.

Where the papers are silent: with several servers each counts its own transfers of the common order; parameters of
inference are renewed once per iteration; the replicas of one graph start together in inference too, at the cost of a
token to and from the first server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from gradwire.datatypes.plan import Discipline, Plan
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.parameter_server import UPDATE_LANE, Flows, ParameterServer
from gradwire.workloads.engines.placement import Piece
from gradwire.workloads.engines.worker import PassBuilder, Passes, add_graph_passes, ops_of_passes
from gradwire.workloads.job import Job
from gradwire.workloads.plan_size import MostOps

Enforcement = Literal["sender", "chain", "activation"]
"""The place where an order is kept (section 5.1). "sender": by the server's counters. "chain": by the graph; a worker
asks for a piece once the one before has arrived. "activation": transfers only begin in order; each goes once the server
has copied it (costs.copy_rate)."""


def compile_ordered(
    job: Job,
    pieces: Sequence[Piece],
    orders: Sequence[Sequence[int]],
    name: str,
    *,
    inference: bool = False,
    enforcement: Enforcement | None = "sender",
    add: PassBuilder = add_graph_passes,
    cost_s: float = 0.0,
) -> Plan:
    """Compiles the iteration above for pieces that are already placed.

    orders: for each worker the numbers of the pieces, first to last. enforcement: where that order is kept; None:
    nowhere, pieces merely become ready in it. add: adds a worker's passes in training. cost_s: time to schedule a
    transfer to a worker.
    """
    MostOps.here().refuse(name, _ops(job, len(pieces), inference=inference, chained=enforcement == "chain"))
    servers = ParameterServer(name, job, pieces, merging=True, add=_forward_only if inference else add)
    for number in range(len(pieces)):
        servers.update(number)
    servers.request_all()
    for worker, order in enumerate(orders):
        sends = _answer(servers, worker, order, enforcement, cost_s)
        if inference:
            servers.builder.depend_columns(list(servers.updated.values()), sends)
        else:
            _push(servers, worker)
    if not inference:
        for worker, tokens in enumerate(servers.barrier()):
            servers.end(worker, *tokens, *servers.passes[worker].backward)
        return servers.build()
    for number, op in servers.updated.items():
        servers.builder.produces(op, servers.chunks[number])
    _start_together(servers)
    return servers.builder.build(sum(job.compute.forward_s), job.samples)


def _ops(job: Job, pieces: int, *, inference: bool, chained: bool) -> int:
    """How many ops `compile_ordered` makes."""
    cluster, copied = job.cluster, not math.isinf(job.costs.copy_bytes_per_s)
    # Its passes and end, requests, what it gets and what asks for that, and copies.
    of_worker = ops_of_passes(job) + 1 + 2 * cluster.servers + (2 + copied) * pieces
    of_worker += 2 * max(0, pieces - 1) * chained
    if inference:
        return cluster.workers * (of_worker - len(job.profile.layers) + 4) + pieces + 1
    return cluster.workers * (of_worker + 3 * pieces + 2 * cluster.servers) + pieces + cluster.servers


def _forward_only(builder: PlanBuilder, job: Job, rank: int) -> Passes:
    return add_graph_passes(builder, job, rank, backward=False)


def _answer(
    servers: ParameterServer, worker: int, order: Sequence[int], enforcement: Enforcement | None, cost_s: float
) -> list[int]:
    """The servers' transfers to one worker; returns the SEND of each piece."""
    builder, rank = servers.builder, servers.workers[worker]
    channels = Flows(builder, Discipline.COUNTER if enforcement == "sender" else Discipline.FIFO)
    for server in servers.servers:
        channels.queue(server, rank, 0)
    sends, last = [-1] * len(servers.pieces), -1
    for position, number in enumerate(order):
        server = servers.server_of(number)
        asked = servers.requests[worker, servers.pieces[number].server]
        if enforcement == "chain" and position:
            ask, asked = servers.token(rank, server)
            builder.depend(ask, last)
        sends[number], last = servers.answer(
            worker, number, channels.queue(server, rank, 0), order=position, cost_s=cost_s
        )
        builder.depend(sends[number], _add_copy(servers, worker, number, asked))
        builder.depend(sends[number], servers.updated[number], lag=1)
    return sends


def _add_copy(servers: ParameterServer, worker: int, number: int, asked: int) -> int:
    """The op that copies a piece for a worker after the request `asked`, in a separate thread; `asked` itself if
    copies are free."""
    rate, size_bytes = servers.job.costs.copy_bytes_per_s, servers.pieces[number].size_bytes
    if math.isinf(rate):
        return asked
    thread = UPDATE_LANE + 1 + worker * len(servers.pieces) + number
    copied = servers.builder.compute(servers.server_of(number), size_bytes / rate, lane=thread)
    servers.builder.depend(copied, asked)
    return copied


def _push(servers: ParameterServer, worker: int) -> None:
    """A worker pushes its gradients as the backward pass yields them; servers add them up."""
    for server in servers.servers:  # a channel to each of them, also to one that holds nothing
        servers.flows.queue(servers.workers[worker], server, 0)
    for number in range(len(servers.pieces)):
        servers.add(number, servers.push(worker, number))


def _start_together(servers: ParameterServer) -> None:
    """Inference: the first server hears from every worker that it is done, and then starts them all again."""
    builder, coordinator = servers.builder, servers.servers[0]
    finished = builder.compute(coordinator, lane=UPDATE_LANE)
    for rank, passes in zip(servers.workers, servers.passes, strict=True):
        send, recv = servers.token(rank, coordinator)
        builder.depend(send, *passes.forward)
        builder.depend(finished, recv)
    for worker, rank in enumerate(servers.workers):
        send, recv = servers.token(coordinator, rank)
        builder.depend(send, finished)
        servers.end(worker, recv)

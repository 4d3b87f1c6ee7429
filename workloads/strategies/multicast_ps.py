"""A parameter server with support of the network: IP multicast, in-network aggregation, or both.

Source: NetOps, sections 3.4 and 8.1 (multicast: one copy of each parameter reaches all workers; aggregation: see
workloads/engines/aggregation.py), 9.1 (placement), 9.2 (messages), 9.3 (barrier). Each iteration of a worker:

1. It tells every server that it is ready. A server sends its parameters once all workers are: multicast serves all of them at once.
2. Parameters leave in forward order: as one copy to the multicast group of all workers, or without multicast as a copy for each
   worker in turn, parameter by parameter ("round robin", the default of NetOps' simulator, section 6).
3. Forward passes start layer by layer as parameters arrive; gradients are pushed as the backward pass yields them, straight to the
   server or through the aggregating switches.
4. The server adds what arrives and, when all is updated, sends a token to each worker: the global barrier (9.3: optional; without
   it a parameter leaves as soon as it is updated, and the next iteration's forward pass waits for each layer's own parameters).

Where the paper is silent: a worker on a server's own host exchanges data with it through memory and is no member of its group;
multicast is made reliable by negative acknowledgements (agents/multicast/protocol.py), "since one has time to identify and recover from
errors".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.aggregation import Aggregators, Contribution
from gradwire.workloads.engines.flows import Flows
from gradwire.workloads.engines.placement import Piece, greedy_by_size, in_messages, in_turn, partitioned, whole_tensors
from gradwire.workloads.engines.worker import Passes, add_passes
from gradwire.workloads.job import Job
from gradwire.workloads.plan import CONTROL_CLASS, Combine, Plan, Role
from gradwire.workloads.strategies.strategy import Options, Strategy


class MulticastOptions(Options):
    """placement: 'whole' tensors round robin (TensorFlow), 'greedy' by size, or 'split' evenly over all servers (NetOps, 9.1).

    message_parameters: 0, or the most parameters of a message, each passed on alone (9.2). barrier: see above (9.3).
    """

    placement: Literal["whole", "greedy", "split"] = "whole"
    message_parameters: int = Field(0, ge=0)
    barrier: bool = True


class AggregationOptions(MulticastOptions):
    """switch_memory_bytes: bytes of sums that a switch can hold; 0: no bound (NetOps)."""

    switch_memory_bytes: int = Field(0, ge=0)


@dataclass
class _Point:
    """The plan under construction. requests: at each server, the RECV of each worker's word that it is ready."""

    builder: PlanBuilder
    job: Job
    flows: Flows
    workers: list[int]
    servers: list[int]
    passes: list[Passes]
    requests: list[list[int]]
    chunks: list[int]
    pieces: list[Piece]
    applied: dict[int, int]

    def is_beside(self, worker: int, server: int) -> bool:
        return self.job.cluster.worker_host(worker) == self.job.cluster.server_host(server)


def compile_supported(job: Job, options: MulticastOptions, name: str, *, multicast: bool, aggregation: bool) -> Plan:
    """Compiles the iteration above. Raises InputFault for a chunk beyond the switches' memory."""
    builder = PlanBuilder(name)
    cluster = job.cluster
    workers = [builder.rank(Role.WORKER, cluster.worker_host(w)) for w in range(cluster.workers)]
    servers = [builder.rank(Role.SERVER, cluster.server_host(s)) for s in range(cluster.servers)]
    for tensor in job.profile.tensors:
        builder.tensor(tensor.name)
    pieces = _placed(job, options)
    chunks = [builder.chunk(piece.tensor, piece.size_bytes) for piece in pieces]
    passes = [add_passes(builder, job, worker) for worker in workers]
    point = _Point(builder, job, Flows(builder), workers, servers, passes, [], chunks, pieces, {})
    memory_bytes = options.switch_memory_bytes if isinstance(options, AggregationOptions) else 0
    _push(point, Aggregators(builder, job, point.flows, memory_bytes) if aggregation else None)
    if options.barrier:
        point.requests = [_requests(point, server) for server in servers]
    _distribute(point, multicast=multicast, barrier=options.barrier)
    _end(point, barrier=options.barrier)
    return builder.build(job.compute_s, job.samples)


def _placed(job: Job, options: MulticastOptions) -> list[Piece]:
    place = {"whole": whole_tensors, "greedy": greedy_by_size, "split": partitioned}[options.placement]
    return in_messages(place(job.profile, job.cluster.servers), options.message_parameters)


def _requests(point: _Point, server: int) -> list[int]:
    recvs = []
    for worker, own in zip(point.workers, point.passes, strict=True):
        send, recv = point.builder.message(point.flows.queue(worker, server, CONTROL_CLASS), server, CONTROL_BYTES)
        point.builder.depend(send, own.begin)
        recvs.append(recv)
    return recvs


def _push(point: _Point, aggregators: Aggregators | None) -> None:
    """Gradients go up in the order of the backward pass; the server adds each message that arrives."""
    builder, job = point.builder, point.job
    backward_order = sorted(zip(point.chunks, point.pieces, strict=True), key=lambda item: -item[1].layer)
    for chunk, piece in backward_order:
        server = point.servers[piece.server]
        gradients = {}
        for number, (worker, own) in enumerate(zip(point.workers, point.passes, strict=True)):
            builder.produces(own.backward[piece.layer], chunk)
            gradients[number] = Contribution(worker, [own.backward[piece.layer]])
        if aggregators is not None:
            recvs = aggregators.add_up(chunk, piece, server, gradients)
        else:
            recvs = [_push_one(point, own, server, chunk, piece) for own in gradients.values()]
        point.applied[chunk] = builder.compute(server, lane=2)
        for recv in recvs:
            added = builder.reduce(server, piece.size_bytes, job.costs.aggregation_bytes_per_s, chunk=chunk)
            builder.depend(added, recv)
            builder.depend(point.applied[chunk], added)


def _push_one(point: _Point, own: Contribution, server: int, chunk: int, piece: Piece) -> int:
    send, recv = point.builder.message(
        point.flows.queue(own.rank, server, 0),
        server,
        piece.size_bytes,
        chunk=chunk,
        combine=Combine.ADD,
        traffic_class=0,
        order=len(point.job.profile.layers) - piece.layer,
        layer=piece.layer,
        latency_s=point.job.costs.message_latency_s,
    )
    point.builder.depend(send, *own.after)
    return recv


def _distribute(point: _Point, *, multicast: bool, barrier: bool) -> None:
    builder = point.builder
    beside = [[w for w in range(len(point.workers)) if point.is_beside(w, s)] for s in range(len(point.servers))]
    remote = [[w for w in range(len(point.workers)) if w not in near] for near in beside]
    groups = [builder.group(point.workers[w] for w in far) if multicast and far else -1 for far in remote]
    queues = [builder.queue(server) for server in point.servers]
    turns = in_turn(point.pieces, len(point.workers))
    for position, (chunk, piece) in enumerate(zip(point.chunks, point.pieces, strict=True)):
        server, common = piece.server, _common(point, chunk, piece)
        received: dict[int, int] = {}
        sends = []
        for worker in beside[server]:
            queue = point.flows.queue(point.servers[server], point.workers[worker], 0)
            send, received[worker] = builder.message(
                queue, point.workers[worker], piece.size_bytes, order=position, **common
            )
            sends.append(send)
        if groups[server] >= 0:
            send, recvs = builder.group_message(
                queues[server], groups[server], piece.size_bytes, order=position, **common
            )
            received |= zip(remote[server], recvs, strict=True)
            sends.append(send)
        else:
            for worker in remote[server]:
                order = turns[worker][position]
                send, received[worker] = builder.message(
                    queues[server], point.workers[worker], piece.size_bytes, order=order, **common
                )
                sends.append(send)
        for send in sends:
            builder.depend(send, point.applied[chunk], lag=int(barrier))
            if barrier:
                builder.depend(send, *point.requests[server])
        for worker, own in enumerate(point.passes):
            builder.depend(own.forward[piece.layer], received[worker], lag=int(not barrier))
            builder.consumes(own.forward[piece.layer], chunk)


def _common(point: _Point, chunk: int, piece: Piece) -> dict[str, Any]:
    """What all copies of a parameter's message have in common."""
    return {
        "chunk": chunk,
        "combine": Combine.COPY,
        "traffic_class": 0,
        "layer": piece.layer,
        "latency_s": point.job.costs.message_latency_s,
    }


def _end(point: _Point, *, barrier: bool) -> None:
    """The barrier's tokens, or nothing but the worker's own backward pass, end an iteration."""
    builder = point.builder
    tokens: list[list[int]] = [[] for _ in point.workers]
    for number, server in enumerate(point.servers if barrier else []):
        finished = builder.compute(server, lane=2)
        own = [point.applied[c] for c, p in zip(point.chunks, point.pieces, strict=True) if p.server == number]
        builder.depend(finished, *own, *point.requests[number])
        for worker, rank in enumerate(point.workers):
            send, recv = builder.message(point.flows.queue(server, rank, CONTROL_CLASS), rank, CONTROL_BYTES)
            builder.depend(send, finished)
            tokens[worker].append(recv)
    for rank, passes, own in zip(point.workers, point.passes, tokens, strict=True):
        end = builder.compute(rank)
        builder.depend(end, passes.backward[0], *own)
        builder.depend(passes.begin, end, lag=1)
        builder.iteration(rank, passes.begin, end)


def _multicast(job: Job, options: MulticastOptions) -> Mapping[str, Plan]:
    name = "multicast-ps"
    return {name: compile_supported(job, options, name, multicast=True, aggregation=False)}


def _aggregation(job: Job, options: AggregationOptions) -> Mapping[str, Plan]:
    name = "aggregation-ps"
    return {name: compile_supported(job, options, name, multicast=False, aggregation=True)}


def _both(job: Job, options: AggregationOptions) -> Mapping[str, Plan]:
    name = "multicast-aggregation-ps"
    return {name: compile_supported(job, options, name, multicast=True, aggregation=True)}


STRATEGIES = (
    Strategy(
        "multicast-ps",
        "parameter server that distributes parameters by IP multicast: one copy on each link",
        "NetOps, sections 3.4.1 and 8.1.2",
        MulticastOptions,
        _multicast,
        classes=lambda _: 1,
    ),
    Strategy(
        "aggregation-ps",
        "parameter server whose gradients the switches add on their way: one result on each link",
        "NetOps, sections 3.4.2 and 8.1.1",
        AggregationOptions,
        _aggregation,
        classes=lambda _: 1,
        aggregators=True,
    ),
    Strategy(
        "multicast-aggregation-ps",
        "parameter server with multicast distribution and in-network aggregation",
        "NetOps, section 8.1.4",
        AggregationOptions,
        _both,
        classes=lambda _: 1,
        aggregators=True,
    ),
)

"""A parameter server with support from the network: IP multicast, in-network aggregation, or both.

Source: NetOps, sections 3.4 and 8.1 (multicast: one copy of each parameter reaches all workers; aggregation: see
workloads/engines/aggregation.py), 9.1 (placement), 9.2 (messages), 9.3 (barrier). Each iteration of a worker:

1. It tells every server that it is ready. A server sends its parameters once all workers are, as multicast serves all
   of them at once.
2. Parameters leave in forward order: as one copy to the multicast group of all workers or, without multicast, as a
   copy for each worker in turn, parameter by parameter ("round robin", the default of NetOps' simulator, section 6).
3. Forward passes start layer by layer as parameters arrive; gradients are pushed as the backward pass yields them,
   straight to the server or through the aggregating switches.
4. The server adds what arrives and, when all is updated, sends a token to each worker: the global barrier (9.3:
   optional; without it a parameter leaves as soon as it is updated, and the next iteration's forward pass waits for
   each layer's own parameters).

Where the paper is silent: a worker on a server's own host exchanges data with it through memory and is not a member of
its group; multicast is made reliable by negative acknowledgements (agents/multicast_protocol.py), "since one has time
to identify and recover from errors".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from gradwire.datatypes.plan import Combine, Plan
from gradwire.workloads.engines.aggregation import Aggregators, Contribution
from gradwire.workloads.engines.parameter_server import ParameterServer
from gradwire.workloads.engines.placement import Piece, greedy_by_size, in_messages, in_turn, partitioned, whole_tensors
from gradwire.workloads.engines.worker import ops_of_passes
from gradwire.workloads.job import Job
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.plan_size import BYTES_PER_DEPENDENCY, MOST_KEPT_BYTES_PER_OP, MostOps
from gradwire.workloads.strategy import SIMULATED, Options, Strategy

Placement = Literal["whole", "greedy", "split"]
PLACE: Mapping[Placement, Callable[[Profile, int, int], list[Piece]]] = {
    "whole": lambda profile, servers, _: whole_tensors(profile, servers),
    "greedy": lambda profile, servers, _: greedy_by_size(profile, servers),
    "split": partitioned,
}


class MulticastOptions(Options):
    """Options for where parameters lie, and how they leave."""

    placement: Placement = "whole"
    """"whole": tensors round robin (TensorFlow). "greedy": by size. "split": evenly over all servers (NetOps, 9.1)."""
    message_parameters: int = Field(0, ge=0)
    """The most parameters of a message, each passed on alone (9.2); 0: messages are not cut."""
    barrier: bool = True
    """Step 4 (9.3)."""


class AggregationOptions(MulticastOptions):
    """Options for where parameters lie and how they leave, and for the memory that switches have for sums."""

    switch_memory_bytes: int = Field(0, ge=0)
    """Bytes of sums that a switch can hold; 0: unbounded (NetOps)."""


def compile_supported(
    job: Job, options: MulticastOptions, *, name: str, multicast: bool, aggregation: bool
) -> Mapping[str, Plan]:
    """Compiles the iteration above. Raises InputFault for a chunk beyond the switches' memory."""
    cluster = job.cluster
    placed = PLACE[options.placement](job.profile, cluster.servers, cluster.workers)
    pieces = in_messages(placed, options.message_parameters, cluster.workers)
    MostOps.here().refuse(name, _ops(job, pieces, options, multicast=multicast, aggregation=aggregation))
    servers = ParameterServer(name, job, pieces)
    aggregators = None
    if aggregation:
        memory_bytes = options.switch_memory_bytes if isinstance(options, AggregationOptions) else 0
        aggregators = Aggregators(servers.builder, job, servers.flows, memory_bytes)
    _push(servers, aggregators)
    if options.barrier:
        servers.request_all(by_server=True)
    _distribute(servers, multicast=multicast, barrier=options.barrier)
    tokens = servers.barrier() if options.barrier else [[]] * job.cluster.workers
    for worker, passes in enumerate(servers.passes):
        servers.end(worker, passes.backward[0], *tokens[worker])
    return {name: servers.build()}


def _ops(job: Job, pieces: Sequence[Piece], options: MulticastOptions, *, multicast: bool, aggregation: bool) -> int:
    """How many ops the plan has; with aggregation at least, as each worker sends its gradients and each piece is added
    once, whatever comes of it on the way."""
    cluster, count, barrier = job.cluster, len(pieces), options.barrier
    ops = cluster.workers * (ops_of_passes(job) + 1 + 4 * count + 4 * cluster.servers * barrier)
    ops += count * (2 if aggregation else 1 + cluster.workers)
    if multicast:  # one SEND for all workers on other hosts
        per_server = np.bincount([piece.server for piece in pieces], minlength=cluster.servers)
        hosts = [cluster.worker_host(worker) for worker in range(cluster.workers)]
        beside = [hosts.count(cluster.server_host(server)) for server in range(cluster.servers)]
        ops -= int(per_server @ np.maximum(cluster.workers - np.array(beside) - 1, 0))
    if barrier and not multicast:  # each copy waits for all requests, which takes more memory than ops do
        waits_bytes = BYTES_PER_DEPENDENCY * cluster.workers**2 * count
        ops = max(ops, waits_bytes // MOST_KEPT_BYTES_PER_OP)
    return ops + barrier * cluster.servers


def _push(servers: ParameterServer, aggregators: Aggregators | None) -> None:
    """Gradients go up in the order of the backward pass; the server adds each message that arrives."""
    workers, pieces = range(len(servers.workers)), servers.pieces
    for number in sorted(range(len(pieces)), key=lambda number: -pieces[number].layer):
        if aggregators is None:
            recvs = [servers.push(worker, number) for worker in workers]
        else:
            gradients = {
                worker: Contribution(servers.workers[worker], [servers.contribute(worker, number)])
                for worker in workers
            }
            chunk, server = servers.chunks[number], servers.server_of(number)
            recvs = aggregators.add_up(chunk, pieces[number], server, gradients)
        servers.update(number)
        for recv in recvs:
            servers.add(number, recv)


@dataclass(frozen=True)
class _Sender:
    """A server as it distributes its pieces."""

    servers: ParameterServer
    #: Rank of the server.
    rank: int
    #: Numbers of the workers on the server's own host, and of all others.
    same_host: list[int]
    remote: list[int]
    #: Send queue to other hosts.
    queue: int
    #: Multicast group of the remote workers; None: each gets a separate copy.
    group: int | None

    @classmethod
    def of(cls, servers: ParameterServer, server: int, *, multicast: bool) -> _Sender:
        """Server number `server`, whose queue and group are added to the plan."""
        cluster, workers = servers.job.cluster, range(len(servers.workers))
        same_host = [worker for worker in workers if cluster.worker_host(worker) == cluster.server_host(server)]
        remote = [worker for worker in workers if worker not in same_host]
        members = (servers.workers[worker] for worker in remote)
        group = servers.builder.group(members) if multicast and remote else None
        rank = servers.servers[server]
        return cls(servers, rank, same_host, remote, servers.builder.queue(rank), group)

    def send(self, number: int, turns: Sequence[int]) -> tuple[list[int], dict[int, int]]:
        """Sends a piece to all workers, in their turns where each gets a copy; returns SENDs, and the RECV of each
        worker."""
        servers, builder = self.servers, self.servers.builder
        sends: list[int] = []
        recvs: dict[int, int] = {}
        queues = {worker: servers.flows.queue(self.rank, servers.workers[worker], 0) for worker in self.same_host}
        orders = dict.fromkeys(self.same_host, number)
        if self.group is None:
            queues |= dict.fromkeys(self.remote, self.queue)
            orders |= {worker: turns[worker] for worker in self.remote}
        for worker, queue in queues.items():
            data = servers.data(number, Combine.COPY, order=orders[worker])
            send, recvs[worker] = builder.message(queue, servers.workers[worker], **data)
            sends.append(send)
        if self.group is not None:
            data = servers.data(number, Combine.COPY, order=number)
            send, received = builder.group_message(self.queue, self.group, **data)
            recvs |= zip(self.remote, received, strict=True)
            sends.append(send)
        return sends, recvs


def _distribute(servers: ParameterServer, *, multicast: bool, barrier: bool) -> None:
    """Parameters go down in forward order; without the barrier, each as soon as it is updated."""
    builder, pieces = servers.builder, servers.pieces
    senders = [_Sender.of(servers, server, multicast=multicast) for server in range(len(servers.servers))]
    turns = in_turn(pieces, len(servers.workers))
    for number, piece in enumerate(pieces):
        sends, recvs = senders[piece.server].send(number, [turn[number] for turn in turns])
        for send in sends:
            builder.depend(send, servers.updated[number], lag=int(barrier))
            if barrier:
                asked = [servers.requests[worker, piece.server] for worker in range(len(servers.workers))]
                builder.depend(send, *asked)
        for worker in range(len(servers.workers)):
            servers.deliver(worker, number, recvs[worker], lag=int(not barrier))


def _strategy(name: str, summary: str, source: str, *, multicast: bool, aggregation: bool) -> Strategy:
    return Strategy(
        name=name,
        summary=summary,
        source=source,
        options=AggregationOptions if aggregation else MulticastOptions,
        compile=partial(compile_supported, name=name, multicast=multicast, aggregation=aggregation),
        aggregators=lambda _: aggregation,
        senders=SIMULATED,
    )


STRATEGIES = (
    _strategy(
        "multicast-ps",
        "parameter server that distributes parameters by IP multicast: one copy on each link",
        "NetOps, sections 3.4.1 and 8.1.2",
        multicast=True,
        aggregation=False,
    ),
    _strategy(
        "aggregation-ps",
        "parameter server whose gradients the switches add on their way: one result on each link",
        "NetOps, sections 3.4.2 and 8.1.1",
        multicast=False,
        aggregation=True,
    ),
    _strategy(
        "multicast-aggregation-ps",
        "parameter server with multicast distribution and in-network aggregation",
        "NetOps, section 8.1.4",
        multicast=True,
        aggregation=True,
    ),
)

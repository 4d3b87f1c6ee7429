"""Ring allreduce whose second ring is a multicast: each owner sends its sum to all other workers at once.

Source: NetOps, section 8.4 ("ring-reduce with multicast"). First ring as in section 3.3.2: every part of the model
belongs to one worker; it starts at the owner's successor, each worker adds its own gradient and passes it on, and the
owner gets the sum. Second phase: the owner multicasts the sum, so every worker receives the whole model but its own
parts, at model size x (W - 1) / (W x bandwidth), as in the second ring, but after one step instead of W - 1.

Where the paper is silent: parts are cut evenly ("when parameters have been distributed between workers equally") and
into messages ("only ring-reduce benefits significantly from messaging", 9.2), by default of 2^18 parameters (1 MiB). A
worker passes a part on when its own gradient and the sum so far are there. Its iteration ends when it holds every sum.
There is one worker per host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from gradwire.datatypes.plan import Combine, Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.parameter_server import Flows
from gradwire.workloads.engines.placement import Piece, in_messages, partitioned, whole_tensors
from gradwire.workloads.engines.worker import Workers, ops_of_passes
from gradwire.workloads.job import Job
from gradwire.workloads.plan_size import MostOps
from gradwire.workloads.strategy import SIMULATED, Options, Strategy


class RingMulticastOptions(Options):
    """Options for how the model is cut."""

    even: bool = True
    """Whether every tensor is cut over all workers; otherwise whole tensors go round robin (NetOps, 3.3.2)."""
    message_parameters: int = Field(2**18, ge=0)
    """The most parameters of a message; 0: parts are not cut further."""


@dataclass
class _Ring:
    """The rings under construction."""

    workers: Workers
    #: Send queues to each worker's successor.
    flows: Flows
    #: Each worker's multicast queue, and its group: all the others.
    queues: list[int]
    groups: list[int]
    #: At each worker, the ops after which it holds sums.
    held: list[list[int]]


def compile_ring_multicast(job: Job, options: RingMulticastOptions) -> Mapping[str, Plan]:
    """Compiles the two phases. Raises InputFault for several workers per host."""
    if job.cluster.workers_per_host > 1:
        raise InputFault("strategy 'ring-multicast' has one worker per host: set cluster.workers_per_host = 1")
    count = job.cluster.workers
    placed = partitioned(job.profile, count, count) if options.even else whole_tensors(job.profile, count)
    pieces = in_messages(placed, options.message_parameters, count)
    of_piece = 4 * (count - 1) + 1 if count > 1 else 0  # sent, received and added; then multicast
    MostOps.here().refuse("ring-multicast", len(pieces) * of_piece + count * (ops_of_passes(job) + 1))
    workers = Workers("ring-multicast", job)
    builder, ranks = workers.builder, workers.workers
    groups = [builder.group(other for other in ranks if other != rank) for rank in ranks] if count > 1 else []
    queues = [builder.queue(rank) for rank in ranks]
    ring = _Ring(workers, Flows(builder), queues, groups, [[] for _ in ranks])
    for piece in sorted(pieces, key=lambda piece: -piece.layer):
        chunk = builder.chunk(piece.tensor, piece.size_bytes)
        for passes in workers.passes:
            builder.produces(passes.backward[piece.layer], chunk)
            builder.consumes(passes.forward[piece.layer], chunk)
        if count > 1:
            _distribute(ring, chunk, piece, _add_up(ring, chunk, piece))
    for worker, held in enumerate(ring.held):
        workers.end(worker, workers.passes[worker].backward[0], *held)
    return {"ring-multicast": workers.build()}


def _add_up(ring: _Ring, chunk: int, piece: Piece) -> int:
    """First ring: the sum grows from the owner's successor on; returns the owner's op that completes it."""
    workers, job = ring.workers, ring.workers.job
    builder, count = workers.builder, len(workers.workers)
    added: int | None = None
    for step in range(1, count):
        src, dst = (piece.server + step) % count, (piece.server + step + 1) % count
        send, recv = builder.message(
            ring.flows.queue(src, dst, 0),
            dst,
            piece.size_bytes,
            chunk=chunk,
            combine=Combine.ADD,
            traffic_class=0,
            order=len(job.profile.layers) - piece.layer,
            layer=piece.layer,
            latency_s=job.costs.message_latency_s,
        )
        builder.depend(send, workers.passes[src].backward[piece.layer])
        if added is not None:
            builder.depend(send, added)
        added = builder.reduce(dst, piece.size_bytes, job.costs.aggregation_bytes_per_s, chunk=chunk)
        builder.depend(recv, workers.passes[dst].backward[piece.layer])
        builder.depend(added, recv)
    assert added is not None
    return added


def _distribute(ring: _Ring, chunk: int, piece: Piece, added: int) -> None:
    """Second phase: the owner multicasts the sum once `added` has completed it."""
    workers, job, owner = ring.workers, ring.workers.job, piece.server
    send, recvs = workers.builder.group_message(
        ring.queues[owner],
        ring.groups[owner],
        piece.size_bytes,
        chunk=chunk,
        combine=Combine.COPY,
        traffic_class=0,
        order=len(job.profile.layers) - piece.layer,
        layer=piece.layer,
        latency_s=job.costs.message_latency_s,
    )
    workers.builder.depend(send, added)
    ring.held[owner].append(added)
    members = [worker for worker in range(len(workers.workers)) if worker != owner]
    for member, recv in zip(members, recvs, strict=True):
        ring.held[member].append(recv)


STRATEGIES = (
    Strategy(
        name="ring-multicast",
        summary="ring allreduce whose second ring is one multicast from each owner",
        source="NetOps, section 8.4",
        options=RingMulticastOptions,
        compile=compile_ring_multicast,
        needs_servers=False,
        senders=SIMULATED,
    ),
)

"""Ring allreduce whose second ring is a multicast: each owner sends its sum to all other workers at once.

Source: NetOps, section 8.4 ("ring-reduce with multicast"). First ring as in section 3.3.2: every part of the model belongs to one
worker; it starts at the owner's successor, each worker adds its own gradient and passes it on, and the owner gets the sum.
Second phase: the owner multicasts the sum, so every worker receives the whole model but its own parts, at
model size x (W - 1) / (W x bandwidth), as in the second ring, but after one step instead of W - 1.

Where the paper is silent: parts are cut evenly ("when parameters have been distributed between workers equally") and into messages
("only ring-reduce benefits significantly from messaging", 9.2), by default of 2^18 parameters (1 MiB). A worker passes a part on
when its own gradient and the sum so far are there. Its iteration ends when it holds every sum. Workers are one a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.flows import Flows
from gradwire.workloads.engines.placement import Piece, in_messages, partitioned, whole_tensors
from gradwire.workloads.engines.worker import Passes, add_passes
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Combine, Plan, Role
from gradwire.workloads.strategies.strategy import Options, Strategy


class RingMulticastOptions(Options):
    """even: every tensor is cut over all workers; false: whole tensors round robin (NetOps, 3.3.2).

    message_parameters: the most parameters of a message; 0: parts are not cut further.
    """

    even: bool = True
    message_parameters: int = Field(2**18, ge=0)


@dataclass
class _Ring:
    """The plan under construction. held: at each worker, the ops after which it holds sums."""

    builder: PlanBuilder
    job: Job
    flows: Flows
    workers: list[int]
    passes: list[Passes]
    queues: list[int]
    groups: list[int]
    held: list[list[int]]


def compile_ring_multicast(job: Job, options: RingMulticastOptions) -> Plan:
    """Compiles the two phases. Raises InputFault for several workers a host."""
    if job.cluster.workers_per_host > 1:
        raise InputFault("strategy 'ring-multicast' has one worker a host: set cluster.workers_per_host = 1")
    builder, count = PlanBuilder("ring-multicast"), job.cluster.workers
    workers = [builder.rank(Role.WORKER, job.cluster.worker_host(w)) for w in range(count)]
    for tensor in job.profile.tensors:
        builder.tensor(tensor.name)
    place = partitioned if options.even else whole_tensors
    pieces = in_messages(place(job.profile, count), options.message_parameters)
    passes = [add_passes(builder, job, worker) for worker in workers]
    groups = [builder.group(other for other in workers if other != worker) for worker in workers] if count > 1 else []
    queues = [builder.queue(worker) for worker in workers]
    ring = _Ring(builder, job, Flows(builder), workers, passes, queues, groups, [[] for _ in workers])
    for piece in sorted(pieces, key=lambda piece: -piece.layer):
        chunk = builder.chunk(piece.tensor, piece.size_bytes)
        for own in passes:
            builder.produces(own.backward[piece.layer], chunk)
            builder.consumes(own.forward[piece.layer], chunk)
        if count > 1:
            _add_up(ring, chunk, piece)
    for worker, own, held in zip(workers, passes, ring.held, strict=True):
        end = builder.compute(worker)
        builder.depend(end, own.backward[0], *held)
        builder.depend(own.begin, end, lag=1)
        builder.iteration(worker, own.begin, end)
    return builder.build(job.compute_s, job.samples)


def _add_up(ring: _Ring, chunk: int, piece: Piece) -> None:
    builder, count, owner = ring.builder, len(ring.workers), piece.server
    order = len(ring.job.profile.layers) - piece.layer
    common = {"chunk": chunk, "traffic_class": 0, "layer": piece.layer, "order": order}
    latency_s = ring.job.costs.message_latency_s
    before: int | None = None
    for step in range(1, count):
        here, there = (owner + step) % count, (owner + step + 1) % count
        src, dst = ring.workers[here], ring.workers[there]
        queue = ring.flows.queue(src, dst, 0)
        send, recv = builder.message(queue, dst, piece.size_bytes, combine=Combine.ADD, latency_s=latency_s, **common)
        builder.depend(send, ring.passes[here].backward[piece.layer])
        if before is not None:
            builder.depend(send, before)
        added = builder.reduce(dst, piece.size_bytes, ring.job.costs.aggregation_bytes_per_s, chunk=chunk)
        builder.depend(recv, ring.passes[there].backward[piece.layer])
        builder.depend(added, recv)
        before = added
    assert before is not None
    send, recvs = builder.group_message(
        ring.queues[owner], ring.groups[owner], piece.size_bytes, combine=Combine.COPY, latency_s=latency_s, **common
    )
    builder.depend(send, before)
    ring.held[owner].append(before)
    members = [worker for worker in range(count) if worker != owner]
    for member, recv in zip(members, recvs, strict=True):
        ring.held[member].append(recv)


def _compile(job: Job, options: RingMulticastOptions) -> Mapping[str, Plan]:
    return {"ring-multicast": compile_ring_multicast(job, options)}


STRATEGIES = (
    Strategy(
        "ring-multicast",
        "ring allreduce whose second ring is one multicast from each owner",
        "NetOps, section 8.4",
        RingMulticastOptions,
        _compile,
        classes=lambda _: 1,
        needs_servers=False,
    ),
)

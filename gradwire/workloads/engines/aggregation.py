"""In-network aggregation: every switch on the way adds the gradients that pass and forwards one result, after the last
has come.

Source: NetOps, sections 3.4.2 and 8.1.1: "the network buffers worker updates and aggregates them before sending them
to parameter servers"; the switch forwards once the last worker's gradient of a parameter has arrived. On a leaf/spine
fabric the leaf of the workers adds first, then one spine a server (chosen in turn, from the seed on), then the leaf of
the server, so that each link carries one result per chunk. A worker on the server's own host hands its gradient over
through memory.

Where the paper is silent:

- A switch adds at line rate and at no cost, and forwards a chunk when it is whole (NetOps' simulator: parameter by
  parameter).
- Switch memory is unbounded in the paper ("allocation of compute and memory resources on switches ... we do not
  address"). Here it is a parameter: at most so many bytes of sums are held at a switch at a time. Chunks take memory
  in the order of the backward pass; a chunk for which there is none left waits at its senders until a token from the
  switch says that earlier chunks have left, that is, have arrived at the next switch or server, which acknowledges
  them. Tokens and acknowledgements are 64-byte control messages.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gradwire.datatypes.plan import CONTROL_CLASS, Combine, Role
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.parameter_server import Flows
from gradwire.workloads.engines.placement import Piece
from gradwire.workloads.job import Job


@dataclass
class Contribution:
    """A contribution to a chunk that a rank will send."""

    rank: int
    #: Ops that it waits for.
    after: list[int]
    #: The switch where it adds, if it is an aggregator.
    switch: int | None = None


@dataclass
class _Memory:
    """The memory of one switch."""

    #: Size of each sum that it holds, in the order of promises, and the op after which the sum is known to have left.
    held: deque[tuple[int, int]] = field(default_factory=deque)
    used_bytes: int = 0
    #: Op of the latest promise; None: there was no need for one yet.
    granted: int | None = None
    #: RECV of that promise's token at each sender below that knows of it.
    tokens: dict[int, int] = field(default_factory=dict)


class Aggregators:
    """Adds aggregator ranks, and their part of the plan, to a builder. memory_bytes: memory of each switch; 0:
    unbounded."""

    def __init__(self, builder: PlanBuilder, job: Job, flows: Flows, memory_bytes: int) -> None:
        self._builder, self._flows, self._job = builder, flows, job
        self._fabric = job.fabric or Fabric(hosts=job.cluster.ports, rate_bps=1.0, aggregators=True)
        self._memory_bytes = memory_bytes
        self._ranks: dict[int, int] = {}
        self._memory: dict[int, _Memory] = {}

    def add_up(self, chunk: int, piece: Piece, server: int, workers: dict[int, Contribution]) -> list[int]:
        """Takes a chunk from the workers (by number) to rank `server`; returns the RECVs there.

        Call for all chunks in the order of the backward pass. Raises InputFault for a chunk beyond the switches'
        memory.
        """
        cluster, fabric = self._job.cluster, self._fabric
        host = cluster.server_host(piece.server)
        home = fabric.switch_of(cluster.server_port(piece.server))
        same_host = [contribution for number, contribution in workers.items() if cluster.worker_host(number) == host]
        below: dict[int, list[Contribution]] = {}
        for number, contribution in workers.items():
            if cluster.worker_host(number) != host:
                below.setdefault(fabric.switch_of(cluster.worker_port(number)), []).append(contribution)
        near = below.pop(home, [])
        if below:
            leaves = [self._gather(leaf, contributions, chunk, piece) for leaf, contributions in sorted(below.items())]
            near.append(self._gather(self._spine_of(piece.server), leaves, chunk, piece))
        arriving = [*same_host, self._gather(home, near, chunk, piece)] if near else same_host
        return [self._pass_on(contribution, server, chunk, piece) for contribution in arriving]

    def _spine_of(self, server: int) -> int:
        return len(self._fabric.leaf_names()) + (self._job.seed + server) % self._fabric.spines

    def _rank(self, switch: int) -> int:
        if switch not in self._ranks:
            self._ranks[switch] = self._builder.rank(Role.AGGREGATOR, self._fabric.aggregator_of(switch))
            self._memory[switch] = _Memory()
        return self._ranks[switch]

    def _gather(self, switch: int, contributions: list[Contribution], chunk: int, piece: Piece) -> Contribution:
        """Adds a switch's sum of the contributions from below; returns it as the switch's own contribution."""
        rank = self._rank(switch)
        self._reserve(switch, piece)
        for contribution in contributions:
            contribution.after += self._token(switch, contribution.rank)
        return Contribution(
            rank, [self._pass_on(contribution, rank, chunk, piece) for contribution in contributions], switch
        )

    def _pass_on(self, contribution: Contribution, above: int, chunk: int, piece: Piece) -> int:
        """Sends a contribution up; returns its RECV.

        What leaves a switch frees its memory once it is known to have arrived.
        """
        builder = self._builder
        send, recv = builder.message(
            self._flows.queue(contribution.rank, above, 0),
            above,
            piece.size_bytes,
            chunk=chunk,
            combine=Combine.ADD,
            traffic_class=0,
            order=len(self._job.profile.layers) - piece.layer,
            layer=piece.layer,
            latency_s=0.0 if contribution.switch is not None else self._job.costs.message_latency_s,
        )
        builder.depend(send, *contribution.after)
        if contribution.switch is not None and self._memory_bytes:
            received, freed = builder.message(
                self._flows.queue(above, contribution.rank, CONTROL_CLASS), contribution.rank, CONTROL_BYTES
            )
            builder.depend(received, recv)
            self._memory[contribution.switch].held.append((piece.size_bytes, freed))
        return recv

    def _reserve(self, switch: int, piece: Piece) -> None:
        """Promises memory of the switch to the chunk.

        If that is the memory of earlier chunks, the promise waits until they have left.
        """
        if not self._memory_bytes:
            return
        if piece.size_bytes > self._memory_bytes:
            raise InputFault(
                f"strategy.options.switch_memory_bytes = {self._memory_bytes}: a chunk of {piece.size_bytes} bytes "
                "does not fit; "
                f"cut tensors with message_parameters = {self._memory_bytes // 4} or less"
            )
        memory, freed = self._memory[switch], []
        while memory.used_bytes + piece.size_bytes > self._memory_bytes:
            size_bytes, left = memory.held.popleft()
            memory.used_bytes -= size_bytes
            freed.append(left)
        memory.used_bytes += piece.size_bytes
        if freed:
            granted = self._builder.compute(self._ranks[switch], lane=2)
            self._builder.depend(granted, *freed, *([] if memory.granted is None else [memory.granted]))
            memory.granted, memory.tokens = granted, {}

    def _token(self, switch: int, below: int) -> list[int]:
        """The RECV, at a sender below, of the switch's latest promise; empty if no promise was needed yet."""
        granted = self._memory[switch].granted
        if granted is None:
            return []
        tokens = self._memory[switch].tokens
        if below not in tokens:
            queue = self._flows.queue(self._ranks[switch], below, CONTROL_CLASS)
            send, tokens[below] = self._builder.message(queue, below, CONTROL_BYTES)
            self._builder.depend(send, granted)
        return [tokens[below]]

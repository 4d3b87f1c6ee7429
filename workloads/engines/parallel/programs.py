"""What workers do one thing after the other, and the collectives of groups in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE, BucketOps, Transfers, Workers
from gradwire.workloads.engines.collectives import ring_among
from gradwire.workloads.engines.parallel.group_rings import owner
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Combine


@dataclass
class Program:
    """What one worker does."""

    rank: int
    #: What the next op waits for.
    last: int
    #: Chunks that the next op needs.
    pending: list[int] = field(default_factory=list)
    #: Messages that the next op waits for as well.
    arrivals: list[int] = field(default_factory=list)

    def follow(self, builder: PlanBuilder, op: int) -> None:
        """Makes an op the next one."""
        builder.depend(op, self.last, *self.arrivals)
        for chunk in self.pending:
            builder.needs(op, chunk)
        self.last, self.pending, self.arrivals = op, [], []


@dataclass
class Series:
    """Collectives of one kind in one group, of parts as many as members, in order: ops by member, chunks by part."""

    members: list[int]
    #: ADD: reduce-scatters; COPY: allgathers; None: allreduces.
    half: Combine | None = None
    layers: list[int] = field(default_factory=list)
    started: list[list[int]] = field(default_factory=list)
    done: list[list[int]] = field(default_factory=list)
    chunks: list[list[int]] = field(default_factory=list)


Note = Callable[[int, int], None]
"""Notes that a rank needs a chunk."""


class GroupCollectives:
    """Adds series of collectives to a plan."""

    def __init__(self, builder: PlanBuilder, job: Job) -> None:
        self.builder, self.costs, self.workers = builder, job.costs, job.cluster.workers
        self.hosts = np.array([job.cluster.worker_host(worker) for worker in range(self.workers)], np.int64)

    def add(
        self, series: Series, layer: int, tensor: str, part_bytes: int, started: Sequence[int], needed: Note
    ) -> None:
        """One more, of parts of this size, which each member starts after an op of its own. Its last ops are `series.done[-1]`.

        needed: is called for each member and each part that it receives.
        """
        builder, members, half = self.builder, series.members, series.half
        number = builder.tensor(tensor)
        chunks = [
            builder.chunk(
                number,
                part_bytes,
                [owner(members, part)] if half is Combine.COPY else members,
                [owner(members, part)] if half is Combine.ADD else members,
            )
            for part in range(len(members))
        ]
        done = [builder.compute(rank, lane=GATE_LANE) for rank in members]
        for place, rank in enumerate(members):
            builder.depend(done[place], started[place])
            for part, chunk in enumerate(chunks):
                owns = owner(members, part) == rank
                if half is not Combine.COPY or owns:
                    builder.produces(started[place], chunk)
                if half is not Combine.ADD or owns:
                    needed(rank, chunk)
        series.layers.append(layer)
        series.started.append(list(started))
        series.done.append(done)
        series.chunks.append(chunks)

    def transfer(self, series: Series) -> None:
        """The messages of a series."""
        if not series.chunks:
            return
        members = series.members
        schedule = ring_among(members, self.workers)
        if series.half is not None:
            schedule = schedule.only(series.half)
        count = len(series.chunks)
        started, done = (np.full((count, self.workers), -1, np.int64) for _ in range(2))
        started[:, members], done[:, members] = series.started, series.done
        sizes = np.array([self.builder.chunk_sizes(chunks) for chunks in series.chunks])
        buckets = BucketOps(np.arange(count), np.array(series.layers), started, done, sizes, np.array(series.chunks))
        Transfers(self.builder, self.costs, self._queues(members), schedule, buckets).build()

    def _queues(self, members: Sequence[int]) -> Workers:
        """A queue for each member to other hosts, and one inside its own."""
        outside, inside = (np.full(self.workers, -1, np.int64) for _ in range(2))
        for rank in members:
            outside[rank], inside[rank] = self.builder.queue(rank), self.builder.queue(rank)
        network = np.repeat(outside[:, None], self.workers, axis=1)
        return Workers(self.hosts, network, inside)

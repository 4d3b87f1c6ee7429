"""Collectives as parts of a plan: what they wait for, what waits for them, and the messages in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gradwire.datatypes.plan import Int64
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import (
    GATE_LANE,
    BucketOps,
    Connections,
    Transfers,
    Workers,
    add_gates,
    add_switches,
)
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.job import Job

NO_CHUNK = -1
"""Of a part that is empty."""


@dataclass
class Collective:
    """One collective among all workers, or in each of several groups of them."""

    #: Layer that it is for.
    layer: int
    schedule: Schedule
    #: By rank: the op after which it may start there, and the one before which it is over.
    started: Int64
    done: Int64
    #: By part of the schedule.
    chunks: list[int] = field(default_factory=list)


class Collectives:
    """Adds collectives in which every rank of a plan takes part."""

    def __init__(self, builder: PlanBuilder, job: Job, switches: Switches | None = None, sets: int = 1) -> None:
        """Call when all workers have their ranks. switches: those of the network, where they add, with so many sets of ranks."""
        self.builder, self.costs = builder, job.costs
        cluster = job.cluster
        self.ranks = range(cluster.workers)
        self.hosts = np.array([cluster.worker_host(worker) for worker in self.ranks], np.int64)
        self.share_hosts = cluster.workers_per_host > 1
        self._hosts_of_all = add_switches(builder, self.hosts, switches, sets)

    def add(self, layer: int, schedule: Schedule) -> Collective:
        """The beginning and the end of one; its messages are added by `transfer`, when its chunks are known."""
        started, done = add_gates(self.builder, [0.0, 0.0], len(self.ranks), GATE_LANE)
        self.builder.depend_columns(done, started)
        return Collective(layer, schedule, started, done)

    def queues(self, collectives: Sequence[Collective] = ()) -> Workers | Connections:
        """Queues for one kind of collective: to other hosts and, where there are several workers on a host, inside it; or connections,
        where schedules have them.
        """
        builder = self.builder
        if any(each.schedule.channel is not None for each in collectives):
            return Connections(builder, self._hosts_of_all)
        queues = np.array([builder.queue(rank) for rank in self.ranks], np.int64)
        network = np.repeat(queues[:, None], len(self.ranks), axis=1)
        inside = np.array([builder.queue(rank) for rank in self.ranks], np.int64) if self.share_hosts else queues
        return Workers(self.hosts, network, inside)

    def transfer(self, queues: Workers | Connections, collectives: Sequence[Collective]) -> None:
        """The messages of collectives that share queues, in their order."""
        for number, collective in enumerate(collectives):
            chunks = np.array(collective.chunks, np.int64)
            sizes = np.zeros(len(chunks), np.int64)
            sizes[chunks != NO_CHUNK] = self.builder.chunk_sizes(chunks[chunks != NO_CHUNK].tolist())
            bucket = BucketOps(
                number=np.array([number], np.int64),
                layer=np.array([collective.layer], np.int64),
                started=collective.started[None, :],
                done=collective.done[None, :],
                size_bytes=sizes[None, :],
                chunk=chunks[None, :],
            )
            Transfers(self.builder, self.costs, queues, collective.schedule, bucket).build()

"""Programs of workers: ops that a worker carries out one after the other, with the collectives of groups in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradwire.datatypes.plan import Combine
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import (
    GATE_LANE,
    BucketOps,
    BucketTransfers,
    Connections,
    WorkerQueues,
    add_switches,
)
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.engines.collectives.choice import IN_NETWORK
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.nccl.options import Setup
from gradwire.workloads.engines.parallel.group_collectives import RING, Halves
from gradwire.workloads.job import Job


@dataclass
class WorkerProgram:
    """The program of one worker, which grows op by op."""

    rank: int
    #: The op that the next op waits for.
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
    """Collectives of one kind in one group, in order: ops by member, chunks by part."""

    members: list[int]
    #: ADD: reduce-scatters; COPY: allgathers; None: allreduces.
    half: Combine | None = None
    layers: list[int] = field(default_factory=list)
    started: list[list[int]] = field(default_factory=list)
    done: list[list[int]] = field(default_factory=list)
    chunks: list[list[int]] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    #: Whether the collectives go by the algorithm that the job has for the sums of gradients; otherwise by rings.
    chosen: bool = False


Note = Callable[[int, int], None]
"""Notes that a rank needs a chunk."""


class GroupCollectives:
    """Adds series of collectives to a plan."""

    def __init__(
        self, builder: PlanBuilder, job: Job, algorithm: str = RING, chosen_class: int = 0, nccl: Setup | None = None
    ) -> None:
        """Takes workers that all have their ranks. algorithm, chosen_class: of series that are chosen; the others are
        rings of class 0. nccl: what NCCL sees, where it chooses."""
        self.builder, self.costs, self.workers = builder, job.costs, job.cluster.workers
        self.hosts = np.array([job.cluster.worker_host(worker) for worker in range(self.workers)], np.int64)
        machines = self.hosts.tolist()
        switches = Switches.of(job) if algorithm == IN_NETWORK else None
        self._hosts_of_all = add_switches(builder, self.hosts, switches)
        self._rings, self._chosen = Halves(RING, machines), Halves(algorithm, machines, switches=switches, nccl=nccl)
        self._chosen_class = chosen_class

    def notes(self) -> list[str]:
        """The algorithms by which gradients are summed, if not by rings."""
        return self._chosen.notes()

    def add(
        self, series: Series, layer: int, tensor: str, share_bytes: int, started: Sequence[int], needed: Note
    ) -> None:
        """Adds a collective to a series, of `share_bytes` for each member, which it starts after one of its ops. Its
        last ops are `series.done[-1]`.

        needed: is called for each member and each part that it receives.
        """
        builder, members = self.builder, series.members
        among = (self._chosen if series.chosen else self._rings).among(members, series.half, share_bytes)
        number = builder.tensor(tensor)
        chunks = [
            builder.chunk(number, *part)
            for part in zip(among.size_bytes, among.contributors, among.receivers, strict=True)
        ]
        done = [builder.compute(rank, lane=GATE_LANE) for rank in members]
        for index, rank in enumerate(members):
            builder.depend(done[index], started[index])
            for chunk, contributors, receivers in zip(chunks, among.contributors, among.receivers, strict=True):
                if rank in contributors:
                    builder.produces(started[index], chunk)
                if rank in receivers:
                    needed(rank, chunk)
        series.layers.append(layer)
        series.started.append(list(started))
        series.done.append(done)
        series.chunks.append(chunks)
        series.schedules.append(among.schedule)

    def transfer(self, series: Series) -> None:
        """The messages of a series."""
        if not series.chunks:
            return
        members, schedules = series.members, {id(schedule): schedule for schedule in series.schedules}
        connected = any(schedule.channel is not None for schedule in schedules.values())
        queues = Connections(self.builder, self._hosts_of_all) if connected else self._queues(members)
        orders = max(1, *(schedule.steps for schedule in schedules.values()))
        for key, schedule in schedules.items():
            numbers = [number for number, other in enumerate(series.schedules) if id(other) == key]
            started, done = (np.full((len(numbers), self.workers), -1, np.int64) for _ in range(2))
            started[:, members] = [series.started[number] for number in numbers]
            done[:, members] = [series.done[number] for number in numbers]
            chunks = np.array([series.chunks[number] for number in numbers])
            buckets = BucketOps(
                number=np.array(numbers),
                layer=np.array(series.layers)[numbers],
                started=started,
                done=done,
                size_bytes=np.array([self.builder.chunk_sizes(of_one) for of_one in chunks.tolist()]),
                chunk=chunks,
                orders=orders,
                traffic_class=np.full(len(numbers), self._chosen_class if series.chosen else 0),
            )
            BucketTransfers(self.builder, self.costs, queues, schedule, buckets).build()

    def _queues(self, members: Sequence[int]) -> WorkerQueues:
        """A queue for each member to other hosts, and one inside its own."""
        outside, inside = (np.full(self.workers, -1, np.int64) for _ in range(2))
        for rank in members:
            outside[rank], inside[rank] = self.builder.queue(rank), self.builder.queue(rank)
        network = np.repeat(outside[:, None], self.workers, axis=1)
        return WorkerQueues(self.hosts, network, inside)

"""Collectives of groups of workers as parts of a plan: their schedules, what they wait for, and what waits for them.

Where several groups have a collective at the same time, their schedules are joined into one, so that a collective of
every group is one piece of a plan.

A ring's reduce-scatter leaves member i of a group with part i + 1, from which the allgather starts
(workloads/engines/collectives/allreduces.py). So does every other algorithm here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gradwire.datatypes.plan import LATENCY_LANE, Combine, Int64
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import (
    GATE_LANE,
    BucketOps,
    BucketTransfers,
    Connections,
    WorkerQueues,
    add_gates,
    add_switches,
)
from gradwire.workloads.engines.collective_routes import CollectiveRoutes, Rule
from gradwire.workloads.engines.collectives import in_network
from gradwire.workloads.engines.collectives.allreduces import ring_among
from gradwire.workloads.engines.collectives.choice import Layout, layout_of, schedule_for
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.schedule import (
    PER_MEMBER,
    Collective,
    Schedule,
    part_bytes,
    promise,
    sent_bytes,
)
from gradwire.workloads.engines.nccl.options import NCCL, Setup
from gradwire.workloads.job import Job

RING = "ring"
HALVES = {
    None: Collective.ALL_REDUCE,
    Combine.ADD: Collective.REDUCE_SCATTER,
    Combine.COPY: Collective.ALL_GATHER,
}
"""Collectives by the half of a ring allreduce that they are; None: both."""
OF_HALVES = {
    (Combine.ADD, "halving-doubling"): "recursive-halving",
    (Combine.COPY, "halving-doubling"): "recursive-doubling",
}
"""The names of an allreduce's two halves."""


@dataclass(frozen=True)
class Among:
    """A collective, whose schedule names ranks. What follows has a value for each part."""

    schedule: Schedule
    size_bytes: tuple[int, ...]
    contributors: tuple[tuple[int, ...], ...]
    receivers: tuple[tuple[int, ...], ...]


@dataclass
class Halves:
    """All-reduces and their halves by one algorithm, in parts as many as members by ring."""

    algorithm: str
    #: Machine of each rank.
    machines: Sequence[int]
    key: str = "strategy.options.algorithm"
    #: The switches of the network, if they add.
    switches: Switches | None = None
    #: The machines as NCCL sees them, if it chooses.
    nccl: Setup | None = None
    _routes: dict[Combine | None, CollectiveRoutes] = field(default_factory=dict)
    _schedules: dict[tuple[int, tuple[int, ...]], Schedule] = field(default_factory=dict)

    def among(self, members: Sequence[int], half: Combine | None, share_bytes: int) -> Among:
        """Returns a collective among these members, of `share_bytes` for each. Raises InputFault if the algorithm does
        not suit the members.

        Schedules that are the same are one object, so that their messages can be made together.
        """
        if self.algorithm == RING:
            return self._ring(tuple(members), half, share_bytes)
        kind, count = HALVES[half], len(members)
        size = share_bytes * (1 if kind in PER_MEMBER else count)
        routes = self._routes.setdefault(half, self._routes_of(half))
        layout: Layout = layout_of(members, self.machines, self.switches)
        schedule = routes.schedule(kind, layout, 0, size, 1)
        of_plan_ranks = self._schedules.setdefault(
            (id(schedule), tuple(members)), in_network.with_plan_ranks(schedule, members, len(self.machines))
        )
        promised = promise(kind, count)
        blocks = [part % promised.blocks for part in range(schedule.parts)]
        sets = [
            tuple(tuple(members[index] for index in of_blocks[block]) for block in blocks)
            for of_blocks in (promised.contributors, promised.receivers)
        ]
        sizes = sent_bytes(schedule, part_bytes(kind, count, schedule.parts, size))
        return Among(of_plan_ranks, tuple(sizes.tolist()), *sets)

    def notes(self) -> list[str]:
        """Returns notes on the algorithms that were taken."""
        return [note for half in HALVES if half in self._routes for note in self._routes[half].notes()]

    def _routes_of(self, half: Combine | None) -> CollectiveRoutes:
        name = OF_HALVES.get((half, self.algorithm), self.algorithm) if half is not None else self.algorithm
        return CollectiveRoutes({HALVES[half]: Rule((), name)}, nccl=self.nccl, key=self.key)

    def _ring(self, members: tuple[int, ...], half: Combine | None, share_bytes: int) -> Among:
        """A ring's reduce-scatter leaves member i with part i + 1, from which its allgather starts."""
        if (-1, members) not in self._schedules:
            self._schedules[-1, members] = ring_among(members, len(self.machines))
        whole = self._schedules[-1, members]
        key = (-2 if half is Combine.ADD else -3, members)
        if half is not None:
            whole = self._schedules.setdefault(key, whole.only(half))
        owners = tuple((members[part - 1],) for part in range(len(members)))
        everybody = (members,) * len(members)
        return Among(
            whole,
            (share_bytes,) * len(members),
            owners if half is Combine.COPY else everybody,
            owners if half is Combine.ADD else everybody,
        )


NO_CHUNK = -1
"""Stands for the chunk of an empty part."""


@dataclass
class PlannedCollective:
    """One collective among all workers, or in each of several groups of them."""

    #: Layer that it is for.
    layer: int
    schedule: Schedule
    #: By rank: the op after which it may start there, and the one before which it is over.
    started: Int64
    done: Int64
    #: The chunk of each part of the schedule.
    chunks: list[int] = field(default_factory=list)


class Collectives:
    """Adds collectives in which every rank of a plan takes part."""

    def __init__(self, builder: PlanBuilder, job: Job, switches: Switches | None = None, sets: int = 1) -> None:
        """Takes workers that all have their ranks. switches: those of the network, where they add, with so many sets of
        ranks."""
        self.builder, self.costs = builder, job.costs
        cluster = job.cluster
        self.ranks = range(cluster.workers)
        self.hosts = np.array([cluster.worker_host(worker) for worker in self.ranks], np.int64)
        self.share_hosts = cluster.workers_per_host > 1
        self._hosts_of_all = add_switches(builder, self.hosts, switches, sets)

    def add(self, layer: int, schedule: Schedule, latency_s: float = 0.0, stream: int = 0) -> PlannedCollective:
        """The beginning and the end of one; its messages are added by `transfer`, when its chunks are known.

        latency_s: time that the call takes before its first message. stream: calls of one follow one another.
        """
        if not latency_s:
            started, done = add_gates(self.builder, [0.0, 0.0], len(self.ranks), GATE_LANE)
        else:
            (started,) = add_gates(self.builder, [latency_s], len(self.ranks), LATENCY_LANE + stream)
            (done,) = add_gates(self.builder, [0.0], len(self.ranks), GATE_LANE)
        self.builder.depend_columns(done, started)
        return PlannedCollective(layer, schedule, started, done)

    def queues(self, collectives: Sequence[PlannedCollective] = ()) -> WorkerQueues | Connections:
        """Queues for one kind of collective: to other hosts and, where there are several workers on a host, inside it;
        or connections, where schedules have them.
        """
        builder = self.builder
        if any(collective.schedule.channel is not None for collective in collectives):
            return Connections(builder, self._hosts_of_all)
        queues = np.array([builder.queue(rank) for rank in self.ranks], np.int64)
        network = np.repeat(queues[:, None], len(self.ranks), axis=1)
        inside = np.array([builder.queue(rank) for rank in self.ranks], np.int64) if self.share_hosts else queues
        return WorkerQueues(self.hosts, network, inside)

    def transfer(self, queues: WorkerQueues | Connections, collectives: Sequence[PlannedCollective]) -> None:
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
            BucketTransfers(self.builder, self.costs, queues, collective.schedule, bucket).build()


Groups = Sequence[Sequence[int]]
"""Ranks of each group, all groups of one size."""
Algorithm = Literal["ring", "halving-doubling", "two-level", "direct", "in-network", "nccl"]
"""Algorithms that cut what they move into as many parts as members, whatever its size, and NCCL's choice by size
(docs/collectives.md)."""

_PART, _OPENS = 2, 6
"""Columns of `Schedule.rows`."""


@dataclass(frozen=True)
class GroupExchange:
    """The way in which members of a group exchange data."""

    algorithm: Algorithm
    #: Machine of each rank.
    machines: Sequence[int]
    #: The switches of the network, if they add.
    switches: Switches | None = None

    def schedule(self, members: Sequence[int], half: Combine | None, number: int = 0) -> Schedule:
        """One allreduce, or half of one, in as many parts as members, by the set `number` of switches' ranks.

        Raises InputFault where the algorithm does not suit the members.
        """
        ranks, count = len(self.machines), len(members)
        if self.algorithm == RING:
            ring = ring_among(members, ranks)
            return ring if half is None else ring.only(half)
        name = OF_HALVES.get((half, self.algorithm), self.algorithm) if half is not None else self.algorithm
        switches = None if self.switches is None else replace(self.switches, number=number)
        schedule = schedule_for(
            HALVES[half], name, members, self.machines, 0, key="strategy.options.algorithm", switches=switches
        )
        if count % schedule.parts:
            raise InputFault(
                f"strategy.options.algorithm = '{name}': divides an {HALVES[half]} among {count} into "
                f"{schedule.parts} parts, of which {count} are not a multiple; take 'ring'"
            )
        schedule = schedule.segmented(count // schedule.parts)
        rows = schedule.rows.copy()
        rows[:, _PART] = (rows[:, _PART] + 1) % count
        return replace(schedule, rows=rows, origin=None)


@dataclass
class SizedWays:
    """Collectives of all workers as NCCL chooses, each by its size, or around several rings. Part p of a schedule is of
    shard p modulo the workers, and shard p is that of `owner`."""

    #: The machines as NCCL sees them, if it chooses.
    setup: Setup | None
    machines: Sequence[int]
    #: Rings at once, if NCCL does not choose.
    rings: int = 1
    _routes: dict[Combine | None, CollectiveRoutes] = field(default_factory=dict)
    _schedules: dict[int, Schedule] = field(default_factory=dict)

    def schedule(self, half: Combine | None, share_bytes: int) -> Schedule:
        """Returns the schedule of a collective of `share_bytes` for each worker."""
        kind, count = HALVES[half], len(self.machines)
        rules = {kind: Rule((), RING if self.setup is None else NCCL)}
        key = "strategy.options.algorithm"
        routes = self._routes.setdefault(half, CollectiveRoutes(rules, channels=self.rings, nccl=self.setup, key=key))
        layout = layout_of(range(count), self.machines)
        found = routes.schedule(kind, layout, 0, share_bytes * (1 if kind in PER_MEMBER else count), 1)
        if id(found) not in self._schedules:
            rows = found.rows.copy()
            rows[:, _PART] += np.where(rows[:, _PART] % count == count - 1, 1 - count, 1)
            self._schedules[id(found)] = found if half is None else replace(found, rows=rows, origin=(found, 1))
        return self._schedules[id(found)]

    def notes(self) -> list[str]:
        """Returns notes on the algorithms that NCCL took."""
        return [] if self.setup is None else [note for routes in self._routes.values() for note in routes.notes()]


def ways_of_all(machines: Sequence[int], setup: Setup | None, rings: int) -> SizedWays | None:
    """Returns the ways of collectives of all workers; None for a single ring."""
    return SizedWays(setup, machines, rings) if setup is not None or rings > 1 else None


def shards_in_pieces(schedule: Schedule, half: Combine | None, shards: int, share_bytes: int) -> list[int]:
    """Bytes that are sent of each part of a schedule, where each of so many shards has as many bytes."""
    kind = HALVES[half]
    size = share_bytes * (1 if kind in PER_MEMBER else shards)
    return [int(part) for part in sent_bytes(schedule, part_bytes(kind, shards, schedule.parts, size))]


def owner(group: Sequence[int], part: int) -> int:
    """The member that a reduce-scatter leaves a part with."""
    return group[(part - 1) % len(group)]


def allgathers(groups: Groups, way: GroupExchange) -> Schedule:
    """An allgather in each group, of the group's parts: those of the first group come first."""
    first_parts = [(group, number * len(group)) for number, group in enumerate(groups)]
    return _side_by_side(first_parts, way, Combine.COPY, [0] * len(groups))


def reduce_scatters(groups: Groups, way: GroupExchange) -> Schedule:
    """A reduce-scatter in each group, of the same parts in all.

    Where there are several groups, each part comes in as many pieces, one behind the other, so that
    `allreduces_of_shares` may continue with it.
    """
    whole = _side_by_side([(group, 0) for group in groups], way, Combine.ADD, range(len(groups)))
    pieces = len(groups)
    if pieces == 1:
        return whole
    rows = np.repeat(whole.rows, pieces, axis=0)
    piece = np.tile(np.arange(pieces), len(whole.rows))
    rows[:, _PART] = rows[:, _PART] * pieces + piece
    rows[:, _OPENS] *= piece == 0
    channel = None if whole.channel is None else np.repeat(whole.channel, pieces)
    return Schedule(whole.ranks, whole.parts * pieces, rows, channel)


def allreduces_of_shares(groups: Groups, way: GroupExchange) -> Schedule:
    """An allreduce, among all owners of a part, of the pieces that `reduce_scatters` cuts the part into."""
    size, pieces = len(groups[0]), len(groups)
    owners = [([owner(group, part) for group in groups], part * pieces) for part in range(size)]
    return _side_by_side(owners, way, None, [len(groups)] * len(owners))


def _side_by_side(
    groups: Sequence[tuple[Sequence[int], int]], way: GroupExchange, combine: Combine | None, sets: Sequence[int]
) -> Schedule:
    """Members, each group with the number of its first part; of both halves, or of one. sets: that of switches' ranks,
    for each group."""
    schedules = [way.schedule(members, combine, number) for (members, _), number in zip(groups, sets, strict=True)]
    rows, copies = [], list[Int64]()
    for schedule, (_, first_part) in zip(schedules, groups, strict=True):
        rows.append(schedule.rows.copy())
        rows[-1][:, _PART] += first_part
        if schedule.copies is not None:
            first = 1 + max((int(column.max(initial=-1)) for column in copies), default=-1)
            copies.append(np.where(schedule.copies < 0, -1, schedule.copies + first))
    whole = Schedule(
        max(len(way.machines), *(schedule.ranks for schedule in schedules)),
        max(first_part + len(members) for members, first_part in groups),
        np.concatenate(rows),
        copies=np.concatenate(copies) if copies else None,
    )
    return whole if schedules[0].channel is None else whole.connected()

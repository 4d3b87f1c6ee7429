"""Data parallelism whose state is divided among workers: optimizer states and gradients (ZeRO's stages 1 and 2), or
parameters too (FSDP).

Optimizer states and gradients: `compile_partitioned`
=====================================================

Everyone has all parameters, and each worker updates a part of them.

Source: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020: stage 1
(optimizer states) and stage 2 (gradients as well, in buckets). An iteration of N workers:

1. The backward pass yields gradients, which fill buckets. A bucket's gradients are summed so that each worker has the
   sum of its part: by a reduce-scatter, or by an allreduce, of which a worker uses its part and drops the rest. That
   happens as buckets fill up, during the backward pass, or after it.
2. When all buckets are summed, each worker updates its part of every bucket's parameters.
3. An allgather of each bucket brings the updated parameters to all, in the order in which the next forward pass uses
   them. That begins when all of them are there, or else each bucket's layers wait for their own.

Collectives go around a ring, one after the other, as on the one stream of a process group. Assumed: each bucket is cut
evenly, padded to a multiple of the workers, as Megatron-LM's distributed optimizer has it (in ZeRO's own, a worker's
part is a stretch of all parameters, so that a bucket may belong to few of the workers); filling a bucket costs no
copy, and an update no time.

Parameters too: `compile_sharded`
=================================

Sharded data parallelism: parameters are gathered before a unit computes, and gradients scattered as sums after it.

Sources: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020; Zhao et al.,
PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, VLDB 2023. Of each unit of layers, each of N workers
keeps one of N shards, parameters, gradients and optimizer's state alike. An iteration of a worker:

1. Before a unit's forward pass, an allgather collects its parameters from the owners of the shards; after it, all but
   the own shard is forgotten. The root, which has the layers outside all other units, stays whole until the backward
   pass is over.
2. Before a unit's backward pass, its parameters are gathered once more.
3. After a unit's backward pass, a reduce-scatter leaves each worker the sum of the gradients of its shard.
4. The optimizer updates the shards; the next iteration gathers what comes of that.

With groups smaller than all (hybrid sharding), neighbours share: steps 1 to 3 happen in each group, and behind
step 3 the owners of a shard, one in each group, sum it by an allreduce.

Allgathers go one after the other in the order in which their units compute, each as early as `prefetch` lets it. So do
reduce-scatters, in parallel with them, and the allreduces of shards in parallel with both, as on the three streams of
PyTorch's FSDP2 (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, `foreach_reduce`). All go around a ring by
default. In the plan, a shard of a unit is up to three chunks (datatypes/plan.py), or more where its allreduce cuts it
further: the gradients, to which all contribute and which the owners receive; and the parameters of either pass, to
which a group's owner contributes and which its group receives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_buckets import Bucket
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE, add_gates
from gradwire.workloads.engines.collectives import Schedule, ring_among
from gradwire.workloads.engines.collectives.choice import IN_NETWORK
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.nccl.options import NCCL, Setup
from gradwire.workloads.engines.parallel.group_collectives import (
    NO_CHUNK,
    Algorithm,
    Collectives,
    PlannedCollective,
    SizedWays,
    Way,
    allgathers,
    allreduces_of_shares,
    owner,
    reduce_scatters,
    shards_in_pieces,
)
from gradwire.workloads.engines.worker import add_passes
from gradwire.workloads.job import Job
from gradwire.workloads.models.profile import Profile


@dataclass(frozen=True)
class Partition:
    """Sizes and times of the transfers of a partitioned optimizer."""

    #: Size of a parameter on the wire.
    parameter_bytes: int
    #: Size of a gradient on the wire.
    gradient_bytes: int
    #: Step 1: whether by a reduce-scatter; otherwise by an allreduce.
    scatter: bool
    #: Step 1: whether during the backward pass.
    overlap: bool
    #: Step 3: whether layers wait for their own parameters alone.
    overlap_gather: bool
    #: The machines as NCCL sees them, if it chooses; None: rings.
    nccl: Setup | None = None


def compile_partitioned(job: Job, name: str, buckets: Sequence[Bucket], partition: Partition) -> Plan:
    """Compiles an iteration with these buckets, in the order in which the backward pass fills them."""
    return PartitionedPlan(job, name, buckets, partition).compile()


class PartitionedPlan:
    """The plan under construction. Arrays of ops have an axis for ranks."""

    def __init__(self, job: Job, name: str, buckets: Sequence[Bucket], partition: Partition) -> None:
        self.job, self.buckets, self.partition = job, buckets, partition
        self.builder = PlanBuilder(name)
        cluster = job.cluster
        self.ranks = [self.builder.rank(Role.WORKER, cluster.worker_host(worker)) for worker in range(cluster.workers)]
        self.passes = [add_passes(self.builder, job, rank) for rank in self.ranks]
        self.collectives = Collectives(self.builder, job)
        self.ways = None if partition.nccl is None else SizedWays(partition.nccl, self.collectives.hosts.tolist())
        self.tensors = [self.builder.tensor(bucket.name) for bucket in buckets]
        #: Step 2, of each worker.
        self.updates = add_gates(self.builder, [0.0], len(self.ranks), GATE_LANE)[0]

    def compile(self) -> Plan:
        """Builds the plan."""
        add, partition = self.collectives.add, self.partition
        whole = ring_among(self.ranks, len(self.ranks))
        rings = {half: whole if half is None else whole.only(half) for half in (self.summing, Combine.COPY)}

        def schedule(bucket: Bucket, half: Combine | None, value_bytes: int) -> Schedule:
            size = self._part_values(bucket) * value_bytes
            return rings[half] if self.ways is None else self.ways.schedule(half, size)

        sums = [add(each.ready_layer, schedule(each, self.summing, partition.gradient_bytes)) for each in self.buckets]
        gathers = [
            add(each.ready_layer, schedule(each, Combine.COPY, partition.parameter_bytes))
            for each in reversed(self.buckets)
        ]
        self._wait(sums, gathers)
        self._gradients(sums)
        self._parameters(gathers)
        queues = self.collectives.queues(sums)
        self.collectives.transfer(queues, [*sums, *gathers])
        self._boundaries(gathers)
        self.builder.notes.extend(self.ways.notes() if self.ways else ())
        return self.builder.build(self.job.compute_s, self.job.samples)

    @property
    def summing(self) -> Combine | None:
        """Returns the half of an allreduce by which gradients are summed; None for a whole one."""
        return Combine.ADD if self.partition.scatter else None

    def _wait(self, sums: Sequence[PlannedCollective], gathers: Sequence[PlannedCollective]) -> None:
        """Sums, then updates, then gathers, each in their order."""
        builder = self.builder
        for collective, bucket in zip(sums, self.buckets, strict=True):
            ready = bucket.ready_layer if self.partition.overlap else 0
            builder.depend_columns(collective.started, [worker.backward[ready] for worker in self.passes])
        for before, collective in pairwise(sums):
            builder.depend_columns(collective.started, before.done)
        builder.depend_columns(self.updates, sums[-1].done)
        builder.depend_columns(self.updates, [worker.backward[0] for worker in self.passes])
        builder.depend_columns(gathers[0].started, self.updates)
        for before, collective in pairwise(gathers):
            builder.depend_columns(collective.started, before.done)

    def _gradients(self, sums: Sequence[PlannedCollective]) -> None:
        """Chunks of gradients, to which all contribute, and which whoever updates the part needs; all do after an
        allreduce."""
        builder = self.builder
        for collective, bucket, tensor in zip(sums, self.buckets, self.tensors, strict=True):
            share_bytes = self._part_values(bucket) * self.partition.gradient_bytes
            sizes = shards_in_pieces(collective.schedule, self.summing, len(self.ranks), share_bytes)
            for part, size_bytes in enumerate(sizes):
                if not size_bytes:
                    collective.chunks.append(NO_CHUNK)
                    continue
                receivers = [owner(self.ranks, part)] if self.partition.scatter else self.ranks
                chunk = builder.chunk(tensor, size_bytes, receivers=receivers)
                for worker in self.passes:
                    builder.produces(worker.backward[bucket.ready_layer], chunk)
                for rank in receivers:
                    builder.needs(int(self.updates[rank]), chunk)
                collective.chunks.append(chunk)

    def _parameters(self, gathers: Sequence[PlannedCollective]) -> None:
        """Chunks of updated parameters, which their owners have, and which all need in the next iteration."""
        builder = self.builder
        for collective, bucket, tensor in zip(gathers, reversed(self.buckets), reversed(self.tensors), strict=True):
            share_bytes = self._part_values(bucket) * self.partition.parameter_bytes
            sizes = shards_in_pieces(collective.schedule, Combine.COPY, len(self.ranks), share_bytes)
            for part, size_bytes in enumerate(sizes):
                if not size_bytes:
                    collective.chunks.append(NO_CHUNK)
                    continue
                has = owner(self.ranks, part)
                chunk = builder.chunk(tensor, size_bytes, contributors=[has])
                builder.produces(int(self.updates[has]), chunk)
                for worker in self.passes:
                    builder.consumes(worker.forward[bucket.ready_layer], chunk)
                collective.chunks.append(chunk)

    def _part_values(self, bucket: Bucket) -> int:
        return -(-bucket.values // len(self.ranks))

    def _boundaries(self, gathers: Sequence[PlannedCollective]) -> None:
        """Adds the end of the iteration at each rank, and the gathers that the next iteration waits for."""
        builder, late = self.builder, self.partition.overlap_gather
        for rank, worker in enumerate(self.passes):
            end = builder.compute(rank)
            builder.depend(end, worker.backward[0], int(self.updates[rank]))
            builder.depend(worker.begin, end, lag=1)
            for gather, bucket in zip(gathers, reversed(self.buckets), strict=True):
                waiting, lag = (worker.forward[bucket.ready_layer], 1) if late else (end, 0)
                builder.depend(waiting, int(gather.done[rank]), lag=lag)
            builder.iteration(rank, worker.begin, end)


ROOT = "root"
BLOCK = re.compile(r"block\d+(/unit\d+)?(?=/)")
"""Pattern of the names that models give the layers of a transformer's block, or of a residual network's unit."""


@dataclass(frozen=True)
class Unit:
    """Layers whose parameters are gathered and scattered together, and dropped in between unless it is the root."""

    name: str
    #: Numbers of the layers, in forward order.
    layers: tuple[int, ...]
    #: Number of parameters.
    values: int


@dataclass(frozen=True)
class Sharding:
    """Sizes and times of the transfers of shards."""

    #: Size of a parameter on the wire.
    parameter_bytes: int
    #: Size of a gradient on the wire.
    gradient_bytes: int
    #: Allgathers that may be under way, or done and unused, while a unit computes.
    prefetch: int
    #: Step 2: whether parameters are forgotten after the forward pass; otherwise they stay for the backward pass
    #: (ZeRO's stage 2).
    reshard: bool
    #: Workers that share a unit; None: all.
    group: int | None = None
    #: Algorithm of allgathers, reduce-scatters and allreduces.
    algorithm: Algorithm = "ring"
    #: The machines as NCCL sees them, if it chooses.
    nccl: Setup | None = None


def units_of(profile: Profile) -> list[Unit]:
    """The root first, and then each block of the model, in forward order.

    Layers that belong to no block are the root's.
    """
    names = [match[0] if (match := BLOCK.match(layer.name)) else ROOT for layer in profile.layers]
    members = {
        name: tuple(i for i, unit_name in enumerate(names) if unit_name == name)
        for name in dict.fromkeys([ROOT, *names])
    }
    units = [
        Unit(name, layers, sum(profile.layers[layer].parameters for layer in layers))
        for name, layers in members.items()
    ]
    return [unit for unit in units if unit.values]


def compile_sharded(job: Job, name: str, sharding: Sharding) -> Plan:
    """Compiles an iteration. Raises InputFault if groups do not come out even."""
    return ShardedPlan(job, name, sharding).compile()


class ShardedPlan:
    """The plan under construction. Arrays of ops have an axis for ranks."""

    def __init__(self, job: Job, name: str, sharding: Sharding) -> None:
        self.job, self.sharding = job, sharding
        self.builder = PlanBuilder(name)
        cluster = job.cluster
        self.groups = _groups(cluster.workers, sharding.group or cluster.workers)
        self.ranks = [self.builder.rank(Role.WORKER, cluster.worker_host(worker)) for worker in range(cluster.workers)]
        self.passes = [add_passes(self.builder, job, rank) for rank in self.ranks]
        switches = Switches.of(job) if sharding.algorithm == IN_NETWORK else None
        # A set for each group's reduce-scatters, and one for the allreduces of shards.
        self.collectives = Collectives(self.builder, job, switches, sets=len(self.groups) + 1)
        machines = self.collectives.hosts.tolist()
        self.way = Way(sharding.algorithm, machines, switches)
        self.ways = None if sharding.nccl is None else SizedWays(sharding.nccl, machines)
        if self.ways is not None and len(self.groups) > 1:
            raise InputFault(
                f"strategy.options.shard = {sharding.group}: '{NCCL}' is for one group of all workers; leave it out, or take 'ring'"
            )
        self.units = units_of(job.profile)
        self.tensors = {unit: self.builder.tensor(unit.name) for unit in self.units}
        self.uses = self._uses()
        #: In the order in which gradients are there: the blocks from the last to the first, and then the root, whose
        #: first layer is the last of the backward pass.
        self.yields = self.units[::-1]

    def compile(self) -> Plan:
        """Builds the plan."""
        add = self.collectives.add
        gather, scatter = self._schedules()
        gathers = [add(unit.layers[0], gather(unit)) for unit, _ in self.uses]
        scatters = [add(unit.layers[0], scatter(unit)) for unit in self.yields]
        self._wait_for_gathers(gathers)
        self._wait_for_backward(scatters)
        self._parameters(gathers)
        self._gradients(scatters, gathers)
        sums = self._sums(scatters) if len(self.groups) > 1 else []
        for collectives in (gathers, scatters, *([sums] if sums else [])):
            self.collectives.transfer(self.collectives.queues(collectives), collectives)
        self._boundaries([*gathers[-1:], *scatters, *sums])
        self.builder.notes.extend(self.ways.notes() if self.ways else ())
        return self.builder.build(self.job.compute_s, self.job.samples)

    def _schedules(self) -> tuple[Callable[[Unit], Schedule], Callable[[Unit], Schedule]]:
        """Returns two functions of a unit: the schedule of its allgather, and that of its reduce-scatter."""
        ways, sharding = self.ways, self.sharding
        if ways is None:
            gather, scatter = allgathers(self.groups, self.way), reduce_scatters(self.groups, self.way)
            return lambda _: gather, lambda _: scatter
        return (
            lambda unit: ways.schedule(Combine.COPY, self._shard_values(unit) * sharding.parameter_bytes),
            lambda unit: ways.schedule(Combine.ADD, self._shard_values(unit) * sharding.gradient_bytes),
        )

    def _uses(self) -> list[tuple[Unit, bool]]:
        """Units in the order in which they need their parameters, and whether for the forward pass."""
        blocks = [unit for unit in self.units if unit.name != ROOT]
        again = reversed(blocks) if self.sharding.reshard else ()
        # The root's first layer reads the samples, or reads first what the root alone has; it is whole from there on.
        return [(unit, True) for unit in self.units] + [(unit, False) for unit in again]

    def _begins(self, unit: Unit, forward: bool) -> list[int]:
        return [
            worker.forward[unit.layers[0]] if forward else worker.backward[unit.layers[-1]] for worker in self.passes
        ]

    def _ends(self, unit: Unit, forward: bool) -> list[int]:
        """The last op of a use of a unit.

        The root's use only begins with the forward pass, so that it ends with its first layer.
        """
        if forward:
            last = unit.layers[0] if unit.name == ROOT else unit.layers[-1]
            return [worker.forward[last] for worker in self.passes]
        return [worker.backward[unit.layers[0]] for worker in self.passes]

    def _wait_for_gathers(self, gathers: Sequence[PlannedCollective]) -> None:
        """A unit computes when it is gathered; a gather follows the one before, and the use that is `prefetch` and one
        before its own."""
        builder = self.builder
        builder.depend_columns(gathers[0].started, [worker.begin for worker in self.passes])
        for before, gather in pairwise(gathers):
            builder.depend_columns(gather.started, before.done)
        for number, (gather, (unit, forward)) in enumerate(zip(gathers, self.uses, strict=True)):
            builder.depend_columns(self._begins(unit, forward), gather.done)
            used = number - 1 - self.sharding.prefetch
            if used >= 0:
                builder.depend_columns(gather.started, self._ends(*self.uses[used]))

    def _wait_for_backward(self, scatters: Sequence[PlannedCollective]) -> None:
        for scatter, unit in zip(scatters, self.yields, strict=True):
            self.builder.depend_columns(scatter.started, self._ends(unit, False))
        for before, scatter in pairwise(scatters):
            self.builder.depend_columns(scatter.started, before.done)

    def _parameters(self, gathers: Sequence[PlannedCollective]) -> None:
        """Chunks of parameters, and who has and needs them when."""
        builder, alone = self.builder, len(self.groups) == 1
        for gather, (unit, forward) in zip(gathers, self.uses, strict=True):
            begins = self._begins(unit, forward)
            share_bytes = self._shard_values(unit) * self.sharding.parameter_bytes
            for group in self.groups:
                for part, size_bytes in enumerate(self._pieces(gather, Combine.COPY, share_bytes)):
                    if not size_bytes:
                        gather.chunks.append(NO_CHUNK)
                        continue
                    has = owner(group, part)
                    chunk = builder.chunk(self.tensors[unit], size_bytes, [has], None if alone else group)
                    builder.produces(int(gather.started[has]), chunk)
                    for rank in group:
                        builder.needs(begins[rank], chunk)
                    gather.chunks.append(chunk)

    def _gradients(self, scatters: Sequence[PlannedCollective], gathers: Sequence[PlannedCollective]) -> None:
        """Chunks of gradients, which every owner of a shard needs before it offers what the optimizer made of them."""
        builder, pieces = self.builder, len(self.groups)
        first_gather = {unit: gather for gather, (unit, _) in reversed(list(zip(gathers, self.uses, strict=True)))}
        for scatter, unit in zip(scatters, self.yields, strict=True):
            ready, share_bytes = self._ends(unit, False), self._shard_values(unit) * self.sharding.gradient_bytes
            for part, whole_bytes in enumerate(self._pieces(scatter, Combine.ADD, share_bytes)):
                owners = [owner(group, part) for group in self.groups]
                values = whole_bytes // self.sharding.gradient_bytes
                for piece in range(pieces):
                    size_bytes = (values // pieces + (piece < values % pieces)) * self.sharding.gradient_bytes
                    size_bytes = whole_bytes if pieces == 1 else size_bytes
                    if not size_bytes:
                        scatter.chunks.append(NO_CHUNK)
                        continue
                    chunk = builder.chunk(self.tensors[unit], size_bytes, receivers=owners)
                    for rank in self.ranks:
                        builder.produces(ready[rank], chunk)
                    for rank in owners:
                        builder.consumes(int(first_gather[unit].started[rank]), chunk)
                    scatter.chunks.append(chunk)

    def _sums(self, scatters: Sequence[PlannedCollective]) -> list[PlannedCollective]:
        """An allreduce among groups behind each reduce-scatter."""
        schedule = allreduces_of_shares(self.groups, self.way)
        sums = [self.collectives.add(scatter.layer, schedule) for scatter in scatters]
        for scatter, allreduce in zip(scatters, sums, strict=True):
            allreduce.chunks = scatter.chunks
            self.builder.depend_columns(allreduce.started, scatter.done)
        for before, allreduce in pairwise(sums):
            self.builder.depend_columns(allreduce.started, before.done)
        return sums

    def _pieces(self, collective: PlannedCollective, half: Combine, share_bytes: int) -> list[int]:
        """Bytes of each part of a group's shards: whole shards, or as NCCL cuts them."""
        shards = len(self.groups[0])
        if self.ways is None:
            return [share_bytes] * shards
        return shards_in_pieces(collective.schedule, half, shards, share_bytes)

    def _shard_values(self, unit: Unit) -> int:
        """Values of a shard: the unit's, padded to a multiple of the workers that share it, as FSDP's flat parameter
        is."""
        return -(-unit.values // len(self.groups[0]))

    def _boundaries(self, collectives: Sequence[PlannedCollective]) -> None:
        """The optimizer steps when all gradients are reduced, and the next iteration follows."""
        for rank, worker in enumerate(self.passes):
            end = self.builder.compute(rank)
            self.builder.depend(end, worker.backward[0], *(int(collective.done[rank]) for collective in collectives))
            self.builder.depend(worker.begin, end, lag=1)
            self.builder.iteration(rank, worker.begin, end)


def _groups(workers: int, size: int) -> list[list[int]]:
    """Neighbours that share units. Raises InputFault if groups do not come out even."""
    if workers % size:
        raise InputFault(f"strategy.options.shard = {size}: must divide cluster.workers = {workers}")
    return [list(range(first, first + size)) for first in range(0, workers, size)]

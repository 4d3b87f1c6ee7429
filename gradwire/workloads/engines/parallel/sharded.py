"""Sharded data parallelism: parameters are gathered before a unit computes, and gradients scattered as sums after it.

Sources: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020; Zhao et al.,
PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, VLDB 2023. Of each unit of layers, each of N workers
keeps one of N shards, parameters, gradients and optimizer's state alike. An iteration of a worker:

1. Before a unit's forward pass, an allgather collects its parameters from the owners of the shards; after it, all but
   the own shard is forgotten. The root, which has the layers outside all other units, stays whole until the backward
   pass is over.
2. Before a unit's backward pass, its parameters are gathered once more.
3. After a unit's backward pass, a reduce-scatter leaves each worker the sum of the gradients of its shard.
4. The optimizer updates the shards; the next iteration gathers what comes of that.

With several microbatches (gradient accumulation), a worker goes through steps 1 to 3 for each, and adds what they leave of
its shard, as FSDP2 does unless `set_requires_gradient_sync` says otherwise.

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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.call_costs import CallCosts
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.engines.collectives.choice import IN_NETWORK
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.options import NCCL, Setup
from gradwire.workloads.engines.parallel.group_collectives import (
    HALVES,
    NO_CHUNK,
    Algorithm,
    Collectives,
    GroupExchange,
    PlannedCollective,
    allgathers,
    allreduces_of_shares,
    owner,
    reduce_scatters,
    shards_in_pieces,
    ways_of_all,
)
from gradwire.workloads.engines.transfer_counts import ops_of_transfers
from gradwire.workloads.engines.worker import add_passes, ops_of_passes
from gradwire.workloads.job import Job
from gradwire.workloads.models.profile import Profile

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
class UnitUse:
    """A pass of a microbatch through a unit, which needs its parameters."""

    unit: Unit
    forward: bool
    microbatch: int


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
    #: Rings at once, of one group of all workers by ring.
    rings: int = 1
    #: Parts of a worker's batch, which are computed one after the other.
    microbatches: int = 1


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


def recomputing(job: Job) -> Job:
    """Returns the job with all of each block's forward pass computed again in its backward pass (activation checkpointing).
    The block is gathered for it once, since both follow one another."""
    again = {number for number, layer in enumerate(job.profile.layers) if BLOCK.match(layer.name)}
    backward_s = tuple(
        time_s + (job.compute.forward_s[number] if number in again else 0.0)
        for number, time_s in enumerate(job.compute.backward_s)
    )
    return replace(job, compute=replace(job.compute, backward_s=backward_s))


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
        switches = Switches.of(job) if sharding.algorithm == IN_NETWORK else None
        # A set for each group's reduce-scatters, and one for the allreduces of shards.
        self.collectives = Collectives(self.builder, job, switches, sets=len(self.groups) + 1)
        machines = self.collectives.hosts.tolist()
        self.way = GroupExchange(sharding.algorithm, machines, switches)
        self.ways = ways_of_all(machines, sharding.nccl, sharding.rings if len(self.groups) == 1 else 1)
        if sharding.nccl is not None and len(self.groups) > 1:
            raise InputFault(
                f"strategy.options.shard = {sharding.group}: '{NCCL}' is for one group of all workers; leave it out, or take 'ring'"
            )
        self.units = units_of(job.profile)
        #: Workers that share a unit, and those of one group if there are several.
        self.shards = len(self.groups[0])
        self.callers = self.groups[0] if len(self.groups) > 1 else None
        self.calls = CallCosts(job, sharding.algorithm)
        self.tensors = {unit: self.builder.tensor(unit.name) for unit in self.units}
        microbatches = range(sharding.microbatches)
        self.uses = [use for microbatch in microbatches for use in self._uses(microbatch)]
        self._schedules: dict[Combine, Schedule] = {}
        #: In the order in which gradients are there: of each microbatch, the blocks from the last to the first, and then
        #: the root, whose first layer is the last of the backward pass.
        self.yields = [UnitUse(unit, False, microbatch) for microbatch in microbatches for unit in self.units[::-1]]
        self._expect()
        part = _part_of(job, sharding.microbatches)
        #: Passes of each microbatch, by worker.
        self.passes = [[add_passes(self.builder, part, rank) for rank in self.ranks] for _ in microbatches]

    def compile(self) -> Plan:
        """Builds the plan."""
        gathers = [self._call(use.unit, Combine.COPY, self._schedule(use.unit, Combine.COPY)) for use in self.uses]
        scatters = [self._call(use.unit, Combine.ADD, self._schedule(use.unit, Combine.ADD)) for use in self.yields]
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

    def _call(self, unit: Unit, half: Combine, schedule: Schedule) -> PlannedCollective:
        """Adds a unit's allgather (COPY) or reduce-scatter, without its messages."""
        size_bytes = self._shard_bytes(unit, half) * self.shards
        latency_s = self.calls.seconds(HALVES[half], size_bytes, self.callers)
        return self.collectives.add(unit.layers[0], schedule, latency_s, int(half is Combine.ADD))

    def _expect(self) -> None:
        """Says how many ops this will be."""
        workers, job = len(self.ranks), self.job
        moved = []
        for unit, half in [
            *((use.unit, Combine.COPY) for use in self.uses),
            *((use.unit, Combine.ADD) for use in self.yields),
        ]:
            schedule = self._schedule(unit, half)
            moved.append((schedule, np.array(self._sizes(schedule, unit, half), np.int64)))
        if len(self.groups) > 1:
            schedule = allreduces_of_shares(self.groups, self.way)
            moved += [(schedule, sizes) for _, sizes in moved[len(self.uses) :]]
        gates = 2 * len(moved) + 1  # of each collective, and its end
        own = self.sharding.microbatches * ops_of_passes(job) + gates
        self.builder.expect(workers * own + ops_of_transfers(moved, job.costs, workers))

    def _schedule(self, unit: Unit, half: Combine) -> Schedule:
        """Returns the schedule of a unit's allgather (COPY), or of its reduce-scatter (ADD)."""
        if self.ways is not None:
            return self.ways.schedule(half, self._shard_bytes(unit, half))
        if half not in self._schedules:
            build = allgathers if half is Combine.COPY else reduce_scatters
            self._schedules[half] = build(self.groups, self.way)
        return self._schedules[half]

    def _uses(self, microbatch: int) -> list[UnitUse]:
        """The passes of a microbatch for which units are gathered, in their order."""
        blocks = [unit for unit in self.units if unit.name != ROOT]
        again = reversed(blocks) if self.sharding.reshard else ()
        # The root's first layer reads the samples, or reads first what the root alone has; it is whole from there on.
        return [UnitUse(unit, True, microbatch) for unit in self.units] + [
            UnitUse(unit, False, microbatch) for unit in again
        ]

    def _begins(self, use: UnitUse) -> list[int]:
        first, last = use.unit.layers[0], use.unit.layers[-1]
        return [
            worker.forward[first] if use.forward else worker.backward[last] for worker in self.passes[use.microbatch]
        ]

    def _ends(self, use: UnitUse) -> list[int]:
        """The last op of a use of a unit.

        The root's use only begins with the forward pass, so that it ends with its first layer.
        """
        workers, layers = self.passes[use.microbatch], use.unit.layers
        if use.forward:
            last = layers[0] if use.unit.name == ROOT else layers[-1]
            return [worker.forward[last] for worker in workers]
        return [worker.backward[layers[0]] for worker in workers]

    def _wait_for_gathers(self, gathers: Sequence[PlannedCollective]) -> None:
        """A unit computes when it is gathered; a gather follows the one before, and the use that is `prefetch` and one
        before its own."""
        builder = self.builder
        builder.depend_columns(gathers[0].started, [worker.begin for worker in self.passes[0]])
        for before, gather in pairwise(gathers):
            builder.depend_columns(gather.started, before.done)
        for number, (gather, use) in enumerate(zip(gathers, self.uses, strict=True)):
            builder.depend_columns(self._begins(use), gather.done)
            used = number - 1 - self.sharding.prefetch
            if used >= 0:
                builder.depend_columns(gather.started, self._ends(self.uses[used]))

    def _wait_for_backward(self, scatters: Sequence[PlannedCollective]) -> None:
        for scatter, use in zip(scatters, self.yields, strict=True):
            self.builder.depend_columns(scatter.started, self._ends(use))
        for before, scatter in pairwise(scatters):
            self.builder.depend_columns(scatter.started, before.done)

    def _parameters(self, gathers: Sequence[PlannedCollective]) -> None:
        """Chunks of parameters, and who has and needs them when."""
        builder, alone = self.builder, len(self.groups) == 1
        for gather, use in zip(gathers, self.uses, strict=True):
            begins = self._begins(use)
            shards = len(self.groups[0])
            for part, size_bytes in enumerate(self._sizes(gather.schedule, use.unit, Combine.COPY)):
                if not size_bytes:
                    gather.chunks.append(NO_CHUNK)
                    continue
                group = self.groups[0 if alone else part // shards]
                has = owner(group, part)
                chunk = builder.chunk(self.tensors[use.unit], size_bytes, [has], None if alone else group)
                builder.produces(int(gather.started[has]), chunk)
                for rank in group:
                    builder.needs(begins[rank], chunk)
                gather.chunks.append(chunk)

    def _gradients(self, scatters: Sequence[PlannedCollective], gathers: Sequence[PlannedCollective]) -> None:
        """Chunks of gradients, which every owner of a shard needs before it offers what the optimizer made of them."""
        builder, pieces = self.builder, len(self.groups)
        first_gather = {use.unit: gather for gather, use in reversed(list(zip(gathers, self.uses, strict=True)))}
        for scatter, use in zip(scatters, self.yields, strict=True):
            ready, unit = self._ends(use), use.unit
            for part, size_bytes in enumerate(self._sizes(scatter.schedule, unit, Combine.ADD)):
                if not size_bytes:
                    scatter.chunks.append(NO_CHUNK)
                    continue
                owners = [owner(group, part // pieces) for group in self.groups]
                chunk = builder.chunk(self.tensors[unit], size_bytes, receivers=owners)
                for rank in self.ranks:
                    builder.produces(ready[rank], chunk)
                for rank in owners:
                    builder.consumes(int(first_gather[unit].started[rank]), chunk)
                scatter.chunks.append(chunk)

    def _sums(self, scatters: Sequence[PlannedCollective]) -> list[PlannedCollective]:
        """An allreduce among groups behind each reduce-scatter."""
        schedule = allreduces_of_shares(self.groups, self.way)
        owners = [group[0] for group in self.groups]
        sums = []
        for scatter, use in zip(scatters, self.yields, strict=True):
            latency_s = self.calls.seconds(Collective.ALL_REDUCE, self._shard_bytes(use.unit, Combine.ADD), owners)
            sums.append(self.collectives.add(scatter.layer, schedule, latency_s, 2))
        for scatter, allreduce in zip(scatters, sums, strict=True):
            allreduce.chunks = scatter.chunks
            self.builder.depend_columns(allreduce.started, scatter.done)
        for before, allreduce in pairwise(sums):
            self.builder.depend_columns(allreduce.started, before.done)
        return sums

    def _sizes(self, schedule: Schedule, unit: Unit, half: Combine) -> list[int]:
        """Bytes of each part of a schedule: whole shards, or as NCCL cuts them; of all groups' allgathers, or of the
        pieces in which shards are summed among groups."""
        groups, shards, shard_bytes = len(self.groups), len(self.groups[0]), self._shard_bytes(unit, half)
        if self.ways is not None:
            return shards_in_pieces(schedule, half, shards, shard_bytes)
        if half is Combine.COPY or groups == 1:
            return [shard_bytes] * schedule.parts
        value_bytes = self.sharding.gradient_bytes
        values, larger = divmod(shard_bytes // value_bytes, groups)
        return [(values + (piece < larger)) * value_bytes for piece in range(groups)] * shards

    def _shard_bytes(self, unit: Unit, half: Combine) -> int:
        """Bytes of a shard, of parameters (COPY) or gradients: the unit's values, padded to a multiple of the workers
        that share it, as FSDP's flat parameter is."""
        value_bytes = self.sharding.parameter_bytes if half is Combine.COPY else self.sharding.gradient_bytes
        return -(-unit.values // self.shards) * value_bytes

    def _boundaries(self, collectives: Sequence[PlannedCollective]) -> None:
        """One microbatch follows the other; the optimizer steps when all gradients are reduced, and the next iteration
        follows."""
        for before, after in pairwise(self.passes):
            self.builder.depend_columns([worker.begin for worker in after], [worker.backward[0] for worker in before])
        for rank, (first, last) in enumerate(zip(self.passes[0], self.passes[-1], strict=True)):
            end = self.builder.compute(rank)
            self.builder.depend(end, last.backward[0], *(int(collective.done[rank]) for collective in collectives))
            self.builder.depend(first.begin, end, lag=1)
            self.builder.iteration(rank, first.begin, end)


def _part_of(job: Job, microbatches: int) -> Job:
    """Returns the job of a microbatch. Raises InputFault if they do not come out even."""
    if job.batch % microbatches:
        raise InputFault(f"strategy.options.microbatches = {microbatches}: must divide model.batch = {job.batch}")
    if microbatches == 1:
        return job
    forward_s, backward_s = (
        tuple(time_s / microbatches for time_s in times_s)
        for times_s in (job.compute.forward_s, job.compute.backward_s)
    )
    return replace(job, compute=replace(job.compute, forward_s=forward_s, backward_s=backward_s))


def _groups(workers: int, size: int) -> list[list[int]]:
    """Neighbours that share units. Raises InputFault if groups do not come out even."""
    if workers % size:
        raise InputFault(f"strategy.options.shard = {size}: must divide cluster.workers = {workers}")
    return [list(range(first, first + size)) for first in range(0, workers, size)]

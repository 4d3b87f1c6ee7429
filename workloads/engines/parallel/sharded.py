"""Sharded data parallelism: parameters are gathered before a unit computes, and gradients scattered as sums after it.

Sources: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020, sections 5 and 7; Zhao et al.,
PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, VLDB 2023, sections 3.2 to 3.4. Of each unit of layers, each of N workers
keeps one of N shards, parameters, gradients and optimizer's state alike. An iteration of a worker:

1. Before a unit's forward pass, an allgather collects its parameters from the owners of the shards; after it, all but the own shard is
   forgotten. The root, which has the layers outside all other units, stays whole until the backward pass is over.
2. Before a unit's backward pass, its parameters are gathered once more.
3. After a unit's backward pass, a reduce-scatter leaves each worker the sum of its own shard's gradients.
4. The optimizer updates the shards; the next iteration gathers what comes of that.

Allgathers go one after the other in the order in which their units compute, each as early as `prefetch` lets it; so do reduce-scatters,
beside them. Both go around a ring. In the plan, a shard of a unit is up to three chunks (workloads/plan.py): the gradients, to which all
contribute and which the owner receives; and the parameters of either pass, to which the owner contributes and which all receive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE, BucketOps, Transfers, Workers, add_gates
from gradwire.workloads.engines.collectives import Schedule, ring
from gradwire.workloads.engines.worker import Passes, add_passes
from gradwire.workloads.job import Job
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.plan import Combine, Int64, Plan, Role

ROOT = "root"
BLOCK = re.compile(r"block\d+(/unit\d+)?(?=/)")
"""How models name the layers of a transformer's block, or of a residual network's unit."""


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
    """How shards travel."""

    #: Size of a parameter on the wire.
    parameter_bytes: int
    #: Size of a gradient on the wire.
    gradient_bytes: int
    #: Allgathers that may be under way, or done and unused, while a unit computes.
    prefetch: int
    #: Step 2: whether parameters are forgotten after the forward pass; otherwise they stay for the backward pass (ZeRO's stage 2).
    reshard: bool


@dataclass
class _Collective:
    """One allgather or reduce-scatter: its parts and ops, by rank where they are arrays."""

    unit: Unit
    schedule: Schedule
    value_bytes: int
    started: Int64
    done: Int64
    chunks: list[int] = field(default_factory=list)


def units_of(profile: Profile) -> list[Unit]:
    """The root first, and then each block of the model, in forward order. Layers that belong to no block are the root's."""
    names = [match[0] if (match := BLOCK.match(layer.name)) else ROOT for layer in profile.layers]
    members = {name: tuple(i for i, own in enumerate(names) if own == name) for name in dict.fromkeys([ROOT, *names])}
    units = [
        Unit(name, layers, sum(profile.layers[layer].parameters for layer in layers))
        for name, layers in members.items()
    ]
    return [unit for unit in units if unit.values]


def compile_sharded(job: Job, name: str, sharding: Sharding) -> Plan:
    """Compiles an iteration."""
    return _Compiler(job, name, sharding).compile()


class _Compiler:
    """The plan under construction. Arrays of ops have an axis for ranks."""

    def __init__(self, job: Job, name: str, sharding: Sharding) -> None:
        self.job, self.sharding = job, sharding
        self.builder = PlanBuilder(name)
        cluster = job.cluster
        self.hosts = [cluster.worker_host(worker) for worker in range(cluster.workers)]
        self.ranks = [self.builder.rank(Role.WORKER, host) for host in self.hosts]
        self.passes = [add_passes(self.builder, job, rank) for rank in self.ranks]
        self.gather, self.scatter = (ring(cluster.workers).only(how) for how in (Combine.COPY, Combine.ADD))
        self.units = units_of(job.profile)
        self.tensors = {unit: self.builder.tensor(unit.name) for unit in self.units}

    def compile(self) -> Plan:
        """Builds everything."""
        gathers, scatters = self._gathers(), self._scatters()
        self._wait_for_gathers(gathers)
        self._wait_for_backward(scatters)
        self._shards(gathers, scatters)
        for collectives in (gathers, scatters):
            workers = self._workers()
            for number, collective in enumerate(collectives):
                self._transfer(workers, number, collective)
        self._boundaries(gathers, scatters)
        return self.builder.build(self.job.compute_s, self.job.samples)

    def _uses(self) -> list[tuple[Unit, bool]]:
        """Units in the order in which they need their parameters, and whether for the forward pass."""
        blocks = [unit for unit in self.units if unit.name != ROOT]
        again = reversed(blocks) if self.sharding.reshard else ()
        # The root's first layer reads the samples, or reads first what the root alone has; it is whole from there on.
        return [(unit, True) for unit in self.units] + [(unit, False) for unit in again]

    def _collective(self, unit: Unit, schedule: Schedule, value_bytes: int) -> _Collective:
        started, done = add_gates(self.builder, [0.0, 0.0], len(self.ranks), GATE_LANE)
        self.builder.depend_columns(done, started)
        return _Collective(unit, schedule, value_bytes, started, done)

    def _gathers(self) -> list[_Collective]:
        return [self._collective(unit, self.gather, self.sharding.parameter_bytes) for unit, _ in self._uses()]

    def _scatters(self) -> list[_Collective]:
        """The blocks from the last to the first, and then the root, whose first layer is the last of the backward pass."""
        return [self._collective(unit, self.scatter, self.sharding.gradient_bytes) for unit in reversed(self.units)]

    def _begins(self, unit: Unit, forward: bool) -> list[int]:
        return [own.forward[unit.layers[0]] if forward else own.backward[unit.layers[-1]] for own in self.passes]

    def _ends(self, unit: Unit, forward: bool) -> list[int]:
        """The last op of a use of a unit. The root's use only begins with the forward pass, so that it ends with its first layer."""
        if forward:
            last = unit.layers[0] if unit.name == ROOT else unit.layers[-1]
            return [own.forward[last] for own in self.passes]
        return [own.backward[unit.layers[0]] for own in self.passes]

    def _wait_for_gathers(self, gathers: Sequence[_Collective]) -> None:
        """A unit computes when it is gathered; a gather follows the one before, and the use that is `prefetch` and one before its own."""
        builder, uses = self.builder, self._uses()
        builder.depend_columns(gathers[0].started, [own.begin for own in self.passes])
        for before, gather in pairwise(gathers):
            builder.depend_columns(gather.started, before.done)
        for number, (gather, (unit, forward)) in enumerate(zip(gathers, uses, strict=True)):
            builder.depend_columns(self._begins(unit, forward), gather.done)
            used = number - 1 - self.sharding.prefetch
            if used >= 0:
                builder.depend_columns(gather.started, self._ends(*uses[used]))

    def _wait_for_backward(self, scatters: Sequence[_Collective]) -> None:
        for scatter in scatters:
            self.builder.depend_columns(scatter.started, self._ends(scatter.unit, False))
        for before, scatter in pairwise(scatters):
            self.builder.depend_columns(scatter.started, before.done)

    def _shards(self, gathers: Sequence[_Collective], scatters: Sequence[_Collective]) -> None:
        """Chunks, and who has and needs them when."""
        builder, everyone = self.builder, self.ranks
        for collective, (unit, forward) in zip(gathers, self._uses(), strict=True):
            begins = self._begins(unit, forward)
            for part, size_bytes in self._parts(collective):
                owner = self._owner(part)
                chunk = builder.chunk(self.tensors[unit], size_bytes, contributors=[owner])
                builder.produces(int(collective.started[owner]), chunk)
                for rank in everyone:
                    builder.needs(begins[rank], chunk)
                collective.chunks.append(chunk)
        first_gather = {gather.unit: gather for gather in reversed(gathers)}
        for collective in scatters:
            ready = self._ends(collective.unit, False)
            for part, size_bytes in self._parts(collective):
                owner = self._owner(part)
                chunk = builder.chunk(self.tensors[collective.unit], size_bytes, receivers=[owner])
                for rank in everyone:
                    builder.produces(ready[rank], chunk)
                builder.consumes(int(first_gather[collective.unit].started[owner]), chunk)
                collective.chunks.append(chunk)

    def _owner(self, part: int) -> int:
        """The rank that a ring's reduce-scatter leaves the part with, from which the allgather starts."""
        return (part - 1) % len(self.ranks)

    def _parts(self, collective: _Collective) -> Iterator[tuple[int, int]]:
        """Shards and their sizes: the unit's values padded to a multiple of the workers, as FSDP's flat parameter is."""
        size_bytes = -(-collective.unit.values // len(self.ranks)) * collective.value_bytes
        return ((part, size_bytes) for part in range(len(self.ranks)))

    def _workers(self) -> Workers:
        """Queues for one kind of collective: to other hosts and, where there are several workers on a host, inside it."""
        queues = np.array([self.builder.queue(rank) for rank in self.ranks], np.int64)
        network = np.repeat(queues[:, None], len(self.ranks), axis=1)
        shared = self.job.cluster.workers_per_host > 1
        inside = np.array([self.builder.queue(rank) for rank in self.ranks], np.int64) if shared else queues
        return Workers(np.array(self.hosts, np.int64), network, inside)

    def _transfer(self, workers: Workers, number: int, collective: _Collective) -> None:
        bucket = BucketOps(
            number=np.array([number], np.int64),
            layer=np.array([collective.unit.layers[0]], np.int64),
            started=collective.started[None, :],
            done=collective.done[None, :],
            size_bytes=self.builder.chunk_sizes(collective.chunks)[None, :],
            chunk=np.array([collective.chunks], np.int64),
        )
        Transfers(self.builder, self.job.costs, workers, collective.schedule, bucket).build()

    def _boundaries(self, gathers: Sequence[_Collective], scatters: Sequence[_Collective]) -> None:
        """The optimizer steps when all gradients are reduced, and the next iteration follows."""
        for rank, own in enumerate(self.passes):
            self._end(rank, own, [int(scatter.done[rank]) for scatter in (*gathers[-1:], *scatters)])

    def _end(self, rank: int, own: Passes, after: Sequence[int]) -> None:
        end = self.builder.compute(rank)
        self.builder.depend(end, own.backward[0], *after)
        self.builder.depend(own.begin, end, lag=1)
        self.builder.iteration(rank, own.begin, end)

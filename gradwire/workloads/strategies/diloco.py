"""DiLoCo: workers train by themselves for many steps, and then average how far they have moved; Streaming DiLoCo.

Sources: Douillard et al., DiLoCo: Distributed Low-Communication Training of Language Models, 2023 (arXiv:2311.08105),
algorithm 1; Douillard et al., Streaming DiLoCo with overlapping communication, 2025 (arXiv:2501.18512). An iteration of
the plan is an outer round:

1. Every worker takes `inner_steps` optimizer steps on its own samples. Nothing is sent.
2. The outer gradient is the difference between the parameters at the beginning of the round and those now. It is
   summed over all workers, and each updates the parameters from which the next round begins.
3. Streaming: the model is cut into `fragments`, whose turns are spread evenly over the round. A fragment's outer
   gradient is taken and sent after the step that is its turn, while the worker continues for `overlap_steps` more. The
   step after those waits for the sum. Turns late in the round reach into the next one.
4. Outer gradients have `outer_bits` on the wire.

Assumed where the papers are silent: fragments are neighbouring tensors in the order of the model, cut where the
fragments come nearest to the same size (the paper has transformer blocks, neighbouring or strided). Sums of fragments
go one after the other, as on the one stream of a process group. Sums that are passed on take as many bits as what they
are sums of. The outer optimizer's step and the conversion to fewer bits take no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from gradwire.datatypes.plan import Int64, OpKind, Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_buckets import allreduce_load
from gradwire.workloads.engines.allreduce_plan import MOST_SEGMENTS, AnyAlgorithm, chosen_schedules
from gradwire.workloads.engines.allreduce_transfers import (
    BucketOps,
    BucketTransfers,
    Connections,
    add_gates,
    add_switches,
)
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.engines.collectives.choice import IN_NETWORK
from gradwire.workloads.engines.collectives.schedule import sent_bytes
from gradwire.workloads.engines.nccl.options import NcclKeys, setup_of
from gradwire.workloads.engines.ring_channels import RingCount, rings_of
from gradwire.workloads.engines.transfer_counts import ops_of_transfers
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.stand_in import AllreduceLoad
from gradwire.workloads.strategy import Strategy

INNER_STEPS = 500
"""DiLoCo's H in its main experiments, which therefore communicate 500 times less (arXiv:2311.08105, abstract)."""
MOST_INNER_STEPS = 100_000
SUM_LANE = 2
"""A stream next to the one that computes, in which no time is spent."""


class DilocoOptions(NcclKeys):
    """Options for how seldom workers talk, and by which collectives."""

    inner_steps: int = Field(INNER_STEPS, ge=1, le=MOST_INNER_STEPS)
    """Steps that a worker takes by itself in an outer round, which is an iteration here: DiLoCo's H."""
    fragments: int = Field(1, ge=1)
    """Parts of the model, each with its turn in the round (Streaming DiLoCo). 1: all of it at the end."""
    overlap_steps: int = Field(0, ge=0)
    """Steps that a worker continues for while a fragment is summed, before the step that waits for the sum: Streaming
    DiLoCo's tau. Fewer than `inner_steps`."""
    outer_bits: Literal[32, 16, 8, 4] = 32
    """Bits of each value of an outer gradient on the wire. Streaming DiLoCo has 4."""
    algorithm: AnyAlgorithm = "ring"
    """Algorithm of the outer sums (docs/collectives.md)."""
    channels: RingCount = None
    """Rings that each sum by "ring" is divided among, each over separate connections. Unset: one for each NIC of a machine, as NCCL
    has."""
    segments: int = Field(1, ge=1, le=MOST_SEGMENTS)
    """Messages that each part of a fragment is cut into, which move on one by one."""

    @model_validator(mode="after")
    def _fits_the_round(self) -> Self:
        if self.overlap_steps >= self.inner_steps:
            raise ValueError(
                f"overlap_steps = {self.overlap_steps}: must be less than inner_steps = {self.inner_steps}, so that a "
                "fragment is summed before its next turn"
            )
        if self.fragments > self.inner_steps:
            raise ValueError(
                f"fragments = {self.fragments}: must be at most inner_steps = {self.inner_steps}, one turn each"
            )
        return self


@dataclass(frozen=True)
class Fragment:
    """The parameters of one outer sum."""

    name: str
    #: Number of parameters.
    values: int
    #: Inner step, counted from 0, after which its outer gradient is taken.
    turn: int


def fragments_of(job: Job, options: DilocoOptions) -> list[Fragment]:
    """The model in neighbouring tensors, and when each fragment has its turn. Raises InputFault for more fragments than
    tensors."""
    tensors = job.profile.tensors
    if options.fragments > len(tensors):
        raise InputFault(
            f"strategy.options.fragments = {options.fragments}: the model has {len(tensors)} tensors, of which each "
            "fragment takes at least one"
        )
    before = np.concatenate([[0], np.cumsum([tensor.parameters for tensor in tensors])])
    cuts = [0]
    for number in range(1, options.fragments):
        nearest = int(np.argmin(np.abs(before * options.fragments - before[-1] * number)))
        cuts.append(min(max(nearest, cuts[-1] + 1), len(tensors) - (options.fragments - number)))
    cuts.append(len(tensors))
    found = []
    for number, (first, end) in enumerate(pairwise(cuts)):
        of = tensors[first:end]
        name = of[0].name if len(of) == 1 else f"{of[0].name} to {of[-1].name}"
        turn = -(-(number + 1) * options.inner_steps // options.fragments) - 1
        found.append(Fragment(name, sum(tensor.parameters for tensor in of), turn))
    return found


def wire_bytes(values: Int64, bits: int) -> Int64:
    """Whole bytes that so many values take on the wire."""
    return (values * bits + 7) // 8


class _Round:
    """The plan under construction. Arrays of ops have an axis for fragments or steps, and one for ranks."""

    def __init__(self, job: Job, options: DilocoOptions) -> None:
        self.job, self.options = job, options
        self.fragments = fragments_of(job, options)
        self.builder = PlanBuilder("diloco")
        cluster = job.cluster
        hosts = [cluster.worker_host(worker) for worker in range(cluster.workers)]
        self.ranks = [self.builder.rank(Role.WORKER, host) for host in hosts]
        sizes = [-(-each.values * options.outer_bits // 8) for each in self.fragments]
        self.schedules, switches, notes = chosen_schedules(
            job,
            sizes,
            options.algorithm,
            segments=options.segments,
            channels=rings_of(options.channels, options.algorithm, job.cluster),
            nccl=setup_of(job, options.nccl) if options.goes_by_nccl else None,
        )
        self.builder.notes.extend(notes)
        self._expect()
        self.hosts = add_switches(self.builder, np.array(hosts, np.int64), switches)
        self.begin = [self.builder.compute(rank) for rank in self.ranks]
        self.end = [self.builder.compute(rank) for rank in self.ranks]
        self.steps = self._inner_steps()
        idle = [0.0] * len(self.fragments)
        self.started, self.done = (add_gates(self.builder, idle, len(self.ranks), SUM_LANE) for _ in range(2))

    def compile(self) -> Plan:
        """Builds the plan."""
        connections = Connections(self.builder, self.hosts)
        for number, (fragment, schedule) in enumerate(zip(self.fragments, self.schedules, strict=True)):
            self._order(number, fragment)
            buckets = self._sum(number, fragment, schedule)
            BucketTransfers(self.builder, self.job.costs, connections, schedule, buckets).build()
        for rank in self.ranks:
            self.builder.depend(self.end[rank], int(self.steps[-1, rank]))
            self.builder.depend(self.begin[rank], self.end[rank], lag=1)
            self.builder.iteration(rank, self.begin[rank], self.end[rank])
        steps = self.options.inner_steps
        return self.builder.build(steps * self.job.compute_s, steps * self.job.samples)

    def _expect(self) -> None:
        """Says how many ops this will be."""
        workers, fragments = len(self.ranks), self.fragments
        moved = [(way, self._sizes(each, way)) for each, way in zip(fragments, self.schedules, strict=True)]
        of_worker = 2 + self.options.inner_steps + 2 * len(fragments)
        self.builder.expect(workers * of_worker + ops_of_transfers(moved, self.job.costs, workers))

    def _sizes(self, fragment: Fragment, schedule: Schedule) -> Int64:
        """The bytes of each part of a fragment."""
        parts = np.arange(schedule.parts)
        values = fragment.values // schedule.parts + (parts < fragment.values % schedule.parts)
        return sent_bytes(schedule, wire_bytes(values.astype(np.int64), self.options.outer_bits))

    def _inner_steps(self) -> Int64:
        """The steps of every worker, one after the other, each a forward and a backward pass."""
        builder, count, pace_s = self.builder, self.options.inner_steps, self.job.compute_s
        rows = []
        for rank in self.ranks:
            duration_ns = round(pace_s * self.job.relative_time(rank) * 1e9)
            row = builder.add_columns(OpKind.COMPUTE, count, rank=rank, lane=0, duration_ns=duration_ns)
            builder.depend_columns(row, [self.begin[rank], *row[:-1]])
            rows.append(row)
        return np.array(rows, np.int64).T

    def _order(self, number: int, fragment: Fragment) -> None:
        """A sum begins after its turn and the sum before; the step behind the overlap waits for it."""
        depend, steps = self.builder.depend_columns, self.options.inner_steps
        depend(self.started[number], self.steps[fragment.turn])
        depend(self.done[number], self.started[number])
        depend(self.started[number], self.done[number - 1], lag=0 if number else 1)
        waiting = self._waiting_step(fragment)
        if waiting < steps:
            depend(self.steps[waiting], self.done[number])
        elif waiting == steps:
            depend(np.array(self.end), self.done[number])
        else:
            depend(self.steps[waiting - steps], self.done[number], lag=1)

    def _waiting_step(self, fragment: Fragment) -> int:
        """The step that needs the sum, counted on into the next round."""
        return fragment.turn + 1 + self.options.overlap_steps

    def _sum(self, number: int, fragment: Fragment, schedule: Schedule) -> BucketOps:
        """Returns a fragment's outer sum as one bucket, with the bytes and chunks of its parts and the ops that yield
        and need them."""
        sizes = self._sizes(fragment, schedule)
        tensor = self.builder.tensor(fragment.name)
        chunks = np.full(schedule.parts, -1, np.int64)
        waiting, steps = self._waiting_step(fragment), self.options.inner_steps
        needed = self.builder.needs if waiting < steps else self.builder.consumes
        for part in np.flatnonzero(sizes).tolist():
            chunks[part] = chunk = self.builder.chunk(tensor, int(sizes[part]))
            for rank in self.ranks:
                self.builder.produces(int(self.steps[fragment.turn, rank]), chunk)
                needed(int(self.steps[waiting % steps, rank]), chunk)
        return BucketOps(
            number=np.array([number], np.int64),
            layer=np.array([-1], np.int64),
            started=self.started[[number]],
            done=self.done[[number]],
            size_bytes=sizes[None, :],
            chunk=chunks[None, :],
        )


def _compile(job: Job, options: DilocoOptions) -> Mapping[str, Plan]:
    return {"diloco": _Round(job, options).compile()}


def _load(cluster: Cluster, options: DilocoOptions) -> AllreduceLoad:
    return allreduce_load(options.algorithm, cluster)


STRATEGIES = (
    Strategy(
        name="diloco",
        summary=(
            "many steps without the network, then an outer sum of how far the parameters have moved; streaming in "
            "fragments, of 4 to 32 bits"
        ),
        source="Douillard et al., arXiv:2311.08105, 2023, and arXiv:2501.18512, 2025",
        options=DilocoOptions,
        compile=_compile,
        aggregators=lambda options: options.algorithm == IN_NETWORK,
        needs_servers=False,
        load=_load,
    ),
)

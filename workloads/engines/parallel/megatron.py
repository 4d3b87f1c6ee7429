"""Tensor, pipeline, expert and data parallelism together, as Megatron-LM has them.

Sources: Shoeybi et al. 2019, section 3; Narayanan et al., SC 2021, sections 2 and 3; Lepikhin et al., GShard, 2020, section 3.2. A replica
of the model has `stages` times `tensor` workers and processes a batch in `microbatches`. In an iteration,

1. a stage runs passes in the order of its schedule (workloads/engines/parallel/schedules.py). A forward pass waits for the activations of
   the stage before, a backward pass for the gradients of the stage behind; they are sent on when the pass ends, beside computation.
2. Each product is divided among the workers of a tensor group. They sum activations by a ring allreduce behind each half of a block,
   forward and backward, and wait for it: four in a block and microbatch.
3. Experts are divided among `experts` replicas. Before a block's experts and behind them, forward and backward, each of these sends every
   other its tokens for the other's experts, all at once (an all-to-all), and waits for theirs.
4. After the last backward pass, workers with the same parameters sum their gradients by a ring allreduce, at once and not overlapped.
5. The optimizer steps; the next iteration follows.

Assumed: every tensor, normalisations too, is divided evenly, and so is every layer's time. Each worker of a tensor group sends activations
to its counterpart in the next stage whole (section 4.1 of Narayanan et al. has them cut and gathered), and to experts its share of the
tokens. Experts get as many tokens each. Nothing is computed again. The output does not share the embedding's gradients. What the loss needs
to be summed is too small to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE, BucketOps, Transfers, Workers
from gradwire.workloads.engines.collectives import Schedule, ring_among
from gradwire.workloads.engines.parallel.grid import Grid
from gradwire.workloads.engines.parallel.schedules import PipelineSchedule, passes_of_stage
from gradwire.workloads.engines.parallel.segments import Cut, Segment, cut, uncut
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Combine, Plan, Role


@dataclass(frozen=True)
class Division:
    """How a job is divided."""

    tensor: int
    stages: int
    microbatches: int
    #: Samples of a replica; None: as many as its workers would process alone.
    replica_batch: int | None
    schedule: PipelineSchedule
    #: Size of an activation, and of its gradient, on the wire.
    activation_bytes: int
    #: Size of a parameter's gradient on the wire.
    gradient_bytes: int
    #: Replicas that experts are divided among.
    experts: int = 1


@dataclass
class _Allreduces:
    """Those of one group, of parts as many as members, in order: ops by member, chunks by part."""

    members: list[int]
    layers: list[int] = field(default_factory=list)
    started: list[list[int]] = field(default_factory=list)
    done: list[list[int]] = field(default_factory=list)
    chunks: list[list[int]] = field(default_factory=list)


@dataclass
class _Program:
    """What one worker does, one thing after the other."""

    rank: int
    #: What the next op waits for.
    last: int
    #: Chunks that the next op needs.
    pending: list[int] = field(default_factory=list)
    #: Messages that the next op waits for as well.
    arrivals: list[int] = field(default_factory=list)


def compile_megatron(job: Job, name: str, division: Division) -> Plan:
    """Compiles an iteration. Raises InputFault if workers, model or microbatches do not divide as asked."""
    return _Compiler(job, name, division).compile()


class _Compiler:
    """The plan under construction."""

    def __init__(self, job: Job, name: str, division: Division) -> None:
        self.job, self.division = job, division
        self.batch = division.replica_batch or job.batch * division.tensor * division.stages
        if self.batch % division.microbatches:
            raise InputFault(
                f"strategy.options.microbatches = {division.microbatches}: must divide the {self.batch} samples of a replica"
            )
        self.grid = Grid.of(job.cluster.workers, division.tensor, division.stages)
        if self.grid.data % division.experts:
            raise InputFault(
                f"strategy.options.experts = {division.experts}: must divide the {self.grid.data} replicas that the workers make"
            )
        alone = division.tensor == division.stages == division.experts == 1
        self.cut: Cut = uncut(job.profile) if alone else cut(job.profile, division.stages, division.experts)
        self.builder = PlanBuilder(name)
        self.hosts = [job.cluster.worker_host(worker) for worker in range(job.cluster.workers)]
        self.ranks = [self.builder.rank(Role.WORKER, host) for host in self.hosts]
        self.begins = [self.builder.compute(rank) for rank in self.ranks]
        self.programs = [_Program(rank, self.begins[rank]) for rank in self.ranks]
        self.onward = [self.builder.queue(rank) for rank in self.ranks]
        self.back = [self.builder.queue(rank) for rank in self.ranks]
        #: Queues of all-to-alls, by sender and receiver.
        self.across: dict[tuple[int, int], int] = {}
        #: The first and the last op of each worker's pass.
        self.edges: dict[tuple[int, bool, int], tuple[int, int]] = {}

    def compile(self) -> Plan:
        """Builds everything."""
        for stage in range(self.grid.stages):
            self._stage(stage)
        self._between_stages()
        for rank, end in enumerate(self._gradients()):
            self.builder.depend(self.begins[rank], end, lag=1)
            self.builder.iteration(rank, self.begins[rank], end)
        return self.builder.build(self._compute_s(), self.batch * self.grid.data)

    def _compute_s(self) -> float:
        """Time that a worker of the shortest stage computes."""
        compute = self.job.compute
        both = [forward + backward for forward, backward in zip(compute.forward_s, compute.backward_s, strict=True)]
        stages = (sum(both[layer] for segment in stage for layer in segment.layers) for stage in self.cut.stages)
        return min(stages) * self.batch / self.job.batch / self.division.tensor

    def _stage(self, stage: int) -> None:
        """All passes of a stage, whose workers do the same."""
        division, groups = self.division, self.grid.tensor_groups(stage)
        members = [rank for group in groups for rank in group]
        sums = [_Allreduces(group) for group in groups]
        for forward, microbatch in passes_of_stage(division.schedule, division.stages, stage, division.microbatches):
            segments = self.cut.stages[stage] if forward else self.cut.stages[stage][::-1]
            first: list[int] | None = None
            for segment in segments:
                self._exchange(stage, segment, f"to {'forward' if forward else 'backward'} {microbatch}")
                ops = [self._compute(self.programs[rank], segment, forward) for rank in members]
                self._exchange(stage, segment, f"from {'forward' if forward else 'backward'} {microbatch}")
                first = first or ops
                if division.tensor > 1 and (segment.sums_outputs if forward else segment.sums_gradients):
                    for each in sums:
                        self._sum(each, segment, forward, microbatch)
            assert first is not None  # every stage has a block
            for rank, op in zip(members, first, strict=True):
                self.edges[rank, forward, microbatch] = op, self.programs[rank].last
        for each in sums:
            self._transfer(each)

    def _exchange(self, stage: int, segment: Segment, what: str) -> None:
        """An all-to-all in each expert group, before a segment of experts or behind it."""
        if not segment.routed_values:
            return
        division = self.division
        values = segment.routed_values * (self.batch // division.microbatches)
        size_bytes = -(-values // (division.tensor * division.experts)) * division.activation_bytes
        tensor = self.builder.tensor(f"tokens {what} of {segment.name}")
        for members in self.grid.expert_groups(stage, division.experts):
            lasts = {rank: self.programs[rank].last for rank in members}
            for src, dst in permutations(members, 2):
                chunk = self.builder.chunk(tensor, size_bytes, [src], [dst])
                self.builder.produces(lasts[src], chunk)
                if (src, dst) not in self.across:
                    self.across[src, dst] = self.builder.queue(src)
                recv = self._send(self.across[src, dst], src, dst, size_bytes, chunk, lasts[src])
                self.programs[dst].pending.append(chunk)
                self.programs[dst].arrivals.append(recv)

    def _send(self, queue: int, src: int, dst: int, size_bytes: int, chunk: int, after: int) -> int:
        """A message from one worker to another; returns its RECV."""
        latency_s = self._latency_s(src, dst, size_bytes)
        send, recv = self.builder.message(
            queue, dst, size_bytes, chunk=chunk, combine=Combine.COPY, traffic_class=0, latency_s=latency_s
        )
        self.builder.depend(send, after)
        return recv

    def _compute(self, program: _Program, segment: Segment, forward: bool) -> int:
        """A pass of a segment at one worker, behind whatever it did before."""
        compute = self.job.compute
        # Times are of the batch of a worker alone; this is of a microbatch, and of a share of each product.
        share = self.batch / self.job.batch / self.division.microbatches / self.division.tensor
        times_s = compute.forward_s if forward else compute.backward_s
        duration_s = sum(times_s[layer] for layer in segment.layers) * share * self.job.relative_time(program.rank)
        op = self.builder.compute(program.rank, duration_s, layer=segment.layers[0 if forward else -1])
        self._follow(program, op)
        return op

    def _follow(self, program: _Program, op: int) -> None:
        self.builder.depend(op, program.last, *program.arrivals)
        for chunk in program.pending:
            self.builder.needs(op, chunk)
        program.last, program.pending, program.arrivals = op, [], []

    def _sum(self, sums: _Allreduces, segment: Segment, forward: bool, microbatch: int) -> None:
        """An allreduce of activations, or of their gradients, behind a segment; its workers go on when they have the sum."""
        members = sums.members
        name = f"{segment.name} {'outputs' if forward else 'gradients'} {microbatch}"
        sizes = _parts(self._activation_values(), len(members), self.division.activation_bytes)
        tensor = self.builder.tensor(name)
        chunks = [self.builder.chunk(tensor, size, members, members) for size in sizes]
        started = [self.programs[rank].last for rank in members]
        done = [self.builder.compute(rank, lane=GATE_LANE) for rank in members]
        for place, rank in enumerate(members):
            self.builder.depend(done[place], started[place])
            for chunk in chunks:
                self.builder.produces(started[place], chunk)
            self.programs[rank].last = done[place]
            self.programs[rank].pending += chunks
        sums.layers.append(segment.layers[0])
        sums.started.append(started)
        sums.done.append(done)
        sums.chunks.append(chunks)

    def _activation_values(self) -> int:
        """Of one microbatch."""
        return self.cut.activation_values * (self.batch // self.division.microbatches)

    def _between_stages(self) -> None:
        """Activations to the next stage, and gradients to the one before."""
        size_bytes = self._activation_values() * self.division.activation_bytes
        for (rank, forward, microbatch), (_, last) in self.edges.items():
            stage, replica, share = self.grid.place(rank)
            other = stage + 1 if forward else stage - 1
            if not 0 <= other < self.grid.stages:
                continue
            peer = self.grid.worker(other, replica, share)
            what = "activations" if forward else "gradients"
            tensor = self.builder.tensor(f"{what} from stage {stage}, microbatch {microbatch}")
            chunk = self.builder.chunk(tensor, size_bytes, [rank], [peer])
            first, _ = self.edges[peer, forward, microbatch]
            self.builder.produces(last, chunk)
            self.builder.needs(first, chunk)
            queue = self.onward[rank] if forward else self.back[rank]
            self.builder.depend(first, self._send(queue, rank, peer, size_bytes, chunk, last))

    def _latency_s(self, rank: int, peer: int, size_bytes: int) -> float:
        """Software's, and within a host the time on the machine's own link."""
        costs = self.job.costs
        inside = self.hosts[rank] == self.hosts[peer]
        return costs.message_s(size_bytes, inside=inside)

    def _gradients(self) -> list[int]:
        """Step 3; returns the op that ends each worker's iteration."""
        ends = [self.builder.compute(rank) for rank in self.ranks]
        for stage, segments in enumerate(self.cut.stages):
            everywhere = [segment for segment in segments if not segment.routed_values]
            for members in self.grid.data_groups(stage):
                self._sum_gradients(members, everywhere, self.division.tensor)
            divided = [segment for segment in segments if segment.routed_values]
            for members in self.grid.same_experts(stage, self.division.experts) if divided else ():
                self._sum_gradients(members, divided, self.division.tensor * self.division.experts)
        for rank, end in enumerate(ends):
            self._follow(self.programs[rank], end)
        return ends

    def _sum_gradients(self, members: list[int], segments: Sequence[Segment], shares: int) -> None:
        """An allreduce among workers that hold the same of these segments' parameters, which are divided into so many shares."""
        if len(members) == 1:
            return
        values = -(-sum(segment.values for segment in segments) // shares)
        tensor = self.builder.tensor(f"parameters of {segments[0].name} to {segments[-1].name}")
        sizes = _parts(values, len(members), self.division.gradient_bytes)
        sums = _Allreduces(members, [segments[0].layers[0]])
        sums.chunks.append([self.builder.chunk(tensor, size, members, members) for size in sizes])
        sums.started.append([self.programs[rank].last for rank in members])
        sums.done.append([self.builder.compute(rank, lane=GATE_LANE) for rank in members])
        for rank, started, done in zip(members, sums.started[0], sums.done[0], strict=True):
            self.builder.depend(done, started)
            for chunk in sums.chunks[0]:
                self.builder.produces(started, chunk)
                self.builder.consumes(self.begins[rank], chunk)
            # The end needs what is pending of the last pass as well.
            self.programs[rank].last = done
        self._transfer(sums)

    def _transfer(self, sums: _Allreduces) -> None:
        """The messages of a group's allreduces."""
        if not sums.chunks:
            return
        schedule: Schedule = ring_among(sums.members, len(self.ranks))
        count = len(sums.chunks)
        started, done = (np.full((count, len(self.ranks)), -1, np.int64) for _ in range(2))
        started[:, sums.members], done[:, sums.members] = sums.started, sums.done
        sizes = np.array([self.builder.chunk_sizes(chunks) for chunks in sums.chunks])
        buckets = BucketOps(np.arange(count), np.array(sums.layers), started, done, sizes, np.array(sums.chunks))
        Transfers(self.builder, self.job.costs, self._queues(sums.members), schedule, buckets).build()

    def _queues(self, members: Sequence[int]) -> Workers:
        """A queue for each member to other hosts, and one inside its own."""
        outside, inside = (np.full(len(self.ranks), -1, np.int64) for _ in range(2))
        for rank in members:
            outside[rank], inside[rank] = self.builder.queue(rank), self.builder.queue(rank)
        network = np.repeat(outside[:, None], len(self.ranks), axis=1)
        return Workers(np.array(self.hosts, np.int64), network, inside)


def _parts(values: int, parts: int, value_bytes: int) -> list[int]:
    """Sizes of parts, padded to the same number of values."""
    return [-(-values // parts) * value_bytes] * parts

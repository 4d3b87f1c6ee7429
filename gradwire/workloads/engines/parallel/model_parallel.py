"""Tensor, pipeline, expert and data parallelism together, as Megatron-LM has them.

Sources: Shoeybi et al. 2019; Narayanan et al., SC 2021; Korthikanti et al., Reducing Activation Recomputation
in Large Transformer Models, 2022; Lepikhin et al., GShard, 2020. A replica of the model has `stages`
times `tensor` times `context` workers and processes a batch in `microbatches`. In an iteration,

1. a stage runs passes in the order of its schedule (workloads/engines/parallel/division.py). A forward pass waits for
   the activations of the stage before, a backward pass for the gradients of the stage behind; they are sent on when
   the pass ends, while computation continues.
2. Each product is divided among the workers of a tensor group. They sum activations by a ring allreduce behind each
   half of a block, forward and backward, and wait for it: four in a block and microbatch. With sequence parallelism,
   what is between the products is divided by tokens: in place of each allreduce, a reduce-scatter leaves each worker
   its tokens, and an allgather before the next half brings it all of them. Stages then hand on a worker's tokens
   alone.
3. Experts are divided among `experts` replicas. Before a block's experts and behind them, forward and backward, each
   of these sends every other its tokens for the other's experts, all at once (an all-to-all), and waits for theirs.
4. With `context`, neighbours divide a sample's tokens (workloads/engines/parallel/ring_attention.py). They hold the
   same parameters.
5. With `recompute`, a block's forward pass is run again right before its backward pass ("full": with all of its
   collectives), or that of the core of its attention alone ("selective": scores and weighted sums, which no collective
   is part of).
6. Workers with the same parameters sum their gradients, and update them (workloads/engines/parallel/gradients.py).
7. The next iteration follows.

Assumed: every tensor, normalisations too, is divided evenly, and so is every layer's time. Each worker of a tensor
group sends activations to its counterpart in the next stage whole, unless they are divided by tokens (Narayanan et al.
have them cut and gathered), and to experts its share of the tokens. Experts get as many tokens each, unless
`token_skew` says otherwise (workloads/engines/parallel/segments.py), and a worker computes for as long as its experts'
tokens take. With sequence parallelism, a worker keeps the whole input of each half for the backward pass: Korthikanti
et al. keep a share of it and gather it once more, during computation. The output does not share the embedding's
gradients. What the loss needs to be summed is too small to count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, permutations

from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE
from gradwire.workloads.engines.parallel.division import Division, Pass, WorkerGrid, passes_of_stage
from gradwire.workloads.engines.parallel.gradients import Replicas
from gradwire.workloads.engines.parallel.model_parallel_ops import ops_of_model_parallel
from gradwire.workloads.engines.parallel.ring_attention import CORE, Rings, Turn, key_value_values
from gradwire.workloads.engines.parallel.segments import Cut, LayerSegment, cut, least_share, shares_of_workers, uncut
from gradwire.workloads.engines.parallel.worker_programs import GroupCollectives, Series, WorkerProgram
from gradwire.workloads.job import Job


def compile_megatron(job: Job, name: str, division: Division) -> Plan:
    """Compiles an iteration. Raises InputFault if workers, model or microbatches do not divide as asked."""
    plan = ModelParallelPlan(job, name, division)
    plan.builder.expect(ops_of_model_parallel(job, division, plan.grid, plan.cut, plan.batch))
    return plan.compile()


class ModelParallelPlan:
    """The plan under construction."""

    def __init__(self, job: Job, name: str, division: Division) -> None:
        self.job, self.division = job, division
        self.batch = division.replica_batch or job.batch * division.tensor * division.stages * division.context
        self.grid = self._grid()
        self._expect_whole_groups()
        plain = division.recompute == "none" and not division.overlap_gradients and division.context == 1
        alone = plain and division.tensor == division.stages == division.experts == 1
        self.cut: Cut = (
            uncut(job.profile)
            if alone
            else cut(job.profile, division.stages, division.experts, division.chunks, division.end_blocks)
        )
        self.builder = PlanBuilder(name)
        self.hosts = [job.cluster.worker_host(worker) for worker in range(job.cluster.workers)]
        self.ranks = [self.builder.rank(Role.WORKER, host) for host in self.hosts]
        self.begins = [self.builder.compute(rank) for rank in self.ranks]
        self.programs = [WorkerProgram(rank, self.begins[rank]) for rank in self.ranks]
        self.onward = [self.builder.queue(rank) for rank in self.ranks]
        self.back = [self.builder.queue(rank) for rank in self.ranks]
        self.collectives = GroupCollectives(
            self.builder, job, division.algorithm, int(division.priorities), division.nccl
        )
        self.rings = self._rings() if division.context > 1 else None
        #: Queues of all-to-alls, by sender and receiver.
        self.across: dict[tuple[int, int], int] = {}
        #: The first and the last op of each worker's pass.
        self.edges: dict[tuple[int, Pass], tuple[int, int]] = {}
        #: The last op of each worker's last backward pass of a segment.
        self.yielded: dict[tuple[int, LayerSegment], int] = {}

    def _grid(self) -> WorkerGrid:
        """Returns the places of the workers among stages, replicas and tensor groups."""
        return WorkerGrid.of(self.job.cluster.workers, self.division.tensor, self.division.stages)

    def _replica_count(self) -> int:
        """Replicas that the job's workers make."""
        return self.grid.data

    def _expect_whole_groups(self) -> None:
        """Raises InputFault for samples, experts or tokens that do not divide, and for a model without what is to be
        run again."""
        division, job = self.division, self.job
        if self.batch % division.microbatches:
            raise InputFault(
                f"strategy.options.microbatches = {division.microbatches}: must divide the {self.batch} samples of a "
                "replica"
            )
        replicas = self._replica_count()
        if replicas % division.experts:
            raise InputFault(
                f"strategy.options.experts = {division.experts}: must divide the {replicas} replicas that the workers make"
            )
        if replicas % division.context:
            raise InputFault(
                f"strategy.options.context = {division.context}: must divide the {replicas} workers that have "
                "the same share of the model"
            )
        if division.recompute == "selective" and not any(layer.name.endswith(CORE) for layer in job.profile.layers):
            raise InputFault(
                f"strategy.options.recompute = 'selective': '{job.profile.name}' has no layers of attention's scores "
                "to compute again; take 'full', or 'none'"
            )

    def _rings(self) -> Rings:
        """Returns the rings that hand on the keys and values of a worker's tokens of one microbatch, for its share of
        the heads."""
        division = self.division
        values = key_value_values(self.job.profile, self.cut.activation_values) * (self.batch // division.microbatches)
        size_bytes = -(-values // (division.context * division.tensor)) * division.activation_bytes
        return Rings(self.builder, self.job.costs, self.collectives.hosts, size_bytes)

    def compile(self) -> Plan:
        """Builds the plan."""
        for stage in range(self.grid.stages):
            self._stage(stage)
        self._between_stages()
        for rank, end in enumerate(self._gradients()):
            self.builder.depend(self.begins[rank], end, lag=1)
            self.builder.iteration(rank, self.begins[rank], end)
        self.builder.notes.extend(self.collectives.notes())
        return self.builder.build(self._compute_s(), self.batch * self.grid.data // self.division.context)

    def _pieces(self, stage: int) -> list[tuple[LayerSegment, ...]]:
        """The chunks of a stage."""
        return list(self.cut.stages[stage :: self.grid.stages])

    def _compute_s(self) -> float:
        """Time that a worker of the shortest stage computes; of a mixture, one whose experts get the fewest tokens."""
        division, compute = self.division, self.job.compute
        stages = []
        for stage in range(self.grid.stages):
            stage_s = 0.0
            for segment in (segment for piece in self._pieces(stage) for segment in piece):
                least = least_share(segment, division.experts, division.token_skew)
                for layer in segment.layers:
                    again_s = compute.forward_s[layer] if self._is_run_again(segment, layer) else 0.0
                    stage_s += (compute.forward_s[layer] + compute.backward_s[layer] + again_s) * least
            stages.append(stage_s)
        return min(stages) * self.batch / self.job.batch / division.tensor / division.context

    def _is_run_again(self, segment: LayerSegment, layer: int) -> bool:
        """Returns whether a layer's forward pass is computed twice."""
        if self.division.recompute == "selective":
            return self.job.profile.layers[layer].name.endswith(CORE)
        return self.division.recompute == "full" and segment.block >= 0

    def _stage(self, stage: int) -> None:
        """All passes of a stage, whose workers do the same."""
        division, groups = self.division, self.grid.tensor_groups(stage)
        members = [rank for group in groups for rank in group]
        kinds = (Combine.COPY, Combine.ADD) if division.sequence else (None,)
        series = {kind: [Series(group, kind) for group in groups] for kind in kinds}
        pieces = self._pieces(stage)
        passes = passes_of_stage(division.schedule, division.stages, stage, division.microbatches, division.chunks)
        for one in passes:
            first: list[int] | None = self._gates(members) if division.sequence else None
            for segment, forward, again in self._segments(pieces[one.chunk], one.forward):
                what = f"{'forward' if forward else 'backward'}{' again' if again else ''} {one.microbatch}"
                if division.sequence and (segment.sums_gradients if forward else segment.sums_outputs):
                    self._collect(series[Combine.COPY], segment, f"gathered {what}")
                self._exchange(stage, segment, f"to {what}", to_experts=True)
                ops = self._pass(stage, segment, forward, what)
                self._exchange(stage, segment, f"from {what}", to_experts=False)
                first = first or ops
                if not forward:
                    self.yielded |= {(rank, segment): self.programs[rank].last for rank in members}
                if division.tensor > 1 and (segment.sums_outputs if forward else segment.sums_gradients):
                    said = f"{'outputs' if forward else 'gradients'}{' again' if again else ''} {one.microbatch}"
                    self._collect(series[kinds[-1]], segment, said)
            assert first is not None  # every stage has a block
            for rank, op in zip(members, first, strict=True):
                self.edges[rank, one] = op, self.programs[rank].last
        for one_series in (one for of_kind in series.values() for one in of_kind):
            self.collectives.transfer(one_series)

    def _segments(self, piece: tuple[LayerSegment, ...], forward: bool) -> Iterator[tuple[LayerSegment, bool, bool]]:
        """Segments of a pass in order, whether each is passed forward, and whether it is so once more."""
        if forward:
            yield from ((segment, True, False) for segment in piece)
            return
        for block, of_block in groupby(piece[::-1], key=lambda segment: segment.block):
            segments = list(of_block)
            if self.division.recompute == "full" and block >= 0:
                yield from ((segment, True, True) for segment in reversed(segments))
            yield from ((segment, False, False) for segment in segments)

    def _gates(self, members: list[int]) -> list[int]:
        """The begin of a pass that begins with a collective."""
        gates = [self.builder.compute(rank, lane=GATE_LANE) for rank in members]
        for rank, gate in zip(members, gates, strict=True):
            self.programs[rank].follow(self.builder, gate)
        return gates

    def _exchange(self, stage: int, segment: LayerSegment, what: str, *, to_experts: bool) -> None:
        """An all-to-all in each expert group, before a segment of experts or behind it."""
        if not segment.routed_values:
            return
        division = self.division
        values = segment.routed_values * (self.batch // division.microbatches)
        shares = shares_of_workers(segment, division.experts, division.token_skew)
        even: list[float | None] = [None] * division.experts
        sizes = [self._routed_bytes(values, share) for share in shares or even]
        tensor = self.builder.tensor(f"tokens {what} of {segment.name}")
        for members in self.grid.neighbours(stage, division.experts):
            lasts = {rank: self.programs[rank].last for rank in members}
            size_of = dict(zip(members, sizes, strict=True))
            for src, dst in permutations(members, 2):
                size_bytes = size_of[dst if to_experts else src]
                if not size_bytes:
                    continue
                chunk = self.builder.chunk(tensor, size_bytes, [src], [dst])
                self.builder.produces(lasts[src], chunk)
                if (src, dst) not in self.across:
                    self.across[src, dst] = self.builder.queue(src)
                recv = self._send(self.across[src, dst], src, dst, size_bytes, chunk, lasts[src])
                self.programs[dst].pending.append(chunk)
                self.programs[dst].arrivals.append(recv)

    def _routed_bytes(self, values: int, share: float | None) -> int:
        """Returns the bytes that a worker sends to the experts of another that get this share of its tokens; None: an
        even one."""
        division = self.division
        if share is None:
            return -(-values // (division.tensor * division.experts)) * division.activation_bytes
        return round(values * share / division.tensor) * division.activation_bytes

    def _send(self, queue: int, src: int, dst: int, size_bytes: int, chunk: int, after: int) -> int:
        """A message from one worker to another; returns its RECV."""
        latency_s = self._latency_s(src, dst, size_bytes)
        send, recv = self.builder.message(
            queue, dst, size_bytes, chunk=chunk, combine=Combine.COPY, traffic_class=0, latency_s=latency_s
        )
        self.builder.depend(send, after)
        return recv

    def _pass(self, stage: int, segment: LayerSegment, forward: bool, what: str) -> list[int]:
        """A pass of a segment at all workers of a stage; returns the first op of each."""
        members = [rank for group in self.grid.tensor_groups(stage) for rank in group]
        names = [self.job.profile.layers[layer].name for layer in segment.layers]
        at = next((index for index, name in enumerate(names) if name.endswith(CORE)), None)
        if self.rings is None or at is None:
            return [self._compute(self.programs[rank], segment, forward) for rank in members]
        before, core, behind = (
            replace(segment, layers=layers)
            for layers in (segment.layers[:at], segment.layers[at : at + 1], segment.layers[at + 1 :])
        )
        firsts = [self._compute(self.programs[rank], before if forward else behind, forward) for rank in members]
        self._attend_in_groups(self.rings, stage, core, forward, f"of {segment.name} {what}")
        for rank in members:
            self._compute(self.programs[rank], behind if forward else before, forward)
        return firsts

    def _attend_in_groups(self, rings: Rings, stage: int, core: LayerSegment, forward: bool, what: str) -> None:
        """The core of attention at all workers of a stage."""
        for group in self.grid.neighbours(stage, self.division.context):
            self._attend(rings, group, core, forward, what)

    def _attend(self, rings: Rings, group: list[int], core: LayerSegment, forward: bool, what: str) -> None:
        """The core of attention at workers that divide tokens."""
        ready = [self.programs[rank].last for rank in group]
        slices = [
            [self._compute(self.programs[rank], core, forward, parts=len(group)) for _ in group] for rank in group
        ]
        turn = Turn(group, ready, slices)
        rings.hand_on(turn, f"keys and values {what}")
        if not forward:
            for rank, (arrival, chunk) in zip(group, rings.add_up(turn, f"their gradients {what}"), strict=True):
                self.programs[rank].arrivals.append(arrival)
                self.programs[rank].pending.append(chunk)

    def _compute(self, program: WorkerProgram, segment: LayerSegment, forward: bool, parts: int = 1) -> int:
        """A pass of a segment at one worker, or one of several equal parts of it, behind whatever it did before."""
        # Times are of the batch of a worker alone; this is of a microbatch, and of a share of each product.
        share = self.batch / self.job.batch / self.division.microbatches / self.division.tensor / self.division.context
        pace = self.job.relative_time(program.rank) / parts
        duration_s = self._layers_s(segment, forward) * share * pace
        if not forward and self.division.recompute == "selective":
            again = (layer for layer in segment.layers if self._is_run_again(segment, layer))
            duration_s += sum(self.job.compute.forward_s[layer] for layer in again) * share * pace
        shares = (
            shares_of_workers(segment, self.division.experts, self.division.token_skew)
            if segment.routed_values
            else None
        )
        if shares:
            _, replica, _ = self.grid.place(program.rank)
            duration_s *= shares[replica % self.division.experts] * self.division.experts
        op = self.builder.compute(program.rank, duration_s, layer=segment.layers[0 if forward else -1])
        program.follow(self.builder, op)
        return op

    def _layers_s(self, segment: LayerSegment, forward: bool) -> float:
        times_s = self.job.compute.forward_s if forward else self.job.compute.backward_s
        return sum(times_s[layer] for layer in segment.layers)

    def _collect(self, series: list[Series], segment: LayerSegment, what: str) -> None:
        """A collective of activations, or of their gradients, in each tensor group; its workers continue when they
        have what they need."""
        values = -(-self._activation_values() // self.division.tensor)
        for one_series in series:
            started = [self.programs[rank].last for rank in one_series.members]
            self.collectives.add(
                one_series,
                segment.layers[0],
                f"{segment.name} {what}",
                values * self.division.activation_bytes,
                started,
                lambda rank, chunk: self.programs[rank].pending.append(chunk),
            )
            for rank, done in zip(one_series.members, one_series.done[-1], strict=True):
                self.programs[rank].last = done

    def _activation_values(self) -> int:
        """The number of activations of a worker's tokens in one microbatch."""
        return -(-self.cut.activation_values * (self.batch // self.division.microbatches) // self.division.context)

    def _between_stages(self) -> None:
        """Activations to the next stage, and gradients to the one before.

        Behind the last stage comes the next chunk of the first one.
        """
        values = self._activation_values()
        size_bytes = (
            -(-values // self.division.tensor) if self.division.sequence else values
        ) * self.division.activation_bytes
        stages = self.grid.stages
        for (rank, one), (_, last) in self.edges.items():
            stage, replica, share = self.grid.place(rank)
            piece = one.chunk * stages + stage + (1 if one.forward else -1)
            if not 0 <= piece < len(self.cut.stages):
                continue
            peer = self.grid.worker(piece % stages, replica, share)
            what = "activations" if one.forward else "gradients"
            chunk_of_stage = f" chunk {one.chunk}," if self.division.chunks > 1 else ""
            tensor = self.builder.tensor(f"{what} from stage {stage},{chunk_of_stage} microbatch {one.microbatch}")
            chunk = self.builder.chunk(tensor, size_bytes, [rank], [peer])
            first, _ = self.edges[peer, one._replace(chunk=piece // stages)]
            self.builder.produces(last, chunk)
            self.builder.needs(first, chunk)
            queue = self.onward[rank] if one.forward else self.back[rank]
            self.builder.depend(first, self._send(queue, rank, peer, size_bytes, chunk, last))

    def _latency_s(self, rank: int, peer: int, size_bytes: int) -> float:
        """Software's, and within a host the time on the machine's own link."""
        costs = self.job.costs
        inside = self.hosts[rank] == self.hosts[peer]
        return costs.message_s(size_bytes, inside=inside)

    def _replicas(self, late: list[list[int]]) -> Replicas:
        """Returns the collectives that sum gradients."""
        return Replicas(self.builder, self.collectives, self.division, self.programs, self.begins, late)

    def _expert_replicas(self, late: list[list[int]]) -> Replicas:
        """Returns the collectives that sum the gradients of experts."""
        return self._replicas(late)

    def _same_experts(self, stage: int) -> list[list[int]]:
        """Workers of a stage that hold the same experts."""
        return self.grid.same_experts(stage, self.division.experts)

    def _gradients(self) -> list[int]:
        """Adds step 6; returns the op that ends each worker's iteration."""
        builder, division = self.builder, self.division
        ends = [builder.compute(rank) for rank in self.ranks]
        late: list[list[int]] = [[] for _ in self.ranks]
        replicas, of_experts = self._replicas(late), self._expert_replicas(late)
        for stage in range(self.grid.stages):
            segments = [segment for piece in self._pieces(stage) for segment in piece]
            everywhere = [segment for segment in segments if not segment.routed_values]
            for members in self.grid.data_groups(stage):
                replicas.sum(members, everywhere, division.tensor, self.yielded)
            divided = [segment for segment in segments if segment.routed_values]
            for members in self._same_experts(stage) if divided else ():
                of_experts.sum(members, divided, division.tensor * division.experts, self.yielded)
        for rank, end in enumerate(ends):
            self.programs[rank].follow(builder, end)
            builder.depend(end, *late[rank])
        return ends

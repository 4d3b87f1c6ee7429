"""Megatron-LM's parallelism by classes of ranks: one replica is compiled, and stands for all.

Workers with the same stage and the same share of each product are a class, whose copies are the replicas. Tensor groups
and pipelines stay within a replica; what replicas sum goes around a folded ring, and what they exchange with their
neighbours, tokens for experts or keys and values, goes to other copies (workloads/classes/replica_exchanges.py).

Where whole tensor groups are on one machine, their workers do the same as well: then a class has all shares of its
replicas, and there are as many classes of a stage as groups on a machine. Messages inside a machine wait for nothing
but their own time, so that a tensor group's collective is one message that takes as long as all of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gradwire.datatypes.class_plans import ClassPlan, Folding, NotByClass
from gradwire.datatypes.plan import Combine, Int64, Plan
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.classes.folding import FoldedRingCall, FoldedRings, folded_job
from gradwire.workloads.classes.replica_exchanges import ReplicaExchanges
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE
from gradwire.workloads.engines.parallel.division import Division, WorkerGrid
from gradwire.workloads.engines.parallel.gradients import Replicas
from gradwire.workloads.engines.parallel.group_collectives import RING
from gradwire.workloads.engines.parallel.model_parallel import ModelParallelPlan
from gradwire.workloads.engines.parallel.ring_attention import Rings, Turn
from gradwire.workloads.engines.parallel.segments import LayerSegment
from gradwire.workloads.engines.parallel.worker_programs import GroupCollectives, Note, Series
from gradwire.workloads.job import Cluster, Job

TURNS = {None: (Combine.ADD, Combine.COPY), Combine.ADD: (Combine.ADD,), Combine.COPY: (Combine.COPY,)}
"""Turns around a ring of an all-reduce, and of its halves."""


def model_parallel_classes(job: Job, name: str, division: Division, folding: Folding) -> ClassPlan:
    """An iteration of one replica.

    Raises InputFault as `compile_megatron` does, and NotByClass where replicas do not do the same, or machines do not
    hold parts of one tensor group alone.
    """
    per_host = job.cluster.workers_per_host
    if division.token_skew is not None:
        raise NotByClass("some experts get more tokens than others (strategy.options.token_skew)")
    if division.algorithm != RING:
        raise NotByClass(f"strategy.options.algorithm is '{division.algorithm}', not 'ring'")
    replicas = WorkerGrid.of(job.cluster.workers, division.tensor, division.stages).data
    neighbours = _neighbouring_replicas(replicas, division.tensor, per_host, folding)
    groups, rest = divmod(per_host, division.tensor)
    if per_host > 1 and not rest and replicas % groups == 0 and np.isinf(job.costs.aggregation_bytes_per_s):
        return _SharesFolded(job, name, division, folding, neighbours).compile_classes()
    if division.tensor % per_host:
        raise NotByClass(
            f"a machine's {per_host} workers (cluster.workers_per_host) are neither of one tensor group "
            f"(strategy.options.tensor = {division.tensor}) nor whole groups of one stage that add without time"
        )
    return _Classes(job, name, division, folding, neighbours).compile_classes()


def _neighbouring_replicas(replicas: int, tensor: int, per_host: int, folding: Folding) -> int:
    """Returns how many neighbouring replicas are classes of their own: those of a machine, or of several that follow
    one another. Raises NotByClass for workers that are not whole replicas' stages, and for a number that does not
    divide all replicas."""
    if folding.neighbours == per_host < tensor:
        return 1
    count, rest = divmod(folding.neighbours, tensor)
    if rest or count < 1 or (count == 1 and folding.neighbours > per_host):
        raise NotByClass(f"{folding.neighbours} neighbouring workers are not several tensor groups")
    if replicas % count:
        raise NotByClass(f"{count} neighbouring replicas do not divide all {replicas}")
    return count


class _Classes(ModelParallelPlan):
    """One rank for each stage, each of some neighbouring replicas, and each share."""

    def __init__(self, job: Job, name: str, division: Division, folding: Folding, neighbours: int) -> None:
        self._neighbours = neighbours
        self.whole = whole = WorkerGrid.of(job.cluster.workers, division.tensor, division.stages)
        super().__init__(folded_job(job, division.tensor * neighbours * division.stages), name, division)
        members = [
            [whole.worker(stage, replica, share) for replica in range(place, whole.data, neighbours)]
            for stage in range(whole.stages)
            for place in range(neighbours)
            for share in range(whole.tensor)
        ]
        self._sum_among(FoldedRings(self.builder, job, np.array(members, np.int64), folding.undelayed))

    def _sum_among(self, rings: FoldedRings) -> None:
        """Sets up the collectives by which the classes' ranks sum gradients, and their exchanges with other replicas.
        Raises NotByClass if groups of experts or of context do not fit the classes."""
        division, traffic_class = self.division, int(self.division.priorities)
        for count, option in ((division.experts, "experts"), (division.context, "context")):
            if count % self.grid.data and self.grid.data % count:
                raise NotByClass(
                    f"strategy.options.{option} = {count} and the {self.grid.data} neighbouring tensor groups of which "
                    "each is a class are not multiples of one another"
                )
        self._folded = rings
        self._summing = _FoldedCollectives(self.builder, self.job, rings, traffic_class)
        # Every so many-th replica has the same experts.
        stride = max(1, division.experts // self.grid.data)
        self._summing_experts = _FoldedCollectives(self.builder, self.job, rings, traffic_class, stride)
        groups = max(1, self.job.cluster.workers_per_host // self.grid.tensor)
        self._exchanges = ReplicaExchanges(self.builder, self.job.costs, rings, self.grid.data, groups)

    def _replica_count(self) -> int:
        return self.whole.data

    def _replicas(self, late: list[list[int]]) -> Replicas:
        copies = self.whole.data // self.grid.data
        return Replicas(self.builder, self._summing, self.division, self.programs, self.begins, late, copies=copies)

    def _expert_replicas(self, late: list[list[int]]) -> Replicas:
        rings, experts = self._summing_experts, self.division.experts
        copies = self.whole.data // max(experts, self.grid.data)
        return Replicas(self.builder, rings, self.division, self.programs, self.begins, late, copies=copies)

    def _same_experts(self, stage: int) -> list[list[int]]:
        return self.grid.same_experts(stage, min(self.division.experts, self.grid.data))

    def _exchange(self, stage: int, segment: LayerSegment, what: str, *, to_experts: bool) -> None:
        del what, to_experts
        if not segment.routed_values:
            return
        values = segment.routed_values * (self.batch // self.division.microbatches)
        size_bytes = self._routed_bytes(values, None)
        for ranks in self._alike(stage):
            ready = [self.programs[rank].last for rank in ranks]
            received = self._exchanges.all_to_all(ranks, ready, self.division.experts, size_bytes)
            for rank, recvs in zip(ranks, received, strict=True):
                self.programs[rank].arrivals += recvs

    def _alike(self, stage: int) -> list[list[int]]:
        """The classes of a stage: of each share, that of each tensor group of a machine."""
        return self.grid.data_groups(stage)

    def _attend_in_groups(self, rings: Rings, stage: int, core: LayerSegment, forward: bool, what: str) -> None:
        del what
        context = self.division.context
        for ranks in self._alike(stage):
            ready = [self.programs[rank].last for rank in ranks]
            slices = [
                [self._compute(self.programs[rank], core, forward, parts=context) for _ in range(context)]
                for rank in ranks
            ]
            turn = Turn(ranks, ready, slices)
            self._exchanges.hand_on(turn, rings.size_bytes)
            if not forward:
                for rank, arrival in zip(ranks, self._exchanges.add_up(turn, rings.size_bytes), strict=True):
                    self.programs[rank].arrivals.append(arrival)

    def compile_classes(self) -> ClassPlan:
        """Builds the plan and its classes."""
        plan: Plan = self.compile()
        samples = self.batch * self.whole.data // self.division.context
        return self._folded.folded(replace(plan, samples=samples))


class _SharesFolded(_Classes):
    """One rank for each stage and each tensor group of some neighbouring machines, for all shares of its products."""

    def __init__(self, job: Job, name: str, division: Division, folding: Folding, neighbours: int) -> None:
        self._neighbours = neighbours
        self.whole = whole = WorkerGrid.of(job.cluster.workers, division.tensor, division.stages)
        alike = folded_job(job, job.cluster.workers)
        groups = job.cluster.workers_per_host // division.tensor
        one_share = replace(alike, cluster=Cluster(neighbours * division.stages, workers_per_host=groups))
        ModelParallelPlan.__init__(self, one_share, name, division)
        self.collectives = _SharesOfOne(self.builder, one_share, division.tensor)
        # Around each share's ring, from replica to replica.
        members = [
            [
                whole.worker(stage, replica, share)
                for share in range(whole.tensor)
                for replica in range(place, whole.data, neighbours)
            ]
            for stage in range(whole.stages)
            for place in range(neighbours)
        ]
        rings = FoldedRings(self.builder, job, np.array(members, np.int64), folding.undelayed, rings=division.tensor)
        self._sum_among(rings)

    def _grid(self) -> WorkerGrid:
        return WorkerGrid(1, self._neighbours, self.division.stages)


class _SharesOfOne(GroupCollectives):
    """Collectives of tensor groups inside a machine, of which one worker stands for all.

    Its messages go to itself, since all workers of the group are at the same port or at ports alike, and none of them
    reaches the network.
    """

    def __init__(self, builder: PlanBuilder, job: Job, workers: int) -> None:
        super().__init__(builder, job)
        self._of_group = workers
        self._queue_of: dict[int, int] = {}

    def add(
        self, series: Series, layer: int, tensor: str, share_bytes: int, started: Sequence[int], needed: Note
    ) -> None:
        """Adds a collective to a series, as one message that takes as long as all steps."""
        del tensor, needed
        builder = self.builder
        (rank,) = series.members
        (start,) = started
        if id(series) not in self._queue_of:
            self._queue_of[id(series)] = builder.queue(rank)
        steps = (self._of_group - 1) * len(TURNS[series.half])
        step_ns = round(self.costs.message_s(share_bytes, inside=True) * 1e9)
        send, recv = builder.message(
            self._queue_of[id(series)],
            rank,
            steps * share_bytes,
            combine=Combine.COPY,
            traffic_class=0,
            latency_s=steps * step_ns / 1e9,
        )
        done = builder.compute(rank, lane=GATE_LANE)
        builder.depend(send, start)
        builder.depend(done, start, recv)
        series.layers.append(layer)
        series.done.append([done])

    def transfer(self, series: Series) -> None:
        """Ends a series, whose messages are there already."""
        self._queue_of.pop(id(series), None)


@dataclass
class _Sum:
    """A series of calls that `_FoldedCollectives` will transfer, with their sizes."""

    size_bytes: list[int] = field(default_factory=list)


class _FoldedCollectives(GroupCollectives):
    """Collectives of replicas, of which each group's only member stands for all."""

    def __init__(self, builder: PlanBuilder, job: Job, rings: FoldedRings, traffic_class: int, stride: int = 1) -> None:
        """stride: every `stride`-th copy is of the same ring."""
        super().__init__(builder, job)
        self.rings = rings
        self._traffic_class, self._stride = traffic_class, stride
        self._sums: dict[int, _Sum] = {}

    def add(
        self, series: Series, layer: int, tensor: str, share_bytes: int, started: Sequence[int], needed: Note
    ) -> None:
        """Adds a collective to a series, without the chunks that only the checker reads."""
        del tensor, needed
        done = [self.builder.compute(rank, lane=GATE_LANE) for rank in series.members]
        for op, start in zip(done, started, strict=True):
            self.builder.depend(op, start)
        series.layers.append(layer)
        series.started.append(list(started))
        series.done.append(done)
        self._sums.setdefault(id(series), _Sum()).size_bytes.append(share_bytes)

    def transfer(self, series: Series) -> None:
        """The messages of a series."""
        queues = self.rings.queues(series.members)
        for number, size_bytes in enumerate(self._sums.pop(id(series)).size_bytes):
            call = FoldedRingCall(
                number=number,
                layer=series.layers[number],
                started=_column(series.started[number]),
                done=_column(series.done[number]),
                combines=TURNS[series.half],
                size_bytes=size_bytes,
                traffic_class=self._traffic_class,
                stride=self._stride,
            )
            self.rings.add(series.members, queues, call)


def _column(ops: Sequence[int]) -> Int64:
    return np.array(ops, np.int64)

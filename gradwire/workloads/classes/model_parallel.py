"""Megatron-LM's parallelism by classes of ranks: one replica is compiled, and stands for all.

Workers with the same stage and the same share of each product are a class, whose copies are the replicas. Tensor groups
and pipelines stay within a replica; what replicas sum goes around a folded ring.

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
from gradwire.workloads.classes.folding import Call, FoldedRings, folded_job
from gradwire.workloads.engines.allreduce_transfers import GATE_LANE
from gradwire.workloads.engines.parallel.division import Division, Grid
from gradwire.workloads.engines.parallel.gradients import Replicas
from gradwire.workloads.engines.parallel.group_collectives import RING
from gradwire.workloads.engines.parallel.model_parallel import ModelParallelPlan
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
    if folding.neighbours != per_host:
        raise NotByClass("replicas are its only classes")
    if division.experts > 1 or division.context > 1:
        raise NotByClass("replicas exchange tokens (strategy.options.experts, strategy.options.context)")
    if division.algorithm != RING:
        raise NotByClass(f"strategy.options.algorithm is '{division.algorithm}', not 'ring'")
    replicas = Grid.of(job.cluster.workers, division.tensor, division.stages).data
    groups, rest = divmod(per_host, division.tensor)
    if per_host > 1 and not rest and replicas % groups == 0 and np.isinf(job.costs.aggregation_bytes_per_s):
        return _SharesFolded(job, name, division, folding, groups).compile_classes()
    if division.tensor % per_host:
        raise NotByClass(
            f"a machine's {per_host} workers (cluster.workers_per_host) are neither of one tensor group "
            f"(strategy.options.tensor = {division.tensor}) nor whole groups of one stage that add without time"
        )
    return _Classes(job, name, division, folding).compile_classes()


class _Classes(ModelParallelPlan):
    """One rank for each stage and share."""

    def __init__(self, job: Job, name: str, division: Division, folding: Folding) -> None:
        whole = Grid.of(job.cluster.workers, division.tensor, division.stages)
        super().__init__(folded_job(job, division.tensor * division.stages), name, division)
        members = [
            [whole.worker(stage, replica, share) for replica in range(whole.data)]
            for stage in range(whole.stages)
            for share in range(whole.tensor)
        ]
        self._sum_among(whole, FoldedRings(self.builder, job, np.array(members, np.int64), folding.undelayed))

    def _sum_among(self, whole: Grid, rings: FoldedRings) -> None:
        """What the classes' ranks sum gradients by. whole: the grid of all workers."""
        self._data = whole.data
        self._summing = _FoldedCollectives(self.builder, self.job, rings, int(self.division.priorities))

    def _replicas(self, late: list[list[int]]) -> Replicas:
        copies = self._data // self.grid.data
        return Replicas(self.builder, self._summing, self.division, self.programs, self.begins, late, copies=copies)

    def compile_classes(self) -> ClassPlan:
        """Builds everything."""
        plan: Plan = self.compile()
        return self._summing.rings.folded(replace(plan, samples=self.batch * self._data))


class _SharesFolded(_Classes):
    """One rank for each stage and each tensor group of a machine, for all shares of its products."""

    def __init__(self, job: Job, name: str, division: Division, folding: Folding, groups: int) -> None:
        self._groups = groups
        whole = Grid.of(job.cluster.workers, division.tensor, division.stages)
        alike = folded_job(job, job.cluster.workers)
        one_share = replace(alike, cluster=Cluster(groups * division.stages, workers_per_host=groups))
        ModelParallelPlan.__init__(self, one_share, name, division)
        self.collectives = _SharesOfOne(self.builder, one_share, division.tensor)
        # Around each share's ring, from replica to replica.
        members = [
            [
                whole.worker(stage, replica, share)
                for share in range(whole.tensor)
                for replica in range(group, whole.data, groups)
            ]
            for stage in range(whole.stages)
            for group in range(groups)
        ]
        rings = FoldedRings(self.builder, job, np.array(members, np.int64), folding.undelayed, rings=division.tensor)
        self._sum_among(whole, rings)

    def _grid(self) -> Grid:
        return Grid(1, self._groups, self.division.stages)


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
        """One more, as one message that takes as long as its steps."""
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
    """What `_FoldedCollectives` knows of a series that it will transfer."""

    size_bytes: list[int] = field(default_factory=list)


class _FoldedCollectives(GroupCollectives):
    """Collectives of replicas, of which each group's only member stands for all."""

    def __init__(self, builder: PlanBuilder, job: Job, rings: FoldedRings, traffic_class: int) -> None:
        super().__init__(builder, job)
        self.rings = rings
        self._traffic_class = traffic_class
        self._sums: dict[int, _Sum] = {}

    def add(
        self, series: Series, layer: int, tensor: str, share_bytes: int, started: Sequence[int], needed: Note
    ) -> None:
        """One more, without the chunks that only the checker reads."""
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
            call = Call(
                number=number,
                layer=series.layers[number],
                started=_column(series.started[number]),
                done=_column(series.done[number]),
                combines=TURNS[series.half],
                size_bytes=size_bytes,
                traffic_class=self._traffic_class,
            )
            self.rings.add(series.members, queues, call)


def _column(ops: Sequence[int]) -> Int64:
    return np.array(ops, np.int64)

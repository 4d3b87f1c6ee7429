"""Megatron-LM's parallelism by classes of ranks: one replica is compiled, and stands for all.

Workers with the same stage and the same share of each product are a class, whose copies are the replicas. Tensor groups
and pipelines stay within a replica; what replicas sum goes around a folded ring.
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
from gradwire.workloads.job import Job

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
    if division.tensor % per_host:
        raise NotByClass(
            f"a machine's {per_host} workers (cluster.workers_per_host) are not of one tensor group "
            f"(strategy.options.tensor = {division.tensor})"
        )
    return _Classes(job, name, division, folding).compile_classes()


class _Classes(ModelParallelPlan):
    def __init__(self, job: Job, name: str, division: Division, folding: Folding) -> None:
        whole = Grid.of(job.cluster.workers, division.tensor, division.stages)
        super().__init__(folded_job(job, division.tensor * division.stages), name, division)
        self._data = whole.data
        members = np.array(
            [
                [whole.worker(stage, replica, share) for replica in range(whole.data)]
                for stage in range(whole.stages)
                for share in range(whole.tensor)
            ],
            np.int64,
        )
        rings = FoldedRings(self.builder, job, members, folding.undelayed)
        self._summing = _FoldedCollectives(self.builder, self.job, rings, int(division.priorities))

    def _replicas(self, late: list[list[int]]) -> Replicas:
        return Replicas(self.builder, self._summing, self.division, self.programs, self.begins, late, copies=self._data)

    def compile_classes(self) -> ClassPlan:
        """Builds everything."""
        plan: Plan = self.compile()
        return self._summing.rings.folded(replace(plan, samples=self.batch * self._data))


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

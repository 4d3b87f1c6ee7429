"""How the ranks of a job are folded to classes, and the collectives around a ring of all ranks as one class has them.

A ring joins each rank with the next one. If all parts are of one size, every rank does the same in every step: it sends
a part on when it has come. Folded to P classes, with rank r of class r modulo P, rank k of the P sends to the next of
them, the last one to the first, as often as a rank of the job does.

Where there is one class, nothing is added to a message's time on the line, and adding is free, a rank's step ends
with the arrival that the next step waits for. So its N - 1 steps leave as one message of N - 1 parts would, whatever
shares the ports with them, and are one op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradwire.datatypes.class_plans import ClassPlan
from gradwire.datatypes.plan import Combine, Int64, OpKind, Plan
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import REDUCE_LANE
from gradwire.workloads.job import Cluster, Job


@dataclass(frozen=True)
class Folding:
    """How a job's ranks are folded."""

    #: Number of classes: a multiple of a machine's workers, and a divisor of all.
    classes: int
    #: Whether links add nothing to the time that bytes take on the line.
    undelayed: bool = True


class NotByClass(Exception):
    """Why a job has no plan of classes, in words that follow "because"."""


def refuse_unequal_ranks(job: Job) -> None:
    """Raises NotByClass for a job whose ranks do not all do the same."""
    if job.relative_times:
        raise NotByClass("workers differ in pace (costs.compute_variation)")
    if job.cluster.workers < 2:
        raise NotByClass("there is one worker")


def folded_job(job: Job, folding: Folding) -> Job:
    """The job with one worker for each class. Raises NotByClass for one whose workers differ."""
    refuse_unequal_ranks(job)
    here = job.cluster
    return replace(job, cluster=Cluster(folding.classes, workers_per_host=here.workers_per_host))


def host_of_rank(cluster: Cluster) -> Int64:
    """Host of the fabric of each worker."""
    return np.array([cluster.worker_port(worker) for worker in range(cluster.workers)], np.int64)


@dataclass
class FoldedRing:
    """The messages that the classes' ranks send around rings of all ranks."""

    builder: PlanBuilder
    #: With all workers.
    job: Job
    folding: Folding
    _merged: int = 1

    def queues(self) -> Int64:
        """A send queue for each class."""
        return np.array([self.builder.queue(rank) for rank in range(self.folding.classes)], np.int64)

    def add(
        self, queues: Int64, number: int, layer: int, started: Int64, done: Int64, combines: Sequence[Combine], size: int
    ) -> None:
        """Adds a collective: a turn of N - 1 steps for each of `combines`, in each of which a rank sends a part of
        `size` bytes.

        number: its place in the order of what its queues carry. started, done: by class, the ops between which it is.
        """
        turn = self.job.cluster.workers - 1
        if size <= 0:
            return
        if self._is_gapless:
            self._merged = max(self._merged, turn * len(combines))
            self._steps(queues, number, layer, started, done, [combines[0]], turn * len(combines) * size)
        else:
            self._steps(queues, number, layer, started, done, [each for each in combines for _ in range(turn)], size)

    @property
    def _is_gapless(self) -> bool:
        costs = self.job.costs
        return (
            self.folding.classes == 1
            and self.folding.undelayed
            and costs.message_latency_s == 0.0
            and np.isinf(costs.aggregation_bytes_per_s)
        )

    def _steps(
        self, queues: Int64, number: int, layer: int, started: Int64, done: Int64, combines: Sequence[Combine], size: int
    ) -> None:
        """Messages step by step, each of `size` bytes, by step and class."""
        builder, costs, classes, steps = self.builder, self.job.costs, self.folding.classes, len(combines)
        rank = np.tile(np.arange(classes), steps)
        step = np.repeat(np.arange(steps), classes)
        inside = self._inside[rank]
        wait_s = np.where(inside, costs.message_s(size, inside=True), costs.message_s(size, inside=False))
        after, before = (rank + 1) % classes, (rank - 1) % classes
        first = builder.add_columns(OpKind.SEND, 0).start
        shared = {"size_bytes": size, "traffic_class": 0, "layer": layer}
        sends = np.array(
            builder.add_columns(
                OpKind.SEND,
                len(rank),
                rank=rank,
                peer=after,
                lane=queues[rank],
                duration_ns=np.rint(wait_s * 1e9).astype(np.int64),
                order=number * steps + step,
                message=first + np.arange(len(rank)),
                **shared,
            ),
            np.int64,
        ).reshape(steps, classes)
        combine = np.repeat(np.array([int(each) for each in combines]), classes)
        recvs = np.array(
            builder.add_columns(
                OpKind.RECV,
                len(rank),
                rank=rank,
                peer=before,
                combine=combine,
                message=sends[step, before],
                **shared,
            ),
            np.int64,
        )
        adding = np.flatnonzero(combine == Combine.ADD)
        builder.depend_columns(recvs[adding], started[rank[adding]])
        arrivals = self._additions(recvs, rank, adding, number, size).reshape(steps, classes)
        builder.depend_columns(sends[0], started)
        builder.depend_columns(sends[1:].ravel(), arrivals[:-1].ravel())
        # Parts may overtake one another where ranks are out of step, so the end waits for what is last to each of them.
        last = sends[1 - self.job.cluster.workers :]
        builder.depend_columns(np.tile(done, len(last)), last.ravel())
        builder.depend_columns(done, arrivals[-1])

    def _additions(self, recvs: Int64, rank: Int64, adding: Int64, number: int, size: int) -> Int64:
        """The ops at which messages have taken effect, as `Transfers` has them."""
        rate = self.job.costs.aggregation_bytes_per_s
        if np.isinf(rate) or not len(adding):
            return recvs
        reduces = self.builder.add_columns(
            OpKind.REDUCE,
            len(adding),
            rank=rank[adding],
            duration_ns=round(size / rate * 1e9),
            size_bytes=size,
            order=number,
            lane=REDUCE_LANE,
        )
        self.builder.depend_columns(np.array(reduces), recvs[adding])
        effects = recvs.copy()
        effects[adding] = reduces
        return effects

    @property
    def _inside(self) -> np.ndarray:
        """Whether each class's next rank is on the same machine."""
        cluster, classes = self.job.cluster, self.folding.classes
        return np.array(
            [cluster.worker_host(rank) == cluster.worker_host((rank + 1) % cluster.workers) for rank in range(classes)],
            np.bool_,
        )

    def folded(self, plan: Plan) -> ClassPlan:
        """The plan that these messages are of, with all ranks that it stands for."""
        shift = (plan.ops.kind == OpKind.SEND).astype(np.int64)
        cluster = self.job.cluster
        plan = replace(plan, rank_host=host_of_rank(cluster)[: self.folding.classes].astype(np.int32))
        plan = replace(plan, nics_per_host=cluster.nics_per_host)
        return ClassPlan(plan, cluster.workers, host_of_rank(cluster), shift, self._merged)

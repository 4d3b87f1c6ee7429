"""Folds the ranks of a job to classes, and compiles collectives around rings as one copy of each class has them.

If all parts of a ring's collective are of one size, every rank does the same in every step: it sends a part on when it
has come. A ring of k classes with m copies each, one class behind the other and one copy behind the other, is folded to
k ranks: each sends to the next, the last one to the first of the next copy, as often as a rank of the whole ring does,
k m - 1 times in a turn.

Where a ring has one class, nothing is added to a message's time on the line, and adding is free, a rank's step ends
with the arrival that the next step waits for. So its steps leave as one message of as many parts would, whatever
shares the ports with them, and are one op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.class_plans import ClassPlan, NotByClass, Peers
from gradwire.datatypes.plan import Combine, Int64, OpKind, Plan
from gradwire.workloads.builder import Columns, PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import REDUCE_LANE
from gradwire.workloads.job import Cluster, Job


def refuse_unequal_ranks(job: Job) -> None:
    """Raises NotByClass for a job whose ranks do not all do the same."""
    if job.relative_times:
        raise NotByClass("workers differ in pace (costs.compute_variation)")
    if job.cluster.workers < 2:
        raise NotByClass("there is one worker")


def folded_job(job: Job, workers: int) -> Job:
    """The job with one worker for each class. Raises NotByClass for one whose workers differ."""
    refuse_unequal_ranks(job)
    return replace(job, cluster=Cluster(workers, workers_per_host=job.cluster.workers_per_host))


def host_of_rank(cluster: Cluster) -> Int64:
    """Host of the fabric of each worker."""
    return np.array([cluster.worker_port(worker) for worker in range(cluster.workers)], np.int64)


@dataclass(frozen=True)
class FoldedRingCall:
    """A collective of a folded ring."""

    #: Its place in the order of what its queues carry.
    number: int
    layer: int
    #: For each member, the op after which the collective starts there, and the op before which it is over.
    started: Int64
    done: Int64
    #: How each turn around the ring combines what arrives.
    combines: tuple[Combine, ...]
    #: Size of each part.
    size_bytes: int
    traffic_class: int = 0
    #: How many copies further the ring comes to the first class again: every so many-th copy is of one ring.
    stride: int = 1


class PeerTable:
    """The numbers of the kinds of receivers that a plan's messages go to."""

    def __init__(self) -> None:
        self._numbers: dict[Peers, int] = {Peers(): 0}
        self._columns: dict[int, Int64] = {}

    def number(self, peers: Peers) -> int:
        """Returns the number of a kind of receivers."""
        return self._numbers.setdefault(peers, len(self._numbers))

    def note(self, first_op: int, numbers: Int64) -> None:
        """The receivers of as many SENDs from this one on."""
        self._columns[first_op] = numbers

    def columns(self, ops: int) -> tuple[tuple[Peers, ...], Int64]:
        """All kinds of receivers, and the number of each op's."""
        peers_of = np.zeros(ops, np.int64)
        for first, numbers in self._columns.items():
            peers_of[first : first + len(numbers)] = numbers
        return tuple(self._numbers), peers_of


@dataclass
class FoldedRings:
    """The messages that the classes' ranks send around rings."""

    builder: PlanBuilder
    #: With all workers.
    job: Job
    #: The ranks of each class, shape (classes, copies).
    members: Int64
    #: Whether links add nothing to the time that bytes take on the line.
    undelayed: bool
    #: Rings that the copies of a class make, as many copies in each and one ring behind the other.
    rings: int = 1
    table: PeerTable = field(default_factory=PeerTable)

    def queues(self, ring: Sequence[int]) -> Int64:
        """A send queue for each class of a ring."""
        return np.array([self.builder.queue(rank) for rank in ring], np.int64)

    def add(self, ring: Sequence[int], queues: Int64, call: FoldedRingCall) -> None:
        """Adds a collective around a ring of these classes. Raises NotByClass where some copies send to their own
        machine and others do not."""
        turn = len(ring) * self.around // call.stride - 1
        if call.size_bytes <= 0 or not turn:
            return
        if len(ring) == 1 and self.is_gapless:
            steps = turn * len(call.combines)
            whole = replace(call, combines=call.combines[:1], size_bytes=steps * call.size_bytes)
            self._steps(ring, queues, whole, 1)
        else:
            self._steps(ring, queues, call, turn)

    @property
    def around(self) -> int:
        """Copies of a class in each ring."""
        return int(self.members.shape[1]) // self.rings

    @property
    def is_gapless(self) -> bool:
        """Returns whether a rank's step ends with the arrival that its next step waits for, so that steps follow one
        another without a gap."""
        costs = self.job.costs
        return self.undelayed and costs.message_latency_s == 0.0 and np.isinf(costs.aggregation_bytes_per_s)

    def _steps(self, ring: Sequence[int], queues: Int64, call: FoldedRingCall, turn: int) -> None:
        """Messages step by step and, in each step, class by class."""
        builder, costs, count = self.builder, self.job.costs, len(ring)
        classes, steps, size = np.array(ring, np.int64), turn * len(call.combines), call.size_bytes
        position, step = np.tile(np.arange(count), steps), np.repeat(np.arange(steps), count)
        inside = self._inside(classes, call.stride)
        wait_s = np.where(inside, costs.message_s(size, inside=True), costs.message_s(size, inside=False))
        shared: dict[str, Columns] = {
            "size_bytes": size,
            "traffic_class": call.traffic_class,
            "layer": call.layer,
        }
        first = builder.add_columns(OpKind.SEND, 0).start
        messages = (first + np.arange(len(position))).reshape(steps, count)
        sends = np.array(
            builder.add_columns(
                OpKind.SEND,
                len(position),
                rank=classes[position],
                peer=np.roll(classes, -1)[position],
                lane=queues[position],
                duration_ns=np.rint(wait_s * 1e9).astype(np.int64)[position],
                order=call.number * steps + step,
                message=messages.ravel(),
                **shared,
            ),
            np.int64,
        ).reshape(steps, count)
        own, next_one = (self.table.number(Peers(further, self.around)) for further in (0, call.stride))
        self.table.note(int(first), np.where(position == count - 1, next_one, own))
        combine = np.repeat(np.array([int(each) for each in call.combines]), turn)[step]
        recvs = np.array(
            builder.add_columns(
                OpKind.RECV,
                len(position),
                rank=classes[position],
                peer=np.roll(classes, 1)[position],
                combine=combine,
                message=np.roll(messages, 1, axis=1).ravel(),
                **shared,
            ),
            np.int64,
        )
        adding = np.flatnonzero(combine == Combine.ADD)
        builder.depend_columns(recvs[adding], call.started[position[adding]])
        arrivals = self._additions(recvs, classes[position], adding, call).reshape(steps, count)
        builder.depend_columns(sends[0], call.started)
        builder.depend_columns(sends[1:].ravel(), arrivals[:-1].ravel())
        # Parts may overtake one another where ranks are out of step, so the end waits for what is last to each of them.
        last = sends[-turn:]
        builder.depend_columns(np.tile(call.done, len(last)), last.ravel())
        builder.depend_columns(call.done, arrivals[-1])

    def _additions(self, recvs: Int64, rank: Int64, adding: Int64, call: FoldedRingCall) -> Int64:
        """The ops at which messages have taken effect, as `BucketTransfers` has them."""
        rate = self.job.costs.aggregation_bytes_per_s
        if np.isinf(rate) or not len(adding):
            return recvs
        reduces = self.builder.add_columns(
            OpKind.REDUCE,
            len(adding),
            rank=rank[adding],
            duration_ns=round(call.size_bytes / rate * 1e9),
            size_bytes=call.size_bytes,
            order=call.number,
            lane=REDUCE_LANE,
        )
        self.builder.depend_columns(np.array(reduces), recvs[adding])
        effects = recvs.copy()
        effects[adding] = reduces
        return effects

    def _inside(self, classes: Int64, stride: int) -> npt.NDArray[np.bool_]:
        """Returns, for each class, whether its messages to the next class stay on one machine. Raises NotByClass if
        that differs between ranks of a class."""
        cluster = self.job.cluster
        machine = self.members[classes] // cluster.workers_per_host
        following = np.roll(machine, -1, axis=0)
        following[-1] = np.roll(following[-1].reshape(self.rings, -1), -stride, axis=1).ravel()
        inside: npt.NDArray[np.bool_] = machine == following
        if (inside != inside[:, :1]).any():
            raise NotByClass("some ranks of a class have the next one on their machine, and others do not")
        first: npt.NDArray[np.bool_] = inside[:, 0]
        return first

    def folded(self, plan: Plan) -> ClassPlan:
        """The plan that these messages are of, with all ranks that it stands for."""
        hosts = host_of_rank(self.job.cluster)
        placed = replace(
            plan,
            rank_host=hosts[self.members[:, 0]].astype(np.int32),
            nics_per_host=self.job.cluster.nics_per_host,
        )
        return ClassPlan(placed, self.members, hosts, *self.table.columns(len(plan.ops)))


def neighbours_folded(workers: int, neighbours: int) -> Int64:
    """Returns the ranks of each class, shape (neighbours, copies): every `neighbours`-th rank is of the same class."""
    return np.arange(workers, dtype=np.int64).reshape(-1, neighbours).T

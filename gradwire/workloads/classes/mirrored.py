"""All-reduces by double trees, of which one of two mirrored ranks is compiled.

Of an even number of ranks, the second tree is the first one's mirror image: what rank i does with one half of the data,
rank N - 1 - i does with the other half. So these two are a class, and no others are: where many pieces follow one
another, ranks of one height differ by what their children do in the other tree, and their children by theirs.

A schedule of all ranks is folded row by row. Of two mirrored transfers, that of the sender in the lower half stands for
both, and its receiver is a rank of the lower half or the mirror image of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.class_plans import ClassPlan, Folding, NotByClass, Peers
from gradwire.datatypes.plan import Int64, OpKind
from gradwire.workloads.classes.folding import folded_job, host_of_rank
from gradwire.workloads.engines.allreduce_buckets import Bucket
from gradwire.workloads.engines.allreduce_plan import (
    BYTES_ON_WIRE,
    AllreduceOptions,
    AllreducePlan,
    chosen_schedules,
    communicator_of,
    ready_buckets,
)
from gradwire.workloads.engines.allreduce_transfers import Connections
from gradwire.workloads.engines.collectives.schedule import RowOrder, Schedule
from gradwire.workloads.engines.worker import Passes
from gradwire.workloads.fields import MOST_WORKERS
from gradwire.workloads.job import Cluster, Job

DOUBLE_TREE: Final = "double-tree"


def double_tree_classes(
    job: Job, name: str, buckets: Sequence[Bucket], options: AllreduceOptions, folding: Folding
) -> ClassPlan:
    """All-reduces of buckets by double trees. Raises NotByClass where mirrored ranks differ.

    Where a bucket has an odd number of values, they differ by a value: jobs that can be compiled with all ranks are
    refused then, and others have one value more.
    """
    workers = job.cluster.workers
    if folding.neighbours != 1:
        raise NotByClass("mirrored ranks of double trees are their only classes, with one worker for each machine")
    if workers % 2 or workers < 4:
        raise NotByClass(f"{workers} ranks have no double tree whose halves are mirrored")
    if options.forward_waits == "barrier":
        raise NotByClass("strategy.options.forward_waits is 'barrier': one rank hears from all others")
    if any(bucket.selection for bucket in buckets):
        raise NotByClass("gradients are selected")
    if not np.isinf(job.costs.aggregation_bytes_per_s):
        raise NotByClass("two parts that come at one time are added in the order of the trees (costs.aggregation_rate)")
    odd = sum(bucket.values % 2 for bucket in buckets)
    if odd and workers <= MOST_WORKERS:
        raise NotByClass(f"{odd} of {len(buckets)} buckets have an odd number of values, which two trees do not halve")
    even = [replace(bucket, values=bucket.values + bucket.values % 2) for bucket in buckets]
    plan = _MirroredClasses(job, name, even, options).compile_classes(options)
    if not odd:
        return plan
    return replace(
        plan,
        left_out=f"{odd} of {len(buckets)} buckets have an odd number of values: they are taken to have one more, of "
        f"{BYTES_ON_WIRE[options.wire]} bytes",
    )


def mirrored_half(schedule: Schedule) -> Schedule:
    """A double tree's transfers from ranks of the lower half. Parts of one tree have even numbers, those of the other odd
    ones. A transfer to the mirror image of the receiver has channel 1."""
    count, rows = schedule.ranks, schedule.rows
    mirror = count - 1
    keys, mirrored = (
        (src * count + dst) * schedule.parts + part
        for src, dst, part in (
            (schedule.src, schedule.dst, schedule.part),
            (mirror - schedule.src, mirror - schedule.dst, schedule.part ^ 1),
        )
    )
    by_key = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys[by_key], mirrored), len(keys) - 1)
    image = by_key[place]
    if not (np.array_equal(keys[image], mirrored) and np.array_equal(rows[image, 3:], rows[:, 3:])):
        raise NotByClass("the second tree is not the mirror image of the first")
    if (schedule.src == mirror - schedule.dst).any():
        raise NotByClass(f"in a tree of {count} ranks, one is the child of its mirror image")
    lower = schedule.src < count // 2
    number = np.cumsum(lower) - 1
    stands_for: Int64 = np.where(lower, number, number[image])
    half = rows[lower].copy()
    flipped = half[:, 1] >= count // 2
    half[flipped, 1] = mirror - half[flipped, 1]
    folded = Schedule(count // 2, schedule.parts, half, flipped.astype(np.int64))
    # Of a double tree's own order, since parts of both trees meet at a rank under one number.
    object.__setattr__(folded, "order", _order_of_half(schedule, lower, stands_for))
    return folded


def _order_of_half(schedule: Schedule, lower: npt.NDArray[np.bool_], stands_for: Int64) -> RowOrder:
    """Returns the order of the rows at ranks of the lower half, which stands for the upper one too."""
    order, of_lower = schedule.order, np.flatnonzero(lower)
    arrives_low = schedule.dst < schedule.ranks // 2
    passed = order.passed_on[lower[order.passed_on[:, 0]]]
    exchanged = order.exchanged[arrives_low[order.exchanged[:, 0]]]
    unexchanged = order.unexchanged[arrives_low[order.unexchanged]]
    ends_low = schedule.last_rank < schedule.ranks // 2
    return RowOrder(
        passed_on=stands_for[passed],
        starting=stands_for[np.intersect1d(order.starting, of_lower)],
        exchanged=stands_for[exchanged],
        unexchanged=stands_for[unexchanged],
        last_row=stands_for[order.last_row[ends_low]],
        last_is_send=order.last_is_send[ends_low],
    )


class _MirroredClasses(AllreducePlan):
    """One rank of each two that mirror each other."""

    def __init__(self, job: Job, name: str, buckets: Sequence[Bucket], options: AllreduceOptions) -> None:
        workers = job.cluster.workers
        halved = replace(folded_job(job, workers // 2), cluster=Cluster(workers // 2))
        super().__init__(halved, name, ready_buckets(buckets, options), communicator_of(options), None)
        self._whole = job
        self._connections = Connections(self.builder, self.hosts)

    def compile_classes(self, options: AllreduceOptions) -> ClassPlan:
        """Builds the plan and its classes."""
        sizes = [bucket.values * self.communicator.bytes_per_value for bucket in self.buckets]
        whole, _, _ = chosen_schedules(self._whole, sizes, DOUBLE_TREE, segments=options.segments)
        folded = {id(schedule): mirrored_half(schedule) for schedule in {id(each): each for each in whole}.values()}
        plan = self.compile([folded[id(schedule)] for schedule in whole])
        workers = self._whole.cluster.workers
        members = np.stack([np.arange(workers // 2), workers - 1 - np.arange(workers // 2)], axis=1)
        hosts = host_of_rank(self._whole.cluster)
        peers_of = np.zeros(len(plan.ops), np.int64)
        sends = np.flatnonzero(plan.ops.kind == OpKind.SEND)
        peers_of[sends] = self._connections.channels()[plan.ops.lane[sends]]
        placed = replace(
            plan, rank_host=hosts[members[:, 0]].astype(np.int32), nics_per_host=1, samples=self._whole.samples
        )
        return ClassPlan(placed, members, hosts, (Peers(), Peers(further=1)), peers_of)

    def _passes(self) -> list[Passes]:
        """Adds the passes of each rank. Layers whose ends nothing waits for are one op with the next layer whose end
        something does."""
        if self.communicator.forward_waits == "layer":
            return super()._passes()
        compute, count = self.job.compute, len(self.ranks)
        awaited = {bucket.ready_layer for bucket in self.buckets} | {0}
        awaited |= {bucket.hold.layer for bucket in self.buckets if bucket.hold is not None}
        begins = last = self._op_of_each(0)
        duration_ns, op_of_layer = sum(round(time_s * 1e9) for time_s in compute.forward_s), {}
        for layer in reversed(range(len(compute.backward_s))):
            duration_ns += round(compute.backward_s[layer] * 1e9)
            if layer in awaited:
                ops = self._op_of_each(duration_ns)
                self.builder.depend_columns(ops, last)
                op_of_layer[layer], last, duration_ns = ops.tolist(), ops, 0
        later = [
            op_of_layer[max(other for other in awaited if other <= layer)] for layer in range(len(compute.backward_s))
        ]
        begin = begins.tolist()
        return [Passes(begin[rank], (), tuple(ops[rank] for ops in later)) for rank in range(count)]

    def _op_of_each(self, duration_ns: int) -> Int64:
        """A COMPUTE op of every rank."""
        ranks = np.array(self.ranks, np.int64)
        return np.array(
            self.builder.add_columns(OpKind.COMPUTE, len(ranks), rank=ranks, duration_ns=duration_ns, lane=0), np.int64
        )

    def _workers(self, schedules: Sequence[Schedule]) -> Connections:
        del schedules
        return self._connections

    def _chunks(self, numbers: Sequence[int], sizes: Int64) -> Int64:
        """Returns -1 for all chunks: only the checker reads them."""
        del numbers
        return np.full(sizes.shape, -1, np.int64)

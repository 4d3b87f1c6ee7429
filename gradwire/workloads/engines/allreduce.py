"""Allreduces as strategies use them: common options, the schedule of an algorithm, and the plan for buckets that are reduced by it.

Sources: GradientFlow, sections 2.3 to 2.6; NetOps, sections 3.3.2, 8.2 and 9.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from pydantic import Field

from gradwire.datatypes.plan import Plan
from gradwire.workloads.engines.allreduce_buckets import Bucket, after_backward, backward_order, fused
from gradwire.workloads.engines.allreduce_plan import Communicator, ForwardWaits, compile_allreduce
from gradwire.workloads.engines.collectives import Schedule, butterfly, halving_doubling, hierarchical_ring, ring
from gradwire.workloads.engines.collectives.choice import IN_NETWORK, layout_of
from gradwire.workloads.engines.collectives.contract import Collective
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.routes import Routes
from gradwire.workloads.engines.collectives.rules import Rule
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.strategy import Options

Algorithm = Literal["ring", "hierarchical-ring", "butterfly", "halving-doubling"]
AnyAlgorithm = Literal[
    "ring",
    "hierarchical-ring",
    "butterfly",
    "halving-doubling",
    "double-tree",
    "two-level",
    "direct",
    "in-network",
    "auto",
]
"""Those, and what depends on a bucket's size or on who shares a machine (docs/collectives.md)."""
BYTES_ON_WIRE = {"fp32": 4, "fp16": 2, "bf16": 2}
FLAT: Mapping[Algorithm, Callable[[int], Schedule]] = {
    "ring": ring,
    "butterfly": butterfly,
    "halving-doubling": halving_doubling,
}
"""Algorithms that treat all workers alike."""
ALIKE: Mapping[str, Algorithm] = {name: name for name in get_args(Algorithm)}
"""Algorithms whose schedule is the same for every bucket."""
MOST_SEGMENTS = 4_096
"""Of a worker's part of a bucket: 256 KiB each, of a gigabyte."""


class AllreduceOptions(Options):
    """What all allreduces have in common."""

    wire: Literal["fp32", "fp16", "bf16"] = "fp32"
    """Format of gradients on the wire."""
    conversion_rate_bytes_per_s: float | None = Field(None, gt=0)
    """Bytes of fp32 that a GPU converts to fp16 per second, before an allreduce and back after it. None: the model's compute time
    includes it, or gradients are fp16 from the start."""
    overlap: bool = True
    """Whether an allreduce starts while the backward pass goes on; otherwise all wait for its end."""
    concurrent: bool = False
    """Whether allreduces of several buckets are under way at once; otherwise one after the other, as on one NCCL stream."""
    forward_waits: ForwardWaits = "all"
    """The next iteration starts when a worker has "all" buckets, or after a global "barrier" of workers that have them; or each "layer"
    waits for its own."""
    segments: int = Field(1, ge=1, le=MOST_SEGMENTS)
    """Messages that each part of a bucket is cut into, which move on one by one."""


def algorithm_schedule(
    cluster: Cluster, algorithm: Algorithm, *, segments: int = 1, group: int | None = None, scatter: bool = False
) -> Schedule:
    """The schedule of an algorithm for all workers. Raises InputFault where it does not fit their number.

    group, scatter: of a hierarchical ring; without a group, the workers of a machine form one.
    """
    if algorithm == "hierarchical-ring":
        schedule = hierarchical_ring(cluster.workers, group or cluster.workers_per_host, scatter=scatter)
    else:
        schedule = FLAT[algorithm](cluster.workers)
    return schedule.segmented(segments)


def compile_by_algorithm(
    job: Job,
    name: str,
    buckets: Sequence[Bucket],
    algorithm: AnyAlgorithm,
    options: AllreduceOptions,
    channels: int = 1,
) -> Mapping[str, Plan]:
    """The plan for buckets in this order, each by the schedule that an algorithm has for its size.

    channels: rings at once. Raises InputFault where the algorithm does not suit the number of workers.
    """
    if algorithm in ALIKE and channels == 1:
        schedule = algorithm_schedule(job.cluster, ALIKE[algorithm], segments=options.segments)
        return compile_buckets(job, name, buckets, schedule, options)
    cluster = job.cluster
    hosts = [cluster.worker_host(worker) for worker in range(cluster.workers)]
    switches = Switches.of(job) if algorithm == IN_NETWORK else None
    layout = layout_of(range(cluster.workers), hosts, switches)
    routes = Routes({Collective.ALL_REDUCE: Rule((), algorithm)}, channels=channels, key="strategy.options.algorithm")
    sizes = [bucket.values * BYTES_ON_WIRE[options.wire] for bucket in buckets]
    chosen = [routes.schedule(Collective.ALL_REDUCE, layout, 0, size, 1) for size in sizes]
    # One object for all buckets that go alike, whose messages are made together.
    cut = {id(schedule): schedule.segmented(options.segments) for schedule in chosen}
    plans = compile_buckets(job, name, buckets, [cut[id(schedule)] for schedule in chosen], options, switches)
    return {key: replace(plan, notes=(*plan.notes, *routes.notes())) for key, plan in plans.items()}


def compile_buckets(
    job: Job,
    name: str,
    buckets: Sequence[Bucket],
    schedules: Schedule | Sequence[Schedule],
    options: AllreduceOptions,
    switches: Switches | None = None,
) -> Mapping[str, Plan]:
    """The plan for buckets in this order, each by its own schedule or all by one. switches: those of the network, where they add."""
    converted = [_converted(bucket, options) for bucket in buckets]
    ready = converted if options.overlap else after_backward(converted)
    each = [schedules] * len(buckets) if isinstance(schedules, Schedule) else schedules
    communicator = Communicator(BYTES_ON_WIRE[options.wire], options.concurrent, options.forward_waits)
    return {name: compile_allreduce(job, name, ready, each, communicator, switches)}


def _converted(bucket: Bucket, options: AllreduceOptions) -> Bucket:
    if options.wire == "fp32" or options.conversion_rate_bytes_per_s is None:
        return bucket
    conversion_s = bucket.values * BYTES_PER_PARAMETER / options.conversion_rate_bytes_per_s
    return replace(bucket, copy_in_s=bucket.copy_in_s + conversion_s, copy_out_s=bucket.copy_out_s + conversion_s)


def tensor_buckets(job: Job) -> list[Bucket]:
    """One bucket per tensor, in backward order."""
    return [fused([gradient]) for gradient in backward_order(job)]

"""Allreduce by algorithm, a tensor at a time: ring, hierarchical ring, butterfly, halving-doubling, butterfly mixing.

Sources: GradientFlow, sections 2.3 to 2.6; NetOps, sections 3.3.2, 8.2 and 9.2. The strategies differ in their algorithm and in
the defaults that their papers give them; every option is open to each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from gradwire.workloads.engines.allreduce_buckets import Bucket, after_backward, backward_order, fused
from gradwire.workloads.engines.allreduce_load import allreduce_load
from gradwire.workloads.engines.allreduce_plan import Communicator, ForwardWaits, compile_allreduce
from gradwire.workloads.engines.collectives import (
    Schedule,
    butterfly,
    halving_doubling,
    hierarchical_ring,
    ring,
    whole_ring,
)
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.plan import Plan
from gradwire.workloads.stand_in import Load
from gradwire.workloads.strategies.strategy import Options, Strategy

Algorithm = Literal["ring", "hierarchical-ring", "butterfly", "halving-doubling"]
BYTES_ON_WIRE = {"fp32": 4, "fp16": 2}


class AllreduceOptions(Options):
    """What all allreduces have in common.

    wire: format of gradients on the wire. conversion_rate_bytes_per_s: fp32 bytes a second that a GPU converts to fp16 before
    an allreduce and back after it; None: the model's compute time has it already, or gradients are born in fp16.
    overlap: an allreduce starts while the backward pass goes on; otherwise all wait for its end.
    concurrent: allreduces of several buckets are under way at once; otherwise one after the other, as on one NCCL stream.
    forward_waits: the next iteration starts when a worker has 'all' buckets, or after a global 'barrier' of workers that have
    them; or each 'layer' waits for its own.
    segments: messages that each part of a bucket is cut into, which move on one by one.
    """

    wire: Literal["fp32", "fp16"] = "fp32"
    conversion_rate_bytes_per_s: float | None = Field(None, gt=0)
    overlap: bool = True
    concurrent: bool = False
    forward_waits: ForwardWaits = "all"
    segments: int = Field(1, ge=1)


class RingOptions(AllreduceOptions):
    """messaging: a parameter is partitioned over all workers (NetOps, sections 8.2.1, 9.2); otherwise whole parameters go round.

    concurrent: NetOps sends a parameter as soon as it is computed or received, whatever else is under way.
    forward_waits: NetOps has all workers start at the same time, after a global barrier (section 8.2.1).
    """

    messaging: bool = True
    concurrent: bool = True
    forward_waits: ForwardWaits = "barrier"


class HierarchicalOptions(AllreduceOptions):
    """group: neighbouring workers that form a group; None: those of one machine.

    inside: 'reduce-broadcast' through a master (GradientFlow's NCCL-H), or 'scatter-gather' with one ring between machines for each
    GPU's share, which moves no byte more than it must inside a machine either.
    """

    group: int | None = Field(None, ge=1)
    inside: Literal["reduce-broadcast", "scatter-gather"] = "reduce-broadcast"


class ButterflyOptions(AllreduceOptions):
    """overlap: GradientFlow's baseline with OpenMPI reduces after the backward pass (section 2.3, Fig. 4)."""

    overlap: bool = False


class MixingOptions(AllreduceOptions):
    """concurrent: NetOps pipelines the steps of different parameters (section 8.2.2). forward_waits: as for its ring."""

    concurrent: bool = True
    forward_waits: ForwardWaits = "barrier"


def algorithm_schedule(job: Job, algorithm: Algorithm, options: AllreduceOptions) -> Schedule:
    """The schedule of an algorithm for all workers. Raises InputFault where it does not fit their number."""
    workers = job.cluster.workers
    if algorithm == "hierarchical-ring":
        chosen = options if isinstance(options, HierarchicalOptions) else HierarchicalOptions()
        group = chosen.group or job.cluster.workers_per_host
        schedule = hierarchical_ring(workers, group, scatter=chosen.inside == "scatter-gather")
    else:
        makers: Mapping[str, Callable[[int], Schedule]] = {
            "ring": ring,
            "butterfly": butterfly,
            "halving-doubling": halving_doubling,
        }
        schedule = makers[algorithm](workers)
    return schedule.segmented(options.segments)


def compile_buckets(
    job: Job, name: str, buckets: Sequence[Bucket], schedules: Sequence[Schedule], options: AllreduceOptions
) -> dict[str, Plan]:
    """The plan for buckets in this order, with what the common options say."""
    converted = [_converted(bucket, options) for bucket in buckets]
    ready = converted if options.overlap else after_backward(converted)
    communicator = Communicator(BYTES_ON_WIRE[options.wire], options.concurrent, options.forward_waits)
    return {name: compile_allreduce(job, name, ready, schedules, communicator)}


def _converted(bucket: Bucket, options: AllreduceOptions) -> Bucket:
    if options.wire == "fp32" or options.conversion_rate_bytes_per_s is None:
        return bucket
    conversion_s = bucket.values * BYTES_PER_PARAMETER / options.conversion_rate_bytes_per_s
    return replace(bucket, copy_in_s=bucket.copy_in_s + conversion_s, copy_out_s=bucket.copy_out_s + conversion_s)


def tensor_buckets(job: Job) -> list[Bucket]:
    """A bucket a tensor, in backward order."""
    return [fused([gradient]) for gradient in backward_order(job)]


def _by_algorithm(name: str, algorithm: Algorithm) -> Callable[[Job, AllreduceOptions], Mapping[str, Plan]]:
    def compile_one(job: Job, options: AllreduceOptions) -> Mapping[str, Plan]:
        buckets = tensor_buckets(job)
        schedule = algorithm_schedule(job, algorithm, options)
        return compile_buckets(job, name, buckets, [schedule] * len(buckets), options)

    return compile_one


def _ring(job: Job, options: RingOptions) -> Mapping[str, Plan]:
    if options.messaging:
        return _by_algorithm("ring", "ring")(job, options)
    buckets, workers = tensor_buckets(job), job.cluster.workers
    # Parameters are assigned to workers round robin in the order in which the model creates them (NetOps, section 3.3.2).
    starts = [whole_ring(workers, first).segmented(options.segments) for first in range(workers)]
    schedules = [starts[number % workers] for number in reversed(range(len(buckets)))]
    return compile_buckets(job, "ring", buckets, schedules, options)


def _ring_load(cluster: Cluster, options: RingOptions) -> Load:
    return allreduce_load("ring" if options.messaging else "ring of whole parameters", cluster)


def _load_of(algorithm: Algorithm) -> Callable[[Cluster, AllreduceOptions], Load]:
    return lambda cluster, _: allreduce_load(algorithm, cluster)


STRATEGIES = (
    Strategy(
        "ring",
        "ring allreduce of every tensor, in N parts (messaging) or whole, all under way at once",
        "NetOps, sections 3.3.2, 8.2.1, 9.2; GradientFlow, section 2.4",
        RingOptions,
        _ring,
        classes=lambda _: 1,
        needs_servers=False,
        load=_ring_load,
    ),
    Strategy(
        "hierarchical-ring",
        "reduce inside each machine, a ring between machines, and the result back inside",
        "GradientFlow, section 2.4 and Fig. 7",
        HierarchicalOptions,
        _by_algorithm("hierarchical-ring", "hierarchical-ring"),
        classes=lambda _: 1,
        needs_servers=False,
    ),
    Strategy(
        "butterfly",
        "recursive doubling of every tensor after the backward pass: the MPI baseline",
        "GradientFlow, section 2.3",
        ButterflyOptions,
        _by_algorithm("butterfly", "butterfly"),
        classes=lambda _: 1,
        needs_servers=False,
        load=_load_of("butterfly"),
    ),
    Strategy(
        "halving-doubling",
        "Rabenseifner's recursive halving and doubling of every tensor",
        "NetOps, section 1 (reference 24)",
        AllreduceOptions,
        _by_algorithm("halving-doubling", "halving-doubling"),
        classes=lambda _: 1,
        needs_servers=False,
        load=_load_of("halving-doubling"),
    ),
    Strategy(
        "butterfly-mixing",
        "recursive doubling of every tensor as backward yields it, steps of different tensors pipelined",
        "NetOps, sections 3.3.2 and 8.2.2",
        MixingOptions,
        _by_algorithm("butterfly-mixing", "butterfly"),
        classes=lambda _: 1,
        needs_servers=False,
        load=_load_of("butterfly"),
    ),
)

"""Allreduce by algorithm, a tensor at a time: ring, hierarchical ring, butterfly, halving-doubling, double tree,
butterfly mixing.

Sources: GradientFlow, sections 2.3 to 2.6; NetOps, sections 3.3.2, 8.2 and 9.2; of the double tree,
workloads/engines/collectives/allreduces.py. The strategies differ in their algorithm and in the defaults that their
papers give them; every common option is open to each. The iteration: workloads/engines/allreduce_plan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field

from gradwire.datatypes.class_plans import ClassPlan, Folding, NotByClass, RingSequence
from gradwire.datatypes.plan import Plan
from gradwire.workloads.classes.mirrored import DOUBLE_TREE, double_tree_classes
from gradwire.workloads.classes.pairs import paired_classes
from gradwire.workloads.classes.ring_sequences import ring_sequence
from gradwire.workloads.engines.allreduce_buckets import allreduce_load
from gradwire.workloads.engines.allreduce_plan import (
    Algorithm,
    AllreduceOptions,
    ForwardWaits,
    algorithm_schedule,
    compile_buckets,
    compile_by_algorithm,
    tensor_buckets,
)
from gradwire.workloads.engines.collectives import whole_ring
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.stand_in import AllreduceLoad
from gradwire.workloads.strategy import Strategy


class RingOptions(AllreduceOptions):
    """NetOps' ring."""

    messaging: bool = True
    """Whether a parameter is partitioned over all workers (NetOps, sections 8.2.1, 9.2); otherwise whole parameters go
    round."""
    concurrent: bool = True
    """NetOps sends a parameter as soon as it is computed or received, whatever else is under way."""
    forward_waits: ForwardWaits = "barrier"
    """NetOps has all workers start at the same time, after a global barrier (section 8.2.1)."""


class HierarchicalOptions(AllreduceOptions):
    """Options for the groups of workers."""

    group: int | None = Field(None, ge=1)
    """Neighbouring workers that form a group; None: those of one machine."""
    inside: Literal["reduce-broadcast", "scatter-gather"] = "reduce-broadcast"
    """"reduce-broadcast": through a master (GradientFlow's NCCL-H). "scatter-gather": one ring between machines for
    each GPU's share, which moves no more bytes than it must inside a machine either."""


class ButterflyOptions(AllreduceOptions):
    """GradientFlow's butterfly."""

    overlap: bool = False
    """GradientFlow's baseline with OpenMPI reduces after the backward pass (section 2.3, Fig. 4)."""


class MixingOptions(AllreduceOptions):
    """NetOps' butterfly mixing."""

    concurrent: bool = True
    """NetOps pipelines the steps of different parameters (section 8.2.2)."""
    forward_waits: ForwardWaits = "barrier"
    """The default is that of NetOps' ring."""


def _by_algorithm(name: str, algorithm: Algorithm) -> Callable[[Job, AllreduceOptions], Mapping[str, Plan]]:
    def compile_tensors(job: Job, options: AllreduceOptions) -> Mapping[str, Plan]:
        schedule = algorithm_schedule(job.cluster, algorithm, segments=options.segments)
        return compile_buckets(job, name, tensor_buckets(job), schedule, options)

    return compile_tensors


def _ring(job: Job, options: RingOptions) -> Mapping[str, Plan]:
    if options.messaging:
        return _by_algorithm("ring", "ring")(job, options)
    buckets, workers = tensor_buckets(job), job.cluster.workers
    # Parameters are assigned to workers round robin in the order in which the model creates them (NetOps, section
    # 3.3.2).
    starts = [whole_ring(workers, first).segmented(options.segments) for first in range(workers)]
    schedules = [starts[number % workers] for number in reversed(range(len(buckets)))]
    return compile_buckets(job, "ring", buckets, schedules, options)


def _ring_by_class(job: Job, options: RingOptions, _: Folding) -> RingSequence:
    if not options.messaging:
        raise NotByClass("strategy.options.messaging is false: whole parameters go round from one rank")
    return ring_sequence(job, "ring", tensor_buckets(job), options)


def _paired_by_class(name: str, *, in_parts: bool) -> Callable[[Job, AllreduceOptions, Folding], ClassPlan]:
    def compile_classes(job: Job, options: AllreduceOptions, folding: Folding) -> ClassPlan:
        return paired_classes(job, name, tensor_buckets(job), options, folding, in_parts=in_parts)

    return compile_classes


def _hierarchical(job: Job, options: HierarchicalOptions) -> Mapping[str, Plan]:
    schedule = algorithm_schedule(
        job.cluster,
        "hierarchical-ring",
        segments=options.segments,
        group=options.group,
        scatter=options.inside == "scatter-gather",
    )
    return compile_buckets(job, "hierarchical-ring", tensor_buckets(job), schedule, options)


def _ring_load(cluster: Cluster, options: RingOptions) -> AllreduceLoad:
    return allreduce_load("ring" if options.messaging else "ring of whole parameters", cluster)


def _load_of(algorithm: Algorithm) -> Callable[[Cluster, AllreduceOptions], AllreduceLoad]:
    return lambda cluster, _: allreduce_load(algorithm, cluster)


def _double_tree(job: Job, options: AllreduceOptions) -> Mapping[str, Plan]:
    return compile_by_algorithm(job, DOUBLE_TREE, tensor_buckets(job), DOUBLE_TREE, options)


def _double_tree_by_class(job: Job, options: AllreduceOptions, folding: Folding) -> ClassPlan:
    return double_tree_classes(job, DOUBLE_TREE, tensor_buckets(job), options, folding)


STRATEGIES = (
    Strategy(
        name="ring",
        summary="ring allreduce of every tensor, in N parts (messaging) or whole, all under way at once",
        source="NetOps, sections 3.3.2, 8.2.1, 9.2; GradientFlow, section 2.4",
        options=RingOptions,
        compile=_ring,
        needs_servers=False,
        load=_ring_load,
        by_class=_ring_by_class,
    ),
    Strategy(
        name="hierarchical-ring",
        summary="reduce inside each machine, a ring between machines, and the result back inside",
        source="GradientFlow, section 2.4 and Fig. 7",
        options=HierarchicalOptions,
        compile=_hierarchical,
        needs_servers=False,
    ),
    Strategy(
        name="butterfly",
        summary="recursive doubling of every tensor after the backward pass: the MPI baseline",
        source="GradientFlow, section 2.3",
        options=ButterflyOptions,
        compile=_by_algorithm("butterfly", "butterfly"),
        needs_servers=False,
        load=_load_of("butterfly"),
        by_class=_paired_by_class("butterfly", in_parts=False),
    ),
    Strategy(
        name="halving-doubling",
        summary="Rabenseifner's recursive halving and doubling of every tensor",
        source="NetOps, section 1 (reference 24)",
        options=AllreduceOptions,
        compile=_by_algorithm("halving-doubling", "halving-doubling"),
        needs_servers=False,
        load=_load_of("halving-doubling"),
        by_class=_paired_by_class("halving-doubling", in_parts=True),
    ),
    Strategy(
        name="double-tree",
        summary=(
            "two complementary binary trees of every tensor, half of it up and down each, in pieces: NCCL's since "
            "version 2.4"
        ),
        source="Sanders, Speck and Träff, Parallel Computing 35, 2009; NCCL, src/graph/trees.cc",
        options=AllreduceOptions,
        compile=_double_tree,
        needs_servers=False,
        by_class=_double_tree_by_class,
    ),
    Strategy(
        name="butterfly-mixing",
        summary="recursive doubling of every tensor as backward yields it, steps of different tensors pipelined",
        source="NetOps, sections 3.3.2 and 8.2.2",
        options=MixingOptions,
        compile=_by_algorithm("butterfly-mixing", "butterfly"),
        needs_servers=False,
        load=_load_of("butterfly"),
        by_class=_paired_by_class("butterfly-mixing", in_parts=False),
    ),
)

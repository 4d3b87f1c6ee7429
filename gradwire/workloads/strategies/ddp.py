"""PyTorch's DistributedDataParallel (DDP): gradients fill buckets, and each is reduced while the backward pass
continues.

Sources: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020;
https://docs.pytorch.org/docs/stable/notes/ddp.html; `Reducer` in torch/csrc/distributed/c10d/reducer.cpp, version 2.5.
An iteration:

1. The backward pass yields gradients from the last layer to the first. They fill buckets in that order, which DDP
   notes in its first iteration and keeps from the second on (`Reducer::rebuild_buckets`). A plan is of such a later
   iteration.
2. A bucket whose gradients are all there is reduced by one allreduce. Allreduces start in the order of the buckets,
   one after the other, as on the one stream of a process group.
3. The optimizer steps once, when all buckets are reduced; the next forward pass follows.

Assumed where nothing is printed: gradients are views into their buckets (`gradient_as_bucket_view`), so that filling
one costs no copy. Every gradient is fp32, and with a `wire` of 16 bits a communication hook converts whole buckets. A
model whose parameters are of 16 bits themselves puts twice as many into a bucket: give it caps twice as large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import Field

from gradwire.datatypes.class_plans import ClassPlan, Folding, NotByClass, RingSequence
from gradwire.datatypes.plan import Plan
from gradwire.workloads.classes.mirrored import DOUBLE_TREE, double_tree_classes
from gradwire.workloads.classes.pairs import paired_classes
from gradwire.workloads.classes.ring_sequences import ring_sequence
from gradwire.workloads.classes.rings_by_nic import ring_classes
from gradwire.workloads.engines.allreduce_buckets import Bucket, allreduce_load, backward_order, cap_filled, fused
from gradwire.workloads.engines.allreduce_plan import (
    BYTES_ON_WIRE,
    AllreduceOptions,
    AnyAlgorithm,
    compile_by_algorithm,
)
from gradwire.workloads.engines.call_costs import CallCosts
from gradwire.workloads.engines.collectives.choice import IN_NETWORK
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.options import NcclKeys, setup_of
from gradwire.workloads.engines.ring_channels import RingCount, rings_of
from gradwire.workloads.fields import SizeBytes
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.stand_in import AllreduceLoad
from gradwire.workloads.strategy import Strategy

CAP_BYTES = 25 << 20
"""`bucket_cap_mb` of DistributedDataParallel."""
FIRST_CAP_BYTES = 1 << 20
"""`kDefaultFirstBucketBytes` of PyTorch's reducer: communication begins early."""


class DdpOptions(AllreduceOptions, NcclKeys):
    """Options for the size of buckets, in bytes of fp32 gradients, whatever the wire's format."""

    algorithm: AnyAlgorithm = "ring"
    """Algorithm of the allreduces. NCCL has rings and double trees; "nccl" and "auto" take one for each bucket: as NCCL
    chooses, and as MPICH does (docs/collectives.md)."""
    channels: RingCount = None
    """Rings that each allreduce by "ring" is divided among, each over separate connections. Unset: one for each NIC of a machine, as NCCL
    has."""
    bucket_cap: SizeBytes = Field(CAP_BYTES, ge=1)
    """The gradient that brings a bucket to this size closes it (PyTorch's `bucket_cap_mb`)."""
    first_bucket_cap: SizeBytes = Field(FIRST_CAP_BYTES, ge=1)
    """The gradient that brings the first bucket to this size closes it. Where a program sets `bucket_cap_mb`, recent
    versions of PyTorch take that for the first one as well: set both."""


def ddp_buckets(job: Job, options: DdpOptions) -> list[Bucket]:
    """The buckets in the order in which they are reduced."""
    first, rest = options.first_bucket_cap / BYTES_PER_PARAMETER, options.bucket_cap / BYTES_PER_PARAMETER
    calls = CallCosts(job, options.algorithm)
    buckets = [fused(group) for group in cap_filled(backward_order(job), first, rest)]
    width = BYTES_ON_WIRE[options.wire]
    return [replace(bucket, call_s=calls.seconds(Collective.ALL_REDUCE, bucket.values * width)) for bucket in buckets]


def _compile(job: Job, options: DdpOptions) -> Mapping[str, Plan]:
    rings = rings_of(options.channels, options.algorithm, job.cluster)
    nccl = setup_of(job, options.nccl) if options.goes_by_nccl else None
    buckets = ddp_buckets(job, options)
    return compile_by_algorithm(job, "ddp", buckets, options.algorithm, options, rings, nccl)


def _by_class(job: Job, options: DdpOptions, folding: Folding) -> RingSequence | ClassPlan:
    if options.algorithm in ("halving-doubling", "butterfly"):
        in_parts = options.algorithm == "halving-doubling"
        return paired_classes(job, "ddp", ddp_buckets(job, options), options, folding, in_parts=in_parts)
    rings = rings_of(options.channels, options.algorithm, job.cluster)
    if options.algorithm == DOUBLE_TREE and rings == 1:
        return double_tree_classes(job, "ddp", ddp_buckets(job, options), options, folding)
    if options.algorithm != "ring":
        raise NotByClass(f"strategy.options.algorithm is '{options.algorithm}', not 'ring'")
    if rings > 1:
        return ring_classes(job, "ddp", ddp_buckets(job, options), options, folding, rings)
    return ring_sequence(job, "ddp", ddp_buckets(job, options), options)


def _load(cluster: Cluster, options: DdpOptions) -> AllreduceLoad:
    return allreduce_load(options.algorithm, cluster)


STRATEGIES = (
    Strategy(
        name="ddp",
        summary=(
            "PyTorch's DistributedDataParallel: buckets of 25 MiB, a first one of 1 MiB, each reduced during the "
            "backward pass"
        ),
        source="Li et al., VLDB 2020; PyTorch 2.5, reducer.cpp",
        options=DdpOptions,
        compile=_compile,
        aggregators=lambda options: options.algorithm == IN_NETWORK,
        needs_servers=False,
        load=_load,
        by_class=_by_class,
    ),
)

"""ZeRO's stages 1 and 2: data parallelism in which each worker updates a part of the parameters, which all then gather.

Sources: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020; DeepSpeed's
deepspeed/runtime/zero/config.py and stage_1_and_2.py. The iteration, and what it assumes, are in
workloads/engines/parallel/partitioned.py; stage 3 is `fsdp`.

Stage 1 divides the optimizer's states, and stage 2 the gradients as well. So in stage 1, gradients may stay until the
backward pass is over, when DeepSpeed sums them (`reduce_gradients`); in stage 2, they are summed and dropped as the
backward pass yields them. Both sum by reduce-scatters, which is what the paper counts, unless options say otherwise:
DeepSpeed's default sums buckets of several owners by allreduces (`use_multi_rank_bucket_allreduce`), and PyTorch's
ZeroRedundancyOptimizer stands behind DistributedDataParallel, which does as well. A worker then sends as much as with
data parallelism, and the allgather on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from pydantic import Field

from gradwire.datatypes.class_plans import ClassPlan, Folding
from gradwire.datatypes.plan import Plan
from gradwire.workloads.classes.sharded import partitioned_classes
from gradwire.workloads.engines.allreduce_buckets import Bucket, backward_order, buffer_fused, fused
from gradwire.workloads.engines.allreduce_plan import BYTES_ON_WIRE
from gradwire.workloads.engines.nccl.options import NcclKeys, setup_of
from gradwire.workloads.engines.parallel.partitioned import Partition, compile_partitioned
from gradwire.workloads.engines.ring_channels import RingCount, rings_of
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import Strategy

Format = Literal["fp32", "fp16", "bf16"]
BUCKET_PARAMETERS = 500_000_000
"""`reduce_bucket_size` and `allgather_bucket_size` of DeepSpeed, which count parameters."""


class Zero1Options(NcclKeys):
    """Formats and times of the transfers of ZeRO's stage 1."""

    parameters: Format = "bf16"
    """Format in which updated parameters are gathered."""
    gradients: Format = "bf16"
    """Format in which gradients are summed (DeepSpeed's `communication_data_type`, by default that of the
    parameters)."""
    bucket_parameters: int = Field(BUCKET_PARAMETERS, ge=1)
    """Parameters that a bucket has room for, as DeepSpeed's `reduce_bucket_size` counts them; a larger tensor goes
    alone."""
    sum_by: Literal["reduce-scatter", "all-reduce"] = "reduce-scatter"
    """How gradients are summed. With "all-reduce", workers get the sums of all gradients and use their own part."""
    overlap: bool = False
    """Whether a bucket is summed during the backward pass; otherwise all are summed behind it (`overlap_comm`)."""
    algorithm: Literal["ring", "nccl"] = "ring"
    """Algorithm of all transfers: rings, or as NCCL chooses by size (docs/collectives.md)."""
    channels: RingCount = None
    """Rings that transfers by "ring" are divided among, each over separate connections. Unset: one for each NIC of a machine, as NCCL
    has."""
    overlap_gather: bool = False
    """Whether the next forward pass begins at once, and layers wait for their own parameters; otherwise it waits for
    all of them."""


class Zero2Options(Zero1Options):
    """Formats and times of the transfers of ZeRO's stage 2, in which gradients are summed as they come."""

    overlap: bool = True
    """Whether a bucket is summed during the backward pass; otherwise all are summed behind it."""


def _buckets(job: Job, options: Zero1Options) -> list[Bucket]:
    return [fused(group) for group in buffer_fused(backward_order(job), options.bucket_parameters)]


def _partition(job: Job, options: Zero1Options) -> Partition:
    return Partition(
        parameter_bytes=BYTES_ON_WIRE[options.parameters],
        gradient_bytes=BYTES_ON_WIRE[options.gradients],
        scatter=options.sum_by == "reduce-scatter",
        overlap=options.overlap,
        overlap_gather=options.overlap_gather,
        nccl=setup_of(job, options.nccl) if options.goes_by_nccl else None,
        rings=rings_of(options.channels, options.algorithm, job.cluster),
    )


def _compile(name: str, job: Job, options: Zero1Options) -> Mapping[str, Plan]:
    return {name: compile_partitioned(job, name, _buckets(job, options), _partition(job, options))}


def _by_class(name: str, job: Job, options: Zero1Options, folding: Folding) -> ClassPlan:
    return partitioned_classes(job, name, _buckets(job, options), _partition(job, options), folding)


STRATEGIES = (
    Strategy(
        name="zero1",
        summary=(
            "ZeRO, stage 1: gradients summed behind the backward pass, each worker updates a part, updated "
            "parameters gathered"
        ),
        source="Rajbhandari et al., SC 2020; DeepSpeed",
        options=Zero1Options,
        compile=partial(_compile, "zero1"),
        by_class=partial(_by_class, "zero1"),
        state_bytes=lambda cluster, _: 4 + 12 / cluster.workers,
        needs_servers=False,
    ),
    Strategy(
        name="zero2",
        summary=(
            "ZeRO, stage 2: gradients scattered as sums, bucket by bucket, during the backward pass, updated "
            "parameters gathered"
        ),
        source="Rajbhandari et al., SC 2020; DeepSpeed",
        options=Zero2Options,
        compile=partial(_compile, "zero2"),
        by_class=partial(_by_class, "zero2"),
        state_bytes=lambda cluster, _: 2 + 14 / cluster.workers,
        needs_servers=False,
    ),
)

"""PyTorch's Fully Sharded Data Parallel (FSDP), which is ZeRO's stage 3: the iteration is that of
workloads/engines/parallel/sharded.py.

Sources: Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, VLDB 2023; Rajbhandari et al.,
ZeRO, SC 2020. Units are the model's blocks, which is how transformers are wrapped, and a root with all other layers
(embeddings, last normalisation, output).

With `shard`, groups of that many workers hold the model between them, and the groups are replicas of one another
(hybrid sharding, HSDP: Zhao et al.). Neighbours are a group, as with the mesh `(replicate, shard)` that PyTorch
documents for it.

Assumed where the sources are silent: the update of a shard takes no time; a unit's parameters and gradients are one
flat tensor, padded to a multiple of the workers that share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from gradwire.datatypes.class_plans import ClassPlan, Folding
from gradwire.datatypes.plan import Plan
from gradwire.workloads.classes.sharded import sharded_classes
from gradwire.workloads.engines.allreduce_plan import BYTES_ON_WIRE
from gradwire.workloads.engines.collectives.choice import IN_NETWORK
from gradwire.workloads.engines.nccl.options import NcclKeys, setup_of
from gradwire.workloads.engines.parallel.group_collectives import Algorithm
from gradwire.workloads.engines.parallel.sharded import Sharding, compile_sharded, recomputing
from gradwire.workloads.engines.ring_channels import RingCount, rings_of
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import ADAM_BYTES, Strategy


class FsdpOptions(NcclKeys):
    """Formats and times of the transfers of FSDP."""

    parameters: Literal["fp32", "fp16", "bf16"] = "bf16"
    """Format in which parameters are gathered (`param_dtype` of FSDP's mixed precision)."""
    gradients: Literal["fp32", "fp16", "bf16"] = "fp32"
    """Format in which gradients are reduced (`reduce_dtype`)."""
    prefetch: int = Field(1, ge=0, le=1000)
    """Units that are gathered ahead of the one that computes; 0: communication and forward pass take turns."""
    reshard_after_forward: bool = True
    """Whether parameters are forgotten after the forward pass and gathered again for the backward pass (ZeRO's stage
    3); otherwise they are gathered once, and kept (its stage 2)."""
    shard: int | None = Field(None, ge=1, le=10_000)
    """Workers that hold a model between them, which are neighbours; groups of so many are replicas, which sum the
    gradients of their shards (hybrid sharding). Unset: all workers are one group."""
    microbatches: int = Field(1, ge=1, le=100_000)
    """Parts of a worker's batch that are computed one after the other (gradient accumulation), each with allgathers and
    reduce-scatters of its own."""
    recompute: Literal["none", "full"] = "none"
    """Whether a block's forward pass is computed again in its backward pass, so that its activations are not kept
    (activation checkpointing)."""
    algorithm: Algorithm = "ring"
    """Algorithm of allgathers, reduce-scatters, and the allreduces of hybrid sharding (docs/collectives.md)."""
    channels: RingCount = None
    """Rings that collectives of all workers by "ring" are divided among, each over separate connections. Unset: one for each NIC of a
    machine, as NCCL has."""


def _sharding(job: Job, options: FsdpOptions) -> Sharding:
    return Sharding(
        parameter_bytes=BYTES_ON_WIRE[options.parameters],
        gradient_bytes=BYTES_ON_WIRE[options.gradients],
        prefetch=options.prefetch,
        reshard=options.reshard_after_forward,
        group=options.shard,
        algorithm=options.algorithm,
        nccl=setup_of(job, options.nccl) if options.goes_by_nccl else None,
        rings=rings_of(options.channels, options.algorithm, job.cluster),
        microbatches=options.microbatches,
    )


def _computed(job: Job, options: FsdpOptions) -> Job:
    return recomputing(job) if options.recompute == "full" else job


def _compile(job: Job, options: FsdpOptions) -> Mapping[str, Plan]:
    return {"fsdp": compile_sharded(_computed(job, options), "fsdp", _sharding(job, options))}


def _by_class(job: Job, options: FsdpOptions, folding: Folding) -> ClassPlan:
    return sharded_classes(_computed(job, options), "fsdp", _sharding(job, options), folding)


STRATEGIES = (
    Strategy(
        name="fsdp",
        summary=(
            "fully sharded data parallelism (ZeRO, stage 3): parameters gathered block by block, gradients "
            "scattered as sums"
        ),
        source="Zhao et al., VLDB 2023; Rajbhandari et al., SC 2020",
        options=FsdpOptions,
        compile=_compile,
        by_class=_by_class,
        state_bytes=lambda cluster, options: ADAM_BYTES / (options.shard or cluster.workers),
        aggregators=lambda options: options.algorithm == IN_NETWORK,
        needs_servers=False,
    ),
)

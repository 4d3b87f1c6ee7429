"""Megatron-LM's tensor, pipeline, expert and data parallelism: the iteration is that of
workloads/engines/parallel/model_parallel.py.

Sources: Shoeybi et al., Megatron-LM, 2019; Huang et al., GPipe, NeurIPS 2019; Narayanan et al., Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM, SC 2021; Korthikanti et al., Reducing Activation
Recomputation in Large Transformer Models, 2022; Liu et al., Ring Attention, 2023. A replica has `tensor` times
`context` times `stages` workers, and as many samples as they would process alone unless `replica_batch` says
otherwise; as many replicas as the workers make sum their gradients. The engine says what is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from gradwire.datatypes.class_plans import ClassPlan, Folding
from gradwire.datatypes.plan import Plan
from gradwire.workloads.classes.model_parallel import model_parallel_classes
from gradwire.workloads.engines.allreduce_plan import BYTES_ON_WIRE
from gradwire.workloads.engines.collectives.choice import IN_NETWORK
from gradwire.workloads.engines.nccl.options import NcclKeys, setup_of
from gradwire.workloads.engines.parallel.division import Division, PipelineSchedule, Recompute
from gradwire.workloads.engines.parallel.model_parallel import compile_megatron
from gradwire.workloads.fields import MOST_SAMPLES
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import Strategy

Format = Literal["fp32", "fp16", "bf16"]


class MegatronOptions(NcclKeys):
    """Options for how workers share a model."""

    tensor: int = Field(1, ge=1, le=10_000)
    """Workers that share every product of a layer; neighbours, so that they are on one host if it has so many."""
    stages: int = Field(1, ge=1, le=10_000)
    """Stages of the pipeline; they divide the model's blocks evenly, but for `first_blocks` and `last_blocks`."""
    first_blocks: int | None = Field(None, ge=0, le=10_000)
    """Blocks of the first stage, which has the embedding as well; with `chunks`, of its first chunk. The other blocks are divided evenly
    among the others. Unset: as many as those have."""
    last_blocks: int | None = Field(None, ge=0, le=10_000)
    """Blocks of the last stage, which has the output as well; with `chunks`, of its last chunk. Unset: as many as the
    others have."""
    microbatches: int = Field(1, ge=1, le=100_000)
    """Parts of a replica's batch, which follow one another through the pipeline and divide it evenly."""
    replica_batch: int | None = Field(None, ge=1, le=MOST_SAMPLES)
    """Samples that a replica processes in an iteration; unset: as many as its workers would alone, which is
    `model.batch` for each."""
    experts: int = Field(1, ge=1, le=10_000)
    """Replicas that a mixture's experts are divided among; tokens go to them and back by all-to-alls. 1: each replica
    has all experts."""
    schedule: PipelineSchedule = "1f1b"
    """"gpipe": all forward passes, then all backward passes. "1f1b": one forward and one backward pass in turn, which
    needs less memory."""
    activations: Format = "bf16"
    """Format of activations and of their gradients, within a layer and between stages."""
    gradients: Format = "fp32"
    """Format in which replicas sum the parameters' gradients."""
    parameters: Format = "bf16"
    """Format in which updated parameters are gathered, with `sharded_optimizer`."""
    sequence_parallel: bool = False
    """Whether a tensor group divides by tokens what is between its products: each allreduce becomes a reduce-scatter
    and an allgather, of as many bytes, and stages hand on a worker's tokens alone."""
    recompute: Recompute = "none"
    """What of a block's forward pass is computed again before its backward pass: "none"; all of it, collectives
    included ("full"); or attention's scores and weighted sums ("selective")."""
    chunks: int = Field(1, ge=1, le=1000)
    """Pieces of the model that each stage of a 1F1B pipeline has, a round of stages apart (interleaved). With v
    pieces, the bubble is a v-th of what it was, and stages exchange v times as many activations."""
    context: int = Field(1, ge=1, le=10_000)
    """Workers that divide the tokens of each sample, neighbours above tensor groups; keys and values go around them
    while they attend (ring attention)."""
    token_skew: float | None = Field(None, gt=0, le=1)
    """Share of the tokens' choices that fall on the hottest expert, which the first worker of an expert group has; all
    others get the same of what is left. Unset: all experts get the same."""
    sharded_optimizer: bool = False
    """Whether replicas divide the optimizer's state (Megatron-LM's distributed optimizer): gradients are reduced by
    reduce-scatters, and updated parameters gathered."""
    overlap_gradients: bool = False
    """Whether gradients are summed bucket by bucket during the last backward passes; otherwise behind them, all as
    one."""
    bucket_parameters: int | None = Field(None, ge=1)
    """Parameters of a worker that close a bucket, with `overlap_gradients`. Unset: 40 million, or a million for each
    replica if that is more, as in Megatron-LM. The halves of a block stay together."""
    algorithm: Literal[
        "ring", "double-tree", "halving-doubling", "two-level", "direct", "in-network", "nccl", "auto"
    ] = "ring"
    """Algorithm by which replicas sum gradients (docs/collectives.md). With `sharded_optimizer`, that of
    reduce-scatters and allgathers, which a double tree cannot be."""
    priorities: bool = False
    """Whether the network serves activations and tokens, which computation waits for, before gradients and gathered
    parameters."""


def _division(job: Job, options: MegatronOptions) -> Division:
    return Division(
        tensor=options.tensor,
        stages=options.stages,
        microbatches=options.microbatches,
        replica_batch=options.replica_batch,
        schedule=options.schedule,
        activation_bytes=BYTES_ON_WIRE[options.activations],
        gradient_bytes=BYTES_ON_WIRE[options.gradients],
        experts=options.experts,
        parameter_bytes=BYTES_ON_WIRE[options.parameters],
        sequence=options.sequence_parallel,
        recompute=options.recompute,
        chunks=options.chunks,
        end_blocks=(options.first_blocks, options.last_blocks),
        context=options.context,
        token_skew=options.token_skew,
        sharded_optimizer=options.sharded_optimizer,
        overlap_gradients=options.overlap_gradients,
        bucket_parameters=options.bucket_parameters,
        algorithm=options.algorithm,
        nccl=setup_of(job, options.nccl) if options.goes_by_nccl else None,
        priorities=options.priorities,
    )


def _compile(job: Job, options: MegatronOptions) -> Mapping[str, Plan]:
    return {"megatron": compile_megatron(job, "megatron", _division(job, options))}


def _by_class(job: Job, options: MegatronOptions, folding: Folding) -> ClassPlan:
    return model_parallel_classes(job, "megatron", _division(job, options), folding)


STRATEGIES = (
    Strategy(
        name="megatron",
        summary=(
            "tensor, sequence, context, pipeline (GPipe, 1F1B, interleaved), expert and data parallelism "
            "together, for transformers"
        ),
        source="Shoeybi et al. 2019; Narayanan et al., SC 2021; Huang et al., NeurIPS 2019; Lepikhin et al. 2020",
        options=MegatronOptions,
        compile=_compile,
        by_class=_by_class,
        classes=lambda options: 2 if options.priorities else 1,
        aggregators=lambda options: options.algorithm == IN_NETWORK,
        needs_servers=False,
    ),
)

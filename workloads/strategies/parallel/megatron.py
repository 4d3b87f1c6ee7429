"""Megatron-LM's tensor, pipeline, expert and data parallelism: the iteration is that of workloads/engines/parallel/megatron.py.

Sources: Shoeybi et al., Megatron-LM, 2019, section 3; Huang et al., GPipe, NeurIPS 2019; Narayanan et al., Efficient Large-Scale Language
Model Training on GPU Clusters Using Megatron-LM, SC 2021. A replica has `tensor` times `stages` workers, and as many samples as they would
process alone unless `replica_batch` says otherwise; as many replicas as the workers make sum their gradients. The engine says what is
assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from gradwire.workloads.engines.allreduce import BYTES_ON_WIRE
from gradwire.workloads.engines.parallel.megatron import Division, compile_megatron
from gradwire.workloads.engines.parallel.schedules import PipelineSchedule
from gradwire.workloads.job import Job
from gradwire.workloads.plan import Plan
from gradwire.workloads.scenario.fields import MOST_SAMPLES
from gradwire.workloads.strategy import Options, Strategy

Format = Literal["fp32", "fp16", "bf16"]


class MegatronOptions(Options):
    """How workers share a model."""

    tensor: int = Field(1, ge=1, le=10_000)
    """Workers that share every product of a layer; neighbours, so that they are on one host if it has so many."""
    stages: int = Field(1, ge=1, le=10_000)
    """Stages of the pipeline; they divide the model's blocks evenly."""
    microbatches: int = Field(1, ge=1, le=100_000)
    """Parts of a replica's batch, which follow one another through the pipeline and divide it evenly."""
    replica_batch: int | None = Field(None, ge=1, le=MOST_SAMPLES)
    """Samples that a replica processes in an iteration; unset: as many as its workers would alone, which is `model.batch` for each."""
    experts: int = Field(1, ge=1, le=10_000)
    """Replicas that a mixture's experts are divided among; tokens go to them and back by all-to-alls. 1: each replica has all experts."""
    schedule: PipelineSchedule = "1f1b"
    """"gpipe": all forward passes, then all backward passes. "1f1b": one forward and one backward pass in turn, which needs less memory."""
    activations: Format = "bf16"
    """Format of activations and of their gradients, within a layer and between stages."""
    gradients: Format = "fp32"
    """Format in which replicas sum the parameters' gradients."""


def _compile(job: Job, options: MegatronOptions) -> Mapping[str, Plan]:
    division = Division(
        tensor=options.tensor,
        stages=options.stages,
        microbatches=options.microbatches,
        replica_batch=options.replica_batch,
        schedule=options.schedule,
        activation_bytes=BYTES_ON_WIRE[options.activations],
        gradient_bytes=BYTES_ON_WIRE[options.gradients],
        experts=options.experts,
    )
    return {"megatron": compile_megatron(job, "megatron", division)}


STRATEGIES = (
    Strategy(
        name="megatron",
        summary="tensor, pipeline (GPipe or 1F1B), expert and data parallelism together, for transformers",
        source="Shoeybi et al. 2019; Narayanan et al., SC 2021; Huang et al., NeurIPS 2019; Lepikhin et al. 2020",
        options=MegatronOptions,
        compile=_compile,
        needs_servers=False,
    ),
)
